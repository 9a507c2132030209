//! Changes, as kubectl makes them.

use causeway::api::labels::PERMANENT_ID;
use serde_json::json;

use crate::hub::{holds, hub, mcs};

#[tokio::test]
async fn a_deprecated_manifest_may_be_edited_and_applied_again() {
    let shop = hub().await.shop().await;
    let with = |names: &[&str]| mcs("foo", json!({"range": {"clusterNames": names}}));
    let consumers = async || {
        let object = shop.get("foo").await;
        assert!(object["spec"].get("range").is_none(), "{object:#}");
        object["spec"]["consumerClusters"].clone()
    };
    let first = shop.apply(&with(&["a"])).await;
    holds(
        &first.stderr,
        &[
            "Warning: spec.range.clusterNames is deprecated and was converted to spec.consumerClusters; write spec.consumerClusters \
             instead: when spec.range.clusterNames goes from the manifest, spec.consumerClusters stays as it is",
        ],
    );
    first.ok();
    assert_eq!(consumers().await, json!([{"name": "a"}]));
    for (names, words) in [
        (
            vec!["a", "b"],
            "has, being newer, replaced spec.consumerClusters, whoever set that",
        ),
        (
            vec!["a", "b"],
            "was removed, for spec.consumerClusters names the same clusters",
        ),
        (
            vec!["c"],
            "has, being newer, replaced spec.consumerClusters, whoever set that",
        ),
    ] {
        let again = shop.apply(&with(&names)).await;
        holds(
            &again.stderr,
            &["Warning: spec.range.clusterNames is deprecated", words],
        );
        again.ok();
        let expected: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        assert_eq!(consumers().await, json!(expected));
    }
    // The manifest without the field reads "all clusters"; the stored object does not change. An
    // empty list means it.
    shop.apply(&mcs("foo", json!({}))).await.ok();
    assert_eq!(consumers().await, json!([{"name": "c"}]));
    shop.apply(&mcs("foo", json!({"consumerClusters": []})))
        .await
        .ok();
    let emptied = consumers().await;
    assert!(
        emptied.is_null() || emptied == json!([]),
        "all clusters: {emptied}"
    );
    let moved = shop
        .apply(&mcs("foo", json!({"consumerClusters": [{"name": "d"}]})))
        .await;
    moved.ok();
    assert_eq!(consumers().await, json!([{"name": "d"}]));
    let both = mcs(
        "foo",
        json!({"consumerClusters": [{"name": "e"}], "range": {"clusterNames": ["f"]}}),
    );
    holds(
        &shop.apply(&both).await.refused(),
        &[
            "spec.range.clusterNames: Invalid value: [\"f\"]: deprecated, and disagrees with spec.consumerClusters [\"e\"]",
        ],
    );
}

#[tokio::test]
async fn server_side_apply_converts_too_and_comes_to_rest() {
    let shop = hub().await.shop().await;
    let with = |names: &[&str]| {
        mcs(
            "foo",
            json!({"serviceProvisionClusters": names, "ports": [{"name": "http", "port": 80}]}),
        )
    };
    for names in [vec!["a"], vec!["a"], vec!["a", "b"]] {
        shop.send(["apply", "--server-side"], &with(&names))
            .await
            .ok();
        let object = shop.get("foo").await;
        let expected: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        assert_eq!(
            object["spec"]["providerClusters"],
            json!(expected),
            "{object:#}"
        );
        assert!(
            object["spec"].get("serviceProvisionClusters").is_none(),
            "{object:#}"
        );
    }
    let plain = mcs(
        "foo",
        json!({"providerClusters": [{"name": "c"}], "ports": [{"name": "http", "port": 80}]}),
    );
    shop.send(["apply", "--server-side"], &plain).await.ok();
    let version = shop.get("foo").await["metadata"]["resourceVersion"].clone();
    shop.send(["apply", "--server-side"], &plain).await.ok();
    assert_eq!(
        shop.get("foo").await["metadata"]["resourceVersion"],
        version,
        "at rest"
    );
    let refused = shop
        .send(
            ["apply", "--server-side"],
            &mcs("foo", json!({"ports": [{"name": "no", "port": 80}]})),
        )
        .await
        .refused();
    holds(&refused, &["has no port named \"no\""]);
}

#[tokio::test]
async fn applied_deprecated_field_replaces_another_managers_field() {
    let shop = hub().await.shop().await;
    let theirs = mcs("foo", json!({"consumerClusters": [{"name": "a"}]}));
    let apply = |manager: &'static str| ["apply", "--server-side", "--field-manager", manager];
    shop.send(apply("theirs"), &theirs).await.ok();
    let new = mcs("foo", json!({"consumerClusters": [{"name": "b"}]}));
    holds(
        &shop.send(apply("ours"), &new).await.refused(),
        &["conflict with \"theirs\"", ".spec.consumerClusters"],
    );
    let old = mcs("foo", json!({"range": {"clusterNames": ["b"]}}));
    let applied = shop.send(apply("ours"), &old).await;
    holds(
        &applied.stderr,
        &["replaced spec.consumerClusters, whoever set that"],
    );
    applied.ok();
    assert_eq!(
        shop.get("foo").await["spec"]["consumerClusters"],
        json!([{"name": "b"}])
    );
}

#[tokio::test]
async fn replace_keeps_the_identity_and_force_gives_a_new_one() {
    let shop = hub().await.shop().await;
    let manifest = mcs("foo", json!({"ports": [{"name": "http", "port": 80}]}));
    shop.apply(&manifest).await.ok();
    let id = shop.permanent_id("foo").await;
    let changed = mcs("foo", json!({"ports": [{"name": "metrics", "port": 9090}]}));
    shop.send(["replace"], &changed).await.ok();
    assert_eq!(shop.permanent_id("foo").await, id);
    assert_eq!(shop.get("foo").await["spec"]["ports"][0]["name"], "metrics");
    shop.send(["replace", "--force"], &manifest).await.ok();
    assert_ne!(shop.permanent_id("foo").await, id);
    let wrong = mcs("foo", json!({"ports": [{"name": "metrics", "port": 1}]}));
    holds(
        &shop.send(["replace"], &wrong).await.refused(),
        &["spec.ports[0].port: Invalid value: 1: port \"metrics\""],
    );
}

#[tokio::test]
async fn edit_is_validated_by_its_changes() {
    let shop = hub().await.shop().await;
    shop.apply(&mcs(
        "foo",
        json!({"ports": [{"name": "http", "port": 80}]}),
    ))
    .await
    .ok();
    holds(
        &shop
            .patch("foo", &json!({"spec": {"types": ["LoadBalancer"]}}))
            .await
            .refused(),
        &[
            "spec.types: Invalid value: [\"LoadBalancer\"]: the type cannot change from CrossCluster",
        ],
    );
    shop.kubectl(["delete", "service", "foo"]).await.ok();
    let providers =
        json!({"spec": {"providerClusters": [{"name": "a"}], "consumerClusters": [{"name": "b"}]}});
    shop.patch("foo", &providers).await.ok();
    let namespace = shop.space.name();
    let add = json!({"spec": {"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]}});
    holds(
        &shop.patch("foo", &add).await.refused(),
        &[&format!(
            "spec.ports[1].name: Invalid value: \"metrics\": there is no Service {namespace}/foo"
        )],
    );
    shop.patch("foo", &json!({"spec": {"ports": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn identity_cannot_change_and_is_restored_after_removal() {
    let shop = hub().await.shop().await;
    shop.apply(&mcs("foo", json!({}))).await.ok();
    let id = shop.permanent_id("foo").await;
    let label = |value: &str| format!("{PERMANENT_ID}{value}");
    let refused = shop
        .kubectl(["label", "--overwrite", "mcs", "foo", &label("=mine")])
        .await
        .refused();
    holds(
        &refused,
        &[
            &format!("metadata.labels[{PERMANENT_ID}]: Invalid value: \"mine\""),
            &format!("remove the label from the manifest, and it stays {id:?}"),
        ],
    );
    shop.kubectl(["label", "mcs", "foo", &label("-")])
        .await
        .ok();
    assert_eq!(shop.permanent_id("foo").await, id);
    shop.kubectl(["label", "mcs", "foo", "tier=gold"])
        .await
        .ok();
}

#[tokio::test]
async fn the_status_is_written_past_the_rules() {
    let shop = hub().await.shop().await;
    shop.apply(&mcs("foo", json!({}))).await.ok();
    let status =
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}).to_string();
    shop.kubectl([
        "patch",
        "mcs",
        "foo",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ])
    .await
    .ok();
    let object = shop.get("foo").await;
    assert_eq!(
        object["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
}
