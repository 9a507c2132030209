use serde_json::json;

use crate::fixtures::{condition, export, exporting, import, importing, readings, ready, synced};
use crate::observe::service::{Held, Readings};
use crate::term::screen::Screen;
use crate::views::status::report::{Report, Scope};
use crate::views::status::text;

fn now() -> k8s_openapi::jiff::Timestamp {
    "2026-11-21T00:00:00Z".parse().expect("a time")
}

/// Returns two exports that conflict on a port, a pending export and a member that does not answer.
fn with_problems() -> Readings {
    let valid = || condition("Valid", "True", "Valid", "");
    let disagrees = || {
        condition(
            "Conflict",
            "True",
            "PortConflict",
            "member1 has the oldest export",
        )
    };
    let exported = ready("True", "Exported", "");
    let mut member1 = exporting("10.9.0.1", &["member1", "m2"]);
    member1.exports = vec![export("foo", json!([valid(), disagrees(), exported]))];
    let mut m2 = exporting("10.9.0.2", &["member1", "m2"]);
    let waits = ready("False", "Failed", "1 of 2 clusters: m2 refuses it");
    m2.exports = vec![export("foo", json!([valid(), disagrees(), waits]))];
    readings([
        ("member1", Ok(member1)),
        ("m2", Ok(m2)),
        ("m3", Err("no answer within 5 s")),
        ("m4", Err("no answer within 5 s")),
    ])
}

fn details(readings: &Readings) -> String {
    let report = Report::new(Scope::One, Some(&[]), &[]).with(readings);
    text::all_details(&report, now(), Screen::PLAIN)
}

#[test]
fn the_overview_lists_exported_services_their_conflicts_and_who_was_not_asked() {
    let report = Report::new(Scope::All, Some(&[synced("m2")]), &[]).with(&with_problems());
    let expected = "\
MEMBER   VERSION   STATE    SINCE   CLUSTERSET   ENDPOINT
m2       v1.36.3   Synced   5m      -            https://m2:6443

NAMESPACE   NAME   TYPE           EXPORTED BY   IMPORTED BY   READY   REASON   CONFLICT
shop        foo    ClusterSetIP   m2,member1    m2,member1    False   Failed   PortConflict
  m2: 1 of 2 clusters: m2 refuses it
  member1 has the oldest export

Exports and imports of m3, m4 are not shown: no answer within 5 s
";
    assert_eq!(text::overview(&report, now(), Screen::PLAIN), expected);
}

#[test]
fn the_details_show_each_export_each_import_and_the_derived_addresses() {
    let expected = "\
Name:          shop/foo
Clusterset:    foo.shop.svc.clusterset.local
Type:          ClusterSetIP
Ports:         http 80/TCP
Exported by:   m2, member1
Imported by:   m2, member1
Ready:         False (Failed)
Message:       m2: 1 of 2 clusters: m2 refuses it
Conflict:      PortConflict (member1 has the oldest export)

EXPORT IN   VALID   READY            CONFLICT              AGE
m2          True    False (Failed)   True (PortConflict)   60m
  1 of 2 clusters: m2 refuses it
member1     True    True             True (PortConflict)   60m

IMPORT IN   TYPE           ADDRESSES   FROM         SERVICE       SLICES/ENDPOINTS
m2          ClusterSetIP   10.9.0.2    member1,m2   derived-foo   m2 1/2, member1 1/2
member1     ClusterSetIP   10.9.0.1    member1,m2   derived-foo   m2 1/2, member1 1/2

Exports and imports of m3, m4 are not shown: no answer within 5 s
";
    assert_eq!(details(&with_problems()), expected);
}

#[test]
fn a_foreign_import_and_one_that_does_not_fit_say_so() {
    let mut by_person = importing("10.9.0.1", &[]);
    by_person.imports[0].metadata.labels = None;
    by_person.imports[0].spec.ips.clear();
    let mut unfit = import("foo", &[], &["m2"]);
    let status = json!({"conditions": [ready("False", "IPFamilyNotSupported", "it has IPv6")]});
    unfit.status = Some(serde_json::from_value(status).expect("a status"));
    let unfit = Held {
        imports: vec![unfit],
        ..Held::default()
    };
    let readings = readings([("a", Ok(by_person)), ("b", Ok(unfit))]);
    let text = details(&readings);
    for said in [
        "foreign; causeway does not change it",
        "derived-foo has 10.9.0.1; the clusterset's name leads to the import's spec.ips alone",
        "IPFamilyNotSupported: it has IPv6",
        "False (NoExport)",
        "make a ServiceExport",
    ] {
        assert!(text.contains(said), "no {said:?} in\n{text}");
    }
}

#[test]
fn a_published_export_is_reported_from_a_persons() {
    let mut held = exporting("10.9.0.1", &["a"]);
    let shown = |held: &Held| details(&readings([("a", Ok(held.clone()))]));
    let text = shown(&held);
    assert!(!text.contains("published"), "{text}");
    held.exports[0].metadata.labels =
        Some([("mcs.causeway.dev/hub".to_owned(), "hub".to_owned())].into());
    let text = shown(&held);
    let published = "published for the MultiClusterService";
    assert!(text.contains(published), "{text}");
}
