//! Only what changed is validated on update.

use causeway_webhook::decide::{ServiceKind, Strictness};
use serde_json::{Value, json};

use crate::request::{ID, Request, spec, update};

/// An object that no rule of today would let in.
fn wrong_in_every_way() -> Value {
    json!({
        "types": ["CrossCluster", "Bogus"],
        "ports": [{"name": "Old", "port": 0}, {"name": "a", "port": 1}, {"name": "a", "port": 2}],
        "providerClusters": [{"name": "clusterB"}, {"name": "gone"}, {"name": "gone"}],
        "consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["b"]},
    })
}

fn changed(stored: &Value, change: impl FnOnce(&mut Value)) -> Request {
    let mut spec = stored.clone();
    change(&mut spec);
    update(stored.clone(), spec)
}

#[test]
fn stored_errors_stay_while_other_fields_change() {
    let stored = wrong_in_every_way();
    let same = update(stored.clone(), stored.clone())
        .no_service()
        .unknown_cluster(Strictness::Deny);
    same.passes();
    same.clone()
        .with(|object| object["metadata"]["finalizers"] = json!([]))
        .with_stored(|object| object["metadata"]["finalizers"] = json!(["x/y"]))
        .passes();
    same.clone()
        .with(|object| object["metadata"]["labels"]["tier"] = json!("gold"))
        .passes();
    same.with(|object| object["status"] = json!({"conditions": []}))
        .passes();
}

#[test]
fn one_entry_may_be_fixed_while_another_stays_wrong() {
    let stored = wrong_in_every_way();
    changed(&stored, |spec| {
        spec["ports"][0] = json!({"name": "http", "port": 80})
    })
    .passes();
    changed(&stored, |spec| {
        spec["providerClusters"][0]["name"] = json!("c")
    })
    .passes();
    changed(&stored, |spec| spec["types"] = json!(["CrossCluster"])).passes();
    changed(&stored, |spec| {
        spec.as_object_mut().expect("a spec").remove("range");
    })
    .passes();
    changed(&stored, |spec| spec["ports"] = json!([])).passes();
    changed(&stored, |spec| spec["providerClusters"] = json!([])).passes();
    changed(&stored, |spec| {
        spec["ports"].as_array_mut().expect("ports").reverse()
    })
    .passes();
    changed(&stored, |spec| {
        spec["providerClusters"]
            .as_array_mut()
            .expect("clusters")
            .reverse()
    })
    .passes();
}

#[test]
fn new_entries_are_validated() {
    let stored = wrong_in_every_way();
    let push = |list: &'static str, value: Value| {
        changed(&stored, move |spec| {
            spec[list].as_array_mut().expect("a list").push(value);
        })
    };
    push("ports", json!({"name": "htp", "port": 80})).is_refused(&[
        r#"spec.ports[3].name: Invalid value: "htp": Service shop/foo has no port named "htp"; it has http 80/TCP, metrics 9090/TCP"#,
    ]);
    push("ports", json!({"name": "a", "port": 80})).is_refused(&[
        r#"spec.ports[3].name: Duplicate value: "a": port names are unique"#,
        r#"spec.ports[3].name: Invalid value: "a": Service shop/foo has no port named "a"; it has http 80/TCP, metrics 9090/TCP"#,
    ]);
    push("consumerClusters", json!({"name": "clusterC"})).is_refused(&[
        r#"spec.consumerClusters[1].name: Invalid value: "clusterC": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#,
        r#"spec.range.clusterNames: Invalid value: ["b"]: deprecated, and disagrees with spec.consumerClusters ["a", "clusterC"]; remove spec.range.clusterNames and list the clusters in spec.consumerClusters"#,
    ]);
    push("types", json!("More")).is_refused(&[
        r#"spec.types[2]: Unsupported value: "More": supported values: "CrossCluster", "LoadBalancer""#,
        r#"spec.types: Invalid value: ["CrossCluster","Bogus","More"]: at most one type; make a MultiClusterService either CrossCluster or LoadBalancer"#,
    ]);
}

#[test]
fn a_new_port_before_an_old_one_is_the_one_that_repeats_it() {
    let stored =
        spec(json!({"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]}));
    changed(&stored, |spec| {
        spec["ports"] = json!([{"port": 80}, {"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]);
    })
    .is_refused(&[
        r#"spec.ports[0]: Duplicate value: "80": means the same Service port as the entry "http 80"; remove one of them"#,
    ]);
    changed(&stored, |spec| {
        spec["ports"] = json!([{"name": "metrics", "port": 9091}, {"name": "http", "port": 80}]);
    })
    .is_refused(&[
        r#"spec.ports[0].port: Invalid value: 9091: port "metrics" of Service shop/foo is 9090; the Service has http 80/TCP, metrics 9090/TCP"#,
    ]);
}

#[test]
fn the_type_does_not_change_but_may_become_valid() {
    let from =
        |types: Value, new: Value| update(json!({ "types": types }), json!({ "types": new }));
    from(json!(["CrossCluster"]), json!(["LoadBalancer"])).is_refused(&[
        r#"spec.types: Invalid value: ["LoadBalancer"]: the type cannot change from CrossCluster; delete the MultiClusterService and create it again"#,
    ]);
    from(
        json!(["CrossCluster", "CrossCluster"]),
        json!(["CrossCluster"]),
    )
    .passes();
    from(
        json!(["CrossCluster", "LoadBalancer"]),
        json!(["LoadBalancer", "CrossCluster"]),
    )
    .passes();
    from(json!([]), json!(["CrossCluster"])).passes();
    from(json!(["Bogus"]), json!(["CrossCluster"])).passes();
    from(
        json!(["CrossCluster", "LoadBalancer"]),
        json!(["LoadBalancer"]),
    )
    .service(ServiceKind::LoadBalancer, &[])
    .passes();
    from(json!(["CrossCluster"]), json!([]))
        .is_refused(&["spec.types: Required value: name one type: CrossCluster or LoadBalancer"]);
    from(
        json!(["CrossCluster"]),
        json!(["CrossCluster", "CrossCluster"]),
    )
    .warns(&[r#"spec.types[1]: "CrossCluster" is listed already"#]);
}

#[test]
fn missing_service_allows_changed_clusters_and_removed_ports() {
    let stored =
        spec(json!({"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]}));
    changed(&stored, |spec| {
        spec["providerClusters"] = json!([{"name": "a"}])
    })
    .no_service()
    .passes();
    changed(&stored, |spec| {
        spec["ports"] = json!([{"name": "http", "port": 80}])
    })
    .no_service()
    .passes();
    changed(&stored, |spec| spec["ports"] = json!([]))
        .no_service()
        .passes();

    let added = changed(&stored, |spec| {
        spec["ports"][1] = json!({"name": "grpc", "port": 9})
    });
    let error = r#"spec.ports[1].name: Invalid value: "grpc": there is no Service shop/foo; until there is one, ports can only be removed"#;
    added.clone().no_service().is_refused(&[error]);
    added.clone().no_service().dry_run().warns(&[
        "spec.ports[1].name: there is no Service shop/foo; until there is one, ports can only be removed (refused without dry run)",
    ]);
    added
        .clone()
        .no_service()
        .missing_service(Strictness::Warn)
        .warns(&[
            r#"spec.ports[1].name: there is no Service shop/foo yet; it has to have the port named "grpc""#,
        ]);
    let error = r#"spec.ports[1].name: Invalid value: "grpc": Service shop/foo is of type ExternalName, an alias without endpoints; until it is of another type, ports can only be removed"#;
    let external = added.service(ServiceKind::ExternalName, &[]);
    external.is_refused(&[error]);
    external.warns_on_dry_run(&[error]);
}

#[test]
fn impossible_service_name_allows_only_removed_ports() {
    let stored = spec(json!({"ports": [{"name": "http", "port": 80}, {"port": 81}]}));
    let impossible = |request: Request| request.named("shop", "foo.bar").no_service();
    let added = impossible(changed(&stored, |spec| {
        spec["ports"]
            .as_array_mut()
            .expect("ports")
            .push(json!({"name": "grpc", "port": 9}));
    }));
    let error = r#"spec.ports[2].name: Invalid value: "grpc": no Service can be named "foo.bar"; ports can only be removed"#;
    for request in [
        added.clone(),
        added.clone().dry_run(),
        added.missing_service(Strictness::Warn),
    ] {
        request.is_refused(&[error]);
    }
    impossible(changed(&stored, |spec| {
        spec["ports"] = json!([{"port": 81}])
    }))
    .passes();
    impossible(changed(&stored, |spec| {
        spec["providerClusters"] = json!([{"name": "a"}])
    }))
    .passes();
}

#[test]
fn a_port_that_the_service_lost_stays_until_it_is_touched() {
    let stored = spec(json!({"ports": [{"name": "lost", "port": 7}]}));
    changed(&stored, |spec| {
        spec["consumerClusters"] = json!([{"name": "a"}])
    })
    .passes();
    changed(&stored, |spec| spec["ports"][0]["port"] = json!(8)).is_refused(&[
        r#"spec.ports[0].name: Invalid value: "lost": Service shop/foo has no port named "lost"; it has http 80/TCP, metrics 9090/TCP"#,
    ]);
    changed(&stored, |spec| spec["ports"] = json!([{"name": "lost", "port": 7}, {"port": 81}]))
        .dry_run()
        .warns(&[
            "spec.ports[1].port: Service shop/foo has no port 81; it has http 80/TCP, metrics 9090/TCP (refused without dry run)",
        ]);
}

#[test]
fn nothing_is_warned_of_that_did_not_change() {
    let stored = spec(json!({
        "providerClusters": [{"name": "gone"}, {"name": "gone"}], "consumerClusters": [{"name": "gone"}],
    }));
    changed(&stored, |spec| spec["ports"] = json!([{"port": 80}])).passes();
    changed(&stored, |spec| spec["consumerClusters"] = json!([{"name": "gone"}, {"name": "nowhere"}]))
        .warns(&[
            r#"spec.consumerClusters[1].name: no Cluster is named "nowhere"; join it, or correct the name"#,
        ]);
    changed(&stored, |spec| {
        spec["providerClusters"] = json!([{"name": "gone"}])
    })
    .passes();
    let lonely = spec(json!({"consumerClusters": [{"name": "a"}]}));
    changed(&lonely, |spec| spec["providerClusters"] = json!([{"name": "a"}])).warns(&[
        r#"spec: cluster "a" is the only provider and the only consumer, so no endpoints cross clusters"#,
    ]);
    update(
        json!({"types": ["LoadBalancer"]}),
        json!({"types": ["LoadBalancer"], "ports": [{"port": 80}]}),
    )
    .passes();
}

#[test]
fn the_name_and_the_place_of_an_old_object_are_not_validated() {
    let stored = spec(json!({}));
    for (namespace, name) in [
        ("kube-system", "foo"),
        ("default", "kubernetes"),
        ("shop", "1.2"),
    ] {
        changed(&stored, |spec| {
            spec["consumerClusters"] = json!([{"name": "a"}])
        })
        .named(namespace, name)
        .no_service()
        .passes();
    }
}

#[test]
fn the_permanent_id_does_not_change_once_it_is_set() {
    let path = format!("metadata.labels[{ID}]");
    let request = update(spec(json!({})), spec(json!({})));
    request.clone()
        .with(|object| object["metadata"]["labels"][ID] = json!("other"))
        .is_refused(&[&format!(
            r#"{path}: Invalid value: "other": does not change once it is set; remove the label from the manifest, and it stays "kept""#
        )]);
    for labels in [json!(null), json!({}), json!({ID: ""})] {
        request
            .clone()
            .with(|object| object["metadata"]["labels"] = labels)
            .is_refused(&[&format!(
                r#"{path}: Required value: does not change once it is set, and is "kept""#
            )]);
    }
    request
        .with_stored(|object| object["metadata"]["labels"] = json!({ID: ""}))
        .with(|object| object["metadata"]["labels"][ID] = json!("first"))
        .passes();
}

#[test]
fn an_object_that_is_being_deleted_is_never_denied() {
    let request = update(spec(json!({})), wrong_in_every_way())
        .with(|object| object["metadata"]["labels"] = json!({}))
        .with_stored(|object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        })
        .no_service();
    request.passes();
    assert!(request.validate().unconfirmed.impact().is_none());
}

#[test]
fn the_deletion_of_the_new_object_alone_excuses_nothing() {
    update(spec(json!({})), spec(json!({"ports": [{"port": 81}]})))
        .with(|object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))
        .is_refused(&[
            "spec.ports[0].port: Invalid value: 81: Service shop/foo has no port 81; it has http 80/TCP, metrics 9090/TCP",
        ]);
}

#[test]
fn an_old_object_that_does_not_decode_makes_it_a_creation() {
    let request = update(
        json!({"types": "CrossCluster"}),
        spec(json!({"ports": [{"port": 81}]})),
    );
    request.clone().no_service().named("kube-system", "foo").is_refused(&[
        r#"metadata.namespace: Invalid value: "kube-system": namespace kube-system is protected; start causeway with --allow-namespace kube-system to allow it"#,
        r#"metadata.name: Invalid value: "foo": there is no Service kube-system/foo; create the Service first, under the name and in the namespace of the MultiClusterService"#,
    ]);
    request
        .with_stored(|object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        })
        .no_service()
        .passes();
}

#[test]
fn deprecated_fields_are_compared_after_conversion() {
    let stored = spec(json!({"range": {"clusterNames": ["clusterB", "a"]}}));
    changed(&stored, |spec| {
        *spec = crate::request::spec(
            json!({"consumerClusters": [{"name": "a"}, {"name": "clusterB"}]}),
        );
    })
    .passes();
    changed(&stored, |spec| spec["ports"] = json!([{"port": 80}])).passes();
    changed(&stored, |spec| spec["range"] = json!({"clusterNames": ["clusterB", "clusterC"]}))
        .is_refused(&[
            r#"spec.range.clusterNames[1]: Invalid value: "clusterC": a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and has at most 48 characters (e.g. 'member1')"#,
        ]);
    let disagreeing =
        spec(json!({"consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["b"]}}));
    changed(&disagreeing, |spec| spec["ports"] = json!([{"port": 80}])).passes();
    changed(&disagreeing, |spec| spec["consumerClusters"] = json!([{"name": "c"}])).is_refused(&[
        r#"spec.range.clusterNames: Invalid value: ["b"]: deprecated, and disagrees with spec.consumerClusters ["c"]; remove spec.range.clusterNames and list the clusters in spec.consumerClusters"#,
    ]);
}
