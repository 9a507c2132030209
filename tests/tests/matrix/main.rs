//! Every fault of a network or an API server, at every cluster, at every moment: nothing is
//! withdrawn without evidence, nothing is there twice, the others go on, and afterwards every
//! cluster holds exactly what it should.
//!
//! The controller reaches each API server through a proxy that the test commands; the test itself
//! asks the API servers directly. The table is every fault at every moment, at a provider, at a
//! consumer and at the hub; what concerns different members is played at once. The short form plays
//! each fault at one moment at members, and at another at the hub.

mod environment;
mod unreachable;

use std::time::Duration;

use causeway_tests::{Fault, Fleet, soak};

use self::environment::Environment;

/// Time at which a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// All is at rest.
    Steady,
    /// Backends have just changed.
    Change,
    /// The controllers start.
    Start,
    /// The leader has just been killed, and another takes over.
    HandOver,
}

const MOMENTS: [When; 4] = [When::Change, When::Start, When::Steady, When::HandOver];

const FAULTS: [Fault; 15] = [
    Fault::Refused,
    Fault::Silent,
    Fault::Late(Duration::from_secs(1)),
    Fault::Reset,
    Fault::Answers(401),
    Fault::Answers(403),
    Fault::Answers(429),
    Fault::Answers(500),
    Fault::Answers(503),
    Fault::NotFound,
    Fault::Torn,
    Fault::Forgetful,
    Fault::Restored,
    Fault::Expired,
    Fault::Impostor,
];

/// So many members suffer at once.
const HURT: usize = 4;

/// Rows of the table that are played at once.
#[derive(Debug)]
struct Round {
    when: When,
    faults: Vec<(String, Fault)>,
}

/// Returns the faults of each moment: all of them, or in the short form every fourth, from another
/// one on at each moment.
fn table(begin: usize) -> impl Iterator<Item = (When, Vec<Fault>)> {
    let moments = MOMENTS.into_iter().enumerate();
    moments.map(move |(number, when)| match soak::soak() {
        Some(_) => (when, FAULTS.to_vec()),
        None => {
            let first = (begin + number) % MOMENTS.len();
            let faults = FAULTS.into_iter().skip(first).step_by(MOMENTS.len());
            (when, faults.collect())
        }
    })
}

/// Faults at members that provide one service and consume another.
fn at_members() -> impl Iterator<Item = Round> {
    let round = |when, faults: &[Fault]| Round {
        when,
        faults: (1..)
            .zip(faults)
            .map(|(number, fault)| (format!("member{number}"), *fault))
            .collect(),
    };
    table(0).flat_map(move |(when, faults)| {
        let rounds = faults.chunks(HURT).map(|faults| round(when, faults));
        rounds.collect::<Vec<_>>()
    })
}

/// Faults at the hub, one at a time.
fn at_hub() -> impl Iterator<Item = Round> {
    let round = |when, fault| Round {
        when,
        faults: vec![("hub".to_owned(), fault)],
    };
    table(MOMENTS.len() / 2)
        .flat_map(move |(when, faults)| faults.into_iter().map(move |fault| round(when, fault)))
}

async fn play(hurt: usize, rounds: impl Iterator<Item = Round>) {
    let mut env = Environment::start(hurt).await;
    for round in rounds {
        eprintln!("{round:?}");
        env.run(&round).await;
    }
}

/// Faults between the agent of a member and causeway-tunnel.
const FAULTS_OF_TUNNELS: [Fault; 4] = [
    Fault::Refused,
    Fault::Silent,
    Fault::Late(Duration::from_secs(1)),
    Fault::Reset,
];

/// Stores that are restored from a snapshot and stay so: at a provider, which is a consumer too,
/// and at the hub.
#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn restored_store_counts_and_copies_of_lost_objects_change() {
    let fleet = Fleet::builder().own_store("hub").own_store("member1");
    let mut env = Environment::start_in(fleet, 1).await;
    for when in [When::Steady, When::Start] {
        eprintln!("member1 is restored: {when:?}");
        env.restore_member("member1", when).await;
        eprintln!("the hub is restored: {when:?}");
        env.restore_hub("member1", when).await;
    }
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn no_fault_affects_unrelated_endpoints() {
    tokio::join!(play(HURT, at_members()), play(1, at_hub()));
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn tunnelled_member_is_not_listed_again_after_a_fault() {
    let mut env = Environment::start_tunnelled().await;
    for (number, fault) in FAULTS_OF_TUNNELS.into_iter().enumerate() {
        let round = Round {
            when: [When::Change, When::Steady][number % 2],
            faults: vec![("member1".to_owned(), fault)],
        };
        eprintln!("through the tunnel: {round:?}");
        env.run_without_lists(&round).await;
    }
}

/// A fault that no request fails by: what hangs is noticed by what does not come.
#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn dead_api_server_behind_a_balancer_is_left() {
    let mut env = Environment::start(1).await;
    env.freeze(&["member1", "hub"]).await;
}

/// The answers to a provider that cannot be reached: `keep`, `standby` and `withdraw-after`.
#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn unreachable_policy_of_each_service_is_followed() {
    unreachable::play().await;
}
