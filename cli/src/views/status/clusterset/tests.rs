use causeway::api::Cluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    cluster as member, condition, copy, derived, export, exported as conditions, exporting, import,
    importing, readings, ready,
};
use crate::views::status::report::{Report, Scope};

fn one(readings: &Readings) -> ExportedReport {
    let mut all = exported(readings);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn only_export(conditions: Value) -> Held {
    Held {
        exports: vec![export("foo", conditions)],
        ..Held::default()
    }
}

#[test]
fn an_exported_service_is_reported_of_once_with_the_part_of_each_member() {
    let both = ["a", "b"];
    let readings = readings([
        ("a", Ok(exporting("10.9.0.1", &both))),
        ("b", Ok(exporting("10.9.0.2", &both))),
        ("c", Ok(importing("10.9.0.3", &both))),
        ("d", Ok(Held::default())),
    ]);
    let service = one(&readings);
    assert!(service.ready, "{service:?}");
    assert_eq!(service.exporters, both);
    assert_eq!(service.importers, ["a", "b", "c"]);
    assert_eq!(
        (service.type_.as_str(), service.ports.as_slice()),
        ("ClusterSetIP", ["http 80/TCP".to_owned()].as_slice())
    );
    assert_eq!(service.conflict, None);
    let c = &service.clusters[2];
    assert_eq!((c.name.as_str(), &c.export), ("c", &None));
    let derived = c.derived.as_ref().expect("a derived Service");
    assert_eq!(
        (derived.name.as_str(), derived.addresses.as_slice()),
        ("derived-foo", ["10.9.0.3".to_owned()].as_slice())
    );
    let sources: Vec<_> = c.sources.iter().map(|one| one.cluster.as_str()).collect();
    assert_eq!(sources, both);
}

#[test]
fn ids_in_the_clusterset_are_reported_as_clusters() {
    let mut held = importing("10.9.0.1", &["eu-1"]);
    let provider = ("endpointslice.karmada.io/provision-cluster", "a");
    let provider = [provider].map(|(key, value)| (key.to_owned(), value.to_owned()));
    held.slices[0].metadata.annotations = Some(provider.into());
    let reported = one(&readings([("a", Ok(held))]));
    let cluster = &reported.clusters[0];
    assert_eq!(cluster.import.as_ref().expect("it").clusters, ["a"]);
    assert_eq!(cluster.sources[0].cluster, "a");
    assert_eq!(
        reported.reason, "NoExport",
        "it was read, and exports nothing"
    );
}

#[test]
fn what_was_imported_is_counted_for_each_source_and_for_this_service_alone() {
    let mut held = importing("10.9.0.1", &["a"]);
    held.slices = vec![
        copy("foo", "a", 2),
        copy("foo", "a", 3),
        copy("foo", "b", 0),
        copy("other", "a", 7),
    ];
    held.services.insert(0, derived("other", &["10.9.9.9"]));
    let service = one(&readings([("a", Ok(held))]));
    let counts: Vec<_> = service.clusters[0]
        .sources
        .iter()
        .map(|one| (one.cluster.as_str(), one.slices, one.endpoints))
        .collect();
    assert_eq!(counts, [("a", 2, 5), ("b", 1, 0)]);
    let derived = service.clusters[0].derived.as_ref();
    assert_eq!(derived.map(|one| one.name.as_str()), Some("derived-foo"));
}

#[test]
fn a_headless_import_has_a_service_without_addresses() {
    let held = Held {
        imports: vec![import("foo", &[], &["a"])],
        services: vec![derived("foo", &["None"])],
        ..Held::default()
    };
    let service = one(&readings([("a", Ok(held))]));
    let derived = service.clusters[0].derived.as_ref().expect("it is there");
    assert_eq!(derived.addresses, Vec::<String>::new());
}

#[test]
fn an_export_is_well_if_it_is_valid_and_carried_out_and_a_conflict_is_only_reported() {
    let valid = condition("Valid", "True", "Valid", "");
    let no_service = condition("Valid", "False", "NoService", "b has no Service shop/foo");
    let conflict = condition("Conflict", "True", "PortConflict", "a, the oldest, has 80");
    let exported = ready("True", "Exported", "");
    let waits = ready("False", "Pending", "waits for Service shop/foo");
    let failed = ready("False", "Failed", "1 of 2 clusters: b is full");
    for (conditions, well, reason) in [
        (json!([valid, exported]), true, "Exported"),
        (json!([valid, conflict, exported]), true, "Exported"),
        (json!([valid, failed]), false, "Failed"),
        (json!([no_service, waits]), false, "NoService"),
        (json!([valid]), false, "Pending"),
        (json!([]), false, "Pending"),
    ] {
        let service = one(&readings([("b", Ok(only_export(conditions)))]));
        assert_eq!((service.ready, service.reason.as_str()), (well, reason));
        assert_eq!(service.message.starts_with("b: "), !well, "{service:?}");
    }
}

#[test]
fn only_a_condition_of_the_export_as_it_is_counts() {
    let changed = |change: fn(&mut ServiceExport)| {
        let mut held = only_export(conditions());
        change(&mut held.exports[0]);
        one(&readings([("a", Ok(held))]))
    };
    assert_eq!(changed(|_| {}).reason, "Exported");
    let pending = changed(|export| export.metadata.generation = Some(2));
    assert_eq!(pending.reason, "Pending");
    let deleted = changed(|export| {
        export.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    assert_eq!(deleted.reason, "Deleting");
    assert_eq!(deleted.message, "a: the ServiceExport is being deleted");
}

#[test]
fn one_bad_export_makes_the_service_unhealthy_and_names_its_member() {
    let failed = json!([ready("False", "Failed", "no")]);
    let service = one(&readings([
        ("a", Ok(exporting("10.9.0.1", &["a", "b"]))),
        ("b", Ok(only_export(failed))),
    ]));
    assert!(!service.ready);
    assert_eq!(service.message, "b: no");
}

#[test]
fn a_conflict_is_reported_with_its_reasons_and_its_message() {
    let conflict = condition(
        "Conflict",
        "True",
        "PortConflict,TypeConflict",
        "a, the oldest, has port 80",
    );
    let held = only_export(json!([conflict, ready("True", "Exported", "")]));
    let reported = one(&readings([("b", Ok(held))])).conflict;
    let reported = reported.expect("a conflict");
    assert_eq!(
        (reported.reason.as_str(), reported.message.as_str()),
        ("PortConflict,TypeConflict", "a, the oldest, has port 80")
    );
}

#[test]
fn an_import_that_nobody_exports_is_unhealthy_only_where_every_member_was_read() {
    let by_person = || {
        let mut import = import("foo", &[], &[]);
        import.metadata.labels = None;
        Held {
            imports: vec![import],
            ..Held::default()
        }
    };
    let reported = one(&readings([("a", Ok(by_person()))]));
    assert_eq!(
        (reported.ready, reported.reason.as_str()),
        (false, "NoExport")
    );
    assert!(reported.clusters[0].import.as_ref().expect("it").foreign);
    let reported = one(&readings([("a", Ok(by_person())), ("b", Err("lost"))]));
    assert!(reported.ready, "b may export it");
    let recorded = importing("10.9.0.1", &["gone"]);
    assert!(one(&readings([("a", Ok(recorded))])).ready);
}

#[test]
fn what_an_import_records_counts_only_of_clusters_that_were_not_read_and_only_where_it_is_kept_up()
{
    let of_person = |clusters: &[&str]| {
        let mut held = importing("10.9.0.1", clusters);
        held.imports[0].metadata.labels = None;
        held
    };
    for (why, held) in [
        (
            "a was read and exports nothing",
            importing("10.9.0.1", &["a"]),
        ),
        (
            "nobody keeps up the status of a person's import",
            of_person(&["a"]),
        ),
        ("nor of a cluster that was not read", of_person(&["gone"])),
    ] {
        let reported = one(&readings([("a", Ok(Held::default())), ("b", Ok(held))]));
        assert_eq!(
            (reported.ready, reported.reason.as_str()),
            (false, "NoExport"),
            "{why}"
        );
    }
}

#[test]
fn a_member_that_was_not_read_is_named_and_does_not_make_the_rest_unhealthy() {
    let clusters: [Cluster; 1] = [member("a", json!([ready("True", "Synced", "")]))];
    let with = |readings: &Readings| Report::new(Scope::All, Some(&clusters), &[]).with(readings);
    let report = with(&readings([
        ("a", Ok(exporting("10.9.0.1", &["a"]))),
        ("b", Err("connection refused")),
    ]));
    assert!(report.ready);
    assert_eq!(report.exports.len(), 1);
    assert_eq!(
        report
            .unread
            .iter()
            .map(|one| (one.name.as_str(), one.message.as_str()))
            .collect::<Vec<_>>(),
        [("b", "connection refused")]
    );
    let failed = json!([ready("False", "Failed", "no")]);
    assert!(!with(&readings([("a", Ok(only_export(failed)))])).ready);
}

#[test]
fn services_are_parted_by_namespace_and_name_and_sorted() {
    let mut held = exporting("10.9.0.1", &["a"]);
    let mut elsewhere = export("foo", conditions());
    elsewhere.metadata.namespace = Some("bar".to_owned());
    held.exports.push(export("alpha", conditions()));
    held.exports.push(elsewhere);
    let all = exported(&readings([("a", Ok(held))]));
    let keys: Vec<_> = all
        .iter()
        .map(|one| (one.namespace.as_str(), one.name.as_str()))
        .collect();
    assert_eq!(keys, [("bar", "foo"), ("shop", "alpha"), ("shop", "foo")]);
    assert!(all[0].importers.is_empty());
}

#[test]
fn programs_read_stable_names() {
    let mut held = exporting("10.9.0.1", &["a"]);
    held.exports[0]
        .metadata
        .labels
        .get_or_insert_default()
        .insert("mcs.causeway.dev/hub".to_owned(), "hub".to_owned());
    let said = json!([
        condition("Conflict", "True", "PortConflict", "why"),
        ready("True", "Exported", "")
    ]);
    held.exports[0].status = Some(serde_json::from_value(json!({"conditions": said})).unwrap());
    let since = "2026-11-20T23:55:00Z";
    assert_eq!(
        serde_json::to_value(one(&readings([("a", Ok(held))]))).expect("JSON"),
        json!({
            "namespace": "shop", "name": "foo", "ready": true, "reason": "Exported", "message": "",
            "type": "ClusterSetIP", "ports": ["http 80/TCP"], "exporters": ["a"], "importers": ["a"],
            "conflict": { "reason": "PortConflict", "message": "why" },
            "clusters": [{
                "name": "a",
                "export": {
                    "ready": true, "reason": "Exported", "message": "", "created": "2026-11-20T23:00:00Z",
                    "published": true,
                    "conditions": [
                        { "type": "Conflict", "status": "True", "reason": "PortConflict", "message": "why", "since": since },
                        { "type": "Ready", "status": "True", "reason": "Exported", "message": "", "since": since },
                    ],
                },
                "import": {
                    "type": "ClusterSetIP", "ips": ["10.9.0.1"], "ports": ["http 80/TCP"], "clusters": ["a"],
                    "foreign": false, "conditions": [],
                },
                "derived": { "name": "derived-foo", "addresses": ["10.9.0.1"] },
                "sources": [{ "cluster": "a", "slices": 1, "endpoints": 2 }],
            }],
        })
    );
}
