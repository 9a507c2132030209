//! Reasons for missing endpoints of a MultiClusterService, each in a separate namespace,
//! concurrently.

use causeway_tests::{Space, multi_cluster_service, pod, service};

use causeway_tests::Environment;

use super::{backed, on_hub, says};
use crate::ends;

pub(super) async fn all(env: &Environment) {
    tokio::join!(
        without_a_service_on_the_hub(env),
        a_port_that_is_not_exposed_and_a_pod_that_is_not_ready(env),
        a_member_that_is_not_joined(env),
        a_cluster_in_pull_mode_without_credentials(env),
        a_namespace_that_the_consumer_has_not(env),
        a_namespace_on_its_way_out(env),
        a_deletion_that_somebody_else_holds_up(env),
        a_load_balancer(env),
        pods_that_nobody_named(env),
        defaults_of_the_namespace(env),
    );
}

/// Defaults are named with their Namespace, and unknown to whoever may not read it.
async fn defaults_of_the_namespace(env: &Environment) {
    let space = backed(env, "defaults", &["a"]).await;
    let name = space.name();
    space.expose("foo", ["a"], ["b"]).await;
    let kubectl = async |words: String| {
        env.hub().kubectl(words.split_whitespace()).await.ok();
    };
    kubectl(format!(
        "annotate namespace {name} mcs.causeway.dev/prefer=local,any"
    ))
    .await;
    let said = format!("mcs.causeway.dev/prefer: local,any (by Namespace {name}) | SERVING FROM");
    says(env, &space, 0, &said).await;

    let resources = "multiclusterservices,services,secrets,clusters.cluster.karmada.io,leases";
    kubectl(format!(
        "create clusterrole {name} --verb=get,list --resource={resources}"
    ))
    .await;
    kubectl(format!(
        "create clusterrolebinding {name} --clusterrole={name} --user={name}"
    ))
    .await;
    let as_user = ["--as", name];
    let explain = ["explain", "foo", "-n", name].into_iter().chain(as_user);
    let said = "NamespaceNotRead: | could not be read";
    ends(&env.mcs(explain.clone()).await, 3, said);
    let status = ["status", "foo", "-n", name].into_iter().chain(as_user);
    let said = "Tiers of the service are not shown: NamespaceNotRead";
    ends(&env.mcs(status.clone()).await, 3, said);

    // The role view in the namespace permits it.
    kubectl(format!(
        "create rolebinding view -n {name} --clusterrole=view --user={name}"
    ))
    .await;
    ends(&env.mcs(explain).await, 0, "(by Namespace");
    // The hub serves no ServiceExports, so the refusal to list them hides none.
    ends(&env.mcs(status).await, 0, "SERVING FROM");
}

async fn without_a_service_on_the_hub(env: &Environment) {
    let space = env.space("hubless").await;
    space.offer("foo", ["a"], ["b"]).await;
    let remedy = format!("kubectl -n {} create service clusterip foo", space.name());
    says(env, &space, 1, &format!("NoHubService: | {remedy}")).await;
}

async fn a_port_that_is_not_exposed_and_a_pod_that_is_not_ready(env: &Environment) {
    let space = backed(env, "ports", &["a"]).await;
    let ports = service("foo").port("http", 80).port("metrics", 9090);
    ports.create(env.hub(), &space).await;
    let object = multi_cluster_service("foo")
        .providers(["a"])
        .consumers(["b"]);
    object.port("http", 80).create(&space).await;
    pod("unready", "foo")
        .unready()
        .create(env.member("a"), &space)
        .await;
    let said = "every ready endpoint is in every consumer | PortNotExposed: | does not expose metrics 9090/TCP | \
                /spec/ports/- | 1 not ready | NotReady: b has it; it gets no traffic there";
    says(env, &space, 0, said).await;
}

async fn a_member_that_is_not_joined(env: &Environment) {
    let space = backed(env, "nobody", &["a"]).await;
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    let object = multi_cluster_service("foo").providers(["a", "nobody"]);
    object.consumers(["b"]).create(&space).await;
    let said = "NotJoined: nobody is not joined | kubectl mcs join nobody --member-kubeconfig FILE | Copied";
    says(env, &space, 1, said).await;
}

async fn a_cluster_in_pull_mode_without_credentials(env: &Environment) {
    let space = backed(env, "pull", &["a"]).await;
    let cluster = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: pulled}, spec: {syncMode: Pull}}";
    env.hub().apply(cluster).await.ok();
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    let object = multi_cluster_service("foo").providers(["a"]);
    object.consumers(["b", "pulled"]).create(&space).await;
    says(env, &space, 1, "PullWithoutCredentials: pulled is in Pull mode, and its Cluster names no credentials | --report-secrets")
        .await;
    on_hub(env, ["delete", "cluster", "pulled", "--timeout=180s"]).await;
}

async fn a_namespace_that_the_consumer_has_not(env: &Environment) {
    let clusters = [env.hub(), env.member("a")];
    let space = Space::create(&env.fleet, "homeless", &clusters).await;
    space.expose("foo", ["a"], ["b"]).await;
    space.backends("foo").create(clusters[1]).await;
    let said = format!(
        "NamespaceMissing: b has no namespace {0} | in b: kubectl create namespace {0}",
        space.name()
    );
    says(env, &space, 1, &said).await;
}

async fn a_namespace_on_its_way_out(env: &Environment) {
    let space = backed(env, "leaving", &["a"]).await;
    let consumer = env.member("b");
    // Nothing plays the kubelet that would end it.
    let holder = space.backends("holder").create(consumer).await;
    let delete = ["delete", "namespace", space.name(), "--wait=false"];
    consumer.kubectl(delete).await.ok();
    space.expose("foo", ["a"], ["b"]).await;
    let said = format!(
        "NamespaceTerminating: namespace {0} of b is terminating | in b: kubectl describe namespace {0}",
        space.name()
    );
    says(env, &space, 1, &said).await;
    holder[0].delete().await;
}

async fn a_deletion_that_somebody_else_holds_up(env: &Environment) {
    let space = backed(env, "theirs", &["a"]).await;
    space.expose("foo", ["a"], ["b"]).await;
    says(env, &space, 0, "Copied").await;
    let patch = |finalizers: &str| format!(r#"{{"metadata":{{"finalizers":{finalizers}}}}}"#);
    let both = patch(r#"["mcs.causeway.dev/cleanup","example.com/theirs"]"#);
    let namespace = ["-n", space.name()];
    let on_it = |args: &[&str]| -> Vec<String> {
        args.iter()
            .chain(&namespace)
            .map(|arg| (*arg).to_owned())
            .collect()
    };
    let hub = env.hub();
    hub.kubectl(on_it(&["patch", "mcs", "foo", "--type=merge", "-p", &both]))
        .await
        .ok();
    hub.kubectl(on_it(&["delete", "mcs", "foo", "--wait=false"]))
        .await
        .ok();
    let said =
        "Deleting: | is being deleted; it waits for somebody else's finalizers: example.com/theirs";
    says(env, &space, 1, said).await;
    let none = patch("null");
    hub.kubectl(on_it(&["patch", "mcs", "foo", "--type=merge", "-p", &none]))
        .await
        .ok();
    says(
        env,
        &space,
        1,
        "NotExposed: the hub has no MultiClusterService",
    )
    .await;
}

async fn a_load_balancer(env: &Environment) {
    let space = env.space("balancer").await;
    let balancer = service("foo").port("http", 80).type_("LoadBalancer");
    balancer.create(env.hub(), &space).await;
    multi_cluster_service("foo")
        .type_("LoadBalancer")
        .create(&space)
        .await;
    says(
        env,
        &space,
        0,
        "LoadBalancer: | is of type LoadBalancer | types: [CrossCluster]",
    )
    .await;
    let args = ["explain", "foo", "-n", space.name(), "-o", "yaml"];
    ends(
        &env.mcs(args).await,
        0,
        "ready: true | reason: LoadBalancer | exposure: Native",
    );
}

async fn pods_that_nobody_named(env: &Environment) {
    let space = backed(env, "named", &["a", "c"]).await;
    service("foo")
        .port("http", 80)
        .create(env.member("c"), &space)
        .await;
    space.expose("foo", ["a"], ["b"]).await;
    let said = "Copied | NotNamed: c has endpoints of its own | /spec/providerClusters/-";
    says(env, &space, 0, said).await;
}
