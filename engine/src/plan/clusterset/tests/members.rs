use super::*;
use crate::removal::Leftovers;

#[test]
fn a_persons_import_shapes_the_derived_service_and_is_left_alone() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    let made = import("foo").with(json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}));
    env.on("member2", made).settle();
    let before = imported(&env, "member2").clone();
    assert_eq!(derived(&env, "member2")["spec"]["ports"][0]["port"], 80);
    env.on("member1", export("foo")).settle();
    assert_eq!(*imported(&env, "member2"), before);
    let elsewhere = says(&env, "member1", "Ready");
    env.on("member2", export("foo")).settle();
    let ready = says(&env, "member2", "Ready");
    let address = derived(&env, "member2")["spec"]["clusterIP"]
        .as_str()
        .expect("an address")
        .to_owned();
    let reported = "True Exported: the service is exported to the clusterset; member2 has a ServiceImport shop/foo of its own with no \
                addresses in spec.ips, so foo.shop.svc.clusterset.local does not lead to Service shop/derived-foo";
    assert!(
        ready.starts_with(reported) && ready.contains(&address),
        "{ready}"
    );
    let exported = "True Exported: the service is exported to the clusterset";
    assert_eq!(elsewhere, exported, "it is no other cluster's");
    assert_eq!(says(&env, "member1", "Ready"), exported);
    let resolved = json!({"spec": {"ips": [address]}});
    env.amend("member2", Kind::Import, "foo", resolved).settle();
    assert_eq!(says(&env, "member2", "Ready"), exported);
    env.off("member2", Kind::Export, "foo")
        .on(
            "member2",
            Object {
                kind: Kind::Import,
                value: before.clone(),
            },
        )
        .settle();
    let before = imported(&env, "member2").clone();
    let copies = env.copies("member2", "derived-foo");
    let port = copies[0].ports.as_ref().expect("ports")[0].clone();
    assert_eq!((port.name.as_deref(), port.port), (Some(""), Some(8080)));
    env.off("member2", Kind::Import, "foo").settle();
    assert_ne!(
        imported(&env, "member2")["metadata"]["uid"],
        before["metadata"]["uid"]
    );
    env.assert_at_rest();
}

#[test]
fn a_cluster_without_the_services_address_family_says_so_in_its_import() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    let text = "Service \"derived-foo\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster";
    let failure = Failure::new(FailureKind::Invalid, text);
    env.server("member3").refuses = Some((Kind::Service, failure));
    env.on("member1", export("foo")).settle();
    assert!(get(&env, "member3", Kind::Service, "derived-foo").is_none());
    let import = imported(&env, "member3");
    assert_eq!(import["spec"]["ips"], Value::Null);
    assert_eq!(
        import["status"]["conditions"][0]["reason"],
        "IPFamilyNotSupported"
    );
    assert_eq!(
        imported(&env, "member2")["status"]["conditions"][0]["reason"],
        "Ready"
    );
}

#[test]
fn a_service_that_is_exposed_and_exported_is_reached_both_ways() {
    let mut env = exported();
    env.on_hub(foo());
    env.on_hub(mcs("foo").providers(&["member2"]).consumers(&["member3"]))
        .settle();
    assert_eq!(env.addresses("member3", "foo"), ["10.2.0.5"]);
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(env.addresses("member3", "foo"), ["10.2.0.5"]);
    assert!(get(&env, "member3", Kind::Import, "foo").is_none());
    env.on("member1", export("foo")).settle();
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.addresses("member3", "foo").is_empty());
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert!(
        env.mcs("foo").is_none(),
        "the finalizer does not wait for what is exported"
    );
}

#[test]
fn what_is_exposed_is_published_as_exports_where_that_is_asked_for() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    env.settings.publish_exports = true;
    env.on_hub(foo());
    env.on_hub(mcs("foo").providers(&["member2"]).consumers(&["member3"]))
        .settle();
    let import = imported(&env, "member3").clone();
    let own = get(&env, "member3", Kind::Service, "foo").expect("the Service");
    assert_eq!(import["spec"]["ips"], own["spec"]["clusterIPs"]);
    let stands = &import["metadata"]["annotations"][labels::DERIVED_SERVICE];
    assert_eq!(*stands, "foo");
    assert_eq!(
        import["status"]["clusters"],
        json!([{"cluster": "member2"}])
    );
    assert!(says(&env, "member2", "Ready").starts_with("True Exported"));
    let copy = &env.copies("member3", "foo")[0];
    let label = copy
        .metadata
        .labels
        .as_ref()
        .map(|all| &all[labels::MULTICLUSTER_SERVICE_NAME]);
    assert_eq!(label.map(String::as_str), Some("foo"));
    assert!(get(&env, "member3", Kind::Service, "derived-foo").is_none());
    env.assert_at_rest();
    env.on("member1", export("foo")).settle();
    assert!(
        get(&env, "member2", Kind::Export, "foo").is_none(),
        "a person's export alone counts"
    );
    assert_eq!(
        imported(&env, "member3")["spec"]["ips"],
        derived(&env, "member3")["spec"]["clusterIPs"]
    );
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(
        imported(&env, "member3")["spec"]["ips"],
        import["spec"]["ips"]
    );
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(everything(&env), Vec::<String>::new());
    assert!(env.mcs("foo").is_none());
    env.assert_at_rest();
}

#[test]
fn a_cluster_exports_only_from_the_namespaces_that_the_hub_lets_it() {
    let mut env = exported();
    env.on_hub(permitted("member1", "bank, bar")).settle();
    assert_eq!(everything(&env), Vec::<String>::new());
    let ready = says(&env, "member1", "Ready");
    assert!(
        ready.starts_with("False Failed: the hub does not let"),
        "{ready}"
    );
    env.on_hub(permitted("member1", "bank,shop")).settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert!(says(&env, "member1", "Ready").starts_with("True"));
}

#[test]
fn revoked_rights_bind_a_cluster_that_was_not_observed_since_the_start() {
    let mut env = exported();
    let before = everything(&env);
    env.lose("member1").restart();
    env.on_hub(permitted("member1", "bank,shop")).settle();
    assert_eq!(everything(&env), before, "the rights still allow it");
    env.on_hub(permitted("member1", "bank")).settle();
    let left = everything(&env);
    let of_others = left.iter().filter(|object| !object.starts_with("member1"));
    assert_eq!(of_others.collect::<Vec<_>>(), Vec::<&String>::new());
    env.introduce("member1").list("member1").settle();
    assert_eq!(everything(&env), Vec::<String>::new());
    env.assert_at_rest();
}

#[test]
fn an_export_in_a_protected_namespace_is_refused_in_its_condition() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    env.settings.protection = Protection::new(NAMESPACE, []);
    env.on("member1", export("foo")).settle();
    assert!(says(&env, "member1", "Ready").starts_with("False Failed"));
    assert_eq!(everything(&env), Vec::<String>::new());
}

#[test]
fn an_import_comes_with_its_namespace_and_goes_with_it() {
    let mut env = exported();
    env.off("member3", Kind::Namespace, NAMESPACE).settle();
    env.off("member1", Kind::Export, "foo").settle();
    env.on("member1", export("foo")).settle();
    env.forget_writes();
    env.on("member3", namespace(NAMESPACE)).settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn older_definitions_get_only_the_fields_that_they_know() {
    let mut env = exported();
    env.silent_member("member4")
        .identify("member4", "uid-of-member4", (1, 30));
    env.list("member4");
    let served = Served {
        exports: Some(Version::V1alpha1),
        export_clusters: false,
        imports: Some(ServedImports {
            version: Version::V1alpha1,
            fields: ImportFields::default(),
        }),
    };
    env.server("member4").drops = vec![
        (Kind::Import, "/status/conditions"),
        (Kind::Import, "/spec/ipFamilies"),
    ];
    env.observe("member4", MemberEvent::Served(served)).settle();
    let import = imported(&env, "member4");
    assert_eq!(import["apiVersion"], "multicluster.x-k8s.io/v1alpha1");
    for field in ["ipFamilies", "internalTrafficPolicy", "trafficDistribution"] {
        assert_eq!(import["spec"][field], Value::Null, "{field}");
    }
    assert_eq!(
        import["status"],
        json!({"clusters": [{"cluster": "member1"}]})
    );
    env.assert_at_rest();
}

#[test]
fn unreadable_field_of_an_export_is_reported() {
    let mut env = exported();
    let spec = json!({"exportedLabels": {"team": "web"}, "clusterSelectors": "any"});
    env.on("member1", export("foo").with(json!({"spec": spec})))
        .settle();
    let import = imported(&env, "member3");
    assert_eq!(import["metadata"]["labels"]["team"], "web");
    let valid = says(&env, "member1", "Valid");
    let expected = "; not followed: spec.clusterSelectors: Invalid value: \"any\": must be as";
    assert!(valid.starts_with("True"), "{valid}");
    assert!(valid.contains(expected), "{valid}");
    env.assert_at_rest();
}

#[test]
fn a_published_import_names_no_exporter_once_all_of_them_are_withdrawn() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    env.settings.publish_exports = true;
    env.on_hub(foo());
    env.on_hub(mcs("foo").providers(&["member2"]).consumers(&["member3"]))
        .settle();
    env.on_hub(drained("member2", true)).settle();
    assert_eq!(imported(&env, "member3")["status"]["clusters"], json!([]));
    env.assert_at_rest();
}

#[test]
fn an_import_that_a_person_applies_over_causeways_is_theirs() {
    let mut env = exported();
    let applied = json!({
        "metadata": {"annotations": {labels::LAST_APPLIED: "{}"}},
        "spec": {"ports": [{"port": 80, "protocol": "TCP"}]},
    });
    env.amend("member2", Kind::Import, "foo", applied).settle();
    let ports = &imported(&env, "member2")["spec"]["ports"];
    assert_eq!(*ports, json!([{"port": 80, "protocol": "TCP"}]));
    let of_derived = &derived(&env, "member2")["spec"]["ports"][0];
    assert_eq!(
        (&of_derived["name"], &of_derived["port"]),
        (&Value::Null, &json!(80))
    );
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    env.off("member1", Kind::Export, "foo").settle();
    assert!(get(&env, "member2", Kind::Import, "foo").is_some());
    env.assert_at_rest();
}

#[test]
fn what_causeway_said_of_an_import_is_taken_back_when_it_is_a_persons() {
    let mut env = exported();
    let by = |manager: &str, subresource: Value| json!({"manager": manager, "operation": "Update", "subresource": subresource});
    let taken =
        |by: Value| json!({"metadata": {"labels": {labels::HUB: null}, "managedFields": by}});
    for (member, by, is_left) in [
        (
            "member2",
            json!([
                by("kubectl-replace", Value::Null),
                by(labels::MANAGER, json!("status"))
            ]),
            false,
        ),
        // Whoever replaces an object takes the entries about its status away, and the status stays.
        ("member1", json!([by(labels::MANAGER, Value::Null)]), false),
        (
            "member3",
            json!([
                by(labels::MANAGER, Value::Null),
                by("another-controller", json!("status"))
            ]),
            true,
        ),
    ] {
        let clusters = &imported(&env, member)["status"]["clusters"];
        assert_eq!(*clusters, json!([{"cluster": "member1"}]));
        env.amend(member, Kind::Import, "foo", taken(by)).settle();
        let status = &imported(&env, member)["status"]["clusters"];
        assert_eq!(!status.is_null(), is_left, "{member}: {status}");
    }
    env.assert_at_rest();
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(imported(&env, "member2")["status"], Value::Null);
    env.assert_at_rest();
}

#[test]
fn what_another_hub_exports_and_imports_is_left_to_it() {
    let mut env = env();
    env.member("member1").member("member2");
    let theirs = json!({"metadata": {"labels": {labels::HUB: "another-hub"}}});
    env.on("member1", foo())
        .on("member1", source("foo-abc", "10.1.0.5"))
        .on("member1", export("foo").with(theirs.clone()))
        .on("member2", import("bar").with(theirs))
        .settle();
    assert_eq!(env.log(), Vec::<String>::new());
    // Beside it a person's export counts as ever.
    env.on("member2", foo())
        .on("member2", export("foo"))
        .settle();
    assert_eq!(
        imported(&env, "member1")["status"]["clusters"],
        json!([{"cluster": "member2"}])
    );
    env.assert_at_rest();
}

#[test]
fn an_export_of_a_cluster_that_is_taken_out_says_so_before_the_cluster_is_gone() {
    let mut env = exported();
    let other = service("foo").port("http", 81);
    env.off("member2", Kind::Service, "foo").settle();
    env.on("member2", other).on("member2", export("foo"));
    env.settle();
    for member in ["member1", "member2"] {
        let conflict = says(&env, member, "Conflict");
        assert!(conflict.starts_with("True PortConflict"), "{conflict}");
        let ready = says(&env, member, "Ready");
        assert!(ready.starts_with("True Exported"), "{ready}");
    }
    env.silence("member1");
    env.off_hub(Kind::Cluster, "member1").settle();
    assert!(env.seen_out.is_empty(), "it was not observed");
    env.reconnect("member1").settle();
    let (name, left) = &env.seen_out[0];
    assert_eq!((name.as_str(), left), ("member1", &Leftovers::default()));
    let ready = says(&env, "member1", "Ready");
    assert!(ready.starts_with("False NotJoined: "), "{ready}");
    let conflict = says(&env, "member1", "Conflict");
    assert!(conflict.starts_with("False NoConflicts: "), "{conflict}");
    let valid = says(&env, "member1", "Valid");
    assert!(valid.starts_with("True Valid"), "{valid}");
    let conflict = says(&env, "member2", "Conflict");
    assert!(conflict.starts_with("False NoConflicts"), "{conflict}");
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.2.0.5"]);
}

/// Covers a front end that answers discovery with 404, which looks like a member without
/// definitions.
#[test]
fn unreachable_member_keeps_its_exports_whatever_it_serves() {
    let mut env = exported();
    let lost = || Failure::new(FailureKind::NotServed, "404 page not found");
    for kind in [
        Kind::Service,
        Kind::Slice,
        Kind::Namespace,
        Kind::Export,
        Kind::Import,
    ] {
        env.observe("member1", member_event(kind, Signal::Failed(lost())));
    }
    env.observe("member1", MemberEvent::Probed(Err(lost())))
        .settle()
        .forget_writes();
    env.observe("member1", MemberEvent::Served(Served::default()));
    env.pass(Duration::from_secs(60));
    assert_eq!(env.log(), Vec::<String>::new());
    // The definitions are served after all.
    env.list("member1")
        .pass(Duration::from_secs(60))
        .assert_at_rest();
    assert!(get(&env, "member2", Kind::Import, "foo").is_some());
}

#[test]
fn definitions_that_go_during_an_outage_count_once_it_is_over() {
    let mut env = exported();
    env.lose("member1").settle();
    env.observe("member1", MemberEvent::Served(Served::default()))
        .settle();
    assert!(get(&env, "member2", Kind::Import, "foo").is_some());
    env.observe("member1", MemberEvent::Probed(Ok(())))
        .observe("member1", member_event(Kind::Service, Signal::Connected))
        .settle();
    assert!(get(&env, "member2", Kind::Import, "foo").is_none());
}
