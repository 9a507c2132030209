use causeway::api::{Cluster, MultiClusterService};
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{cluster, cross, exporting, readings, ready, service, synced};
use crate::observe::service::Held;
use crate::views::status::report::Scope;

fn at(minute: u8) -> Timestamp {
    let text = format!("2026-11-21T00:{minute:02}:00Z");
    text.parse().expect("a time")
}

fn healthy(name: &str) -> MultiClusterService {
    let conditions = json!([ready("True", "Ready", "fine")]);
    service(name, cross(&["member1"], &["m2"]), conditions)
}

fn report(clusters: &[Cluster], services: &[MultiClusterService]) -> Report {
    Report::new(Scope::All, Some(clusters), services)
}

fn printer(format: Option<Format>) -> Printer {
    Printer::new(format, Screen::PLAIN)
}

#[test]
fn first_all_is_shown_and_then_the_rows_that_changed_under_the_heading_of_their_table() {
    let mut printer = printer(None);
    let both = [synced("member1"), synced("m2")];
    let first = report(&both, &[healthy("foo")]);
    let text = printer.next(&first, at(0)).expect("a text");
    let expected = "\
MEMBER    VERSION   STATE    SINCE   CLUSTERSET   ENDPOINT
m2        v1.36.3   Synced   5m      -            https://m2:6443
member1   v1.36.3   Synced   5m      -            https://member1:6443

NAMESPACE   NAME   TYPES          PROVIDERS   CONSUMERS   READY   REASON   AGE
shop        foo    CrossCluster   member1     m2          True    Ready    60m
";
    assert_eq!(text, expected);
    assert_eq!(
        printer.next(&first, at(9)).expect("a text"),
        "",
        "who gets older has not changed"
    );

    let wrong = service(
        "foo",
        cross(&["member1"], &["m2"]),
        json!([ready("False", "ServiceNotFound", "no Service shop/foo")]),
    );
    let text = printer.next(&report(&both, std::slice::from_ref(&wrong)), at(0));
    let expected = "\
shop        foo    CrossCluster   member1     m2          False   ServiceNotFound   60m
  no Service shop/foo
";
    assert_eq!(text.expect("a text"), expected);

    let lost = cluster("m2", json!([ready("False", "Unreachable", "refused")]));
    let text = printer.next(&report(&[synced("member1"), lost], &[wrong]), at(0));
    let expected = "
MEMBER    VERSION   STATE         SINCE   CLUSTERSET   ENDPOINT
m2        v1.36.3   Unreachable   5m      -            https://m2:6443
  refused
";
    assert_eq!(text.expect("a text"), expected);

    let text = printer.next(&report(&[synced("member1")], &[]), at(0));
    let expected = "\
m2        v1.36.3   Deleted   5m      -            https://m2:6443

NAMESPACE   NAME   TYPES          PROVIDERS   CONSUMERS   READY   REASON    AGE
shop        foo    CrossCluster   member1     m2          False   Deleted   60m
";
    assert_eq!(text.expect("a text"), expected);
}

#[test]
fn for_programs_there_is_an_object_a_line_with_what_happened() {
    let mut printer = printer(Some(Format::Json));
    let mut next = |clusters: &[Cluster], services: &[MultiClusterService]| -> Vec<Value> {
        let text = printer.next(&report(clusters, services), at(0));
        let text = text.expect("a text");
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON")
    };
    let first = next(&[synced("member1")], &[healthy("foo")]);
    let brief = |all: &[Value]| -> Vec<String> {
        let brief = all.iter().map(|one| {
            let name = one["object"]["name"].as_str().unwrap_or_default();
            format!("{} {} {name}", one["type"], one["kind"])
        });
        brief.map(|text| text.replace('"', "")).collect()
    };
    assert_eq!(brief(&first), ["ADDED Member member1", "ADDED Service foo"]);
    let lost = cluster("member1", json!([ready("False", "Unreachable", "refused")]));
    let then = next(&[lost], &[]);
    let unknown = "MODIFIED Member member1";
    assert_eq!(brief(&then), [unknown, "DELETED Service foo"]);
    assert_eq!(then[0]["object"]["state"], "Unreachable");
    assert_eq!(then[1]["object"]["reason"], "Ready", "as it was last");
}

#[test]
fn a_member_that_cannot_be_read_is_named_and_so_is_its_return() {
    let mut printer = printer(None);
    let mut next = |held| {
        let report = report(&[], &[]).with(&readings([("a", held)]));
        printer.next(&report, at(0)).expect("a text")
    };
    let text = next(Err("connection refused"));
    assert_eq!(
        text,
        "Exports and imports of a are not shown: connection refused\n"
    );
    let text = next(Ok(exporting("10.0.0.1", &["a"])));
    let expected = "
NAMESPACE   NAME   TYPE           EXPORTED BY   IMPORTED BY   READY   REASON     CONFLICT
shop        foo    ClusterSetIP   a             a             True    Exported   -

Exports and imports of a are read again.
";
    assert_eq!(text, expected);
}

#[test]
fn export_of_an_unread_member_is_deleted_only_after_a_read() {
    let mut printer = printer(Some(Format::Json));
    let mut next = |a, c| -> Vec<String> {
        let readings = readings([("a", a), ("b", Ok(Held::default())), ("c", c)]);
        let report = report(&[], &[]).with(&readings);
        let text = printer.next(&report, at(0)).expect("a text");
        let changes = text.lines().map(|line| {
            let change: Value = serde_json::from_str(line).expect("JSON");
            format!("{} {}", change["type"], change["kind"]).replace('"', "")
        });
        changes.collect()
    };
    let exporting = || exporting("10.0.0.1", &["a"]);
    let none = || Ok(Held::default());
    assert_eq!(next(Ok(exporting()), none()), ["ADDED Export"]);
    assert_eq!(next(Err("connection refused"), none()), ["ADDED Unread"]);
    assert_eq!(next(Err("timeout"), none()), ["MODIFIED Unread"]);
    assert_eq!(next(Ok(exporting()), none()), ["DELETED Unread"]);
    assert_eq!(next(Err("timeout"), none()), ["ADDED Unread"]);
    let gone = ["DELETED Export", "DELETED Unread"];
    assert_eq!(next(none(), none()), gone);

    // Another exporter keeps the service in the reports first.
    let both = next(Ok(exporting()), Ok(exporting()));
    assert_eq!(both, ["ADDED Export"]);
    let one = next(Err("timeout"), Ok(exporting()));
    assert_eq!(one, ["MODIFIED Export", "ADDED Unread"]);
    assert!(next(Err("timeout"), none()).is_empty());
    assert_eq!(next(none(), none()), gone);
}

#[test]
fn failed_reads_are_shown_and_so_is_their_end() {
    let why = "ServiceExports and ServiceImports on the hub are not shown: forbidden";
    let unread = report(&[], &[]).with_unknown(&[why.to_owned()]);
    let mut printer = printer(None);
    for (report, expected) in [
        (&unread, format!("{why}\n")),
        (&unread, String::new()),
        (&report(&[], &[]), format!("\nNo longer unknown: {why}\n")),
    ] {
        assert_eq!(printer.next(report, at(0)).expect("a text"), expected);
    }
    let mut printer = self::printer(Some(Format::Json));
    let text = printer.next(&unread, at(0)).expect("a text");
    let change: Value = serde_json::from_str(&text).expect("JSON");
    let expected = json!({ "type": "ADDED", "kind": "Unknown", "object": { "message": why } });
    assert_eq!(change, expected);
}

#[test]
fn documents_of_yaml_are_parted() {
    let mut printer = printer(Some(Format::Yaml));
    let text = printer.next(&report(&[synced("member1")], &[]), at(0));
    let text = text.expect("a text");
    assert!(
        text.starts_with("---\ntype: ADDED\nkind: Member\nobject:\n"),
        "{text}"
    );
}

#[test]
fn golden_outputs_of_status_are_kept() {
    use crate::golden;
    use crate::observe::connect::ConnectError;
    use crate::observe::fixtures::healthy;
    use crate::observe::service::key_of;
    use crate::views::status::karmada::{Observations, is_karmadas, observed};

    let report =
        |snapshot: &crate::observe::service::Snapshot, scope, clusters: Option<&[Cluster]>| {
            let services: Vec<_> = snapshot.mcs.iter().cloned().collect();
            let mut karmadas = Observations::new();
            for mcs in services.iter().filter(|mcs| is_karmadas(mcs)) {
                karmadas.insert(key_of(mcs), observed(snapshot));
            }
            let exposed = (scope == Scope::One).then(|| crate::views::explain::exposed(snapshot));
            Report::new(scope, clusters, &services)
                .with_karmadas(&karmadas)
                .with(&snapshot.members)
                .with_exposed(exposed.as_ref())
        };
    let details = |report: &Report| {
        let details = text::all_details(report, golden::now(), Screen::PLAIN);
        let problems = crate::views::status::summary::problems(report);
        let details = golden::both(&details, report);
        format!("{details}{:?}: {problems}\n", report.exit_state())
    };
    // Returns the print of the last report, as text and as JSON.
    let watched = |reports: &[&Report]| {
        let last = [None, Some(Format::Json)].map(|format| {
            let mut printer = printer(format);
            let texts = reports.iter();
            let texts = texts.map(|report| printer.next(report, golden::now()));
            texts.fold(String::new(), |_, text| text.expect("a text"))
        });
        last.concat()
    };
    let mut hub = healthy();
    let before = report(&hub, Scope::All, Some(&hub.clusters));
    golden::check_states("status", |snapshot| {
        let all = report(snapshot, Scope::All, Some(&snapshot.clusters));
        let one = report(snapshot, Scope::One, Some(&snapshot.clusters));
        let overview = text::overview(&all, golden::now(), Screen::PLAIN);
        let overview = golden::both(&overview, &all);
        [overview, details(&one), watched(&[&before, &all])].concat()
    });
    let lost = Err(ConnectError::Timeout(5));
    hub.members.insert("b".to_owned(), lost);
    let forbidden = details(&report(&hub, Scope::All, None));
    let outputs = [
        ("first print of --watch", watched(&[&before])),
        ("neither Clusters nor b can be read", forbidden),
    ];
    golden::check("status_of_hub", outputs.into_iter());
}
