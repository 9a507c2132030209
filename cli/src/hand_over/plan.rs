//! What holds up that Karmada carries a service alone, and the last write. Pure.

use causeway::api::ownership::{self, NATIVE_OWNER};
use causeway::api::{Cluster, SyncMode, condition, labels};
use causeway::domain::{self, ClusterName};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::explain::scene::{Held, Scene};
use crate::karmada::binding;
use crate::karmada::outcome::{Left, Plan};
use crate::karmada::step::{Step, Target};

/// What is to be waited for; where that is nothing, causeway's finalizer is to go.
pub(super) fn plan(scene: &Scene) -> Plan {
    let left = held_up(scene);
    if !left.is_empty() {
        return Plan {
            steps: Vec::new(),
            left,
        };
    }
    Plan::steps(release(scene).into_iter().collect())
}

/// Why it cannot be handed over at all.
pub(super) fn obstacle(scene: &Scene) -> Option<String> {
    let Some(object) = &scene.wish else {
        return Some("the hub has no MultiClusterService of the name".to_owned());
    };
    let deleted = object.metadata.deletion_timestamp.is_some();
    deleted.then(|| "it is being deleted".to_owned())
}

fn held_up(scene: &Scene) -> Vec<Left> {
    let mut left = unprovided(scene);
    for (name, held) in &scene.members {
        match held {
            Ok(held) => left.extend(causeways(scene, name, held)),
            Err(why) if takes_part(scene, name) => left.push(Left::member(
                name,
                format!("it could not be read, so what causeway has there is not known: {why}"),
            )),
            Err(_) => {}
        }
    }
    left
}

/// The providers from which Karmada does not collect endpoints. It passes over clusters that are not ready.
fn unprovided(scene: &Scene) -> Vec<Left> {
    let Some(wish) = wish(scene) else {
        return vec![Left::hub(
            "the MultiClusterService cannot be read".to_owned(),
        )];
    };
    let works = scene.works.as_deref().unwrap_or_default();
    let collected = |name: &str| {
        let mut works = works.iter().filter(|work| work.holds_service());
        works.any(|work| work.member() == name)
    };
    let providers = scene.clusters.iter().filter(|cluster| {
        let name = ClusterName::try_from(cluster.name_any().as_str());
        name.is_ok_and(|name| wish.providers.includes(&name)) && is_ready(cluster)
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

/// What causeway still has in a member for the MultiClusterService.
fn causeways(scene: &Scene, member: &str, held: &Held) -> Vec<Left> {
    let mut left = Vec::new();
    let copies = held.slices_of(&scene.key.name);
    let copies =
        copies.filter(|slice| scene.is_ours(*slice) && crate::explain::scene::is_copy(slice));
    for copy in copies {
        let provider = copy.labels().get(labels::SOURCE_CLUSTER);
        let provider = provider.map_or("its provider", String::as_str);
        let karmadas = scene.dispatched(held, provider).next();
        let why = match karmadas {
            Some(_) => {
                format!("causeway's copy is there yet, beside Karmada's slices of {provider}")
            }
            None => format!(
                "causeway's copy is there yet, for Karmada has dispatched no slice of {provider}"
            ),
        };
        left.push(Left::slice(member, copy, why));
    }
    if let Some(service) = held.service(&scene.key.name)
        && bears_mark(scene, service)
    {
        let of_karmada = ownership::is_karmadas(&service.metadata);
        let why = match (of_karmada, &scene.unapplied) {
            (true, _) => {
                "Karmada has taken the Service over, and causeway's label is on it yet".to_owned()
            }
            (false, Some(unapplied)) => {
                format!(
                    "the Service is causeway's yet. {}: {}",
                    unapplied.message, unapplied.remedy
                )
            }
            (false, None) => format!(
                "the Service is causeway's yet: Karmada has not taken it over (ResourceBinding {})",
                binding::name(&scene.key.name)
            ),
        };
        left.push(Left::member(member, why));
    }
    let published = held
        .exports
        .iter()
        .filter(|one| is_native(scene, *one))
        .count()
        + held
            .imports
            .iter()
            .filter(|one| is_native(scene, *one))
            .count();
    if published > 0 {
        let why =
            "causeway's ServiceExport or ServiceImport of it is there yet (--publish-exports)";
        left.push(Left::member(member, why.to_owned()));
    }
    left
}

/// Whether it bears this hub's label, also where it is somebody else's already.
fn bears_mark<K: Resource>(scene: &Scene, object: &K) -> bool {
    let mark = object.labels().get(labels::HUB);
    mark.is_some_and(|mark| scene.hub_uid.as_ref().is_none_or(|own| own == mark))
}

fn is_native<K: Resource>(scene: &Scene, object: &K) -> bool {
    let owner = object.annotations().get(labels::OWNER);
    scene.is_ours(object) && owner.is_some_and(|owner| owner.starts_with(NATIVE_OWNER))
}

fn wish(scene: &Scene) -> Option<domain::MultiClusterService> {
    domain::MultiClusterService::try_from(scene.wish.as_ref()?).ok()
}

fn takes_part(scene: &Scene, name: &str) -> bool {
    let (Some(wish), Ok(name)) = (wish(scene), ClusterName::try_from(name)) else {
        return true;
    };
    wish.providers.includes(&name) || wish.consumers.includes(&name)
}

fn is_ready(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &*status.conditions);
    cluster.spec.sync_mode != Some(SyncMode::Pull)
        && condition::is_true(conditions.unwrap_or_default(), condition::READY)
}

/// Takes causeway's finalizer, and the probe, off the MultiClusterService: the controller sets none while Karmada carries it.
fn release(scene: &Scene) -> Option<Step> {
    let object = scene.wish.as_ref()?;
    let finalizers = object.finalizers();
    let is_held = finalizers.iter().any(|one| one == labels::FINALIZER);
    let is_probed = object.annotations().contains_key(labels::PROBE);
    if !is_held && !is_probed {
        return None;
    }
    let mut metadata = json!({ "resourceVersion": object.metadata.resource_version });
    if is_held {
        let others = finalizers.iter().filter(|one| *one != labels::FINALIZER);
        metadata["finalizers"] = json!(others.collect::<Vec<_>>());
    }
    if is_probed {
        metadata["annotations"] = json!({ labels::PROBE: Value::Null });
    }
    let patch = json!({ "metadata": metadata });
    Some(Step::PatchService(Target::of(object), patch))
}

#[cfg(test)]
mod tests;
