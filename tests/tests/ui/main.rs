//! `kubectl mcs ui` against real API servers: who is answered, and what the page is sent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod hostile;
mod live;
mod rights;
mod safety;

use std::path::Path;
use std::time::Duration;

use causeway_tests::{Fleet, Installation, Running, Space, Ui, multi_cluster_service, service};
use serde_json::Value;
use tokio::sync::OnceCell;

/// Longer than the controller, and the page after it, need on a busy machine.
const LONG: Duration = Duration::from_secs(90);

/// A hub with causeway's controller at work, and members called a and b that nobody takes away.
struct Environment {
    fleet: Fleet,
    installation: Installation,
    _controller: Running,
}

async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    ENVIRONMENT
        .get_or_init(|| async {
            let fleet = Fleet::builder().named_members(["a", "b"]).start().await;
            Environment::of(fleet).await
        })
        .await
}

impl Environment {
    async fn of(fleet: Fleet) -> Self {
        let installation = Installation::new(&fleet).await;
        let controller = installation.controller().start().await;
        for member in fleet.members() {
            installation.join(member).await;
        }
        Self {
            fleet,
            installation,
            _controller: controller,
        }
    }

    /// The page, as an administrator of the hub sees it.
    async fn ui(&self, args: &[&str]) -> Ui {
        self.ui_of(&self.fleet.hub().kubeconfig(), args).await
    }

    async fn ui_of(&self, kubeconfig: &Path, args: &[&str]) -> Ui {
        let directory = self.fleet.directory();
        Ui::start(self.fleet.reaper(), directory, kubeconfig, args).await
    }

    /// A service of two backends in a, for the clients of b.
    async fn service(&self, prefix: &str) -> Space<'_> {
        let space = self.fleet.space(prefix).await;
        let backends = space.backends("foo").count(2);
        backends.create(self.fleet.member("a")).await;
        expose(&space).await;
        space
    }
}

/// Service foo on the hub, and a MultiClusterService from a to b.
async fn expose(space: &Space<'_>) {
    service("foo")
        .port("http", 80)
        .create(space.fleet().hub(), space)
        .await;
    expose_again(space).await;
}

/// The MultiClusterService alone.
async fn expose_again(space: &Space<'_>) {
    multi_cluster_service("foo")
        .providers(["a"])
        .consumers(["b"])
        .create(space)
        .await;
}

/// Whether a row says that all of these ready endpoints are in b.
fn is_copied(row: &Value, ready: u64) -> bool {
    let consumer = &row["consumers"][0];
    row["state"] == "Ready"
        && consumer["cluster"] == "b"
        && consumer["ready"] == ready
        && consumer["missing"] == 0
}
