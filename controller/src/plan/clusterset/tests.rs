use std::time::Duration;

use causeway::api::{condition, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use crate::failure::{Failure, FailureKind};
use crate::fixtures::objects::{Kind, NAMESPACE, Object, export, import, mcs, service, slice};
use crate::fixtures::server::decode;
use crate::fixtures::{GRACE, World, world};

fn foo() -> Object {
    service("foo").port("http", 80)
}

fn source(name: &str, address: &str) -> Object {
    slice(name, "foo").port("http", 8080).endpoint(address)
}

/// `foo` runs in member1 and member2; member1 exports it.
fn exported() -> World {
    let mut world = world();
    for member in ["member1", "member2", "member3"] {
        world.member(member);
    }
    world
        .on("member1", foo())
        .on("member1", source("foo-abc", "10.1.0.5"))
        .on("member2", foo())
        .on("member2", source("foo-def", "10.2.0.5"))
        .on("member1", export("foo"))
        .settle();
    world
}

fn get<'a>(world: &'a World, cluster: &str, kind: Kind, name: &str) -> Option<&'a Value> {
    world.members[cluster].get(kind, NAMESPACE, name)
}

fn imported<'a>(world: &'a World, cluster: &str) -> &'a Value {
    get(world, cluster, Kind::Import, "foo").expect("an import")
}

fn derived<'a>(world: &'a World, cluster: &str) -> &'a Value {
    get(world, cluster, Kind::Service, "derived-foo").expect("a derived Service")
}

/// `Status Reason: message` of a condition of an export.
fn says(world: &World, cluster: &str, type_: &str) -> String {
    let export = get(world, cluster, Kind::Export, "foo").expect("an export");
    let conditions: Vec<Condition> = match &export["status"]["conditions"] {
        Value::Null => Vec::new(),
        all => decode(all.clone()),
    };
    condition::find(&conditions, type_).map_or_else(String::new, |one| {
        format!("{} {}: {}", one.status, one.reason, one.message)
    })
}

fn everything(world: &World) -> Vec<String> {
    let kinds = [Kind::Service, Kind::Slice, Kind::Import];
    let mut all = Vec::new();
    for (cluster, server) in &world.members {
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
    let mut world = exported();
    for member in ["member1", "member2", "member3"] {
        let (import, derived) = (imported(&world, member), derived(&world, member));
        assert_eq!(import["spec"]["type"], "ClusterSetIP");
        assert_eq!(import["spec"]["ips"], derived["spec"]["clusterIPs"]);
        assert_eq!(import["spec"]["ipFamilies"], json!(["IPv4"]));
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
            world.addresses(member, "derived-foo"),
            ["10.1.0.5"],
            "{member}"
        );
        assert!(world.addresses(member, "foo").is_empty(), "{member}");
        let copy = &world.copies(member, "derived-foo")[0];
        let owners = copy.metadata.owner_references.clone().expect("an owner");
        assert_eq!(json!(owners[0].uid), import["metadata"]["uid"]);
        let label = |name: &str| copy.metadata.labels.as_ref().map(|all| all[name].as_str());
        assert_eq!(label(labels::MULTICLUSTER_SERVICE_NAME), Some("foo"));
        assert_eq!(label(labels::SOURCE_CLUSTER), Some("member1"));
    }
    assert_eq!(derived(&world, "member3")["spec"]["selector"], Value::Null);
    assert!(says(&world, "member1", "Valid").starts_with("True Valid"));
    assert!(says(&world, "member1", "Ready").starts_with("True Exported"));
    assert!(says(&world, "member1", "Conflict").starts_with("False NoConflicts"));
    world.assert_at_rest();
}

#[test]
fn an_endpoint_change_costs_one_write_in_each_cluster() {
    let mut world = exported();
    world.forget_writes();
    world.on("member1", source("foo-abc", "10.1.0.6")).settle();
    assert_eq!(
        world.log(),
        ["member1", "member2", "member3"].map(|name| format!("{name} update EndpointSlice"))
    );
}

#[test]
fn an_import_is_whole_in_its_first_version_and_written_once() {
    let mut world = exported();
    world.forget_writes();
    world.member("member4").settle();
    let writes: Vec<_> = world
        .log()
        .into_iter()
        .filter(|line| line.starts_with("member4"))
        .collect();
    assert_eq!(
        writes,
        [
            "member4 create Service",
            "member4 create ServiceImport",
            "member4 create EndpointSlice",
            "member4 patch ServiceImport",
        ],
        "the last is its status"
    );
}

#[test]
fn what_is_exported_no_more_leaves_nothing_behind() {
    let mut world = exported();
    assert_eq!(everything(&world).len(), 9, "{:?}", everything(&world));
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(everything(&world), Vec::<String>::new());
    world.assert_at_rest();
}

#[test]
fn an_import_lives_as_long_as_any_export() {
    let mut world = exported();
    let uid = imported(&world, "member3")["metadata"]["uid"].clone();
    let ips = imported(&world, "member3")["spec"]["ips"].clone();
    world
        .pass(Duration::from_secs(2))
        .on("member2", export("foo"))
        .settle();
    assert_eq!(
        world.addresses("member3", "derived-foo"),
        ["10.1.0.5", "10.2.0.5"]
    );
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(imported(&world, "member3")["metadata"]["uid"], uid);
    assert_eq!(imported(&world, "member3")["spec"]["ips"], ips);
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.2.0.5"]);
    assert_eq!(
        imported(&world, "member3")["status"]["clusters"],
        json!([{"cluster": "member2"}])
    );
}

#[test]
fn a_restart_with_an_exporter_out_of_reach_changes_nothing() {
    let mut world = exported();
    let before = everything(&world);
    world.lose("member1").restart().settle();
    world.pass(GRACE + GRACE);
    assert_eq!(everything(&world), before);
    world.forget_writes();
    world
        .on("member2", foo().port("admin", 81))
        .on("member2", export("foo"))
        .settle();
    let ports = &imported(&world, "member3")["spec"]["ports"];
    assert_eq!(ports.as_array().map(Vec::len), Some(2), "{ports}");
    assert_eq!(
        world.addresses("member3", "derived-foo"),
        ["10.1.0.5", "10.2.0.5"]
    );
    world.off("member2", Kind::Export, "foo").settle();
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    let ports = &imported(&world, "member3")["spec"]["ports"];
    assert_eq!(
        ports.as_array().map(Vec::len),
        Some(2),
        "it grows and never shrinks"
    );
    world.list("member1").settle();
    let ports = &imported(&world, "member3")["spec"]["ports"];
    assert_eq!(ports.as_array().map(Vec::len), Some(1), "now it is known");
}

#[test]
fn a_crash_before_the_exporters_are_written_down_costs_no_import() {
    for arrived in 0..12 {
        let mut world = world();
        for member in ["member1", "member2"] {
            world.member(member);
        }
        world
            .on("member1", foo())
            .on("member1", source("foo-abc", "10.1.0.5"))
            .on("member1", export("foo"));
        for _ in 0..4 {
            world.crash(arrived);
        }
        let before = everything(&world);
        world.lose("member1").restart().settle();
        world.pass(GRACE);
        let after = everything(&world);
        assert!(
            before.iter().all(|object| after.contains(object)),
            "{arrived}: {before:?} {after:?}"
        );
        world
            .identify("member1", "uid-of-member1", (1, 34))
            .list("member1")
            .settle();
        assert_eq!(everything(&world).len(), 6, "{arrived}");
        world.assert_at_rest();
    }
}

#[test]
fn a_service_that_is_replaced_by_force_keeps_the_import_for_a_while() {
    let mut world = exported();
    let ips = imported(&world, "member3")["spec"]["ips"].clone();
    world
        .off("member1", Kind::Slice, "foo-abc")
        .off("member1", Kind::Service, "foo")
        .settle();
    assert!(says(&world, "member1", "Valid").starts_with("False NoService"));
    assert_eq!(imported(&world, "member3")["spec"]["ips"], ips);
    assert!(
        world.addresses("member3", "derived-foo").is_empty(),
        "its endpoints are gone for sure"
    );
    world.on("member1", foo()).settle();
    assert_eq!(imported(&world, "member3")["spec"]["ips"], ips);
    assert!(says(&world, "member1", "Valid").starts_with("True"));
    world.off("member1", Kind::Service, "foo").settle();
    world.pass(GRACE);
    assert_eq!(everything(&world), Vec::<String>::new());
}

#[test]
fn an_external_name_is_refused_in_the_condition() {
    let mut world = exported();
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    world.on("member1", foo().with(external)).settle();
    assert!(says(&world, "member1", "Valid").starts_with("False InvalidServiceType"));
    assert!(says(&world, "member1", "Ready").starts_with("False Failed"));
    assert_eq!(everything(&world), Vec::<String>::new());
}

#[test]
fn a_conflict_stands_on_every_export_and_the_oldest_wins() {
    let mut world = exported();
    world.pass(Duration::from_secs(2));
    world
        .on("member2", foo().headless())
        .on("member2", export("foo"))
        .settle();
    for member in ["member1", "member2"] {
        let text = says(&world, member, "Conflict");
        assert!(text.starts_with("True TypeConflict"), "{member}: {text}");
        assert!(
            text.contains("member1") && text.contains("member2"),
            "{text}"
        );
    }
    assert_eq!(imported(&world, "member3")["spec"]["type"], "ClusterSetIP");
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(imported(&world, "member3")["spec"]["type"], "Headless");
    assert_eq!(imported(&world, "member3")["spec"]["ips"], Value::Null);
    assert_eq!(derived(&world, "member3")["spec"]["clusterIP"], "None");
    assert!(says(&world, "member2", "Conflict").starts_with("False"));
    world.assert_at_rest();
}

#[test]
fn traffic_for_a_port_goes_only_to_clusters_that_expose_it() {
    let mut world = exported();
    world.pass(Duration::from_secs(2));
    world
        .on("member2", service("foo").port("http", 8081))
        .on("member2", export("foo"))
        .settle();
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    world
        .on("member2", service("foo").port("web", 8081))
        .on(
            "member2",
            slice("foo-def", "foo")
                .port("web", 8080)
                .endpoint("10.2.0.5"),
        )
        .settle();
    let copies = world.copies("member3", "derived-foo");
    let ports: Vec<_> = copies
        .iter()
        .flat_map(|copy| copy.ports.iter().flatten())
        .map(|port| port.name.clone().unwrap_or_default())
        .collect();
    assert_eq!(ports, ["http", "web"]);
}

#[test]
fn a_persons_import_shapes_the_derived_service_and_is_left_alone() {
    let mut world = exported();
    world.off("member1", Kind::Export, "foo").settle();
    let made = import("foo").with(json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}));
    world.on("member2", made).settle();
    let before = imported(&world, "member2").clone();
    assert_eq!(derived(&world, "member2")["spec"]["ports"][0]["port"], 80);
    world.on("member1", export("foo")).settle();
    assert_eq!(*imported(&world, "member2"), before);
    let copies = world.copies("member2", "derived-foo");
    let port = copies[0].ports.as_ref().expect("ports")[0].clone();
    assert_eq!((port.name.as_deref(), port.port), (Some(""), Some(8080)));
    world.off("member2", Kind::Import, "foo").settle();
    assert_ne!(
        imported(&world, "member2")["metadata"]["uid"],
        before["metadata"]["uid"]
    );
    world.assert_at_rest();
}

#[test]
fn a_foreign_service_of_the_derived_name_is_used_and_not_written() {
    let mut world = exported();
    world.off("member1", Kind::Export, "foo").settle();
    world
        .on("member3", service("derived-foo").port("http", 80))
        .settle();
    let before = derived(&world, "member3").clone();
    world.on("member1", export("foo")).settle();
    assert_eq!(*derived(&world, "member3"), before);
    assert_eq!(
        imported(&world, "member3")["spec"]["ips"],
        before["spec"]["clusterIPs"]
    );
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(*derived(&world, "member3"), before);
    world.assert_at_rest();
}

#[test]
fn a_derived_service_that_somebody_deleted_gets_its_addresses_back() {
    let mut world = exported();
    let ips = imported(&world, "member3")["spec"]["ips"].clone();
    world.off("member3", Kind::Service, "derived-foo").settle();
    assert_eq!(derived(&world, "member3")["spec"]["clusterIPs"], ips);
    world.assert_at_rest();
}

#[test]
fn a_cluster_without_the_services_address_family_says_so_in_its_import() {
    let mut world = exported();
    world.off("member1", Kind::Export, "foo").settle();
    let text = "Service \"derived-foo\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster";
    let failure = Failure::new(FailureKind::Invalid, text);
    world.server("member3").refuses = Some((Kind::Service, failure));
    world.on("member1", export("foo")).settle();
    let import = imported(&world, "member3");
    assert_eq!(import["spec"]["ips"], Value::Null);
    assert_eq!(
        import["status"]["conditions"][0]["reason"],
        "IPFamilyNotSupported"
    );
    assert_eq!(
        imported(&world, "member2")["status"]["conditions"][0]["reason"],
        "Ready"
    );
}

#[test]
fn a_service_that_is_exposed_and_exported_is_reached_both_ways() {
    let mut world = exported();
    world.on_hub(foo());
    world
        .on_hub(mcs("foo").providers(&["member2"]).consumers(&["member3"]))
        .settle();
    assert_eq!(world.addresses("member3", "foo"), ["10.2.0.5"]);
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(world.addresses("member3", "foo"), ["10.2.0.5"]);
    assert!(get(&world, "member3", Kind::Import, "foo").is_none());
    world.on("member1", export("foo")).settle();
    world.off_hub(Kind::Mcs, "foo").settle();
    assert!(world.addresses("member3", "foo").is_empty());
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert!(
        world.mcs("foo").is_none(),
        "the finalizer does not wait for what is exported"
    );
}

#[test]
fn what_is_exposed_is_published_as_exports_where_that_is_asked_for() {
    let mut world = exported();
    world.off("member1", Kind::Export, "foo").settle();
    world.settings.publish_exports = true;
    world.on_hub(foo());
    world
        .on_hub(mcs("foo").providers(&["member2"]).consumers(&["member3"]))
        .settle();
    let import = imported(&world, "member3").clone();
    let own = get(&world, "member3", Kind::Service, "foo").expect("the Service");
    assert_eq!(import["spec"]["ips"], own["spec"]["clusterIPs"]);
    assert_eq!(
        import["status"]["clusters"],
        json!([{"cluster": "member2"}])
    );
    assert!(says(&world, "member2", "Ready").starts_with("True Exported"));
    let copy = &world.copies("member3", "foo")[0];
    let label = copy
        .metadata
        .labels
        .as_ref()
        .map(|all| &all[labels::MULTICLUSTER_SERVICE_NAME]);
    assert_eq!(label.map(String::as_str), Some("foo"));
    assert!(get(&world, "member3", Kind::Service, "derived-foo").is_none());
    world.assert_at_rest();
    world.on("member1", export("foo")).settle();
    assert!(
        get(&world, "member2", Kind::Export, "foo").is_none(),
        "a person's export alone counts"
    );
    assert_eq!(
        imported(&world, "member3")["spec"]["ips"],
        derived(&world, "member3")["spec"]["clusterIPs"]
    );
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(
        imported(&world, "member3")["spec"]["ips"],
        import["spec"]["ips"]
    );
    world.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(everything(&world), Vec::<String>::new());
    assert!(world.mcs("foo").is_none());
    world.assert_at_rest();
}
