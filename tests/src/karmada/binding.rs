//! Works of a Service of the hub: the detector, the scheduler, the binding controller, and its
//! status.
//!
//! | here | there |
//! | --- | --- |
//! | [`detect`] | `pkg/detector/detector.go`, Reconcile and ApplyPolicy: what a policy claimed is read again when it changes; what a MultiClusterService claimed is left alone, whether its controller runs or not |
//! | [`Controller::schedule`] | the scheduler, with nothing to choose: every cluster that the placement names |
//! | [`Controller::sync`] | `pkg/controllers/binding/binding_controller.go`, syncBinding and removeOrphanWorks; `common.go`, ensureWork |
//! | [`tell`] | `pkg/util/helper/workstatus.go`, AggregateResourceBindingWorkStatus |

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt as _};

use super::mcs::binding_of;
use super::names;
use super::objects::{
    BindingStatus, ClusterResult, ConflictResolution, ResourceBinding, TargetCluster, Work,
    condition, keep_work, map, set_condition, update, work,
};
use super::plane::{Plane, services};
use super::queue::{Change, Error, Key, Queue, watch};

/// Runs for ever.
pub(super) async fn run(plane: Plane) {
    let (bindings, statuses, templates) = (
        Queue::new("binding-controller"),
        Queue::new("rb-status-controller"),
        Queue::new("detector"),
    );
    let (binding_changed, to_tell, work_changed, template_changed) = (
        bindings.adder(),
        statuses.adder(),
        statuses.adder(),
        templates.adder(),
    );
    let seen = plane.clone();
    let hub_bindings = watch(plane.all::<ResourceBinding>(), move |change| match change {
        Change::Updated(old, new) if old.metadata.generation == new.metadata.generation => {}
        Change::Added(binding) | Change::Updated(_, binding) | Change::Deleted(binding) => {
            binding_changed.add(Key::of(&binding));
            to_tell.add(Key::of(&binding));
        }
    });
    let hub_works = seen.watch_works(Api::all(plane.hub.clone()), move |change| {
        work_changed.add(binding_of_work(change.latest()));
    });
    let hub_services = watch(
        plane.all_of(&plane.hub, &services()),
        move |change| match change {
            Change::Added(service) | Change::Updated(_, service) => {
                template_changed.add(Key::of(&service))
            }
            Change::Deleted(_) => {}
        },
    );
    let controller = Controller(plane.clone());
    let bindings = bindings.work(async |key| controller.reconcile(key).await);
    let statuses = statuses.work(async |key| tell(&plane, key).await);
    let templates = templates.work(async |key| detect(&plane, key).await);
    tokio::join!(
        hub_bindings,
        hub_works,
        hub_services,
        bindings,
        statuses,
        templates
    );
}

fn binding_of_work(work: &Work) -> Key {
    let annotation = |name: &str| work.annotations().get(name).cloned().unwrap_or_default();
    Key {
        namespace: annotation(names::BINDING_NAMESPACE),
        name: annotation(names::BINDING_NAME),
    }
}

/// Applies a PropagationPolicy to the Service that it selects (`pkg/detector`, ApplyPolicy and
/// AddPPClaimMetadata).
pub(super) async fn propagate(
    plane: &Plane,
    service: &Key,
    clusters: &[&str],
    resolution: ConflictResolution,
) -> Result<(), Error> {
    let services = plane.service(&service.namespace);
    let mut template = services.get(&service.name).await?;
    if template.labels().contains_key(names::CLAIMED_BY) {
        return Err(Error::Refused(format!(
            "{} is claimed by a MultiClusterService: no policy propagates it",
            service.name
        )));
    }
    let id = crate::control_plane::secret();
    let annotations = map(&[
        (names::POLICY_NAME, &service.name),
        (names::POLICY_NAMESPACE, &service.namespace),
    ]);
    template
        .labels_mut()
        .insert(names::POLICY_ID.to_owned(), id.clone());
    template.annotations_mut().extend(annotations.clone());
    let template = services
        .replace(&service.name, &update(), &template)
        .await?;
    let clusters = clusters.iter().map(|name| (*name).to_owned()).collect();
    let mut binding = binding_of(&template, clusters, resolution);
    binding.metadata.labels = Some(map(&[(names::POLICY_ID, &id)]));
    binding.metadata.annotations = Some(annotations);
    plane.keep_binding(binding).await
}

async fn detect(plane: &Plane, key: &Key) -> Result<(), Error> {
    let Some(template) = plane.service(&key.namespace).get_opt(&key.name).await? else {
        return Ok(());
    };
    if template.labels().contains_key(names::CLAIMED_BY)
        || !template.labels().contains_key(names::POLICY_ID)
    {
        return Ok(());
    }
    let bindings = plane.bindings(&key.namespace);
    let Some(mut binding) = bindings
        .get_opt(&names::binding_name("Service", &key.name))
        .await?
    else {
        return Ok(());
    };
    binding.spec.resource.resource_version = template.resource_version().unwrap_or_default();
    plane.keep_binding(binding).await
}

struct Controller(Plane);

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<(), Error> {
        let bindings = self.0.bindings(&key.namespace);
        let Some(mut binding) = bindings.get_opt(&key.name).await? else {
            return Ok(());
        };
        let id = binding
            .labels()
            .get(names::BINDING_ID)
            .cloned()
            .unwrap_or_default();
        if binding.metadata.deletion_timestamp.is_none() {
            return self.sync(self.schedule(binding).await?, &id).await;
        }
        for work in self.0.works(&[(names::BINDING_ID, &id)]).await? {
            self.0.delete(&work).await?;
        }
        binding
            .finalizers_mut()
            .retain(|one| one != names::BINDING_FINALIZER);
        bindings.replace(&key.name, &update(), &binding).await?;
        Ok(())
    }

    async fn schedule(&self, mut binding: ResourceBinding) -> Result<ResourceBinding, Error> {
        let named = binding.spec.placement.cluster_affinity.cluster_names.iter();
        let chosen = named.filter(|name| self.0.has(name)).cloned();
        let chosen: Vec<_> = chosen.map(|name| TargetCluster { name }).collect();
        if binding.spec.clusters == chosen {
            return Ok(binding);
        }
        binding.spec.clusters = chosen;
        let bindings = self.0.bindings(&binding.namespace().unwrap_or_default());
        Ok(bindings
            .replace(&binding.name_any(), &update(), &binding)
            .await?)
    }

    async fn sync(&self, binding: ResourceBinding, id: &str) -> Result<(), Error> {
        for work in self.0.works(&[(names::BINDING_ID, id)]).await? {
            let space = work.namespace().unwrap_or_default();
            let chosen = binding
                .spec
                .clusters
                .iter()
                .any(|one| Some(one.name.as_str()) == names::cluster_of(&space));
            if !chosen {
                self.0.delete(&work).await?;
            }
        }
        let resource = &binding.spec.resource;
        let Some(template) = self
            .0
            .service(&resource.namespace)
            .get_opt(&resource.name)
            .await?
        else {
            return Ok(());
        };
        for cluster in &binding.spec.clusters {
            self.keep(&binding, id, &template, &cluster.name).await?;
        }
        Ok(())
    }

    /// ensureWork, mergeLabel, mergeAnnotations, mergeConflictResolution.
    async fn keep(
        &self,
        binding: &ResourceBinding,
        id: &str,
        template: &DynamicObject,
        cluster: &str,
    ) -> Result<(), Error> {
        let mut object = template.clone();
        let (namespace, name) = (binding.namespace().unwrap_or_default(), binding.name_any());
        let own = map(&[
            (names::BINDING_NAMESPACE, &namespace),
            (names::BINDING_NAME, &name),
        ]);
        object
            .labels_mut()
            .insert(names::BINDING_ID.to_owned(), id.to_owned());
        object.annotations_mut().extend(own.clone());
        if let Some(generation) = template
            .metadata
            .generation
            .filter(|generation| *generation > 0)
        {
            object.annotations_mut().insert(
                names::TEMPLATE_GENERATION.to_owned(),
                generation.to_string(),
            );
        }
        let asked = template
            .annotations()
            .get(names::CONFLICT_RESOLUTION)
            .map(String::as_str);
        let resolution = match (asked, binding.spec.conflict_resolution) {
            (Some("overwrite"), _) | (_, ConflictResolution::Overwrite)
                if asked != Some("abort") =>
            {
                "overwrite"
            }
            _ => "abort",
        };
        let work_name = names::work_name(
            "Service",
            &template.name_any(),
            &template.namespace().unwrap_or_default(),
        );
        let mut kept = work(cluster, &work_name, &[(names::BINDING_ID, id)], false);
        kept.annotations_mut().extend(own);
        kept.annotations_mut()
            .insert(names::CONFLICT_RESOLUTION.to_owned(), resolution.to_owned());
        kept.metadata.finalizers = Some(vec![names::EXECUTION_FINALIZER.to_owned()]);
        keep_work(&self.0.hub, kept, object).await
    }
}

async fn tell(plane: &Plane, key: &Key) -> Result<(), Error> {
    let bindings = plane.bindings(&key.namespace);
    if key.name.is_empty() {
        return Ok(());
    }
    let Some(mut binding) = bindings.get_opt(&key.name).await? else {
        return Ok(());
    };
    let id = binding
        .labels()
        .get(names::BINDING_ID)
        .cloned()
        .unwrap_or_default();
    let works = plane.works(&[(names::BINDING_ID, &id)]).await?;
    let mut results: Vec<_> = works.iter().filter_map(result).collect();
    results.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    let applied: BTreeSet<_> = results
        .iter()
        .filter(|one| one.applied)
        .map(|one| &one.cluster_name)
        .collect();
    let fully = !binding.spec.clusters.is_empty()
        && binding
            .spec
            .clusters
            .iter()
            .all(|one| applied.contains(&one.name));
    let (reason, message) = if fully {
        (
            "FullyAppliedSuccess",
            "All works have been successfully applied",
        )
    } else {
        (
            "FullyAppliedFailed",
            "Failed to apply all works, see status.aggregatedStatus for details",
        )
    };
    let before = binding.status.clone();
    let status = binding.status.get_or_insert_with(BindingStatus::default);
    let applied = condition("FullyApplied", fully, reason, message);
    set_condition(&mut status.conditions, applied);
    status.aggregated_status = results;
    if binding.status != before {
        bindings
            .replace_status(&key.name, &update(), &binding)
            .await?;
    }
    Ok(())
}

/// assembleWorkStatus.
fn result(work: &Work) -> Option<ClusterResult> {
    if work.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = work.status.iter().flat_map(|status| &status.conditions);
    let condition: Option<&Condition> = conditions.into_iter().find(|one| one.type_ == "Applied");
    let applied = condition.is_some_and(|one| one.status == "True");
    let message = condition
        .filter(|_| !applied)
        .map(|one| one.message.clone());
    Some(ClusterResult {
        cluster_name: names::cluster_of(&work.namespace().unwrap_or_default())?.to_owned(),
        applied,
        applied_message: message.unwrap_or_default(),
        health: "Unknown".to_owned(),
    })
}
