//! Commands of an upgrade, and the start of its webhooks.

use std::net::IpAddr;
use std::path::Path;

use causeway_tests::causeway::{Installation, Launch, NAMESPACE};
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::{Fleet, Release};

const SECRET: &str = "causeway-webhook-tls";

/// Applies the objects that docs/install.md names: for an upgrade the definitions and all else, on
/// the hub and in members; for a rollback all but the definitions, on the hub.
pub(super) async fn apply(fleet: &Fleet, installation: &Installation, release: Release) {
    match release {
        Release::This => {
            kubectl_mcs(fleet, release, &["install", "--wait=false"])
                .await
                .ok();
            for member in fleet.members() {
                installation.of(release).join(member).await;
            }
        }
        Release::Base(_) => {
            let install = ["install", "--skip-crds", "--wait=false"];
            kubectl_mcs(fleet, release, &install).await.ok();
        }
    }
}

/// A webhook that keeps its own certificates, as the Deployment has it.
pub(super) fn webhook(
    installation: &Installation,
    release: Release,
    address: IpAddr,
) -> impl Fn() -> Launch + Send + Sync + 'static {
    let installation = installation.of(release);
    move || {
        let webhook = installation.webhook_without_certificate(address, Path::new(""));
        webhook.arg(format!("--self-managed-certs={NAMESPACE}/{SECRET}"))
    }
}

/// Runs `kubectl mcs` of that version against the hub.
pub(super) async fn kubectl_mcs(fleet: &Fleet, release: Release, args: &[&str]) -> Output {
    let hub = fleet.hub();
    Command::new(
        fleet.reaper(),
        hub.directory(),
        release.program("kubectl-mcs"),
    )
    .env("KUBECONFIG", hub.kubeconfig().display().to_string())
    .args(args.iter().copied())
    .run()
    .await
}
