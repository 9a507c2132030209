use causeway_tests::Cluster;
use causeway_tests::binaries::{self, Testbed};
use causeway_tests::kubectl::Command;

use crate::{ends, env};

#[tokio::test]
async fn kubectl_runs_it_as_its_plugin() {
    let env = env().await;
    let hub = env.fleet.hub();
    let plugin = binaries::causeway("kubectl-mcs");
    let directory = plugin.parent().expect("a directory").display().to_string();
    let kubectl = Testbed::get().program("kubectl");
    let output = Command::new(env.fleet.reaper(), env.fleet.directory(), kubectl)
        .env("PATH", directory)
        .env("KUBECONFIG", hub.kubeconfig().display().to_string())
        .args(["mcs", "version"])
        .run()
        .await;
    ends(&output, 0, "Client Version: v | Hub Version: v1.36.3");
}

#[tokio::test]
async fn wrong_usage_exits_with_2_and_says_what_is_wrong() {
    let env = env().await;
    let member = env
        .fleet
        .member("member1")
        .kubeconfig()
        .display()
        .to_string();
    let too_long = "x".repeat(49);
    for (args, said) in [
        (
            vec!["join", "clusterB", "--member-kubeconfig", &member],
            "\"clusterB\" cannot be the name of a member",
        ),
        (
            vec!["join", &too_long, "--member-kubeconfig", &member],
            "at most 48 characters",
        ),
        (vec!["join", "a"], "--member-kubeconfig"),
        (
            vec!["join", "a", "--member-kubeconfig", "/nowhere"],
            "/nowhere",
        ),
        (
            vec![
                "join",
                "a",
                "--member-kubeconfig",
                &member,
                "--member-context",
                "other",
            ],
            "other",
        ),
        (
            vec![
                "join",
                "a",
                "--member-kubeconfig",
                &member,
                "--api-endpoint",
                "nowhere",
            ],
            "https://",
        ),
        (vec!["status", "--kubeconfig", "/nowhere"], "/nowhere"),
        (vec!["status", "--context", "other"], "other"),
        (vec!["frobnicate"], "frobnicate"),
    ] {
        let output = env.installation.kubectl_mcs(args).await;
        ends(&output, 2, said);
    }
    let help = env.mcs(["join", "--help"]).await;
    ends(&help, 0, "Usage: kubectl mcs join | --api-endpoint");
    ends(&env.mcs(["completion", "bash"]).await, 0, "complete -F");
}

#[tokio::test]
async fn kubeconfig_files_are_read_as_kubectl_reads_them() {
    let env = env().await;
    let hub = env.fleet.hub().kubeconfig().display().to_string();
    let broken = env.fleet.directory().join("broken.kubeconfig");
    std::fs::write(&broken, "users: [{user: {token: hunter2}]").unwrap();
    let broken = broken.display().to_string();
    let mcs = async |kubeconfig: String, command: &str| {
        let program = binaries::causeway("kubectl-mcs");
        Command::new(env.fleet.reaper(), env.fleet.directory(), program)
            .env("KUBECONFIG", kubeconfig)
            .args(command.split(' '))
            .run()
            .await
    };
    ends(
        &mcs(format!("/missing:{hub}"), "version").await,
        0,
        "Hub Version: v1.36.3",
    );
    for command in ["version", "ui --no-browser"] {
        let refused = mcs(format!("{hub}:{broken}"), command).await;
        ends(
            &refused,
            2,
            &format!("invalid kubeconfig of the hub: {broken}: invalid YAML"),
        );
        assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    }
    ends(
        &mcs("/missing".to_owned(), "version").await,
        3,
        "/missing does not exist",
    );
    let join = format!("join a --member-kubeconfig {broken}");
    ends(
        &mcs(hub, &join).await,
        2,
        &format!("of the member: {broken}: invalid YAML"),
    );
}

#[tokio::test]
async fn an_api_server_that_cannot_be_asked_exits_with_3() {
    let env = env().await;
    let directory = env.fleet.directory();
    let rewritten = |file: &str, cluster: &Cluster, from: &str, to: &str| {
        let text = std::fs::read_to_string(cluster.kubeconfig())
            .unwrap()
            .replace(from, to);
        let path = directory.join(file);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (hub, member) = (env.fleet.hub(), env.fleet.member("member1"));
    let closed = rewritten("closed", hub, hub.url(), "https://127.0.0.1:1");
    for args in [
        vec!["status"],
        vec!["version"],
        vec!["unjoin", "a"],
        vec!["install"],
        vec!["uninstall"],
    ] {
        let args = args.into_iter().chain(["--kubeconfig", closed.as_str()]);
        let output = env.installation.kubectl_mcs(args).await;
        ends(
            &output,
            3,
            "cannot reach the hub at https://127.0.0.1:1: | refused",
        );
    }
    let closed = rewritten("closed-member", member, member.url(), "https://127.0.0.1:1");
    let output = env.mcs(["join", "a", "--member-kubeconfig", &closed]).await;
    ends(
        &output,
        3,
        "cannot reach the member at https://127.0.0.1:1: | --member-kubeconfig",
    );
    let stranger = rewritten(
        "stranger",
        member,
        member.url(),
        env.fleet.member("member2").url(),
    );
    let output = env
        .mcs(["join", "a", "--member-kubeconfig", &stranger])
        .await;
    ends(&output, 3, "certificate");
    let nobody = member
        .kubeconfig_with_token("nobody", "wrong")
        .display()
        .to_string();
    let output = env.mcs(["join", "a", "--member-kubeconfig", &nobody]).await;
    ends(&output, 3, "forbidden by the member");
}

#[tokio::test]
async fn hub_without_definitions_is_reported_with_the_remedy() {
    let env = env().await;
    let bare = env.fleet.member("member4");
    let hub = format!("the hub at {} serves no", bare.url());
    let bare = bare.kubeconfig().display().to_string();
    let member = env
        .fleet
        .member("member1")
        .kubeconfig()
        .display()
        .to_string();
    let remedy = "kubectl apply -f manifests/crds/hub/; or name another hub: --context";
    let args = [
        "join",
        "a",
        "--member-kubeconfig",
        &member,
        "--kubeconfig",
        &bare,
    ];
    ends(
        &env.mcs(args).await,
        1,
        &format!("{hub} Cluster | {remedy}"),
    );
    ends(
        &env.mcs(["status", "--kubeconfig", &bare]).await,
        1,
        &format!("{hub} MultiClusterService | {remedy}"),
    );
    let version = env.mcs(["version", "--kubeconfig", &bare]).await;
    ends(
        &version,
        0,
        "
            Client Version: v
            Hub Version: v1.36.3
            not served
        ",
    );
    let version = env.mcs(["version"]).await;
    ends(
        &version,
        0,
        "MultiClusterService: networking.karmada.io/v1alpha1",
    );
}

#[tokio::test]
async fn whoever_is_impersonated_has_their_own_rights_only() {
    let env = env().await;
    let admins = ["--as", "ann", "--as-group", "system:masters"];
    for (flags, code, said) in [
        (&["--as", "ann"][..], 3, "User \"ann\" cannot list resource"),
        (&admins, 0, ""),
        (&["--user", "nobody"], 2, "user \"nobody\" does not exist"),
    ] {
        let args = ["status", "-A"].iter().chain(flags).copied();
        let output = env.installation.kubectl_mcs(args).await;
        ends(&output, code, said);
    }
}
