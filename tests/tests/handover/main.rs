//! The process that leads is killed, ended, stopped for longer than its Lease, cut off from its
//! hub, or finds that clocks jump, while endpoints change all the time. The audit logs of the API
//! servers tell that at no time two processes wrote, and how soon a successor did; a watch in the
//! consumer, that no endpoint went and that nothing ever went back.
//!
//! What is held: a write that changed something was received by an API server while the process
//! that asked for it was the last to acquire the Lease. Requests that were refused (409) do not
//! count, nor, on the hub alone, those that were sent before its API server was paused and are read
//! by it when it goes on: they bear a resourceVersion, so they cannot undo what a successor wrote,
//! which the watch shows.

mod ages;
mod environment;
mod load;
mod observer;
mod steps;
mod terms;

use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use causeway_tests::soak;

use self::environment::Environment;

/// Disruption of the leading process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    End,
    /// SIGSTOP, and SIGCONT when another has taken over.
    Stop,
    /// The API server of the hub does not answer for longer than the Lease lasts.
    PausedHub,
    /// The wall clocks of all processes jump to and fro, and so does what the Lease says of its
    /// renewal.
    Clocks,
}

const BLOWS: [Blow; 5] = [
    Blow::Stop,
    Blow::End,
    Blow::PausedHub,
    Blow::Kill,
    Blow::Clocks,
];

impl Blow {
    /// Whether another process leads afterwards.
    fn deposes(self) -> bool {
        matches!(self, Self::Kill | Self::End | Self::Stop)
    }
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn falling_leaders_never_write_twice_or_withdraw() {
    let begun = Instant::now();
    let mut env = Environment::start().await;
    let mut order = BLOWS;
    let mut turn = 0;
    loop {
        for blow in order {
            eprintln!("{:4} s: {blow:?}", begun.elapsed().as_secs());
            env.suffer(blow, turn).await;
            turn += 1;
        }
        if soak().is_none_or(|long| begun.elapsed() > long) {
            break;
        }
        order = shuffled();
    }
    env.check().await;
    eprintln!("{:4} s: done", begun.elapsed().as_secs());
}

/// The blows in some order.
fn shuffled() -> [Blow; 5] {
    let state = RandomState::new();
    let mut blows = BLOWS;
    blows.sort_by_key(|blow| state.hash_one(*blow as u8));
    blows
}
