//! New objects.

use std::collections::BTreeSet;

use causeway::api::labels::PERMANENT_ID;
use causeway_tests::causeway::NAMESPACE;
use serde_json::{Value, json};

use crate::hub::{Shop, holds, hub, mcs};

#[tokio::test]
async fn valid_manifest_is_accepted_and_applied_again_unchanged() {
    let shop = hub().await.shop().await;
    let manifest = mcs("foo", json!({"ports": [{"name": "http", "port": 80}]}));
    let applied = shop.apply(&manifest).await;
    assert_eq!(applied.stderr, "");
    holds(
        &applied.ok(),
        &["multiclusterservice.networking.karmada.io/foo created"],
    );
    let id = shop.permanent_id("foo").await;
    assert_eq!(id.len(), 36, "{id} is no uid");
    holds(&shop.apply(&manifest).await.ok(), &["foo unchanged"]);
    assert_eq!(shop.permanent_id("foo").await, id);
}

#[tokio::test]
async fn a_wrong_port_is_refused_with_field_value_and_remedy() {
    let shop = hub().await.shop().await;
    let namespace = shop.space.name();
    let refused = shop
        .apply(&mcs("foo", json!({"ports": [{"name": "htp", "port": 80}]})))
        .await
        .refused();
    assert_eq!(
        refused.trim_end(),
        format!(
            "The MultiClusterService \"foo\" is invalid: spec.ports[0].name: Invalid value: \"htp\": \
             Service {namespace}/foo has no port named \"htp\"; it has http 80/TCP, metrics 9090/TCP"
        )
    );
}

#[tokio::test]
async fn all_errors_are_reported_at_once() {
    let shop = hub().await.shop().await;
    let refused = shop
        .apply(&mcs(
            "foo",
            json!({
                "types": ["CrossCluster", "LoadBalancer"],
                "ports": [{"name": "http", "port": 81}, {"port": 70000}],
                "providerClusters": [{"name": "clusterB"}],
            }),
        ))
        .await
        .refused();
    holds(
        &refused,
        &[
            "The MultiClusterService \"foo\" is invalid: \n",
            "* spec.types: Invalid value: [\"CrossCluster\",\"LoadBalancer\"]: at most one type",
            "* spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "* spec.providerClusters[0].name: Invalid value: \"clusterB\": a cluster name must",
            "* spec.ports[0].port: Invalid value: 81: port \"http\" of Service ",
        ],
    );
}

#[tokio::test]
async fn a_missing_service_is_refused_and_on_a_dry_run_warned_of() {
    let shop = hub().await.empty_shop().await;
    let manifest = mcs("foo", json!({}));
    let words = format!("there is no Service {}/foo", shop.space.name());
    let refused = shop.apply(&manifest).await.refused();
    holds(
        &refused,
        &[
            "metadata.name: Invalid value: \"foo\": ",
            &words,
            "create the Service first",
        ],
    );
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [service(), manifest]});
    let tried = shop.send(["apply", "--dry-run=server"], &both).await;
    holds(
        &tried.stderr,
        &[
            "Warning: metadata.name: ",
            &words,
            "(refused without dry run)",
        ],
    );
    holds(&tried.ok(), &["foo created (server dry run)"]);
    shop.apply(&both).await.ok();
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo"},
        "spec": {"ports": [{"name": "http", "port": 80}]}})
}

#[tokio::test]
async fn a_service_that_came_one_request_before_is_known() {
    let shop = hub().await.empty_shop().await;
    let items: Vec<_> = (0..15)
        .flat_map(|number| {
            let name = format!("foo-{number}");
            let mut service = service();
            service["metadata"]["name"] = json!(name);
            [
                service,
                mcs(&name, json!({"ports": [{"name": "http", "port": 80}]})),
            ]
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let created = shop.send(["create"], &list).await.ok();
    assert_eq!(
        created.matches("multiclusterservice").count(),
        15,
        "{created}"
    );
}

#[tokio::test]
async fn a_copied_manifest_gets_an_identity_of_its_own() {
    let shop = hub().await.shop().await;
    shop.add_service("bar").await;
    shop.apply(&mcs("foo", json!({}))).await.ok();
    let mut copy = shop.get("foo").await;
    copy["metadata"]["name"] = json!("bar");
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        copy["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove(field);
    }
    shop.send(["create"], &copy).await.ok();
    assert_ne!(
        shop.permanent_id("foo").await,
        shop.permanent_id("bar").await
    );

    let backup = shop.get("bar").await;
    let id = shop.permanent_id("bar").await;
    shop.kubectl(["delete", "mcs", "bar"]).await.ok();
    let mut restored = backup;
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        restored["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove(field);
    }
    shop.send(["create"], &restored).await.ok();
    assert_eq!(
        shop.permanent_id("bar").await,
        id,
        "a restored object keeps its identity"
    );
}

#[tokio::test]
async fn copied_identity_is_warned_of_and_fixed_without_the_label() {
    let shop = hub().await.shop().await;
    shop.apply(&mcs("foo", json!({}))).await.ok();
    let original = shop.permanent_id("foo").await;
    for (name, apply) in [
        ("bar", vec!["apply"]),
        ("baz", vec!["apply", "--server-side"]),
    ] {
        shop.add_service(name).await;
        let apply = async |manifest: &Value| shop.send_all(&apply, manifest).await;
        let mut copied = mcs(name, json!({}));
        copied["metadata"]["labels"] = json!({PERMANENT_ID: original, "tier": "gold"});
        let first = apply(&copied).await;
        holds(
            &first.stderr,
            &[
                &format!(
                    "Warning: metadata.labels[{PERMANENT_ID}]: another MultiClusterService has the permanent-id"
                ),
                "remove the label from the manifest",
            ],
        );
        first.ok();
        let own = shop.permanent_id(name).await;
        assert_ne!(own, original);
        holds(
            &apply(&copied).await.refused(),
            &["does not change once it is set; remove the label from the manifest"],
        );
        copied["metadata"]["labels"] = json!({"tier": "gold"});
        for _ in 0..2 {
            let again = apply(&copied).await;
            assert_eq!(again.stderr, "");
            again.ok();
            assert_eq!(shop.permanent_id(name).await, own);
        }
    }
}

#[tokio::test]
async fn a_generated_name_is_refused_with_the_remedy() {
    let shop = hub().await.shop().await;
    let mut manifest = mcs("foo", json!({}));
    manifest["metadata"] = json!({"generateName": "foo-"});
    let refused = shop.send(["create"], &manifest).await.refused();
    holds(
        &refused,
        &["set metadata.name to the Service's name, and leave out metadata.generateName"],
    );
}

#[tokio::test]
async fn protected_places_are_refused() {
    let hub = hub().await;
    for namespace in ["kube-system", NAMESPACE] {
        let system = Shop::existing(hub, namespace);
        holds(
            &system.apply(&mcs("foo", json!({}))).await.refused(),
            &[
                &format!("metadata.namespace: Invalid value: \"{namespace}\""),
                &format!("--allow-namespace {namespace}"),
            ],
        );
    }
    let default = Shop::existing(hub, "default");
    holds(
        &default.apply(&mcs("kubernetes", json!({}))).await.refused(),
        &["metadata.name: Invalid value: \"kubernetes\": default/kubernetes is the API server"],
    );
}

#[tokio::test]
async fn schema_errors_are_those_of_the_api_server() {
    let shop = hub().await.shop().await;
    let mut without_types = mcs("foo", json!({}));
    without_types["spec"] = json!({});
    let refused = shop.apply(&without_types).await.refused();
    holds(&refused, &["spec.types"]);
    let mut text = mcs("foo", json!({}));
    text["spec"]["types"] = json!("CrossCluster");
    let refused = shop
        .send(["create", "--validate=false"], &text)
        .await
        .refused();
    holds(
        &refused,
        &[
            "spec.types: Invalid value: \"string\"",
            "must be of type array",
        ],
    );
}

/// The manifest of the guide, its odd indentation and comments included.
const GUIDE: &str = "apiVersion: networking.karmada.io/v1alpha1 
kind: MultiClusterService 
metadata: 
   name: foo                          # MCS object name
   namespace: default                  # Name of the namespace where the MCS object is located
spec: 
   types: 
     - CrossCluster                   # Inter-cluster service discovery
   providerClusters:                  # Cluster that the Service is delivered to
     - name: clusterB
   consumerClusters:                  # Cluster that accesses the Service
     - name: clusterA
";

#[tokio::test]
async fn manifest_of_the_guide_is_refused_unless_in_lower_case() {
    let hub = hub().await;
    let default = Shop::existing(hub, "default");
    default.add_service("foo").await;
    let refused = hub.cluster().apply(GUIDE).await.refused();
    holds(
        &refused,
        &[
            "* spec.providerClusters[0].name: Invalid value: \"clusterB\": a cluster name must",
            "* spec.consumerClusters[0].name: Invalid value: \"clusterA\": a cluster name must",
        ],
    );
    let lower = GUIDE
        .replace("clusterB", "clusterb")
        .replace("clusterA", "clustera");
    let accepted = hub.cluster().apply(&lower).await;
    let warned: BTreeSet<_> = accepted.stderr.lines().collect();
    assert_eq!(
        warned,
        BTreeSet::from([
            "Warning: spec.providerClusters[0].name: no Cluster is named \"clusterb\"; join it, or correct the name",
            "Warning: spec.consumerClusters[0].name: no Cluster is named \"clustera\"; join it, or correct the name",
        ])
    );
    holds(&accepted.ok(), &["foo created"]);
}
