use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use causeway_tests::binaries;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::forward_proxy::{ForwardProxy, Protocol};
use causeway_tests::kubectl::Command;
use causeway_tests::{Cluster, Fleet, Installation, SOON, eventually};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::Value;

use crate::{credentials, ends, env, join, json};
use causeway_tests::Environment;

const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

fn token(secret: &Secret) -> String {
    let data = secret.data.as_ref().expect("data");
    String::from_utf8(data["token"].0.clone()).expect("a token")
}

#[tokio::test]
async fn a_cluster_is_joined_seen_and_taken_out_again() {
    let env = env().await;
    let member = env.fleet.member("member1");
    let joined = join(&env.installation, "member1", member, &[]).await;
    ends(
        &joined,
        0,
        "
            member: serviceaccount/causeway created
            member: clusterrole.rbac.authorization.k8s.io/causeway-member created
            hub: secret/member1 created
            hub: cluster.cluster.karmada.io/member1 created
            member1 is synced, Kubernetes v1.36.3
        ",
    );
    assert!(
        !joined.stdout.contains("namespace-creation"),
        "{}",
        joined.stdout
    );

    label_namespace_as_install_does(member).await;
    let again = join(&env.installation, "member1", member, &[]).await;
    ends(
        &again,
        0,
        "hub: cluster.cluster.karmada.io/member1 unchanged | member1 is synced",
    );
    let namespaces = Api::<Namespace>::all(member.client());
    let labels = namespaces.get(NAMESPACE).await.expect("it is there");
    let labels = labels.metadata.labels.expect("labels");
    assert_eq!(labels[POD_SECURITY], "restricted", "{labels:?}");
    // Only the new token.
    let created = again.stdout.matches("created").count();
    assert_eq!(created, 1, "{}", again.stdout);
    ends(
        &join(&env.installation, "another", member, &[]).await,
        1,
        "named member1 | kubectl mcs unjoin member1",
    );

    is_shown(env, member).await;
    is_taken_out(env, member).await;
}

/// Labels the namespace as `kubectl mcs install` does on a hub that is its own member.
async fn label_namespace_as_install_does(member: &Cluster) {
    let namespace = Patch::Apply(serde_json::json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": NAMESPACE, "labels": {
            "app.kubernetes.io/name": "causeway",
            POD_SECURITY: "restricted",
        } },
    }));
    let namespaces = Api::<Namespace>::all(member.client());
    let install = PatchParams::apply("kubectl-mcs").force();
    let applied = namespaces.patch(NAMESPACE, &install, &namespace);
    applied.await.expect("it is there");
}

#[tokio::test]
async fn unjoin_under_a_wrong_name_leaves_the_live_member_alone() {
    let env = env().await;
    let member = env.fleet.member("member9");
    ends(
        &join(&env.installation, "member9", member, &[]).await,
        0,
        "",
    );
    let kubeconfig = member.kubeconfig().display().to_string();
    let unjoin = async |name: &str, more: &[&str]| {
        let args = ["unjoin", name, "--member-kubeconfig", &kubeconfig];
        let args = args.into_iter().chain(more.iter().copied());
        env.installation.kubectl_mcs(args).await
    };
    for more in [&[] as &[&str], &["--force"], &["--dry-run=client"]] {
        ends(&unjoin("membr9", more).await, 1, "joined as member9");
    }
    let account = ["get", "serviceaccount", "causeway", "-n", NAMESPACE];
    member.kubectl(account).await.ok();
    ends(
        &unjoin("member9", &["--dry-run=client"]).await,
        0,
        "
            hub: cluster.cluster.karmada.io/member9 deleted (dry run)
            hub: secret/member9 deleted (dry run)
            member: serviceaccount/causeway deleted (dry run)
        ",
    );
    let secret = credentials(env.fleet.hub(), "member9").await;
    let client = member.client_with_token(&token(&secret.expect("credentials")));
    let services = Api::<Service>::all(client);
    let listed = services.list(&ListParams::default()).await;
    listed.expect("the credentials still work");

    // The cluster stays unknown after its removal, as a wrong kubeconfig would be.
    ends(
        &unjoin("member9", &[]).await,
        0,
        "member: serviceaccount/causeway deleted",
    );
    ends(&unjoin("member9", &[]).await, 1, "is not joined | --force");
    ends(
        &unjoin("member9", &["--force"]).await,
        0,
        "causeway-system kept",
    );
}

async fn is_shown(env: &Environment, member: &Cluster) {
    let overview = env.mcs(["status"]).await;
    let row = overview
        .stdout
        .lines()
        .find(|line| line.starts_with("member1 "))
        .expect("a row");
    assert!(
        row.contains("v1.36.3") && row.contains("Synced") && row.contains(member.url()),
        "{row}"
    );
}

async fn is_taken_out(env: &Environment, member: &Cluster) {
    let kubeconfig = member.kubeconfig().display().to_string();
    let out = env
        .mcs(["unjoin", "member1", "--member-kubeconfig", &kubeconfig])
        .await;
    ends(
        &out,
        0,
        "
            hub: cluster.cluster.karmada.io/member1 deleted
            hub: secret/member1 deleted
            member: serviceaccount/causeway deleted
            member: namespace/causeway-system kept
        ",
    );
    assert!(credentials(env.fleet.hub(), "member1").await.is_none());
    let account = member
        .kubectl(["get", "serviceaccount", "causeway", "-n", NAMESPACE])
        .await;
    assert!(account.refused().contains("not found"));
    ends(
        &env.mcs(["unjoin", "member1"]).await,
        1,
        "member1 is not joined",
    );
}

#[tokio::test]
async fn token_of_a_member_reads_services_and_no_secrets() {
    let env = env().await;
    let member = env.fleet.member("member2");
    ends(
        &join(&env.installation, "member2", member, &[]).await,
        0,
        "",
    );
    let secret = credentials(env.fleet.hub(), "member2")
        .await
        .expect("credentials");
    let client = member.client_with_token(&token(&secret));
    let services = Api::<Service>::all(client.clone());
    services
        .list(&ListParams::default())
        .await
        .expect("services may be read");
    let secrets = Api::<Secret>::all(client);
    let error = secrets
        .list(&ListParams::default())
        .await
        .expect_err("secrets may not be read");
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error}"
    );

    // A second join renews the token, and ends the old one.
    let again = join(&env.installation, "member2", member, &[]).await;
    ends(
        &again,
        0,
        "member2 is synced | member: secret/causeway-hub- | deleted",
    );
    let second = credentials(env.fleet.hub(), "member2").await;
    let second = second.expect("credentials");
    assert_ne!(token(&second), token(&secret));
    let works = Api::<Service>::all(member.client_with_token(&token(&second)));
    let works = works.list(&ListParams::default()).await;
    works.expect("the second token works");
    let of_hub = ListParams::default().labels("mcs.causeway.dev/hub");
    let tokens = Api::<Secret>::namespaced(member.client(), NAMESPACE);
    let left = tokens.list(&of_hub).await.expect("Secrets").items;
    let left: Vec<_> = left
        .iter()
        .map(|secret| secret.data.as_ref().map(|data| &data["token"].0))
        .collect();
    assert_eq!(left, [Some(&token(&second).into_bytes())]);

    // A token that somebody deleted comes again, too.
    let tokens = Api::<Secret>::namespaced(member.client(), NAMESPACE);
    let name = tokens
        .list(&ListParams::default().labels("mcs.causeway.dev/hub"))
        .await
        .unwrap();
    let name = name.items[0].metadata.name.clone().expect("a name");
    tokens
        .delete(&name, &DeleteParams::default())
        .await
        .expect("the token goes");
    let again = join(&env.installation, "member2", member, &[]).await;
    ends(
        &again,
        0,
        "hub: secret/member2 configured | member2 is synced",
    );
    let renewed = credentials(env.fleet.hub(), "member2")
        .await
        .expect("credentials");
    assert_ne!(token(&renewed), token(&secret));
    let services = Api::<Service>::all(member.client_with_token(&token(&renewed)));
    services
        .list(&ListParams::default())
        .await
        .expect("the new token works");
    join_renews_tokens_of_a_lifetime(env, member).await;
}

/// Returns the seconds between the times at which a token was issued and ends.
fn lifetime(token: &str) -> Option<i64> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(claims["exp"].as_i64()? - claims["iat"].as_i64()?)
}

/// Asserts that a token of a lifetime ends with its Secret, which a further join replaces.
async fn join_renews_tokens_of_a_lifetime(env: &Environment, member: &Cluster) {
    let for_an_hour = ["--token-lifetime", "1h"];
    let mut used: Vec<String> = Vec::new();
    for _ in 0..3 {
        let joined = join(&env.installation, "member2", member, &for_an_hour).await;
        ends(&joined, 0, "member: token issued until ");
        let stored = credentials(env.fleet.hub(), "member2").await;
        let current = token(&stored.expect("credentials"));
        assert_eq!(lifetime(&current), Some(3600));
        let lists = async |token: &str| {
            let services = Api::<Service>::all(member.client_with_token(token));
            services.list(&ListParams::default().limit(1)).await.is_ok()
        };
        assert!(lists(&current).await);
        for before in &used {
            assert_ne!(*before, current);
            eventually("the replaced token ends", SOON, async || {
                !lists(before).await
            })
            .await;
        }
        used.push(current);
    }
    // Without a lifetime the next one is as before.
    ends(
        &join(&env.installation, "member2", member, &[]).await,
        0,
        "secret/causeway-hub-",
    );
    let stored = credentials(env.fleet.hub(), "member2").await;
    assert_eq!(lifetime(&token(&stored.expect("credentials"))), None);
    let refused = join(
        &env.installation,
        "member2",
        member,
        &["--token-lifetime", "5m"],
    )
    .await;
    ends(&refused, 2, "from 10m on");
}

#[tokio::test]
async fn member_behind_a_proxy_with_an_authority_of_its_own_is_joined() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    let proxy = ForwardProxy::start(Protocol::Https).await;
    let member = fleet.member("member1");
    let kubeconfig = member.kubeconfig_through(
        fleet.directory(),
        member.url(),
        &proxy.url(),
        proxy.ca_pem(),
    );
    let kubeconfig = kubeconfig.display().to_string();
    let ca = fleet.directory().join("proxy-ca.pem");
    std::fs::write(&ca, proxy.ca_pem()).expect("certificates");
    let ca = ca.display().to_string();
    let join = ["join", "member1", "--member-kubeconfig", &kubeconfig];
    let joined = installation
        .kubectl_mcs(join.into_iter().chain(["--proxy-ca", &ca]))
        .await;
    ends(&joined, 0, "member1 is synced");
    let stored = credentials(fleet.hub(), "member1")
        .await
        .expect("credentials");
    let data = stored.data.expect("data");
    assert_eq!(data["proxyCaBundle"].0, proxy.ca_pem().as_bytes());
    // A second join keeps it.
    ends(
        &installation.kubectl_mcs(join).await,
        0,
        "member1 is synced",
    );
    let stored = credentials(fleet.hub(), "member1")
        .await
        .expect("credentials");
    assert!(stored.data.expect("data").contains_key("proxyCaBundle"));
    // A kubeconfig without the proxy keeps both.
    let plain = crate::join(&installation, "member1", member, &[]).await;
    let kept = "note: the hub reaches member1 through the proxy of spec.proxyURL, as recorded";
    ends(&plain, 0, kept);
    ends(&plain, 0, "cluster.cluster.karmada.io/member1 unchanged");
    let path = "-o=jsonpath={.spec.proxyURL}";
    let stored = ["get", "cluster.cluster.karmada.io", "member1", path];
    assert_eq!(fleet.hub().kubectl(stored).await.ok(), proxy.url());
    let wrong = installation
        .kubectl_mcs(join.into_iter().chain(["--proxy-ca", &kubeconfig]))
        .await;
    ends(&wrong, 2, "it holds no certificate in PEM");
    assert!(proxy.opened() >= 3, "{}", proxy.opened());
}

#[tokio::test]
async fn network_and_reach_stay_until_join_names_others() {
    let env = env().await;
    let member = env.fleet.member("member10");
    let role = async || {
        let all = ["get", "clusterrole", "-o", "name"];
        let roles = member.kubectl(all).await.ok();
        roles.contains("causeway-member-networks-")
    };
    let declared = async || {
        let path = "jsonpath={.metadata.annotations.mcs\\.causeway\\.dev/network} {.metadata.annotations.mcs\\.causeway\\.dev/reach}";
        let cluster = ["get", "cluster", "member10", "-o", path];
        env.fleet.hub().kubectl(cluster).await.ok()
    };
    let reached = ["--network", "edge", "--reach", "node-ports"];
    let joined = join(&env.installation, "member10", member, &reached).await;
    let granted = "member: clusterrole.rbac.authorization.k8s.io/causeway-member-networks-";
    ends(&joined, 0, granted);
    ends(
        &joined,
        0,
        "hub: network edge, reach node-ports of member10",
    );
    assert_eq!(declared().await, "edge node-ports");
    ends(
        &join(&env.installation, "member10", member, &[]).await,
        0,
        "",
    );
    assert_eq!(declared().await, "edge node-ports");
    assert!(role().await, "a join without the flags takes nothing away");
    let reached = ["--reach", "load-balancer"];
    let joined = join(&env.installation, "member10", member, &reached).await;
    ends(&joined, 0, granted);
    assert_eq!(declared().await, "edge load-balancer");
    assert!(!role().await);
    let refused = ["--reach", "pods"];
    let refused = join(&env.installation, "member10", member, &refused).await;
    ends(&refused, 2, "'pods' | node-ports=external");
}

#[tokio::test]
async fn the_making_of_namespaces_is_granted_and_withdrawn_by_join() {
    let env = env().await;
    let member = env.fleet.member("member3");
    let role = async || {
        let of_hubs = [
            "get",
            "clusterrole",
            "-l",
            "mcs.causeway.dev/hub",
            "-o",
            "name",
        ];
        member.kubectl(of_hubs).await.ok()
    };
    let granted = join(
        &env.installation,
        "member3",
        member,
        &["--allow-namespace-creation"],
    )
    .await;
    ends(
        &granted,
        0,
        "member: clusterrole.rbac.authorization.k8s.io/causeway-member-namespace-creation-",
    );
    assert!(role().await.contains("causeway-member-namespace-creation-"));
    ends(
        &join(&env.installation, "member3", member, &[]).await,
        0,
        "",
    );
    assert_ne!(
        role().await,
        "",
        "a join without the flag takes nothing away"
    );
    let withdrawn = ["--allow-namespace-creation=false"];
    let withdrawn = join(&env.installation, "member3", member, &withdrawn).await;
    ends(
        &withdrawn,
        0,
        "member: clusterrole.rbac.authorization.k8s.io/causeway-member-namespace-creation-",
    );
    assert_eq!(role().await, "");

    // Rights that somebody changed are theirs until a person decides.
    let narrow = r#"{"rules":[{"apiGroups":[""],"resources":["services"],"verbs":["list"]}]}"#;
    let patch = [
        "patch",
        "clusterrole",
        "causeway-member",
        "--type=merge",
        "-p",
        narrow,
    ];
    member.kubectl(patch).await.ok();
    let refused = join(&env.installation, "member3", member, &[]).await;
    ends(
        &refused,
        1,
        "clusterrole.rbac.authorization.k8s.io/causeway-member | .rules | --force-conflicts",
    );
    let forced = join(&env.installation, "member3", member, &["--force-conflicts"]).await;
    ends(&forced, 0, "causeway-member configured | member3 is synced");
}

#[tokio::test]
async fn agent_that_reports_paths_is_started_and_removed_by_join() {
    let env = env().await;
    let member = env.fleet.member("member11");
    let join = async |more: &[&str]| join(&env.installation, "member11", member, more).await;
    let agents = async || {
        let component = "app.kubernetes.io/component=paths";
        let all = "deployments,serviceaccounts,roles,clusterroles,clusterrolebindings";
        let get = ["get", all, "-A", "-l", component, "-o", "name"];
        member.kubectl(get).await.ok()
    };
    let annotation = async || {
        let path = "jsonpath={.metadata.annotations.mcs\\.causeway\\.dev/path-reports}";
        let get = ["get", "cluster", "member11", "-o", path];
        env.fleet.hub().kubectl(get).await.ok()
    };
    let printed = join(&["--dry-run=client", "--report-paths"]).await;
    let parts = "name: causeway-paths | --report-paths | path-reports: \"true\"";
    ends(&printed, 0, parts);
    assert_eq!(agents().await, "");

    let image = ["--agent-image", "registry.example/agent:1"];
    let started = join(&[&["--report-paths"], &image[..]].concat()).await;
    ends(
        &started,
        0,
        "member: deployment.apps/causeway-paths created | member11 is synced",
    );
    assert_eq!(annotation().await, "true");
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let get = [
        "get",
        "deployment",
        "causeway-paths",
        "-n",
        NAMESPACE,
        "-o",
        path,
    ];
    assert_eq!(member.kubectl(get).await.ok(), image[1]);

    let again = join(&[]).await;
    ends(&again, 0, "member11 is synced");
    assert_eq!(
        annotation().await,
        "true",
        "a join without the flag leaves it"
    );
    assert!(agents().await.contains("deployment.apps/causeway-paths"));

    // An image that somebody chose is theirs until a person decides.
    let theirs = "agent=registry.example/agent:2";
    let set = ["set", "image", "deployment/causeway-paths", theirs];
    member
        .kubectl(set.into_iter().chain(["-n", NAMESPACE]))
        .await
        .ok();
    let mark = member.mark().await;
    let refused = join(&[&["--report-paths"], &image[..]].concat()).await;
    let said = "nothing was applied | deployment.apps/causeway-paths | --force-conflicts";
    ends(&refused, 1, said);
    let mut written = member.writes_since(mark, "kubectl-mcs").await;
    written.retain(|write| !write.dry_run);
    assert!(written.is_empty(), "{written:?}");

    let removed = join(&["--report-paths=false"]).await;
    ends(
        &removed,
        0,
        "member: deployment.apps/causeway-paths deleted | member11 is synced",
    );
    assert_eq!(
        (annotation().await, agents().await),
        ("false".into(), "".into())
    );

    // Another hub, or a person, has such an agent there.
    let manifest = env.installation.manifest("member/paths.yaml");
    member.kubectl(["apply", "-f", &manifest]).await.ok();
    let refused = join(&["--report-paths"]).await;
    ends(&refused, 1, "causeway-paths of the member | docs/paths.md");
    let kubeconfig = member.kubeconfig().display().to_string();
    let unjoin = ["unjoin", "member11", "--member-kubeconfig", &kubeconfig];
    let unjoined = env.installation.kubectl_mcs(unjoin).await;
    ends(&unjoined, 0, "deployment.apps/causeway-paths kept");
    assert!(agents().await.contains("deployment.apps/causeway-paths"));
}

/// Writes the kubeconfig of a member with `server` in place of its own server. Returns the path.
fn kubeconfig_with(fleet: &Fleet, member: &Cluster, file: &str, server: &str) -> String {
    let text = std::fs::read_to_string(member.kubeconfig()).expect("a kubeconfig");
    let own = format!("server: \"{}\"", member.url());
    assert!(text.contains(&own), "{text}");
    let kubeconfig = fleet.directory().join(file);
    std::fs::write(&kubeconfig, text.replace(&own, server)).expect("a kubeconfig");
    kubeconfig.display().to_string()
}

#[tokio::test]
async fn join_stores_only_the_proxy_of_the_kubeconfig() {
    let env = env().await;
    let member = env.fleet.member("member9");
    let proxy = "proxy-url: \"http://me:hunter2@127.0.0.1:1\"";
    let server = format!("server: \"{}\", {proxy}", member.url());
    let with_user = kubeconfig_with(&env.fleet, member, "proxy.kubeconfig", &server);
    let join = async |kubeconfig: &str, args: &[&str]| {
        let program = binaries::causeway("kubectl-mcs");
        Command::new(env.fleet.reaper(), env.fleet.directory(), program)
            .env(
                "KUBECONFIG",
                env.fleet.hub().kubeconfig().display().to_string(),
            )
            .env("HTTPS_PROXY", "http://me:hunter2@127.0.0.1:1")
            .env("NO_PROXY", "127.0.0.1,no/host,")
            .args(["join", "member9", "--member-kubeconfig", kubeconfig])
            .args(args.iter().copied())
            .run()
            .await
    };
    let dry_run = ["--dry-run=client", "--only=hub"];
    let plain = member.kubeconfig().display().to_string();
    let printed = join(&plain, &dry_run).await;
    ends(&printed, 0, "kind: Cluster");
    let text = format!("{}{}", printed.stdout, printed.stderr);
    assert!(
        !text.contains("proxyURL") && !text.contains("hunter2"),
        "{text}"
    );
    let refused = join(&with_user, &[]).await;
    ends(
        &refused,
        2,
        "proxy-url of the member's kubeconfig holds a user",
    );
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}

#[tokio::test]
async fn the_hub_reaches_a_member_at_the_endpoint_that_was_given() {
    let env = env().await;
    let member = env.fleet.member("member5");
    let endpoint = member.url().replace("127.0.0.1", "localhost");
    assert_ne!(endpoint, member.url());
    // The certificate is not valid for this spelling of the address.
    let server = member.url().replace("127.0.0.1", "127.1");
    let named = format!("server: \"{server}\", tls-server-name: localhost");
    let kubeconfig = kubeconfig_with(&env.fleet, member, "named.kubeconfig", &named);
    let jsonpath = [
        "get",
        "cluster.cluster.karmada.io",
        "member5",
        "-o=jsonpath={.spec.apiEndpoint}",
    ];
    let synced = format!("member5 is synced, Kubernetes v1.36.3 at {endpoint}");
    let kept = format!("note: the hub reaches member5 at {endpoint}, as recorded, not at {server}");
    // A join without the flag keeps it.
    let given = ["--api-endpoint", &endpoint];
    for (flags, note) in [(&given[..], ""), (&given[..0], &*kept)] {
        let join = ["join", "member5", "--member-kubeconfig", &kubeconfig];
        let join = join.into_iter().chain(flags.iter().copied());
        let joined = env.installation.kubectl_mcs(join).await;
        ends(&joined, 0, &synced);
        ends(&joined, 0, note);
        let is_noted = joined.stderr.contains("as recorded");
        assert_eq!(is_noted, !note.is_empty(), "{}", joined.stderr);
        assert_eq!(env.fleet.hub().kubectl(jsonpath).await.ok(), endpoint);
    }
}

/// `spec.region` and `spec.zones` of a Cluster.
async fn location(hub: &Cluster, name: &str) -> String {
    let path = "-o=jsonpath={.spec.region} {.spec.zones}";
    hub.kubectl(["get", "cluster.cluster.karmada.io", name, path])
        .await
        .ok()
}

#[tokio::test]
async fn a_member_is_where_its_nodes_say_unless_a_person_says_it() {
    let env = env().await;
    let (hub, member) = (env.fleet.hub(), env.fleet.member("member8"));
    let join = async |more: &[&str]| join(&env.installation, "member8", member, more).await;
    let two = "apiVersion: v1\nkind: Node\nmetadata: {name: two}\n";
    member.apply(two).await.ok();
    let (region, zone) = (
        "topology.kubernetes.io/region=",
        "topology.kubernetes.io/zone=",
    );
    for (nodes, label) in [
        ("--all", format!("{region}eu")),
        ("--all", format!("{zone}eu-b")),
        ("two", format!("{zone}eu-a")),
    ] {
        let label = ["label", "node", nodes, "--overwrite", &label];
        member.kubectl(label).await.ok();
    }
    let printed = join(&["--dry-run=client", "--only=hub", "-o", "json"]).await;
    let spec = &json(&printed)["items"][1]["spec"];
    assert_eq!(spec["region"], "eu");
    assert_eq!(spec["zones"].to_string(), r#"["eu-a","eu-b"]"#);
    ends(
        &join(&[]).await,
        0,
        "member: region eu, zones eu-a, eu-b, by the labels of its nodes | member8 is synced",
    );
    assert_eq!(location(hub, "member8").await, r#"eu ["eu-a","eu-b"]"#);
    let wide = ["get", "cluster.cluster.karmada.io", "member8", "-o", "wide"];
    let wide = hub.kubectl(wide).await.ok();
    assert!(
        wide.contains("REGION") && wide.contains(r#"["eu-a","eu-b"]"#),
        "{wide}"
    );
    let status = json(&env.mcs(["status", "-o", "json"]).await);
    let members = status["members"].as_array().expect("members");
    let shown = members.iter().find(|shown| shown["name"] == "member8");
    assert_eq!(shown.expect("member8")["region"], "eu", "{status}");

    let given = join(&["--region=us", "--zone=us-b,us-a", "--zone", "us-b"]).await;
    ends(&given, 0, "cluster.cluster.karmada.io/member8 configured");
    assert!(!given.stdout.contains("by the labels"), "{}", given.stdout);
    assert_eq!(location(hub, "member8").await, r#"us ["us-b","us-a"]"#);

    // Where the nodes do not say, it stays.
    let unlabel = async |label: &str, nodes: &str| {
        let label = format!("topology.kubernetes.io/{label}-");
        member.kubectl(["label", "node", nodes, &label]).await.ok();
    };
    unlabel("region", "--all").await;
    unlabel("zone", "two").await;
    let again = join(&[]).await;
    ends(&again, 0, "cluster.cluster.karmada.io/member8 unchanged");
    assert!(!again.stderr.contains("note:"), "{}", again.stderr);
    assert_eq!(location(hub, "member8").await, r#"us ["us-b","us-a"]"#);
    what_is_not_known_is_reported(env, hub, member).await;
}

async fn what_is_not_known_is_reported(env: &Environment, hub: &Cluster, member: &Cluster) {
    let cluster = "cluster.cluster.karmada.io/member8";
    let forget = r#"{"spec":{"region":null,"zones":null}}"#;
    hub.kubectl(["patch", cluster, "--type=merge", "-p", forget])
        .await
        .ok();
    ends(
        &join(&env.installation, "member8", member, &[]).await,
        0,
        "
            note: the zone is not set: 1 of 2 nodes of the member have no label topology.kubernetes.io/zone; give --zone
            member8 is synced
        ",
    );
    assert_eq!(location(hub, "member8").await, " ");

    let account = ["create", "serviceaccount", "stranger", "-n", "default"];
    member.kubectl(account).await.ok();
    let role = [
        "create",
        "clusterrole",
        "stranger",
        "--verb=get",
        "--resource=namespaces",
    ];
    member.kubectl(role).await.ok();
    let (role, subject) = (
        "--clusterrole=stranger",
        "--serviceaccount=default:stranger",
    );
    let bind = ["create", "clusterrolebinding", "stranger", role, subject];
    member.kubectl(bind).await.ok();
    let kubeconfig = member.kubeconfig_as("default", "stranger").await;
    let kubeconfig = kubeconfig.display().to_string();
    let join = ["join", "member8", "--member-kubeconfig", &kubeconfig];
    let dry_run = ["--dry-run=client", "--only=hub"];
    let printed = env
        .installation
        .kubectl_mcs(join.into_iter().chain(dry_run))
        .await;
    ends(
        &printed,
        0,
        "note: the region and zones of the member are not known, because you may not list its Nodes; give --region and --zone",
    );
    assert!(!printed.stdout.contains("zones"), "{}", printed.stdout);
}

#[tokio::test]
async fn join_and_unjoin_report_a_missing_controller_and_resume() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let (hub, member) = (fleet.hub(), fleet.member("member1"));
    let unseen = join(&installation, "member1", member, &["--timeout", "5s"]).await;
    ends(
        &unseen,
        1,
        "
            not synced within 5 s
            not processed by the controller yet
            causeway-controller
        ",
    );

    another_cluster_does_not_take_its_name(&installation, hub, member).await;
    what_the_controller_cleans_is_waited_for(&installation, hub).await;
    the_account_stays_for_another_hub(&installation, member).await;
}

async fn another_cluster_does_not_take_its_name(
    installation: &Installation,
    hub: &Cluster,
    member: &Cluster,
) {
    patch_cluster(hub, r#"{"spec":{"id":"of-another-cluster"}}"#).await;
    let other = join(installation, "member1", member, &["--timeout", "5s"]).await;
    ends(
        &other,
        1,
        "
            another cluster than member1
            of-another-cluster
            kubectl mcs unjoin member1
        ",
    );
    let kubeconfig = member.kubeconfig().display().to_string();
    let args = ["unjoin", "member1", "--member-kubeconfig", &kubeconfig];
    ends(
        &installation.kubectl_mcs(args).await,
        1,
        "of another cluster than member1",
    );
    patch_cluster(hub, r#"{"spec":{"id":null}}"#).await;
    let fixed = join(installation, "member1", member, &["--timeout", "5s"]).await;
    ends(
        &fixed,
        1,
        "cluster.cluster.karmada.io/member1 configured | not synced",
    );
}

async fn what_the_controller_cleans_is_waited_for(installation: &Installation, hub: &Cluster) {
    patch_cluster(
        hub,
        r#"{"metadata":{"finalizers":["mcs.causeway.dev/cleanup"]}}"#,
    )
    .await;
    let refused = installation.kubectl_mcs(["unjoin", "member1"]).await;
    ends(&refused, 1, "Lease | Nothing was deleted | --force");
    let get = [
        "get",
        "cluster",
        "member1",
        "-o=jsonpath={.metadata.deletionTimestamp}",
    ];
    assert_eq!(hub.kubectl(get).await.ok(), "");
    let held = installation
        .kubectl_mcs(["unjoin", "member1", "--timeout", "5s", "--force"])
        .await;
    ends(
        &held,
        1,
        "
            waiting for the cleanup of member1
            within 5 s
            mcs.causeway.dev/cleanup
            kubectl patch cluster
            and then run this again
        ",
    );
    assert!(
        credentials(hub, "member1").await.is_some(),
        "the controller still needs them"
    );
    patch_cluster(hub, r#"{"metadata":{"finalizers":null}}"#).await;
}

async fn the_account_stays_for_another_hub(installation: &Installation, member: &Cluster) {
    let kubeconfig = member.kubeconfig().display().to_string();
    let args = ["unjoin", "member1", "--member-kubeconfig", &kubeconfig];
    // Another hub has a token for the account too.
    member
        .apply(&format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: causeway-hub-other, namespace: {NAMESPACE}, \
             labels: {{mcs.causeway.dev/hub: other}}}}\n"
        ))
        .await
        .ok();
    let shared = installation.kubectl_mcs(args).await;
    ends(
        &shared,
        0,
        "
            hub: secret/member1 deleted
            member: secret/causeway-hub-
            account kept, another hub uses it
        ",
    );
    let account = ["get", "serviceaccount", "causeway", "-n", NAMESPACE];
    member.kubectl(account).await.ok();
    let forget = ["delete", "secret", "causeway-hub-other", "-n", NAMESPACE];
    member.kubectl(forget).await.ok();
    let freed = installation
        .kubectl_mcs(args.into_iter().chain(["--force"]))
        .await;
    ends(&freed, 0, "member: serviceaccount/causeway deleted");
    member.kubectl(account).await.refused();
}

async fn patch_cluster(hub: &Cluster, body: &str) {
    let cluster = "cluster.cluster.karmada.io/member1";
    let args = ["patch", cluster, "--type=merge", "-p", body];
    hub.kubectl(args).await.ok();
}
