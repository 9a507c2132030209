use super::*;

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
    for arrived in 0..=u8::MAX {
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
            "{arrived:#b}: {before:?} {after:?}"
        );
        world
            .identify("member1", "uid-of-member1", (1, 34))
            .list("member1")
            .settle();
        assert_eq!(everything(&world).len(), 6, "{arrived:#b}");
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
fn a_derived_service_that_somebody_deleted_gets_its_addresses_back() {
    let mut world = exported();
    let ips = imported(&world, "member3")["spec"]["ips"].clone();
    world.off("member3", Kind::Service, "derived-foo").settle();
    assert_eq!(derived(&world, "member3")["spec"]["clusterIPs"], ips);
    world.assert_at_rest();
}

#[test]
fn an_address_that_is_given_back_late_is_waited_for() {
    let mut world = exported();
    let ips = imported(&world, "member3")["spec"]["ips"].clone();
    world.server("member3").addresses_taken = vec![ips[0].clone()];
    world.off("member3", Kind::Service, "derived-foo");
    world.pass(Duration::from_secs(2));
    assert!(get(&world, "member3", Kind::Service, "derived-foo").is_none());
    assert_eq!(imported(&world, "member3")["spec"]["ips"], ips);
    assert!(says(&world, "member1", "Ready").starts_with("True"));
    world.server("member3").addresses_taken.clear();
    world.pass(Duration::from_secs(2));
    assert_eq!(derived(&world, "member3")["spec"]["clusterIPs"], ips);
    world.assert_at_rest();
}

#[test]
fn a_derived_service_whose_address_is_taken_gets_another_and_keeps_that() {
    let mut world = exported();
    for _ in 0..2 {
        let ips = imported(&world, "member3")["spec"]["ips"].clone();
        world.off("member3", Kind::Service, "derived-foo");
        world.settle();
        assert_eq!(derived(&world, "member3")["spec"]["clusterIPs"], ips);
        world.server("member3").addresses_taken.push(ips[0].clone());
        world.off("member3", Kind::Service, "derived-foo");
        world.pass(Duration::from_secs(10));
        let other = &derived(&world, "member3")["spec"]["clusterIPs"];
        assert_ne!(*other, ips);
        assert_eq!(imported(&world, "member3")["spec"]["ips"], *other);
        world.assert_at_rest();
    }
}

#[test]
fn an_export_from_a_cluster_that_imports_nothing_is_withdrawn_too() {
    let mut world = exported();
    world.off("member1", Kind::Export, "foo").settle();
    let served = Served {
        exports: Some(Version::V1alpha1),
        imports: None,
    };
    world.hear("member1", MemberEvent::Served(served));
    world.on("member1", export("foo")).settle();
    assert!(get(&world, "member1", Kind::Import, "foo").is_none());
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    world.off("member1", Kind::Export, "foo").settle();
    assert_eq!(everything(&world), Vec::<String>::new());
}

#[test]
fn definitions_that_go_take_what_was_exported_with_them() {
    let mut world = exported();
    world
        .hear("member1", MemberEvent::Served(Served::default()))
        .settle();
    assert!(world.addresses("member3", "derived-foo").is_empty());
    let left = everything(&world);
    assert!(
        !left
            .iter()
            .any(|object| !object.contains("Import") && object.starts_with("member1")),
        "{left:?}"
    );
    world.list("member1").settle();
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_hanging_importer_is_named_in_no_other_clusters_way() {
    let mut world = exported();
    world.lose("member3");
    world.on("member1", source("foo-abc", "10.1.0.6")).settle();
    assert_eq!(world.addresses("member2", "derived-foo"), ["10.1.0.6"]);
    assert!(says(&world, "member1", "Ready").starts_with("True Exported"));
}

#[test]
fn a_conflict_stays_while_one_of_those_that_disagree_is_out_of_reach() {
    let mut world = exported();
    world
        .on("member2", foo().headless())
        .on("member2", export("foo"))
        .settle();
    let told = says(&world, "member2", "Conflict");
    assert!(told.starts_with("True TypeConflict:"), "{told}");
    world.lose("member1").restart().settle();
    assert_eq!(says(&world, "member2", "Conflict"), told);
    world
        .identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .off("member1", Kind::Export, "foo")
        .settle();
    let told = says(&world, "member2", "Conflict");
    assert!(told.starts_with("False NoConflicts"), "{told}");
}

#[test]
fn an_export_that_is_not_used_any_more_says_so() {
    let mut world = exported();
    let drained = |value: &str| {
        let annotations = json!({ labels::WITHDRAW: value });
        cluster("member1").with(json!({"metadata": {"annotations": annotations}}))
    };
    world.on_hub(drained("true")).settle();
    assert_eq!(everything(&world), Vec::<String>::new());
    assert_eq!(
        says(&world, "member1", "Ready"),
        "False Failed: nothing that this cluster provides is used (annotation mcs.causeway.dev/withdraw of its Cluster)"
    );
    world.on_hub(drained("false")).settle();
    assert!(says(&world, "member1", "Ready").starts_with("True Exported"));
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_persons_import_without_ports_loses_none_while_an_exporter_is_out_of_reach() {
    let mut world = exported();
    world.off("member1", Kind::Export, "foo").settle();
    world
        .on("member3", import("foo"))
        .on("member1", export("foo"))
        .settle();
    let ports = derived(&world, "member3")["spec"]["ports"].clone();
    assert_eq!(ports[0]["port"], 80);
    world.lose("member1").lose("member2").restart().settle();
    assert_eq!(derived(&world, "member3")["spec"]["ports"], ports);
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_member_that_cannot_be_asked_what_it_serves_is_named_in_its_cluster() {
    let mut world = world();
    world.keeps_clusters = true;
    world
        .silent_member("member1")
        .identify("member1", "uid-of-member1", (1, 34));
    let failure = Failure::new(FailureKind::Forbidden, "forbidden: no");
    world
        .hear("member1", MemberEvent::NotDiscovered(failure))
        .settle();
    let says = |world: &World| {
        let cluster = world
            .hub
            .get(Kind::Cluster, "", "member1")
            .expect("a Cluster");
        let conditions: Vec<Condition> = decode(cluster["status"]["conditions"].clone());
        condition::find(&conditions, condition::CLUSTERSET_API).map(|one| one.message.clone())
    };
    let expected = "ServiceExports and ServiceImports cannot be watched (forbidden: no)";
    assert_eq!(says(&world).as_deref(), Some(expected));
    world.list("member1").settle();
    let expected = "ServiceExport v1beta1 and ServiceImport v1beta1 are watched";
    assert_eq!(says(&world).as_deref(), Some(expected));
}
