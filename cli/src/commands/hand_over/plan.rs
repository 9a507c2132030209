//! Plans the hand-over of a service to Karmada: the objects to wait for, and the last write. Pure.

use causeway::api::ownership::{self, NATIVE_OWNER};
use causeway::api::{Cluster, condition, labels};
use causeway::domain::ClusterName;
use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt};

use crate::cluster::conditions::Conditions as _;
use crate::cluster::karmada::binding;
use crate::commands::membership::is_kept;
use crate::commands::moving::outcome::{Left, Plan, takes_part};
use crate::commands::moving::step::Step;
use crate::observe::service::{Held, OfService as _, Snapshot, is_copy};

/// Returns the objects to wait for, or the removal of causeway's finalizer if none remain.
pub(super) fn plan(snapshot: &Snapshot) -> Plan {
    let left = held_up(snapshot);
    if !left.is_empty() {
        return Plan {
            steps: Vec::new(),
            left,
        };
    }
    Plan::steps(release(snapshot).into_iter().collect())
}

/// Returns the reason that a service cannot be handed over.
pub(super) fn obstacle(snapshot: &Snapshot) -> Option<String> {
    let Some(object) = &snapshot.mcs else {
        return Some("MultiClusterService not found on the hub".to_owned());
    };
    let deleted = object.metadata.deletion_timestamp.is_some();
    deleted.then(|| "the MultiClusterService is being deleted".to_owned())
}

/// Lists the objects to wait for. The controller removes causeway's finalizer once it has observed
/// that no member holds objects of the service. Until then every unread member may hold some, also
/// a former consumer.
fn held_up(snapshot: &Snapshot) -> Vec<Left> {
    let is_unclean = snapshot.mcs.as_ref().is_some_and(is_kept);
    let mut left = unprovided(snapshot);
    for (name, held) in &snapshot.members {
        match held {
            Ok(held) => left.extend(causeways(snapshot, name, held)),
            Err(why) if is_unclean || takes_part(snapshot, name) => {
                left.push(Left::unread(snapshot, name, "causeway", why));
            }
            Err(_) => {}
        }
    }
    left
}

/// Lists the ready providers from which Karmada does not collect endpoints. Karmada skips clusters
/// that are not ready.
fn unprovided(snapshot: &Snapshot) -> Vec<Left> {
    let Some(desired) = snapshot.desired() else {
        return vec![Left::hub(
            "the MultiClusterService cannot be read".to_owned(),
        )];
    };
    let works = snapshot.works.as_deref().unwrap_or_default();
    let collected = |name: &str| {
        let mut works = works.iter().filter(|work| work.holds_service());
        works.any(|work| work.member() == name)
    };
    let providers = snapshot.clusters.iter().filter(|cluster| {
        let name = ClusterName::try_from(cluster.name_any().as_str());
        name.is_ok_and(|name| desired.providers.includes(&name)) && is_ready(cluster)
    });
    let names = providers.map(ResourceExt::name_any);
    let missing = names.filter(|name| !collected(name));
    missing
        .map(|name| {
            let why = "Karmada has no Work with the MultiClusterService there, so it collects no endpoints from it";
            Left::member(&name, why.to_owned())
        })
        .collect()
}

/// Lists the objects that causeway still has in a member for the MultiClusterService.
fn causeways(snapshot: &Snapshot, member: &str, held: &Held) -> Vec<Left> {
    let mut left = Vec::new();
    let copies = held.slices_of(&snapshot.key.name);
    for copy in copies.filter(|slice| snapshot.is_ours(*slice) && is_copy(slice)) {
        let provider = ownership::source_member(copy.meta()).unwrap_or("its provider");
        let karmadas = snapshot.dispatched(held, provider).next();
        let why = match karmadas {
            Some(_) => {
                format!("causeway's copy still exists, beside Karmada's slices of {provider}")
            }
            None => format!(
                "causeway's copy still exists, because Karmada has dispatched no slice of {provider}"
            ),
        };
        left.push(Left::slice(member, copy, why));
    }
    let service = held.service(&snapshot.key.name);
    if let Some(service) = service.filter(|one| bears_mark(snapshot, *one)) {
        left.push(Left::member(member, marked(snapshot, service)));
    }
    left.extend(copied_labels(snapshot, member, held));
    if let Some(companion) = held.service(&snapshot.key.companion().name)
        && is_native(snapshot, companion)
    {
        let why = "causeway's Service by which clusters of other networks enter still exists";
        left.push(Left::member(member, why.to_owned()));
    }
    let is_published = held.exports.iter().any(|one| is_native(snapshot, one))
        || held.imports.iter().any(|one| is_native(snapshot, one));
    if is_published {
        let why =
            "causeway's ServiceExport or ServiceImport of it still exists (--publish-exports)";
        left.push(Left::member(member, why.to_owned()));
    }
    left
}

/// Returns the reason that a Service still has causeway's mark.
fn marked(snapshot: &Snapshot, service: &Service) -> String {
    match &snapshot.unapplied {
        _ if ownership::is_karmadas(&service.metadata) => {
            "Karmada manages the Service now, and it still has causeway's label or annotation"
                .to_owned()
        }
        Some(unapplied) => format!(
            "causeway still manages the Service. {}: {}",
            unapplied.message, unapplied.remedy
        ),
        None => format!(
            "causeway still manages the Service: Karmada has not taken it over (ResourceBinding {})",
            binding::name(&snapshot.key.name)
        ),
    }
}

/// Lists the slices that Kubernetes created for the Service and that still carry this hub's label.
/// Kubernetes copies labels of the Service to its slices. If the Service has a selector, Kubernetes
/// removes the label. If the Service has none, the controller deletes the slice.
fn copied_labels(snapshot: &Snapshot, member: &str, held: &Held) -> Vec<Left> {
    let slices = held.slices_of(&snapshot.key.name);
    let copied = slices.filter(|slice| {
        let is_kept = held.service(&snapshot.key.name).is_some();
        is_kept && bears_label(snapshot, *slice) && !is_copy(slice)
    });
    let why = "the EndpointSlice that Kubernetes made for the Service still has causeway's label";
    copied
        .map(|slice| Left::slice(member, slice, why.to_owned()))
        .collect()
}

/// Whether an object has this hub's label, or an owner annotation and no hub's label. Also true for
/// objects that are foreign by now.
fn bears_mark<K: Resource>(snapshot: &Snapshot, object: &K) -> bool {
    let is_labelled = object.labels().contains_key(labels::HUB);
    let is_recorded = object.annotations().contains_key(labels::OWNER);
    bears_label(snapshot, object) || (!is_labelled && is_recorded)
}

fn bears_label<K: Resource>(snapshot: &Snapshot, object: &K) -> bool {
    let mark = object.labels().get(labels::HUB);
    mark.is_some_and(|mark| snapshot.hub_uid.as_ref().is_none_or(|own| own == mark))
}

fn is_native<K: Resource>(snapshot: &Snapshot, object: &K) -> bool {
    let owner = object.annotations().get(labels::OWNER);
    snapshot.is_ours(object) && owner.is_some_and(|owner| owner.starts_with(NATIVE_OWNER))
}

fn is_ready(cluster: &Cluster) -> bool {
    cluster.takes_part() && condition::is_true(cluster.conditions(), condition::READY)
}

/// Removes causeway's finalizer and the probe annotation from the MultiClusterService. The
/// controller adds no finalizer while Karmada manages the service.
fn release(snapshot: &Snapshot) -> Option<Step> {
    Step::release(snapshot.mcs.as_ref()?, |one| one == labels::FINALIZER)
}

#[cfg(test)]
mod tests;
