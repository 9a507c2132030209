mod by_namespace;
mod consumers;
mod ids;
mod karmada;
mod lasting;
mod members;
mod names;
mod others;
mod quota;
mod records;

use std::time::Duration;

use causeway::api::multicluster::Version;
use causeway::api::{condition, labels};
use causeway::domain::protected::Protection;
use serde_json::{Value, json};

use crate::fixtures::objects::{
    Kind, NAMESPACE, Object, cluster, drained, export, foo, forged, import, mcs, namespace,
    permitted, service, slice,
};
use crate::fixtures::{Environment, GRACE, env, member_event};
use crate::model::served::{ImportFields, Served, ServedImports};
use crate::model::{Failure, FailureKind, MemberEvent, Signal};

fn source(name: &str, address: &str) -> Object {
    slice(name, "foo").port("http", 8080).endpoint(address)
}

/// Returns `foo` in member1 and member2, which member1 exports.
fn exported() -> Environment {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.on("member1", foo())
        .on("member1", source("foo-abc", "10.1.0.5"))
        .on("member2", foo())
        .on("member2", source("foo-def", "10.2.0.5"))
        .on("member1", export("foo"))
        .settle();
    env
}

fn get<'a>(env: &'a Environment, cluster: &str, kind: Kind, name: &str) -> Option<&'a Value> {
    env.members[cluster].get(kind, NAMESPACE, name)
}

fn imported<'a>(env: &'a Environment, cluster: &str) -> &'a Value {
    get(env, cluster, Kind::Import, "foo").expect("an import")
}

fn derived<'a>(env: &'a Environment, cluster: &str) -> &'a Value {
    get(env, cluster, Kind::Service, "derived-foo").expect("a derived Service")
}

/// Returns a condition of an export as `Status Reason: message`.
fn says(env: &Environment, cluster: &str, type_: &str) -> String {
    env.export_says(cluster, "foo", type_)
}

fn everything(env: &Environment) -> Vec<String> {
    let kinds = [Kind::Service, Kind::Slice, Kind::Import];
    let mut all = Vec::new();
    for (cluster, server) in &env.members {
        for kind in kinds {
            let own = server.all(kind).filter(|object| {
                object["metadata"]["labels"][labels::MANAGED_BY] == labels::MANAGER
            });
            all.extend(own.map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                format!("{cluster} {kind:?} {name}")
            }));
        }
    }
    all
}

#[test]
fn an_export_is_imported_into_every_cluster_with_its_address_and_its_endpoints() {
    let mut env = exported();
    for member in ["member1", "member2", "member3"] {
        let (import, derived) = (imported(&env, member), derived(&env, member));
        assert_eq!(import["spec"]["type"], "ClusterSetIP");
        assert_eq!(import["spec"]["ips"], derived["spec"]["clusterIPs"]);
        assert_eq!(import["spec"]["ipFamilies"], json!(["IPv4"]));
        let stands = &import["metadata"]["annotations"][labels::DERIVED_SERVICE];
        assert_eq!(*stands, "derived-foo");
        assert_eq!(
            import["spec"]["ports"],
            json!([{"name": "http", "port": 80, "protocol": "TCP"}])
        );
        assert_eq!(
            import["status"]["clusters"],
            json!([{"cluster": "member1"}])
        );
        assert_eq!(import["status"]["endpointSliceObjects"], "Present");
        assert_eq!(
            env.addresses(member, "derived-foo"),
            ["10.1.0.5"],
            "{member}"
        );
        assert!(env.addresses(member, "foo").is_empty(), "{member}");
        let copy = &env.copies(member, "derived-foo")[0];
        let owners = copy.metadata.owner_references.clone().expect("an owner");
        assert_eq!(json!(owners[0].uid), import["metadata"]["uid"]);
        let label = |name: &str| copy.metadata.labels.as_ref().map(|all| all[name].as_str());
        assert_eq!(label(labels::MULTICLUSTER_SERVICE_NAME), Some("foo"));
        assert_eq!(label(labels::SOURCE_CLUSTER), Some("member1"));
    }
    assert_eq!(derived(&env, "member3")["spec"]["selector"], Value::Null);
    assert!(says(&env, "member1", "Valid").starts_with("True Valid"));
    assert!(says(&env, "member1", "Ready").starts_with("True Exported"));
    assert!(says(&env, "member1", "Conflict").starts_with("False NoConflicts"));
    env.assert_at_rest();
}

#[test]
fn an_import_of_an_earlier_version_is_written_once_to_name_its_service() {
    let mut env = exported();
    let earlier = json!({"metadata": {"annotations": {labels::DERIVED_SERVICE: null}}});
    env.forget_writes();
    env.amend("member3", Kind::Import, "foo", earlier).settle();
    assert_eq!(env.log(), ["member3 patch ServiceImport"]);
    let stands = &imported(&env, "member3")["metadata"]["annotations"][labels::DERIVED_SERVICE];
    assert_eq!(*stands, "derived-foo");
    env.assert_at_rest();
}

#[test]
fn an_export_of_another_address_family_than_the_imports_says_so() {
    let mut env = exported();
    env.pass(Duration::from_secs(2));
    let six = json!({"spec": {"ipFamilies": ["IPv6"]}});
    env.on("member2", foo().with(six))
        .off("member2", Kind::Slice, "foo-def");
    let endpoints = slice("foo-six", "foo").port("http", 8080);
    let endpoints = endpoints.endpoint("fd00:2::5");
    env.on("member2", endpoints.with(json!({"addressType": "IPv6"})))
        .on("member2", export("foo"))
        .settle();
    assert_eq!(
        says(&env, "member2", "Ready"),
        "True Exported: the service is exported to the clusterset; in member1, member3 Service shop/derived-foo has IPv4 alone, and \
         the endpoints of member2 have IPv6, so its clients do not reach them: set spec.ipFamilyPolicy: PreferDualStack on these \
         Services, where the clusters have both families"
    );
    assert_eq!(
        says(&env, "member1", "Ready"),
        "True Exported: the service is exported to the clusterset"
    );
    env.assert_at_rest();
}

#[test]
fn import_gets_the_family_of_the_exports_that_are_left() {
    let mut env = exported();
    for member in ["member1", "member2", "member3"] {
        env.server(member).families = vec!["IPv4", "IPv6"];
    }
    let six = json!({"spec": {"ipFamilies": ["IPv6"]}});
    let endpoints = slice("foo-six", "foo").port("http", 8080);
    let endpoints = endpoints.endpoint("fd00:2::5");
    env.on("member2", foo().with(six))
        .off("member2", Kind::Slice, "foo-def")
        .on("member2", endpoints.with(json!({"addressType": "IPv6"})))
        .on("member2", export("foo"))
        .settle();
    assert_eq!(
        derived(&env, "member3")["spec"]["ipFamilies"],
        json!(["IPv4"])
    );
    env.off("member1", Kind::Export, "foo").settle();
    let spec = &derived(&env, "member3")["spec"];
    assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(env.addresses("member3", "derived-foo"), ["fd00:2::5"]);
    env.assert_at_rest();
}

#[test]
fn an_import_that_is_local_because_its_exporter_is_needs_no_remark() {
    let mut env = exported();
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    env.on("member1", foo().with(local)).settle();
    let policy = &derived(&env, "member3")["spec"]["internalTrafficPolicy"];
    assert_eq!(*policy, "Local");
    assert_eq!(
        says(&env, "member1", "Ready"),
        "True Exported: the service is exported to the clusterset"
    );
}

#[test]
fn an_endpoint_change_costs_one_write_in_each_cluster() {
    let mut env = exported();
    env.forget_writes();
    env.on("member1", source("foo-abc", "10.1.0.6")).settle();
    assert_eq!(
        env.log(),
        ["member1", "member2", "member3"].map(|name| format!("{name} update EndpointSlice"))
    );
}

#[test]
fn an_import_is_whole_in_its_first_version_and_written_once() {
    let mut env = exported();
    env.forget_writes();
    env.member("member4").settle();
    let mut writes: Vec<_> = env
        .log()
        .into_iter()
        .filter(|line| line.starts_with("member4"))
        .collect();
    // Copies and the status of their import go at once.
    writes[2..].sort();
    assert_eq!(
        writes,
        [
            "member4 create Service",
            "member4 create ServiceImport",
            "member4 create EndpointSlice",
            "member4 patch ServiceImport",
        ],
        "the patch is its status"
    );
}

#[test]
fn what_is_exported_no_more_leaves_nothing_behind() {
    let mut env = exported();
    assert_eq!(everything(&env).len(), 9, "{:?}", everything(&env));
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(everything(&env), Vec::<String>::new());
    env.assert_at_rest();
}

#[test]
fn an_external_name_is_refused_in_the_condition() {
    let mut env = exported();
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    env.on("member1", foo().with(external)).settle();
    assert!(says(&env, "member1", "Valid").starts_with("False InvalidServiceType"));
    assert!(says(&env, "member1", "Ready").starts_with("False Failed"));
    assert_eq!(everything(&env), Vec::<String>::new());
}

#[test]
fn a_conflict_stands_on_every_export_and_the_oldest_wins() {
    let mut env = exported();
    env.pass(Duration::from_secs(2));
    env.on("member2", foo().headless())
        .on("member2", export("foo"))
        .settle();
    for member in ["member1", "member2"] {
        let text = says(&env, member, "Conflict");
        assert!(text.starts_with("True TypeConflict"), "{member}: {text}");
        assert!(
            text.contains("member1") && text.contains("member2"),
            "{text}"
        );
    }
    assert_eq!(imported(&env, "member3")["spec"]["type"], "ClusterSetIP");
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(imported(&env, "member3")["spec"]["type"], "Headless");
    assert_eq!(imported(&env, "member3")["spec"]["ips"], Value::Null);
    assert_eq!(derived(&env, "member3")["spec"]["clusterIP"], "None");
    assert!(says(&env, "member2", "Conflict").starts_with("False"));
    env.assert_at_rest();
}

#[test]
fn traffic_for_a_port_goes_only_to_clusters_that_expose_it() {
    let mut env = exported();
    env.pass(Duration::from_secs(2));
    env.on("member2", service("foo").port("http", 8081))
        .on("member2", export("foo"))
        .settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    env.on("member2", service("foo").port("web", 8081))
        .on(
            "member2",
            slice("foo-def", "foo")
                .port("web", 8080)
                .endpoint("10.2.0.5"),
        )
        .settle();
    let copies = env.copies("member3", "derived-foo");
    let ports: Vec<_> = copies
        .iter()
        .flat_map(|copy| copy.ports.iter().flatten())
        .map(|port| port.name.clone().unwrap_or_default())
        .collect();
    assert_eq!(ports, ["http", "web"]);
}

#[test]
fn labels_and_annotations_come_from_the_export_alone_and_go_with_it() {
    let mut env = exported();
    let labelled = |part: Value| export("foo").with(json!({ "spec": part }));
    env.on(
        "member1",
        labelled(json!({"exportedLabels": {"team": "a"}, "exportedAnnotations": {"note": "b"}})),
    )
    .settle();
    let meta = imported(&env, "member3")["metadata"].clone();
    assert_eq!(meta["labels"]["team"], "a");
    assert_eq!(meta["annotations"]["note"], "b");
    let theirs = json!({"metadata": {"labels": {"theirs": "kept"}}});
    env.amend("member3", Kind::Import, "foo", theirs).settle();
    env.on(
        "member1",
        labelled(json!({"exportedLabels": null, "exportedAnnotations": null})),
    )
    .settle();
    let meta = imported(&env, "member3")["metadata"].clone();
    assert_eq!(meta["labels"]["team"], Value::Null);
    assert_eq!(meta["annotations"]["note"], Value::Null);
    assert_eq!(meta["labels"]["theirs"], "kept");
    env.assert_at_rest();
}

#[test]
fn what_an_export_names_and_cannot_be_carried_is_said_in_valid_while_it_lasts() {
    let mut env = exported();
    let named = |names: &[&str]| {
        let all: serde_json::Map<_, _> = names
            .iter()
            .map(|name| ((*name).to_owned(), json!("v")))
            .collect();
        export("foo").with(json!({"spec": {"exportedLabels": all}}))
    };
    let can = "Service shop/foo can be exported";
    for (names, left_out) in [
        (vec!["team"], String::new()),
        (
            vec!["team", labels::HUB],
            format!("; not exported: label {} (reserved)", labels::HUB),
        ),
        (
            vec!["-a", "-b", "-c", "-d", "-e"],
            "; not exported: label -a (not a valid name and value), label -b (not a valid name and value), \
             label -c (not a valid name and value) and 2 more"
                .to_owned(),
        ),
    ] {
        let object = named(&names);
        env.off("member1", Kind::Export, "foo").settle();
        env.on("member1", object).settle();
        assert_eq!(
            says(&env, "member1", "Valid"),
            format!("True Valid: {can}{left_out}")
        );
        env.assert_at_rest();
    }
    let much = json!({"spec": {"exportedAnnotations": {"a": "x".repeat(250 * 1024)}}});
    env.on("member1", export("foo").with(much)).settle();
    let expected = format!("True Valid: {can}; not exported: annotation a (beyond 240 KiB in all)");
    assert_eq!(says(&env, "member1", "Valid"), expected);
}

#[test]
fn exports_report_that_no_exporter_serves_an_importer() {
    let mut env = exported();
    let text = "True Exported: the service is exported to the clusterset";
    let prefer = json!({labels::PREFER: "zone"});
    env.on("member1", export("foo").annotated(&prefer)).settle();
    let expected = format!(
        "{text}; no endpoint in member2, member3: mcs.causeway.dev/prefer names only tiers that no provider is in (zone)"
    );
    assert_eq!(says(&env, "member1", "Ready"), expected);
    env.on("member1", export("foo"))
        .off("member1", Kind::Slice, "foo-abc")
        .settle();
    let expected = format!("{text}; no exporter has a ready endpoint");
    assert_eq!(says(&env, "member1", "Ready"), expected);
}
