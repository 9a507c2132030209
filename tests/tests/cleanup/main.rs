//! Every deletion ends, and what is left anywhere is collected as soon as that can be done, never
//! sooner: of MultiClusterServices, of ServiceExports, of Clusters, of namespaces; whoever is away
//! meanwhile.

mod away;
mod departures;
mod labels;
mod namespaces;
mod restarts;

use std::ops::Deref;

use causeway_tests::{Environment, Fault, Fleet};
use tokio::sync::{OnceCell, RwLock};

/// A hub with members that are joined, each behind a proxy, and one controller. `giver` provides
/// and `taker` consumes in every test; the others are there to fail.
struct Shared {
    env: Environment,
    /// Read by tests that leave the controller alone, written by those that do not.
    peace: RwLock<()>,
}

impl Deref for Shared {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.env
    }
}

const MEMBERS: [&str; 6] = ["giver", "taker", "absent", "lost", "late", "denied"];

async fn env() -> &'static Shared {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    let start = async || {
        let fleet = Fleet::builder().named_members(MEMBERS);
        // It is started again often, and would wait each time for the lease of the one before.
        let builder = Environment::builder()
            .proxies()
            .flag("--leader-elect=false");
        let env = builder.start_lasting(fleet).await;
        for name in MEMBERS {
            env.serves_clusterset(name).await;
        }
        Shared {
            env,
            peace: RwLock::default(),
        }
    };
    SHARED.get_or_init(start).await
}

/// A member cannot be reached any more, and the controller knows.
async fn lose(env: &Environment, member: &str) {
    env.set(member, Fault::Refused);
    env.cluster_says(member, "False|Unreachable|").await;
}

/// Joins a member again.
async fn join(env: &Environment, name: &str) {
    env.join(env.member(name)).await;
    env.serves_clusterset(name).await;
}
