//! Moves of one service in three members, and their generators.

use causeway::api::labels;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Value, json};

use super::kind::{Fleet, MEMBERS};
use crate::fixtures::annotations::annotations;
use crate::fixtures::networks::{NetworkStep, network_step};
use crate::fixtures::objects::Kind;

/// Move in one member or, for all members, on the hub or in the controller.
#[derive(Clone, Debug)]
pub(super) enum Step {
    HubService {
        headless: bool,
        ports: u8,
        preference: bool,
    },
    NoHubService,
    Expose {
        /// Bits that select members; no bit selects all.
        providers: u8,
        consumers: u8,
        port: bool,
        annotations: Value,
    },
    NoExposure,
    Export {
        team: u8,
        annotations: Value,
    },
    NoExport,
    Service {
        headless: bool,
        ports: u8,
        sticky: bool,
        near: bool,
        dual: bool,
    },
    NoService,
    /// Slice of Kubernetes with one ready endpoint.
    Slice {
        slice: u8,
        address: u8,
    },
    /// Slice that a user writes. Its endpoint is on a node if the address is odd.
    SliceByHand {
        slice: u8,
        address: u8,
        ready: bool,
    },
    /// Slice of Kubernetes with this number of endpoints, of which the first are ready.
    Pods {
        ready: u8,
        total: u8,
    },
    NoSlices,
    Import {
        ports: bool,
    },
    /// A user creates a Service of that name if the member has none.
    Occupy(&'static str),
    /// A user deletes the derived Service that a user created.
    Vacate,
    /// A user applies fields over the existing Service.
    Apply,
    /// A user changes the objects that causeway wrote.
    Spoil,
    /// A user writes an import as if causeway had.
    Forge,
    /// A user deletes the objects of a kind that causeway wrote.
    Clear(Kind),
    Drain(bool),
    /// The member has another id in its clusterset, or none.
    Id(u8),
    Network(NetworkStep),
    Lose,
    Back,
    Silence,
    Restart,
    Crash {
        /// Bits that select which of the next writes arrive.
        arrived: u8,
    },
    Wait {
        seconds: u16,
    },
}

/// Step and the index of its member.
pub(super) type At = (usize, Step);

/// Generator of steps for a kind of fleet.
pub(super) type Steps = fn(Fleet) -> BoxedStrategy<At>;

impl Step {
    /// Whether the result of the step does not depend on earlier writes of the controller.
    fn is_independent(&self) -> bool {
        !matches!(
            self,
            Step::Import { .. }
                | Step::Occupy(_)
                | Step::Vacate
                | Step::Apply
                | Step::NoExposure
                | Step::Crash { .. }
                | Step::Wait { .. }
        )
    }

    /// Whether the step writes an export with a value for an annotation.
    pub(super) fn exports_with(&self, annotation: &str) -> bool {
        matches!(self, Step::Export { annotations, .. } if !annotations[annotation].is_null())
    }
}

/// Returns an export without annotations.
pub(super) fn exported(team: u8) -> Step {
    Step::Export {
        team,
        annotations: json!({}),
    }
}

/// Returns an exposure of one provider to all members.
pub(super) fn exposed(provider: usize) -> Step {
    Step::Expose {
        providers: 1 << provider,
        consumers: 0,
        port: false,
        annotations: json!({}),
    }
}

/// Retains the endpoints of unreachable members, whatever the step requests.
pub(super) fn patient((member, mut step): At) -> At {
    if let Step::Export { annotations, .. } | Step::Expose { annotations, .. } = &mut step {
        annotations[labels::UNREACHABLE] = Value::Null;
    }
    (member, step)
}

type Weighted = (u32, BoxedStrategy<Step>);

fn just(weight: u32, step: Step) -> Weighted {
    (weight, Just(step).boxed())
}

fn at(steps: Vec<Weighted>) -> BoxedStrategy<At> {
    (0..MEMBERS.len(), Union::new_weighted(steps)).boxed()
}

fn slice_step() -> BoxedStrategy<Step> {
    let all = (0..3u8, 0..5u8);
    all.prop_map(|(slice, address)| Step::Slice { slice, address })
        .boxed()
}

/// Generates requests of users, and changes of their pods.
pub(super) fn request(fleet: Fleet) -> BoxedStrategy<At> {
    let mut steps = match fleet {
        Fleet::Native { .. } => native_requests(),
        Fleet::Clusterset { .. } => clusterset_requests(),
    };
    steps.extend([
        (4, slice_step()),
        (1, any::<bool>().prop_map(Step::Drain).boxed()),
        (2, network_step().prop_map(Step::Network).boxed()),
    ]);
    at(steps)
}

fn native_requests() -> Vec<Weighted> {
    let hub = (any::<bool>(), 1..4u8, any::<bool>());
    let hub = hub.prop_map(|(headless, ports, preference)| Step::HubService {
        headless,
        ports,
        preference,
    });
    let exposure = (0..8u8, 0..8u8, any::<bool>(), annotations());
    let exposure = exposure.prop_map(|(providers, consumers, port, annotations)| Step::Expose {
        providers,
        consumers,
        port,
        annotations,
    });
    let by_hand = (0..3u8, 0..5u8, any::<bool>());
    let by_hand = by_hand.prop_map(|(slice, address, ready)| Step::SliceByHand {
        slice,
        address,
        ready,
    });
    vec![
        (3, hub.boxed()),
        (4, exposure.boxed()),
        (2, by_hand.boxed()),
        just(1, Step::Occupy("foo")),
        just(1, Step::Apply),
    ]
}

fn clusterset_requests() -> Vec<Weighted> {
    let export = (0..3u8, annotations());
    let export = export.prop_map(|(team, annotations)| Step::Export { team, annotations });
    let [one, two, three, four] = [(); 4].map(|()| any::<bool>());
    let service = (one, 0..4u8, two, three, four);
    let service = service.prop_map(|(headless, ports, sticky, near, dual)| Step::Service {
        headless,
        ports,
        sticky,
        near,
        dual,
    });
    let import = any::<bool>().prop_map(|ports| Step::Import { ports });
    vec![
        (4, export.boxed()),
        (4, service.boxed()),
        (1, import.boxed()),
        (1, (0..3u8).prop_map(Step::Id).boxed()),
        (1, (0..MEMBERS.len()).prop_map(exposed).boxed()),
    ]
}

/// Generates steps that hide members from the controller or show them again, and change no object.
pub(super) fn loss() -> BoxedStrategy<At> {
    at(vec![
        just(3, Step::Lose),
        just(2, Step::Back),
        just(1, Step::Silence),
        just(2, Step::Restart),
    ])
}

/// Generates removals by users, crashes that lose writes, waits, and objects that take a name.
pub(super) fn removal(fleet: Fleet) -> BoxedStrategy<At> {
    let wait = (0..400u16).prop_map(|seconds| Step::Wait { seconds });
    let crash = any::<u8>().prop_map(|arrived| Step::Crash { arrived });
    let mut steps = vec![
        just(1, Step::NoExposure),
        just(1, Step::NoService),
        just(1, Step::NoSlices),
        (1, wait.boxed()),
    ];
    match fleet {
        Fleet::Native { .. } => steps.extend([just(1, Step::NoHubService), (1, crash.boxed())]),
        Fleet::Clusterset { .. } => {
            let written = select(&[Kind::Import, Kind::Service, Kind::Slice][..]);
            steps.extend([
                just(3, Step::NoExport),
                just(1, Step::Occupy("derived-foo")),
                just(1, Step::Vacate),
                just(1, Step::Spoil),
                just(1, Step::Forge),
                (2, written.prop_map(Step::Clear).boxed()),
                (3, crash.boxed()),
            ]);
        }
    }
    at(steps)
}

/// Generates all steps except those of [`failover`].
pub(super) fn step(fleet: Fleet) -> BoxedStrategy<At> {
    prop_oneof![6 => request(fleet), 2 => loss(), 3 => removal(fleet)].boxed()
}

/// Generates requests and, less often, removals.
pub(super) fn request_or_removal(fleet: Fleet) -> BoxedStrategy<At> {
    prop_oneof![4 => request(fleet), 1 => removal(fleet)].boxed()
}

/// Generates changes whose result does not depend on earlier writes of the controller.
pub(super) fn change(fleet: Fleet) -> BoxedStrategy<At> {
    let any = prop_oneof![5 => request(fleet), 2 => removal(fleet)];
    let any = any.prop_filter("depends on what is there", |(_, step)| {
        step.is_independent()
    });
    any.boxed()
}

/// Generates changes of pods, preferences that use all members, outages, restarts and waits.
pub(super) fn failover() -> BoxedStrategy<At> {
    let preferences = [
        "local, any",
        "local, region, any",
        "region, any",
        "local, cluster/member3, any",
    ];
    let pods = (0..4u8, 0..4u8);
    let pods = pods.prop_map(|(ready, more)| Step::Pods {
        ready,
        total: ready + more,
    });
    let prefer = (0..preferences.len(), 0..101u8);
    let prefer =
        prefer.prop_map(move |(which, min_ready)| preferring(preferences[which], min_ready));
    let wait = (0..90u16).prop_map(|seconds| Step::Wait { seconds });
    at(vec![
        (6, pods.boxed()),
        (1, prefer.boxed()),
        just(1, Step::Lose),
        just(1, Step::Back),
        just(1, Step::Restart),
        (3, wait.boxed()),
    ])
}

/// Returns an exposure of all members to all members with these tiers and percentage.
pub(super) fn preferring(tiers: &str, min_ready: u8) -> Step {
    let min_ready = (min_ready > 0).then(|| format!("{min_ready}%"));
    Step::Expose {
        providers: 0,
        consumers: 0,
        port: false,
        annotations: json!({labels::PREFER: tiers, labels::MIN_READY: min_ready}),
    }
}

/// Outage of one member, which begins after some of the changes and ends after more of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    pub(super) member: usize,
    pub(super) begins: usize,
    pub(super) changes: usize,
    /// Whether the controller restarts while the member is lost.
    pub(super) restarts: bool,
}

pub(super) fn outage() -> impl Strategy<Value = Outage> {
    let all = (0..MEMBERS.len(), 0..12usize, 0..4usize, any::<bool>());
    all.prop_map(|(member, begins, changes, restarts)| Outage {
        member,
        begins,
        changes,
        restarts,
    })
}
