//! Every fault of a network or an API server, at every cluster, at every moment: nothing is withdrawn without evidence,
//! nothing is there twice, the others go on, and afterwards every cluster holds exactly what it should.
//!
//! The controller reaches each API server through a proxy that the test commands; the test itself asks the API servers
//! directly. The faults of a provider and of a consumer, different clusters, run at once. `make soak` runs the whole table,
//! `make test` some faults at each cluster at one of the moments.

mod bed;

use std::time::Duration;

use causeway_tests::{Fault, soak};

use self::bed::Bed;

/// Where the fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At the provider of `foo` and at the consumer of `goo`.
    Members,
    /// At the hub.
    Hub,
}

/// When the fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// All is at rest.
    Steady,
    /// Backends have just changed.
    Change,
    /// The controller starts.
    Start,
    /// The leader has just been killed, and another takes over.
    HandOver,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Case {
    fault: Fault,
    at: At,
    when: When,
}

const FAULTS: [Fault; 13] = [
    Fault::Refused,
    Fault::Silent,
    Fault::Late(Duration::from_secs(1)),
    Fault::Reset,
    Fault::Answers(401),
    Fault::Answers(403),
    Fault::Answers(429),
    Fault::Answers(500),
    Fault::Answers(503),
    Fault::Torn,
    Fault::Forgetful,
    Fault::Expired,
    Fault::Impostor,
];

/// Those that `make test` plays.
const COMMON: [Fault; 4] = [
    Fault::Refused,
    Fault::Silent,
    Fault::Answers(503),
    Fault::Expired,
];

const MOMENTS: [When; 4] = [When::Change, When::Start, When::Steady, When::HandOver];

/// All rows; without `whole` the common faults are at each cluster once, at one moment after the other, and nobody hands over.
fn table(whole: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for fault in FAULTS {
        for at in [At::Members, At::Hub] {
            cases.extend(MOMENTS.map(|when| Case { fault, at, when }));
        }
    }
    if whole {
        return cases;
    }
    let chosen = COMMON.into_iter().enumerate().flat_map(|(number, fault)| {
        let moment = |shift: usize| MOMENTS[(number + shift) % 3];
        [(At::Members, moment(0)), (At::Hub, moment(1))].map(|(at, when)| Case { fault, at, when })
    });
    chosen.collect()
}

#[tokio::test]
async fn no_fault_withdraws_doubles_or_delays_what_it_does_not_concern() {
    let mut bed = Bed::start().await;
    for case in table(soak().is_some()) {
        eprintln!("{case:?}");
        bed.run(case).await;
    }
}
