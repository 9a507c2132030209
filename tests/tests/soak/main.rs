//! Services, clusters, leaders and faults come and go at random, and an oracle says what every
//! cluster should hold.
//!
//! A round: people and workloads change things while networks and API servers are at fault and
//! leaders are killed or stopped; then all is fixed, and in the end every cluster holds exactly
//! what the objects that are there say. Throughout, no endpoint of a service that nobody changed in
//! the round goes away anywhere, or is there twice. Nothing panics, and memory does not grow.
//!
//! `make soak T=600` goes on for ten minutes. A run prints its seed; `CAUSEWAY_SOAK_SEED` makes the
//! same choices again.

mod environment;
mod faults;
mod memory;

use std::time::{Duration, Instant};

use causeway_tests::soak::{seed, soak};

use self::environment::Environment;

/// Duration of the short form, including its start.
const SHORT: Duration = Duration::from_secs(110);

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn every_cluster_holds_what_the_objects_say_whatever_happens() {
    let mut end = Instant::now() + soak().unwrap_or(SHORT);
    let mut env = Environment::start(seed()).await;
    let begun = Instant::now();
    env.tunnel_faults().await;
    end += begun.elapsed();
    while Instant::now() < end {
        env.round().await;
    }
    env.check_memory(soak().is_some());
}
