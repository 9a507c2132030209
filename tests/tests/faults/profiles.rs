//! Members whose Clusters are made of ClusterProfiles (KEP-4322), with the definition and the
//! plugin of sigs.k8s.io/cluster-inventory-api.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_tests::binaries::inventory;
use causeway_tests::causeway::{Lent, MEMBERS_NAMESPACE};
use causeway_tests::{Cluster, Environment, SOON, eventually};
use serde_json::{Value, json};

const MANAGERS: &str = "cluster-inventory";
const PROFILE: &str = "clusterprofile.multicluster.x-k8s.io/member2";

/// Returns a ClusterProfile as a cluster manager writes it.
fn profile(member: &Cluster, name: &str) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {"namespace": MANAGERS, "name": name},
        "spec": {"displayName": name, "clusterManager": {"name": "manager"}},
        "status": {
            "properties": [{"name": "region.topology.k8s.io", "value": "eu"}],
            "accessProviders": [{"name": "secretreader", "cluster": {
                "server": member.url(),
                "certificate-authority-data": STANDARD.encode(member.ca_pem()),
                "extensions": [{
                    "name": "client.authentication.k8s.io/exec",
                    "extension": {"clusterName": name},
                }],
            }}],
        },
    })
}

/// Takes an environment whose controller reads ClusterProfiles, without member2. The upstream
/// plugin gives the token of member2.
async fn of_profiles() -> Lent {
    let mut env = Lent::take().await;
    let (hub, fleet) = (env.hub(), &env.fleet);
    hub.apply(&inventory().definition).await.ok();
    hub.kubectl(["create", "namespace", MANAGERS]).await.ok();
    let rights = env
        .installation
        .manifest("hub/options/cluster-profiles.yaml");
    hub.kubectl(["apply", "-f", &rights]).await.ok();
    env.mcs(["unjoin", "member2"]).await.ok();
    let plugin = json!({"providers": [{"name": "secretreader", "execConfig": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": inventory().secret_reader,
        "args": null,
        "env": [{"name": "KUBECONFIG", "value": kubeconfig_of_plugin(fleet).await}],
        "provideClusterInfo": true,
    }}]});
    let file = fleet.directory().join("providers.json");
    fs::write(&file, plugin.to_string()).expect("a file");
    let launch = env.installation.controller();
    let launch = launch.arg(format!("--cluster-profiles={MANAGERS}"));
    let file = format!("--clusterprofile-provider-file={}", file.display());
    env.relaunch(launch.arg(file)).await;
    env
}

async fn put_profile(env: &Environment, name: &str, member: &str) {
    let profile = profile(env.member(member), name).to_string();
    for part in [None, Some("--subresource=status")] {
        let apply = [
            "apply",
            "--server-side",
            "--field-manager=manager",
            "-f",
            "-",
        ];
        let apply = apply.into_iter().chain(part);
        env.hub().kubectl_with(apply, &profile).await.ok();
    }
}

/// Puts a token of the account that may act in the member into the Secret that the plugin reads.
async fn put_token(env: &Environment, member: &str) {
    let (hub, cluster) = (env.hub(), env.member(member));
    let rights = env.installation.manifest("member/rbac.yaml");
    cluster.kubectl(["apply", "-f", &rights]).await.ok();
    let token = cluster.token("causeway-system", "causeway").await;
    let token = format!("--from-literal=token={token}");
    let create = [
        "create",
        "secret",
        "generic",
        member,
        &token,
        "-n",
        MEMBERS_NAMESPACE,
    ];
    hub.kubectl(create).await.ok();
}

/// Waits for an Event about a ClusterProfile, and returns its note.
async fn refusal(env: &Environment, name: &str) -> String {
    let get = ["get", "events.events.k8s.io", "-n", MANAGERS, "-o", "json"];
    eventually(&format!("{name} is refused"), SOON, async || {
        let events: Value =
            serde_json::from_str(&env.hub().kubectl(get).await.stdout).unwrap_or_default();
        let mut all = events["items"].as_array().into_iter().flatten();
        let found = all.find(|event| {
            event["reason"] == "ProfileNotUsed" && event["regarding"]["name"] == name
        });
        let note = found.and_then(|event| event["note"].as_str());
        note.map(str::to_owned).ok_or_else(|| events.to_string())
    })
    .await
}

/// Returns a kubeconfig of the hub whose namespace is that of the Secrets, as the plugin expects
/// it.
async fn kubeconfig_of_plugin(fleet: &causeway_tests::Fleet) -> PathBuf {
    let file = fleet.directory().join("plugin.kubeconfig");
    fs::copy(fleet.hub().kubeconfig(), &file).expect("a copy");
    let kubeconfig = format!("--kubeconfig={}", file.display());
    let namespace = format!("--namespace={MEMBERS_NAMESPACE}");
    let set = [
        "config",
        "set-context",
        "--current",
        &namespace,
        &kubeconfig,
    ];
    fleet.hub().kubectl(set).await.ok();
    file
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn a_cluster_profile_makes_a_member_and_takes_it_along() {
    let env = of_profiles().await;
    let hub = env.hub();
    put_profile(&env, "member2", "member2").await;
    let failure = env.cluster_says("member2", "False|Refused|").await;
    let says = "provider secretreader gives no credentials: plugin ";
    assert!(failure.starts_with(says), "{failure}");
    let says = "secrets \"member2\" not found";
    assert!(
        failure.contains(says),
        "the end of its standard error: {failure}"
    );
    put_token(&env, "member2").await;
    env.is_synced("member2").await;
    let region = ["get", "cluster", "member2", "-o", "jsonpath={.spec.region}"];
    assert_eq!(hub.kubectl(region).await.ok(), "eu");
    let (space, _) = env.foo("profile").await;

    for (args, why) in [
        (
            &["unjoin", "member2"][..],
            "was made of ClusterProfile cluster-inventory/member2",
        ),
        (
            &["uninstall", "--cascade", "--yes"],
            "kubectl -n cluster-inventory delete clusterprofile member2",
        ),
        (
            &["explain", "foo", "-n", space.name()],
            "ClusterProfile cluster-inventory/member2 says how it is reached",
        ),
    ] {
        let output = env.mcs(args.iter().copied()).await;
        let said = output.stdout + &output.stderr;
        assert!(said.contains(why), "{said}");
    }

    put_profile(&env, "member1", "member2").await;
    let note = refusal(&env, "member1").await;
    assert!(
        note.contains("somebody else made Cluster member1"),
        "{note}"
    );

    // The built-in provider reads the same Secret.
    let follower = env.installation.controller();
    let follower = follower.arg(format!("--cluster-profiles={MANAGERS}"));
    let follower = follower.start().await;
    eventually("member2 is watched", SOON, async || {
        let state = [("cluster", "member2"), ("state", "synced")];
        let metrics = follower.metrics().await;
        metrics.get("causeway_controller_member_state", &state) == Some(1.0)
    })
    .await;

    let delete = ["delete", "-n", MANAGERS, PROFILE];
    hub.kubectl(delete).await.ok();
    // The deletion counts after a minute: it might be that of the definition.
    eventually("the Cluster is gone", 3 * SOON, async || {
        let get = [
            "get",
            "cluster",
            "member2",
            "--ignore-not-found",
            "-o",
            "name",
        ];
        let left = hub.kubectl(get).await.ok();
        left.is_empty().then_some(()).ok_or(left)
    })
    .await;
    space.is_clean("member2").await;
    drop(space);
    env.join(env.member("member2")).await;
}
