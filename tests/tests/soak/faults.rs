//! Faults of a round: of the network or the API servers, and of the leading process.

use std::time::Duration;

use causeway_tests::Fault;
use causeway_tests::soak::Random;

const ALL: [Fault; 14] = [
    Fault::Refused,
    Fault::Silent,
    Fault::Late(Duration::from_millis(700)),
    Fault::Reset,
    Fault::Answers(401),
    Fault::Answers(403),
    Fault::Answers(429),
    Fault::Answers(500),
    Fault::Answers(503),
    Fault::NotFound,
    Fault::Torn,
    Fault::Expired,
    Fault::Impostor,
    Fault::Forgetful,
];

/// Longer than a lease lasts.
const LEASE: Duration = Duration::from_secs(14);
/// With half a lease still shorter than the controller waits for a second opinion about a list that
/// lacks much: nothing tells a lie that is repeated then from the truth.
const BRIEF: Duration = Duration::from_secs(5);

/// Disruption of the controller's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// Nothing.
    None,
    /// The second is killed, and started again.
    Kill,
    /// The second is asked to end, and started again.
    End,
    /// The one that leads is stopped for longer than the lease, and goes on.
    Stop,
    /// The API server of this cluster is killed, and started again.
    Restart(&'static str),
    /// The wall clocks of both controllers are set forward by hours, and back.
    Clocks,
    /// The API server of this member is taken back to the release before, and upgraded again.
    Downgrade(&'static str),
    /// The hub loses the credentials of this member, and its Cluster is touched; a backup brings
    /// them back.
    Forget(&'static str),
}

impl Blow {
    /// Whether an API server serves its definitions again, after some time without them.
    pub(super) fn changes_definitions(self) -> bool {
        matches!(self, Self::Restart(_) | Self::Downgrade(_))
    }
}

/// Fault of one round, and its duration.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) faults: Vec<(&'static str, Fault)>,
    pub(super) blow: Blow,
    pub(super) lasting: Duration,
}

impl Outage {
    /// Chosen at random, at some of these clusters.
    pub(super) fn choose(random: &mut Random, clusters: &[&'static str]) -> Self {
        let restart = Blow::Restart(clusters[random.below(clusters.len())]);
        let members = clusters.iter().copied().filter(|name| *name != "hub");
        let members: Vec<_> = members.collect();
        let mut one = || members[random.below(members.len())];
        let (forget, downgrade) = (Blow::Forget(one()), Blow::Downgrade(one()));
        let blows = [
            restart,
            forget,
            downgrade,
            Blow::Clocks,
            Blow::None,
            Blow::None,
            Blow::None,
            Blow::Kill,
            Blow::End,
            Blow::Stop,
        ];
        let blow = *random.of(&blows);
        let mut faults: Vec<(&'static str, Fault)> = Vec::new();
        for _ in 0..random.below(4) {
            let cluster = *random.of(clusters);
            if !faults.iter().any(|(hurt, _)| *hurt == cluster) {
                faults.push((cluster, *random.of(&ALL)));
            }
        }
        let brief = random.between(Duration::from_secs(1), BRIEF);
        let lasting = if blow == Blow::Stop {
            LEASE + brief / 2
        } else {
            brief
        };
        Self {
            faults,
            blow,
            lasting,
        }
    }

    /// Whether a list lies in it: then it has to be brief.
    pub(super) fn lies(&self) -> bool {
        self.faults
            .iter()
            .any(|(_, fault)| *fault == Fault::Forgetful)
    }
}
