//! Tests with a long form, and what they have in common: what people and workloads do at random,
//! what every cluster should hold then, and what is seen meanwhile.

mod churn;
mod observer;
mod oracle;
mod random;
mod rock;
mod settle;
mod snapshot;

use std::time::Duration;

pub use churn::{Churn, Network};
pub use observer::{Observer, Sight};
pub use oracle::Lines;
pub use random::{Random, seed};
pub use rock::{ROCK, ROCK_PODS, STANDBY, balanced, entered, give_addresses, rock};
pub use settle::settle;
pub use snapshot::Key;

const SECONDS: &str = "CAUSEWAY_SOAK";

/// For how long the long form of a test is to run, where it is asked for (`make soak T=600`, `make
/// long`): `CAUSEWAY_SOAK`, in seconds.
pub fn soak() -> Option<Duration> {
    let seconds = std::env::var(SECONDS).ok()?;
    let parsed = seconds.parse().map(Duration::from_secs);
    Some(parsed.unwrap_or_else(|_| panic!("{SECONDS}={seconds:?} is no number of seconds")))
}
