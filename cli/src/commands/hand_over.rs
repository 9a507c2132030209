//! `kubectl mcs hand-over`: moves services from causeway to Karmada's MultiClusterService
//! controllers without losing ready endpoints.
//!
//! Karmada's and causeway's controllers do the work: causeway withdraws each copy once Karmada's
//! slice of the same source exists. This command waits for them, reports obstacles, and removes
//! causeway's finalizer.

mod plan;

use std::collections::BTreeSet;

use causeway::domain::{self, ExposureType};

use crate::args::MoveArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::karmada::GATE_ON;
use crate::commands::moving::gate::Gate;
use crate::commands::moving::{self, Direction, Found};
use crate::observe::once;
use crate::observe::scope::Scope;
use crate::observe::service::{Snapshot, key_of};
use crate::term::exit::{ExitState, Failure};

const HAND_OVER: Direction = Direction {
    done: "handed over",
    nothing: "Karmada manages it, and nothing of causeway's remains",
    gate: true,
    plan: plan::plan,
    whole: plan::plan,
    previous: "causeway",
    holders: |_| BTreeSet::new(),
    obstacle: plan::obstacle,
    halt,
    refusal,
};

/// Hands services over and returns whether the hand-over is complete.
pub(crate) async fn run(hub: &HubArgs, args: &MoveArgs) -> Result<ExitState, Failure> {
    moving::run(hub, args, &HAND_OVER, all).await
}

fn refusal(gate: &Gate) -> Option<String> {
    (*gate == Gate::Off).then(|| {
        format!(
            "Karmada's MultiClusterService controllers do not react to a change of it. Start karmada-controller-manager with {GATE_ON}, then run this again"
        )
    })
}

fn halt(snapshot: &Snapshot, _: &BTreeSet<String>) -> Option<String> {
    plan::obstacle(snapshot)
}

/// Lists the MultiClusterServices of type CrossCluster.
async fn all(hub: &ApiServer, namespace: Option<&str>) -> Result<Found, Failure> {
    let scope = Scope {
        namespace: namespace.map(ToOwned::to_owned),
        ..Scope::default()
    };
    let services = once::multi_cluster_services(hub, &scope).await?;
    let crossing = services.iter().filter(|one| {
        let desired = domain::MultiClusterService::try_from(*one);
        desired.is_ok_and(|desired| desired.exposure == ExposureType::CrossCluster)
    });
    Ok(Found {
        keys: crossing.map(key_of).collect(),
        is_complete: true,
    })
}
