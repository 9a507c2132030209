use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Cluster, Fleet, Installation};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use crate::{Environment, credentials, ends, env, join};

fn token(secret: &Secret) -> String {
    let data = secret.data.as_ref().expect("data");
    String::from_utf8(data["token"].0.clone()).expect("a token")
}

#[tokio::test]
async fn a_cluster_is_joined_seen_and_taken_out_again() {
    let env = env().await;
    let member = env.fleet.member("member1");
    let joined = env.join("member1", member).await;
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

    let again = env.join("member1", member).await;
    ends(
        &again,
        0,
        "hub: cluster.cluster.karmada.io/member1 unchanged | member1 is synced",
    );
    assert!(!again.stdout.contains("created"), "{}", again.stdout);
    ends(
        &env.join("another", member).await,
        1,
        "named member1 | kubectl mcs unjoin member1",
    );

    is_shown(env, member).await;
    is_taken_out(env, member).await;
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
async fn the_token_on_the_hub_reads_services_in_the_member_and_no_secrets() {
    let env = env().await;
    let member = env.fleet.member("member2");
    ends(&env.join("member2", member).await, 0, "");
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

    // The member forgets the token: a second join brings a new one.
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
    let again = env.join("member2", member).await;
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
}

#[tokio::test]
async fn the_making_of_namespaces_is_granted_and_withdrawn_by_join() {
    let env = env().await;
    let member = env.fleet.member("member3");
    let role = ["get", "clusterrole", "causeway-member-namespace-creation"];
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
        "member: clusterrole.rbac.authorization.k8s.io/causeway-member-namespace-creation created",
    );
    member.kubectl(role).await.ok();
    let withdrawn = env.join("member3", member).await;
    ends(
        &withdrawn,
        0,
        "member: clusterrole.rbac.authorization.k8s.io/causeway-member-namespace-creation deleted",
    );
    member.kubectl(role).await.refused();
}

#[tokio::test]
async fn the_hub_reaches_a_member_at_the_endpoint_that_was_given() {
    let env = env().await;
    let member = env.fleet.member("member5");
    let endpoint = member.url().replace("127.0.0.1", "localhost");
    assert_ne!(endpoint, member.url());
    let more = ["--api-endpoint", endpoint.as_str()];
    let joined = join(&env.installation, "member5", member, &more).await;
    ends(
        &joined,
        0,
        &format!("member5 is synced, Kubernetes v1.36.3 at {endpoint}"),
    );
    let jsonpath = [
        "get",
        "cluster.cluster.karmada.io",
        "member5",
        "-o=jsonpath={.spec.apiEndpoint}",
    ];
    assert_eq!(env.fleet.hub().kubectl(jsonpath).await.ok(), endpoint);
}

#[tokio::test]
async fn without_a_controller_join_and_unjoin_say_so_and_can_be_taken_up_again() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let (hub, member) = (fleet.hub(), fleet.member("member1"));
    let unseen = join(&installation, "member1", member, &["--timeout", "1s"]).await;
    ends(
        &unseen,
        1,
        "
            not synced within 1 s
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
    let other = join(installation, "member1", member, &["--timeout", "1s"]).await;
    ends(
        &other,
        1,
        "
            member1 is another cluster
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
    let fixed = join(installation, "member1", member, &["--timeout", "1s"]).await;
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
    let held = installation
        .kubectl_mcs(["unjoin", "member1", "--timeout", "1s"])
        .await;
    ends(
        &held,
        1,
        "
            waiting for the cleanup of member1
            within 1 s
            mcs.causeway.dev/cleanup
            kubectl patch cluster
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
    let freed = installation.kubectl_mcs(args).await;
    ends(&freed, 0, "member: serviceaccount/causeway deleted");
    member.kubectl(account).await.refused();
}

async fn patch_cluster(hub: &Cluster, body: &str) {
    let cluster = "cluster.cluster.karmada.io/member1";
    let args = ["patch", cluster, "--type=merge", "-p", body];
    hub.kubectl(args).await.ok();
}
