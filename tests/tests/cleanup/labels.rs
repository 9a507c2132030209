//! Objects of another hub, or of a user.

use causeway_tests::{Cluster, LONG, Space, eventually};

use super::env;

/// Returns objects of another hub's controller for `foo` of the same namespace and provider.
fn of_another_hub(space: &Space<'_>) -> String {
    let meta = |name: &str, labels: &str| {
        format!(
            "metadata: {{name: {name}, namespace: {}, labels: {{app.kubernetes.io/managed-by: causeway, \
             mcs.causeway.dev/hub: another-hub, {labels}}}, annotations: {{mcs.causeway.dev/owner: {}}}}}",
            space.name(),
            if name == "kept" {
                "ServiceExport/kept"
            } else {
                "MultiClusterService/another"
            }
        )
    };
    let copy = "kubernetes.io/service-name: foo, multicluster.kubernetes.io/source-cluster: giver, \
                endpointslice.kubernetes.io/managed-by: endpointslice-dispatch-controller.karmada.io";
    [
        format!("{{apiVersion: v1, kind: Service, {}, spec: {{ports: [{{port: 80}}]}}}}", meta("theirs", "")),
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, {}, addressType: IPv4, \
             endpoints: [{{addresses: [10.9.9.9], conditions: {{ready: false}}}}], ports: [{{name: http, port: 80}}]}}",
            meta("giver-theirs-0123abcd", copy)
        ),
        format!("{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, {}}}", meta("theirs", "")),
        format!(
            "{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, {}, spec: {{type: ClusterSetIP, ports: [{{port: 80}}]}}}}",
            meta("kept", "")
        ),
    ]
    .join("\n---\n")
}

const THEIRS: [&str; 4] = [
    "service/theirs",
    "endpointslice/giver-theirs-0123abcd",
    "serviceexport/theirs",
    "serviceimport/kept",
];

/// UID and version of each.
async fn identities(space: &Space<'_>, cluster: &Cluster, objects: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for object in objects {
        let path = "jsonpath={.metadata.uid}/{.metadata.resourceVersion}";
        all.push(space.kubectl(cluster, ["get", object, "-o", path]).await);
    }
    all
}

#[tokio::test]
async fn objects_of_other_hubs_and_users_are_untouched_and_reported() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let space = env.space("labels").await;
    let taker = env.member("taker");
    let create = ["create", "-f", "-"];
    taker
        .kubectl_with(create, of_another_hub(&space))
        .await
        .ok();
    for name in ["foo", "goo"] {
        space.expose(name, ["giver"], ["taker"]).await;
        let address = space.pod(name, "giver").await.ip().to_owned();
        space.reaches("taker", name, &[&address]).await;
        space.says(name, "Ready", "True|").await;
    }
    let copies = "kubernetes.io/service-name=goo,multicluster.kubernetes.io/source-cluster=giver";
    let get = ["get", "endpointslices", "-l", copies, "-o", "name"];
    let copy = space.kubectl(taker, get).await;
    let copy = copy.trim();
    let mine = ["service/foo", copy];
    let bare = r#"{"metadata": {"labels": {"mcs.causeway.dev/hub": null}, "annotations": {"mcs.causeway.dev/owner": null}}}"#;
    for object in mine {
        space
            .kubectl(taker, ["patch", object, "--type=merge", "-p", bare])
            .await;
    }
    let name = copy.rsplit('/').next().unwrap_or_default();
    let failed = format!(
        "False|EndpointSliceDispatchedFailed|1 of 1 consumers: taker has an EndpointSlice {name} that is not causeway's, \
         in the way of a copy; kubectl -n {} delete endpointslice {name}",
        space.name()
    );
    space.says("goo", "Ready", &failed).await;
    space.says("foo", "Ready", "True|").await;
    let theirs = identities(&space, taker, &THEIRS).await;
    let persons = identities(&space, taker, &mine).await;

    for name in ["foo", "goo"] {
        space.delete(name).await;
    }
    space.is_clean("giver").await;
    let others = "--selector=mcs.causeway.dev/hub,mcs.causeway.dev/hub!=another-hub";
    eventually("what is causeway's own is collected", LONG, async || {
        let get = ["get", "services,endpointslices", others, "-o", "name"];
        let left = space.kubectl(taker, get).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!(identities(&space, taker, &THEIRS).await, theirs);
    assert_eq!(identities(&space, taker, &mine).await, persons);
}
