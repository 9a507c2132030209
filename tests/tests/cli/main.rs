//! `kubectl mcs` against real API servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod adopt;
mod agent_credentials;
mod bug_report;
mod check;
mod clusterset;
mod completion;
mod definitions;
mod diff;
mod dns;
mod enrolment;
mod explain;
mod installing;
mod joining;
mod joining_from_git;
mod misplaced;
mod pods;
mod problems;
mod shift;
mod status;
mod terminal;
mod through;
mod top;
mod transcripts;
mod tunnel;
mod tunnel_add;
mod watching;

use causeway_tests::causeway::MEMBERS_NAMESPACE;
use causeway_tests::kubectl::Output;
use causeway_tests::reaper::Exit;
use causeway_tests::{Cluster, Environment, Fleet, Installation};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;
use tokio::sync::OnceCell;

/// A hub with causeway's controller at work, and members that are not joined.
async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    let start = async || {
        let fleet = Fleet::builder().members(11).start().await;
        fleet.let_members_sleep();
        Environment::builder().unjoined().start(fleet).await
    };
    ENVIRONMENT.get_or_init(start).await
}

async fn join(installation: &Installation, name: &str, member: &Cluster, more: &[&str]) -> Output {
    let kubeconfig = member.kubeconfig().display().to_string();
    let args = ["join", name, "--member-kubeconfig", kubeconfig.as_str()];
    installation
        .kubectl_mcs(args.into_iter().chain(more.iter().copied()))
        .await
}

/// Joins these members under their own names.
async fn join_all(installation: &Installation, fleet: &Fleet, names: &[&str]) {
    for name in names {
        let joined = join(installation, name, fleet.member(name), &[]).await;
        ends(&joined, 0, "");
    }
}

/// The kubeconfig of somebody who sees causeway's objects on the hub, but neither Secrets nor
/// ServiceExports and ServiceImports.
async fn reader(hub: &Cluster, namespace: &str) -> String {
    let account = ["create", "serviceaccount", "reader", "-n", namespace];
    hub.kubectl(account).await.ok();
    let role = [
        "create",
        "clusterrole",
        "reader",
        "--verb=get,list,watch",
        "--resource=multiclusterservices,clusters.cluster.karmada.io",
    ];
    hub.kubectl(role).await.ok();
    let subject = format!("--serviceaccount={namespace}:reader");
    let role = "--clusterrole=reader";
    let bind = ["create", "clusterrolebinding", "reader", role, &subject];
    hub.kubectl(bind).await.ok();
    let kubeconfig = hub.kubeconfig_as(namespace, "reader").await;
    kubeconfig.display().to_string()
}

/// Asserts the exit code and the texts of a command, separated by `|` or by lines.
#[track_caller]
fn ends(output: &Output, code: i32, said: &str) {
    let text = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(
        output.exit,
        Exit::Code(code),
        "`{}`\n{text}",
        output.command
    );
    for words in said.split(['|', '\n']).map(str::trim) {
        assert!(
            text.contains(words),
            "`{}` does not say {words:?}:\n{text}",
            output.command
        );
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| {
        panic!(
            "`{}`: {e}\n{}{}",
            output.command, output.stdout, output.stderr
        )
    })
}

async fn credentials(hub: &Cluster, name: &str) -> Option<Secret> {
    let secrets = Api::<Secret>::namespaced(hub.client(), MEMBERS_NAMESPACE);
    secrets.get_opt(name).await.expect("an answer of the hub")
}
