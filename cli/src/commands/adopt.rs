//! `kubectl mcs adopt`: moves services from Karmada's MultiClusterService controllers to causeway
//! without losing ready endpoints.

mod evidence;
mod plan;

use std::collections::BTreeSet;

use causeway::api::labels;
use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::args::MoveArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::karmada::{self, GATE_OFF, Work};
use crate::commands::moving::gate::Gate;
use crate::commands::moving::{self, Direction, Found};
use crate::observe::scope::Scope;
use crate::observe::service::{Snapshot, key_of};
use crate::observe::{connect, once};
use crate::term::exit::{ExitState, Failure};
use crate::term::output;

const ADOPTION: Direction = Direction {
    done: "adopted",
    nothing: "nothing of Karmada's remains",
    gate: false,
    plan: plan::plan,
    whole: plan::whole,
    previous: "Karmada",
    holders: plan::holders,
    obstacle: plan::obstacle,
    halt,
    refusal,
};

/// Adopts services and returns whether the move is complete.
pub(crate) async fn run(hub: &HubArgs, args: &MoveArgs) -> Result<ExitState, Failure> {
    moving::run(hub, args, &ADOPTION, async |hub, namespace| {
        of_karmada(hub, args, namespace).await
    })
    .await
}

fn refusal(gate: &Gate) -> Option<String> {
    let Gate::On(work) = gate else { return None };
    Some(format!(
        "Karmada's MultiClusterService controllers are running: they wrote Work {work}. Start karmada-controller-manager with {GATE_OFF}, then run this again"
    ))
}

/// Returns a refusal if Karmada created a Work after the gate found Karmada inactive.
fn halt(snapshot: &Snapshot, works: &BTreeSet<String>) -> Option<String> {
    let mut made = snapshot.works.iter().flatten();
    let made = made.find(|work| work.manages_service() && !works.contains(work.uid()))?;
    refusal(&Gate::On(made.id()))
}

/// Lists the services that Karmada manages or managed, sorted. Works, slices in members and
/// finalizers identify them.
async fn of_karmada(
    hub: &ApiServer,
    args: &MoveArgs,
    namespace: Option<&str>,
) -> Result<Found, Failure> {
    let works = karmada::works(hub, None)
        .await?
        .ok_or(karmada::WorksForbidden)?;
    let mut keys: BTreeSet<_> = works.iter().filter_map(Work::service).collect();
    let services = once::multi_cluster_services(hub, &Scope::default()).await?;
    let held = services.iter().filter(|one| {
        !karmada::finalizers(one).is_empty() || one.annotations().contains_key(labels::PROBE)
    });
    keys.extend(held.map(key_of));
    let (of_slices, is_complete) = of_slices(hub, args).await?;
    keys.extend(of_slices);
    keys.retain(|key| namespace.is_none_or(|namespace| *key.namespace == *namespace));
    if keys.is_empty() {
        output::progress("no objects of Karmada's MultiClusterService controllers found")?;
    }
    Ok(Found {
        keys: keys.into_iter().collect(),
        is_complete,
    })
}

/// Lists the services of the slices that Karmada dispatched. The bool is true if every member was
/// read.
async fn of_slices(hub: &ApiServer, args: &MoveArgs) -> Result<(Vec<ServiceKey>, bool), Failure> {
    let clusters = once::clusters(hub).await?.unwrap_or_default();
    let dispatched = karmada::dispatched();
    let parameters = &ListParams::default().labels(&dispatched);
    let read = connect::read_each(
        hub,
        clusters.iter(),
        args.insecure.allow_insecure_members,
        |member| async move {
            let slices = member.list_metadata::<EndpointSlice>(member.all(), parameters);
            let keys = slices.await?.into_iter().filter_map(|slice| {
                let name = slice.metadata.labels?.remove(labels::SERVICE_NAME)?;
                Some(ServiceKey::new(slice.metadata.namespace?, name))
            });
            Ok::<_, RequestError>(keys.collect::<Vec<_>>())
        },
    );
    let (mut keys, mut is_complete) = (Vec::new(), true);
    for (member, answer) in read.await {
        match answer {
            Ok(found) => keys.extend(found),
            Err(why) => {
                is_complete = false;
                output::progress(format_args!(
                    "note: cannot read {member}, so services of which Karmada left only \
                     EndpointSlices there are not found: {why}"
                ))?;
            }
        }
    }
    Ok((keys, is_complete))
}
