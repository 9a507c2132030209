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
mod verify;

use causeway_tests::{Environment, Fleet, Space};
use serde_json::Value;
use tokio::sync::OnceCell;

/// A hub with causeway's controller at work, and members called a and b that nobody takes away.
async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    let start = async || Environment::start(members().await).await;
    ENVIRONMENT.get_or_init(start).await
}

async fn members() -> Fleet {
    Fleet::builder().named_members(["a", "b"]).start().await
}

/// A service of two backends in a, for the clients of b.
async fn copied<'a>(env: &'a Environment, prefix: &str) -> Space<'a> {
    let space = env.space(prefix).await;
    space.pods("foo", "a", 2).await;
    space.expose("foo", ["a"], ["b"]).await;
    space
}

/// Whether a row says that all of these ready endpoints are in b.
fn is_copied(row: &Value, ready: u64) -> bool {
    let consumer = &row["consumers"][0];
    row["state"] == "Ready"
        && consumer["cluster"] == "b"
        && consumer["ready"] == ready
        && consumer["missing"] == 0
}
