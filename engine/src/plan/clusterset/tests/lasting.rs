use super::*;
use crate::model::Signal;

#[test]
fn an_import_lives_as_long_as_any_export() {
    let mut env = exported();
    let uid = imported(&env, "member3")["metadata"]["uid"].clone();
    let ips = imported(&env, "member3")["spec"]["ips"].clone();
    env.pass(Duration::from_secs(2))
        .on("member2", export("foo"))
        .settle();
    assert_eq!(
        env.addresses("member3", "derived-foo"),
        ["10.1.0.5", "10.2.0.5"]
    );
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(imported(&env, "member3")["metadata"]["uid"], uid);
    assert_eq!(imported(&env, "member3")["spec"]["ips"], ips);
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.2.0.5"]);
    assert_eq!(
        imported(&env, "member3")["status"]["clusters"],
        json!([{"cluster": "member2"}])
    );
}

#[test]
fn a_restart_with_an_exporter_out_of_reach_changes_nothing() {
    let mut env = exported();
    let before = everything(&env);
    env.lose("member1").restart().settle();
    env.pass(GRACE + GRACE);
    assert_eq!(everything(&env), before);
    env.forget_writes();
    env.on("member2", foo().port("admin", 81))
        .on("member2", export("foo"))
        .settle();
    let ports = &imported(&env, "member3")["spec"]["ports"];
    assert_eq!(ports.as_array().map(Vec::len), Some(2), "{ports}");
    assert_eq!(
        env.addresses("member3", "derived-foo"),
        ["10.1.0.5", "10.2.0.5"]
    );
    env.off("member2", Kind::Export, "foo").settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    let ports = &imported(&env, "member3")["spec"]["ports"];
    assert_eq!(
        ports.as_array().map(Vec::len),
        Some(2),
        "it grows and never shrinks"
    );
    env.list("member1").settle();
    let ports = &imported(&env, "member3")["spec"]["ports"];
    assert_eq!(ports.as_array().map(Vec::len), Some(1), "now it is known");
}

#[test]
fn a_crash_before_the_exporters_are_written_down_costs_no_import() {
    for arrived in 0..=u8::MAX {
        let mut env = env();
        env.member("member1").member("member2");
        env.on("member1", foo())
            .on("member1", source("foo-abc", "10.1.0.5"))
            .on("member1", export("foo"));
        for _ in 0..4 {
            env.crash(arrived);
        }
        let before = everything(&env);
        env.lose("member1").restart().settle();
        env.pass(GRACE);
        let after = everything(&env);
        assert!(
            before.iter().all(|object| after.contains(object)),
            "{arrived:#b}: {before:?} {after:?}"
        );
        env.identify("member1", "uid-of-member1", (1, 34))
            .list("member1")
            .settle();
        assert_eq!(everything(&env).len(), 6, "{arrived:#b}");
        env.assert_at_rest();
    }
}

#[test]
fn recreated_import_retains_the_endpoints_of_an_unknown_exporter() {
    for lost in [&["member3"][..], &["member2", "member3"]] {
        let mut env = exported();
        env.settings.provider_ttl = Some(Duration::from_secs(60));
        let keep = json!({labels::UNREACHABLE: "keep"});
        env.on("member1", export("foo").annotated(&keep)).settle();
        env.lose("member1").restart().settle();
        for member in lost {
            env.off(member, Kind::Import, "foo");
        }
        env.pass(Duration::from_secs(600));
        let annotations = &imported(&env, "member3")["metadata"]["annotations"];
        assert_eq!(annotations[labels::UNREACHABLE], "keep", "{lost:?}");
        assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
        env.list("member1").settle();
        env.assert_at_rest();
    }
}

#[test]
fn import_keeps_its_addresses_after_a_provider_ttl() {
    let mut env = exported();
    env.settings.provider_ttl = Some(Duration::from_secs(60));
    let before = imported(&env, "member3")["spec"].clone();
    env.lose("member1").pass(Duration::from_secs(600));
    assert!(env.addresses("member3", "derived-foo").is_empty());
    assert_eq!(imported(&env, "member3")["spec"], before);
    assert_eq!(
        derived(&env, "member3")["spec"]["clusterIPs"],
        before["ips"]
    );
    env.list("member1").settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn unused_export_without_a_service_is_not_valid() {
    let mut env = exported();
    env.on_hub(drained("member1", true)).settle();
    assert!(says(&env, "member1", "Valid").starts_with("True"));
    env.off("member1", Kind::Slice, "foo-abc")
        .off("member1", Kind::Service, "foo")
        .settle();
    assert!(says(&env, "member1", "Valid").starts_with("False NoService"));
}

#[test]
fn a_service_that_is_replaced_by_force_keeps_the_import_for_a_while() {
    let mut env = exported();
    let ips = imported(&env, "member3")["spec"]["ips"].clone();
    env.off("member1", Kind::Slice, "foo-abc")
        .off("member1", Kind::Service, "foo")
        .settle();
    assert!(says(&env, "member1", "Valid").starts_with("False NoService"));
    assert_eq!(imported(&env, "member3")["spec"]["ips"], ips);
    assert!(
        env.addresses("member3", "derived-foo").is_empty(),
        "its endpoints are gone for sure"
    );
    env.on("member1", foo()).settle();
    assert_eq!(imported(&env, "member3")["spec"]["ips"], ips);
    assert!(says(&env, "member1", "Valid").starts_with("True"));
    env.off("member1", Kind::Service, "foo").settle();
    env.pass(GRACE);
    assert_eq!(everything(&env), Vec::<String>::new());
}

#[test]
fn a_derived_service_that_somebody_deleted_gets_its_addresses_back() {
    let mut env = exported();
    let ips = imported(&env, "member3")["spec"]["ips"].clone();
    env.off("member3", Kind::Service, "derived-foo").settle();
    assert_eq!(derived(&env, "member3")["spec"]["clusterIPs"], ips);
    env.assert_at_rest();
}

#[test]
fn an_address_that_is_given_back_late_is_waited_for() {
    let mut env = exported();
    let ips = imported(&env, "member3")["spec"]["ips"].clone();
    env.server("member3").addresses_taken = vec![ips[0].clone()];
    env.off("member3", Kind::Service, "derived-foo");
    env.pass(Duration::from_secs(2));
    assert!(get(&env, "member3", Kind::Service, "derived-foo").is_none());
    assert_eq!(imported(&env, "member3")["spec"]["ips"], ips);
    assert!(says(&env, "member1", "Ready").starts_with("True"));
    env.server("member3").addresses_taken.clear();
    env.pass(Duration::from_secs(2));
    assert_eq!(derived(&env, "member3")["spec"]["clusterIPs"], ips);
    env.assert_at_rest();
}

#[test]
fn a_derived_service_whose_address_is_taken_gets_another_and_keeps_that() {
    let mut env = exported();
    for _ in 0..2 {
        let ips = imported(&env, "member3")["spec"]["ips"].clone();
        env.off("member3", Kind::Service, "derived-foo");
        env.settle();
        assert_eq!(derived(&env, "member3")["spec"]["clusterIPs"], ips);
        env.server("member3").addresses_taken.push(ips[0].clone());
        env.off("member3", Kind::Service, "derived-foo");
        env.pass(Duration::from_secs(10));
        let other = &derived(&env, "member3")["spec"]["clusterIPs"];
        assert_ne!(*other, ips);
        assert_eq!(imported(&env, "member3")["spec"]["ips"], *other);
        env.assert_at_rest();
    }
}

#[test]
fn an_export_from_a_cluster_that_imports_nothing_is_withdrawn_too() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    let served = Served {
        exports: Some(Version::V1alpha1),
        export_clusters: false,
        imports: None,
    };
    env.observe("member1", MemberEvent::Served(served));
    env.on("member1", export("foo")).settle();
    assert!(get(&env, "member1", Kind::Import, "foo").is_none());
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(everything(&env), Vec::<String>::new());
}

#[test]
fn list_of_a_restarted_export_watch_is_an_initial_list() {
    let mut env = exported();
    env.pass(Duration::from_secs(60));
    for kind in [Kind::Service, Kind::Slice, Kind::Namespace, Kind::Export] {
        let event = crate::fixtures::member_event(kind, Signal::Confirmed);
        env.observe("member1", event);
    }
    env.settle().forget_writes();
    let mut served = env.members["member1"].served.clone();
    served.exports = Some(Version::V1alpha1);
    env.observe("member1", MemberEvent::Served(served)).settle();
    for (signal, count) in [(Signal::Listed(vec![]), 0), (Signal::Confirmed, 1)] {
        env.observe("member1", MemberEvent::Exports(signal))
            .settle();
        let log = env.log();
        let is_deletion = |line: &&String| line.starts_with("member3 delete ServiceImport");
        let deletions = log.iter().filter(is_deletion).count();
        assert_eq!(deletions, count, "{log:?}");
    }
}

#[test]
fn definitions_that_go_take_what_was_exported_with_them() {
    let mut env = exported();
    env.observe("member1", MemberEvent::Served(Served::default()))
        .settle();
    assert!(env.addresses("member3", "derived-foo").is_empty());
    let left = everything(&env);
    assert!(
        !left
            .iter()
            .any(|object| !object.contains("Import") && object.starts_with("member1")),
        "{left:?}"
    );
    env.list("member1").settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_hanging_importer_is_named_in_no_other_clusters_way() {
    let mut env = exported();
    env.lose("member3");
    env.on("member1", source("foo-abc", "10.1.0.6")).settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.6"]);
    assert!(says(&env, "member1", "Ready").starts_with("True Exported"));
}

#[test]
fn a_conflict_stays_while_one_of_those_that_disagree_is_out_of_reach() {
    let mut env = exported();
    env.on("member2", foo().headless())
        .on("member2", export("foo"))
        .settle();
    let reported = says(&env, "member2", "Conflict");
    assert!(reported.starts_with("True TypeConflict:"), "{reported}");
    env.lose("member1").restart().settle();
    assert_eq!(says(&env, "member2", "Conflict"), reported);
    env.identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .off("member1", Kind::Export, "foo")
        .settle();
    let reported = says(&env, "member2", "Conflict");
    assert!(reported.starts_with("False NoConflicts"), "{reported}");
}

#[test]
fn an_export_that_is_not_used_any_more_says_so() {
    let mut env = exported();
    env.on_hub(drained("member1", true)).settle();
    assert_eq!(everything(&env), Vec::<String>::new());
    assert_eq!(
        says(&env, "member1", "Ready"),
        "False Failed: nothing that this cluster provides is used (annotation mcs.causeway.dev/withdraw of its Cluster)"
    );
    env.on_hub(drained("member1", false)).settle();
    assert!(says(&env, "member1", "Ready").starts_with("True Exported"));
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_persons_import_without_ports_loses_none_while_an_exporter_is_out_of_reach() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    env.on("member3", import("foo"))
        .on("member1", export("foo"))
        .settle();
    let ports = derived(&env, "member3")["spec"]["ports"].clone();
    assert_eq!(ports[0]["port"], 80);
    env.lose("member1").lose("member2").restart().settle();
    assert_eq!(derived(&env, "member3")["spec"]["ports"], ports);
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_member_that_cannot_be_asked_what_it_serves_is_named_in_its_cluster() {
    let mut env = env();
    env.keeps_clusters = true;
    env.silent_member("member1")
        .identify("member1", "uid-of-member1", (1, 34));
    let failure = Failure::new(FailureKind::Forbidden, "forbidden: no");
    env.observe("member1", MemberEvent::NotDiscovered(failure))
        .pass(Duration::from_secs(11));
    let says = |env: &Environment| env.cluster_says("member1", condition::CLUSTERSET_API);
    let expected =
        "False Refused: ServiceExports and ServiceImports cannot be watched (forbidden: no)";
    assert_eq!(says(&env), expected);
    env.list("member1").settle();
    let expected = "True Served: ServiceExport v1beta1 and ServiceImport v1beta1 are watched";
    assert_eq!(says(&env), expected);
}
