//! Comparison of `kubectl mcs diff` with the effect of `kubectl apply`, on the hub and in every
//! member.

use std::collections::BTreeSet;

use causeway::api::labels;
use causeway_tests::kubectl::Output;
use causeway_tests::{Environment, Fleet, SOON, Space, eventually, service};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::{ends, json};

/// A hub with webhook and controller, and members called a, b and c.
async fn start() -> Environment {
    let fleet = Fleet::builder().named_members(["a", "b", "c"]);
    let builder = Environment::builder().webhook();
    builder.start(fleet.start().await).await
}

/// Compares a file with this spec, and says what came of it.
async fn diff(env: &Environment, space: &Space<'_>, spec: &Value, more: &[&str]) -> Output {
    diff_of(env, &[("mcs.yaml", &mcs(space, spec))], more).await
}

/// Compares a directory of these files.
async fn diff_of(env: &Environment, files: &[(&str, &str)], more: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    let directory = directory.path().display().to_string();
    let args = ["diff", "-f", &directory].into_iter();
    let args = args.chain(more.iter().copied());
    env.mcs(args).await
}

/// Returns the report about a member, as JSON.
async fn changes(env: &Environment, space: &Space<'_>, spec: &Value, member: &str) -> Changes {
    let output = diff(env, space, spec, &["-o", "json"]).await;
    ends(&output, 1, "");
    let report = json(&output);
    let clusters = report[0]["clusters"].as_array().expect("clusters");
    let cluster = clusters.iter().find(|one| one["cluster"] == member);
    Changes::of(cluster.unwrap_or_else(|| panic!("nothing of {member} in {report}")))
}

async fn apply(env: &Environment, space: &Space<'_>, spec: &Value) {
    env.hub().apply(&mcs(space, spec)).await.ok();
    let name = space.name();
    let status = ["status", "foo", "-n", name, "--wait", "--timeout=180s"];
    let ready = env.mcs(status).await;
    ends(&ready, 0, "Ready");
}

async fn addresses(env: &Environment, space: &Space<'_>, member: &str) -> BTreeSet<String> {
    let member = env.member(member);
    let ready = space.ready_addresses(member, "foo").await;
    ready.into_iter().collect()
}

/// The slices that causeway keeps there.
async fn copies(env: &Environment, space: &Space<'_>, member: &str) -> BTreeSet<String> {
    let slices = space.slices(env.member(member), "foo").await;
    let slices = slices.into_iter();
    let copies = slices.filter(|slice| slice.labels().contains_key(labels::SOURCE_CLUSTER));
    copies.map(|copy| copy.name_any()).collect()
}

fn mcs(space: &Space<'_>, spec: &Value) -> String {
    let object = json!({
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "foo", "namespace": space.name()},
        "spec": spec,
    });
    object.to_string()
}

/// Report about a member.
#[derive(Debug, PartialEq)]
struct Changes {
    /// The objects, as `created EndpointSlice a-foo-1`.
    objects: BTreeSet<String>,
    gained: BTreeSet<String>,
    lost: BTreeSet<String>,
}

impl Changes {
    fn of(cluster: &Value) -> Self {
        let all = |list: &str, words: fn(&Value) -> Vec<&Value>| {
            let list = cluster[list].as_array().expect("a list").iter();
            let joined = list.map(|one| {
                let words = words(one).into_iter().filter_map(Value::as_str);
                words.collect::<Vec<_>>().join(" ")
            });
            joined.collect()
        };
        Self {
            objects: all("objects", |one| {
                vec![&one["action"], &one["kind"], &one["name"]]
            }),
            gained: all("gained", |one| vec![&one["address"]]),
            lost: all("lost", |one| vec![&one["address"]]),
        }
    }
}

fn clusters(providers: &[&str], consumers: &[&str]) -> Value {
    let named =
        |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
    json!({
        "types": ["CrossCluster"],
        "providerClusters": named(providers),
        "consumerClusters": named(consumers),
    })
}

#[tokio::test]
async fn what_diff_says_is_what_apply_then_does() {
    let env = &start().await;
    let space = env.space("diff").await;
    for provider in ["a", "c"] {
        let member = env.member(provider);
        service("foo").port("http", 80).create(member, &space).await;
        space.backends("foo").count(2).create(member).await;
        eventually("the pods are ready", SOON, || async {
            addresses(env, &space, provider).await.len() == 2
        })
        .await;
    }
    without_its_service(env, &space).await;
    refused(env, &space).await;
    let ports = service("foo").port("http", 80);
    ports.create(env.hub(), &space).await;
    let (of_a, of_c) = (
        addresses(env, &space, "a").await,
        addresses(env, &space, "c").await,
    );

    let first = clusters(&["a"], &["b"]);
    let said = changes(env, &space, &first, "b").await;
    assert_eq!((&said.gained, said.lost.len()), (&of_a, 0));
    let hub = env.hub();
    let untouched = ["get", "mcs,events", "-n", space.name(), "-o", "name"];
    assert_eq!(hub.kubectl(untouched).await.ok(), "", "nothing was written");
    apply(env, &space, &first).await;
    let made = copies(env, &space, "b").await.into_iter();
    let made = made.map(|name| format!("created EndpointSlice {name}"));
    let made: BTreeSet<_> = made.chain(["created Service foo".to_owned()]).collect();
    assert_eq!(said.objects, made);
    unchanged(env, &space, &first).await;

    let second = clusters(&["c"], &["b"]);
    let said = changes(env, &space, &second, "b").await;
    assert_eq!((&said.gained, &said.lost), (&of_c, &of_a));
    apply(env, &space, &second).await;
    assert_eq!(addresses(env, &space, "b").await, of_c);
    unchanged(env, &space, &second).await;

    let third = clusters(&["c"], &["a"]);
    let said = changes(env, &space, &third, "b").await;
    assert!(said.objects.contains("deleted Service foo"), "{said:?}");
    assert_eq!(said.lost, of_c);
    let output = diff(env, &space, &third, &[]).await;
    ends(
        &output,
        1,
        "clients of | lose | -  - name: b | +  - name: a | now   b Service",
    );
    apply(env, &space, &third).await;
    let services = space.api::<Service>(env.member("b"));
    let gone = services.get_opt("foo").await.expect("an answer");
    assert!(gone.is_none(), "{gone:?}");
    unchanged(env, &space, &third).await;

    provider_of_another_network(env, &space, &third).await;
    a_provider_without_the_service(env, &space).await;
    unread(env, &space).await;
}

/// Without its Service the hub refuses it; a Service of the same files counts as the hub's.
async fn without_its_service(env: &Environment, space: &Space<'_>) {
    let spec = clusters(&["a"], &["b"]);
    let output = diff(env, space, &spec, &[]).await;
    ends(&output, 2, "would be refused: | there is no Service");
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "foo", "namespace": space.name()},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    let service = service.to_string();
    let mcs = mcs(space, &spec);
    let both = [("mcs.yaml", mcs.as_str()), ("service.json", &service)];
    let output = diff_of(env, &both, &["-o", "json"]).await;
    ends(&output, 1, "");
    let report = json(&output);
    assert_eq!(report[0]["warnings"], json!([]), "{report}");
    let clusters = report[0]["clusters"].as_array().expect("clusters");
    let b = clusters.iter().find(|one| one["cluster"] == "b");
    let gained = Changes::of(b.expect("b gains endpoints")).gained;
    assert_eq!(gained, addresses(env, space, "a").await);
    let hub = space.api::<Service>(env.hub());
    assert!(hub.get_opt("foo").await.expect("an answer").is_none());
    let none = clusters_with_annotations(space, &json!("no map"));
    ends(&diff_of(env, &[("mcs.yaml", &none)], &[]).await, 2, "");
}

fn clusters_with_annotations(space: &Space<'_>, annotations: &Value) -> String {
    let mut object: Value =
        serde_json::from_str(&mcs(space, &clusters(&["a"], &["b"]))).expect("it");
    object["metadata"]["annotations"] = annotations.clone();
    object.to_string()
}

async fn refused(env: &Environment, space: &Space<'_>) {
    let spec = clusters(&["a"], &["B"]);
    let output = diff(env, space, &spec, &[]).await;
    ends(
        &output,
        2,
        "would be refused: | spec.consumerClusters[0].name",
    );
}

async fn unchanged(env: &Environment, space: &Space<'_>, spec: &Value) {
    let output = diff(env, space, spec, &[]).await;
    ends(&output, 0, "");
    assert_eq!(output.stdout, "");
}

/// Its node ports are chosen only when the companion is created.
async fn provider_of_another_network(env: &Environment, space: &Space<'_>, spec: &Value) {
    let hub = env.hub();
    let network = format!("{}=edge", labels::NETWORK);
    hub.kubectl(["annotate", "cluster", "c", &network])
        .await
        .ok();
    eventually("the copies are gone", SOON, async || {
        let left = copies(env, space, "a").await;
        left.is_empty().then_some(()).ok_or(format!("{left:?}"))
    })
    .await;
    ends(
        &diff(env, space, spec, &[]).await,
        0,
        "# a: no endpoints of c: nothing says how to reach c | annotate cluster c",
    );
    let mut reached: Value = serde_json::from_str(&mcs(space, spec)).expect("an object");
    reached["metadata"]["annotations"] = json!({labels::REACH: "node-ports"});
    let reached = reached.to_string();
    let files = [("mcs.yaml", reached.as_str())];
    let unknown = "# a: endpoints of c are not known yet: the nodes of c cannot be read | manifests/member/networks.yaml";
    ends(&diff_of(env, &files, &[]).await, 3, unknown);
    let provider = env.member("c");
    let rights = env.installation.manifest("member/networks.yaml");
    provider.kubectl(["apply", "-f", &rights]).await.ok();
    let shown = diff_of(env, &files, &[]).await;
    let node_port = "a node port that the cluster chooses";
    ends(
        &shown,
        1,
        &format!(
            "+  type: NodePort | +    nodePort: {node_port} | clients of | gain | (c) | port: {node_port}"
        ),
    );
    let report = json(&diff_of(env, &files, &["-o", "json"]).await);
    let all = report[0]["clusters"].as_array().expect("clusters");
    let a = all.iter().find(|one| one["cluster"] == "a");
    let expected = Changes::of(a.expect("a gains endpoints"));
    hub.apply(&reached).await.ok();
    eventually("the nodes of c are in a", SOON, async || {
        let addresses = addresses(env, space, "a").await;
        let gained = expected.gained.is_subset(&addresses) && !expected.gained.is_empty();
        gained.then_some(()).ok_or(format!("{addresses:?}"))
    })
    .await;
    hub.kubectl(["annotate", "cluster", "c", &format!("{}-", labels::NETWORK)])
        .await
        .ok();
}

/// It comes with the Service, which Kubernetes then gives EndpointSlices.
async fn a_provider_without_the_service(env: &Environment, space: &Space<'_>) {
    let spec = clusters(&["b"], &["a"]);
    let output = diff(env, space, &spec, &["--output=json"]).await;
    ends(&output, 1, "");
    let report = json(&output);
    let clusters = report[0]["clusters"].as_array().expect("clusters").iter();
    let unknown = clusters.filter(|one| one["endpointsUnknown"] == true);
    let unknown: Vec<_> = unknown.map(|one| &one["cluster"]).collect();
    assert_eq!(unknown, ["b"]);
}

async fn unread(env: &Environment, space: &Space<'_>) {
    env.member("b").stop().await;
    let spec = json!({
        "types": ["CrossCluster"],
        "serviceProvisionClusters": ["c"],
        "consumerClusters": [{"name": "a"}, {"name": "nowhere"}],
    });
    let said = "# Warning: | is deprecated | no Cluster is named \"nowhere\" | # b: not compared:";
    ends(&diff(env, space, &spec, &[]).await, 3, said);
}
