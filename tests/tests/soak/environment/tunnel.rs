//! Faults between a member and the hub that only a member of causeway-tunnel has, under churn.

use std::time::{Duration, Instant};

use causeway::api::condition;
use causeway_tests::reaper::Process;
use causeway_tests::soak::soak;
use causeway_tests::tunnel::RelayedTunnel;
use causeway_tests::{Cluster, Fleet, Installation};
use kube::Api;
use tokio::time::sleep;

use super::{Environment, FAR};

/// Duration of a run from which on the longest cut is part of it.
const LONG_RUN: Duration = Duration::from_secs(1800);
/// Longest cut after which no watch has to begin with a list: etcd compacts every five minutes.
const RESUMED: Duration = Duration::from_secs(60);
/// Pause between two steps of the churn.
const STEP: Duration = Duration::from_millis(250);

/// causeway-tunnel with two replicas, and the agent of [`FAR`].
pub(super) struct Tunnelled {
    tunnel: RelayedTunnel,
    replicas: [Process; 2],
    agent: Option<Process>,
}

/// Fault of the tunnel, or of what is at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TunnelFault {
    /// Between agent and tunnel all packets are lost in silence, for this long.
    Cut(Duration),
    /// The agent is killed, and started again.
    Agent,
    /// One replica is killed, and started again.
    Replica,
    /// Both replicas are.
    Tunnel,
    /// The API server of the hub is.
    Hub,
    /// The second controller is.
    Controller,
}

impl TunnelFault {
    /// Faults but for cuts. The last one starts a controller, whose first list of nothing is
    /// confirmed by a second half a minute later.
    const OTHERS: [Self; 5] = [
        Self::Agent,
        Self::Replica,
        Self::Tunnel,
        Self::Hub,
        Self::Controller,
    ];

    fn all() -> Vec<Self> {
        let cuts = match soak() {
            None => &[5][..],
            Some(run) if run < LONG_RUN => &[5, 30],
            Some(_) => &[5, 30, 300],
        };
        let cuts = cuts.iter().copied().map(Duration::from_secs);
        cuts.map(Self::Cut).chain(Self::OTHERS).collect()
    }

    /// Whether all watches resume, so that nothing of the member is listed.
    fn resumes(self) -> bool {
        match self {
            Self::Cut(lasting) => lasting <= RESUMED,
            Self::Controller => false,
            _ => true,
        }
    }
}

impl Tunnelled {
    pub(super) fn new(tunnel: RelayedTunnel, replicas: [Process; 2]) -> Self {
        Self {
            tunnel,
            replicas,
            agent: None,
        }
    }

    /// Joins the member, and starts its agent.
    pub(super) async fn join(
        &mut self,
        fleet: &Fleet,
        installation: &Installation,
        member: &Cluster,
        url: &str,
    ) {
        let agent = self.tunnel.join(fleet, installation, member, url).await;
        self.agent = Some(agent);
    }
}

impl Environment {
    /// Plays all faults of the tunnel, each under churn.
    pub(in super::super) async fn tunnel_faults(&mut self) {
        for fault in TunnelFault::all() {
            self.tunnel_fault(fault).await;
        }
    }

    async fn tunnel_fault(&mut self, fault: TunnelFault) {
        self.rounds += 1;
        self.churn
            .note(format!("-- {FAR} by the tunnel: {fault:?}"));
        if fault == TunnelFault::Hub {
            self.churn.keep_namespaces(&self.fleet).await;
        }
        let mark = self.fleet.member(FAR).mark().await;
        let begun = Instant::now();
        self.begin_tunnel_fault(fault).await;
        let lasting = match fault {
            TunnelFault::Cut(lasting) => lasting,
            _ => Duration::from_secs(1),
        };
        while begun.elapsed() < lasting {
            self.churn.step(&self.fleet, &mut self.random).await;
            sleep(STEP).await;
        }
        if let TunnelFault::Cut(_) = fault {
            let ready = self.ready_of_far().await;
            eprintln!("{fault:?} ends, and Ready of {FAR} is {ready}");
        }
        self.tunnelled.tunnel.agents.heal();
        let ended = Instant::now();
        self.settled(&mut Vec::new(), false).await;
        self.churn.free_namespaces();
        let listed = self.fleet.member(FAR).whole_lists_since(mark).await;
        assert!(
            listed.is_empty() || !fault.resumes(),
            "{fault:?}: {listed:?}"
        );
        // A controller that starts lists everything, which is seen here.
        let is_start = fault == TunnelFault::Controller;
        assert!(!is_start || !listed.is_empty(), "no LIST is seen");
        eprintln!(
            "{:4} s, {fault:?}: as it should be after {:.1} s, {} LISTs of {FAR}",
            self.begun.elapsed().as_secs(),
            ended.elapsed().as_secs_f64(),
            listed.len()
        );
    }

    /// Returns status, reason and message of Ready.
    async fn ready_of_far(&self) -> String {
        let clusters = Api::<causeway::api::Cluster>::all(self.clients["hub"].clone());
        let cluster = clusters.get(FAR).await.expect("a Cluster");
        let conditions = cluster.status.map(|status| status.conditions);
        let conditions = conditions.unwrap_or_default();
        let ready = condition::find(&conditions, condition::READY).expect("Ready");
        format!("{} {}: {}", ready.status, ready.reason, ready.message)
    }

    async fn begin_tunnel_fault(&mut self, fault: TunnelFault) {
        let Tunnelled {
            tunnel,
            replicas,
            agent,
        } = &self.tunnelled;
        match fault {
            TunnelFault::Cut(_) => tunnel.agents.cut(),
            TunnelFault::Agent => agent.as_ref().expect("an agent").restart().await,
            TunnelFault::Replica => replicas[0].restart().await,
            TunnelFault::Tunnel => {
                for replica in replicas {
                    replica.kill().await;
                }
                for replica in replicas {
                    replica.restart().await;
                }
            }
            TunnelFault::Hub => {
                self.fleet.hub().stop().await;
                self.fleet.hub().start().await;
            }
            TunnelFault::Controller => self.controllers[1].process().restart().await,
        }
    }
}
