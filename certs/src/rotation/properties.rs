//! Any number of replicas, two Secrets and two caBundles, and all that may happen to them: whatever
//! it is, they come to agree, and no replica takes away the trust in a valid leaf that is served.
//! Some of the replicas may be of a version that stores everything in one Secret.

use std::time::Duration;

use proptest::prelude::*;

use self::model::Model;
use super::*;
use crate::stored::KEYS;

mod model;
mod stories;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const REPLICAS: usize = 3;
const CONFIGURATIONS: usize = 2;
/// So many turns of every replica are enough for whatever there is to repair.
const TURNS: usize = 40;

#[derive(Clone, Debug)]
enum Event {
    /// A replica does the next of its requests.
    Step(usize),
    /// A replica observes the Secret as it is.
    Observe(usize),
    /// A replica does all that there is to do for it.
    Turn(usize),
    Crash(usize),
    /// A replica of this version, or of one that stores everything in one Secret, takes its place.
    Replace(usize, Version),
    Advance(Duration),
    Jump {
        days: u64,
        back: bool,
    },
    DeleteSecret(Which),
    EmptySecret(Which),
    RemoveKey(Which, usize),
    Spoil(Which, usize),
    /// A key gets the value of another.
    Confuse(Which, usize, usize),
    /// An earlier state of the Secret is put back.
    PutBack(Which, usize),
    Overwrite(usize, Overwrite),
    DeleteConfiguration(usize),
    CreateConfiguration(usize),
    Request(RotationRequest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Serving,
    Authority,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Version {
    /// Stores everything in the serving Secret.
    Before,
    #[default]
    This,
}

#[derive(Clone, Copy, Debug)]
enum Overwrite {
    Nothing,
    Rubbish,
    Foreign,
}

fn event() -> impl Strategy<Value = Event> {
    let replica = 0..REPLICAS;
    let key = 0..KEYS.len();
    let configuration = 0..CONFIGURATIONS;
    let overwrite = prop_oneof![
        Just(Overwrite::Nothing),
        Just(Overwrite::Rubbish),
        Just(Overwrite::Foreign)
    ];
    let request = prop_oneof![
        Just(RotationRequest::Leaf),
        Just(RotationRequest::Authority)
    ];
    let which = || prop_oneof![Just(Which::Serving), Just(Which::Authority)];
    let version = prop_oneof![Just(Version::Before), Just(Version::This)];
    prop_oneof![
        30 => replica.clone().prop_map(Event::Step),
        12 => replica.clone().prop_map(Event::Observe),
        12 => replica.clone().prop_map(Event::Turn),
        4 => replica.clone().prop_map(Event::Crash),
        3 => (replica, version).prop_map(|(one, version)| Event::Replace(one, version)),
        8 => (1_u64..30).prop_map(|seconds| Event::Advance(Duration::from_secs(seconds))),
        4 => (1_u32..25).prop_map(|days| Event::Advance(DAY * days)),
        1 => (1_u64..2000, any::<bool>()).prop_map(|(days, back)| Event::Jump { days, back }),
        2 => which().prop_map(Event::DeleteSecret),
        1 => which().prop_map(Event::EmptySecret),
        2 => (which(), key.clone()).prop_map(|(which, key)| Event::RemoveKey(which, key)),
        2 => (which(), key.clone()).prop_map(|(which, key)| Event::Spoil(which, key)),
        2 => (which(), key.clone(), key).prop_map(|(which, one, other)| Event::Confuse(which, one, other)),
        2 => (which(), 0_usize..40).prop_map(|(which, back)| Event::PutBack(which, back)),
        3 => (configuration.clone(), overwrite).prop_map(|(one, with)| Event::Overwrite(one, with)),
        1 => configuration.clone().prop_map(Event::DeleteConfiguration),
        2 => configuration.prop_map(Event::CreateConfiguration),
        3 => request.prop_map(Event::Request),
    ]
}

/// Configuration of a property: `few` cases, 40 times as many under `CAUSEWAY_SOAK`, or
/// `PROPTEST_CASES`.
fn cases(few: u32) -> ProptestConfig {
    let is_set = |variable| std::env::var_os(variable).is_some();
    let defaults = ProptestConfig::default();
    ProptestConfig {
        cases: match (is_set("PROPTEST_CASES"), is_set("CAUSEWAY_SOAK")) {
            (true, _) => defaults.cases,
            (false, true) => few * 40,
            (false, false) => few,
        },
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..defaults
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn replicas_converge_without_loss_of_trust(
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut model = Model::new();
        for event in &events {
            model.happens(event);
        }
        model.settle();
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn a_repaired_secret_stays_so_and_old_authorities_go_in_time(
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let mut model = Model::new();
        model.settle();
        for event in events.iter().filter(|event| !matches!(event, Event::Jump { .. })) {
            model.happens(event);
        }
        model.settle();
        model.rests();
    }
}
