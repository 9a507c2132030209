//! The MultiClusterService controller: `pkg/controllers/multiclusterservice/mcs_controller.go`.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::MultiClusterService;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::names;
use super::objects::{
    ClusterAffinity, ConflictResolution, ObjectReference, Placement, ResourceBinding,
    ResourceBindingSpec, Work, condition, keep_work, map, store_condition, update, work,
};
use super::plane::{Plane, services};
use super::queue::{Change, Error, Key, Queue, watch};

/// Runs for ever.
pub(super) async fn run(plane: Plane) {
    let queue = Queue::new("multiclusterservice-controller");
    let (own, templates) = (queue.adder(), queue.adder());
    let multi_cluster_services = watch(plane.all::<MultiClusterService>(), move |change| {
        if let Some(key) = concerns(change) {
            own.add(key);
        }
    });
    // Any Service is looked at; most have no MultiClusterService of their name.
    let hub_services = watch(
        plane.all_of(&plane.hub, &services()),
        move |change| match change {
            Change::Added(service) | Change::Deleted(service) => templates.add(Key::of(&service)),
            Change::Updated(old, new) if content(&old) != content(&new) => {
                templates.add(Key::of(&new))
            }
            Change::Updated(..) => {}
        },
    );
    let controller = Controller(plane);
    let work = queue.work(async |key| controller.reconcile(key).await);
    tokio::join!(multi_cluster_services, hub_services, work);
}

/// The predicate of SetupWithManager: a status or a label alone is nothing.
fn concerns(change: Change<MultiClusterService>) -> Option<Key> {
    match change {
        Change::Added(new) => is_cross_cluster(&new).then(|| Key::of(&new)),
        Change::Updated(old, new) => {
            let same = old.annotations() == new.annotations()
                && old.spec == new.spec
                && old.metadata.deletion_timestamp.is_some()
                    == new.metadata.deletion_timestamp.is_some();
            let either = is_cross_cluster(&old) || is_cross_cluster(&new);
            (either && !same).then(|| Key::of(&new))
        }
        Change::Deleted(_) => None,
    }
}

fn content(
    service: &DynamicObject,
) -> (
    &BTreeMap<String, String>,
    &BTreeMap<String, String>,
    &serde_json::Value,
) {
    (
        service.annotations(),
        service.labels(),
        &service.data["spec"],
    )
}

fn is_cross_cluster(service: &MultiClusterService) -> bool {
    service
        .spec
        .types
        .iter()
        .any(|type_| type_ == "CrossCluster")
}

fn id(service: &MultiClusterService) -> &str {
    service
        .labels()
        .get(names::SERVICE_ID)
        .map_or("", String::as_str)
}

struct Controller(Plane);

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<(), Error> {
        let services = self.0.multi_cluster_services(&key.namespace);
        let Some(service) = services.get_opt(&key.name).await? else {
            return Ok(());
        };
        if service.metadata.deletion_timestamp.is_some() {
            return self.withdraw(service, &BTreeSet::new()).await;
        }
        // As serviceHasCrossClusterMultiClusterService, for what a Service's event brings.
        let had = service
            .finalizers()
            .iter()
            .any(|one| one == names::SERVICE_FINALIZER);
        if !is_cross_cluster(&service) && !had {
            return Ok(());
        }
        let service = self.identified(service).await?;
        let applied = self.apply(service).await;
        let (reason, message) = match &applied {
            Ok(()) => (
                "ServiceAppliedSucceed",
                "Service is propagated to target clusters.".to_owned(),
            ),
            Err(error) => ("ServiceAppliedFailed", error.to_string()),
        };
        let reported = condition("ServiceApplied", applied.is_ok(), reason, &message);
        self.0.report(key, reported).await?;
        applied
    }

    /// `pkg/webhook/multiclusterservice/mutating.go` gives each an identity; where no webhook is
    /// registered, this stands for it.
    async fn identified(&self, service: MultiClusterService) -> Result<MultiClusterService, Error> {
        if !id(&service).is_empty() {
            return Ok(service);
        }
        let patch =
            json!({"metadata": {"labels": {names::SERVICE_ID: crate::control_plane::secret()}}});
        let services = self
            .0
            .multi_cluster_services(&service.namespace().unwrap_or_default());
        let (name, patch) = (service.name_any(), Patch::Merge(patch));
        Ok(services
            .patch(&name, &PatchParams::default(), &patch)
            .await?)
    }

    /// handleMultiClusterServiceCreateOrUpdate.
    async fn apply(&self, mut service: MultiClusterService) -> Result<(), Error> {
        let providers = self.0.clusters(&service.spec.provider_clusters);
        let consumers = self.0.clusters(&service.spec.consumer_clusters);
        if !is_cross_cluster(&service) {
            return self.withdraw(service, &providers).await;
        }
        let namespace = service.namespace().unwrap_or_default();
        if !service
            .finalizers()
            .iter()
            .any(|one| one == names::SERVICE_FINALIZER)
        {
            service
                .finalizers_mut()
                .push(names::SERVICE_FINALIZER.to_owned());
            let services = self.0.multi_cluster_services(&namespace);
            service = services
                .replace(&service.name_any(), &update(), &service)
                .await?;
        }
        self.propagate(&service, &providers).await?;
        self.retrieve_works(&service, &providers).await?;
        let template = self.0.service(&namespace).get(&service.name_any()).await?;
        let template = self.claim(template, &service).await?;
        self.bind(&template, &service, providers.union(&consumers))
            .await
    }

    /// propagateMultiClusterService: the service itself, as a Work that does nothing, in each
    /// provider's namespace.
    async fn propagate(
        &self,
        service: &MultiClusterService,
        providers: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let work_name = names::work_name(names::MULTI_CLUSTER_SERVICE, &name, &namespace);
        let labels = [
            (names::SERVICE_ID, id(service)),
            (names::SERVICE_NAMESPACE, namespace.as_str()),
            (names::SERVICE_NAME, name.as_str()),
        ];
        for cluster in providers.iter().filter(|cluster| self.0.has(cluster)) {
            let object = serde_json::from_value(serde_json::to_value(service)?)?;
            keep_work(
                &self.0.hub,
                work(cluster, &work_name, &labels, true),
                object,
            )
            .await?;
        }
        Ok(())
    }

    /// handleMultiClusterServiceDelete, and the same for a type that is no more CrossCluster.
    async fn withdraw(
        &self,
        mut service: MultiClusterService,
        kept: &BTreeSet<String>,
    ) -> Result<(), Error> {
        self.retrieve_service(&service).await?;
        self.retrieve_works(&service, kept).await?;
        if service
            .finalizers()
            .iter()
            .any(|one| one == names::SERVICE_FINALIZER)
        {
            service
                .finalizers_mut()
                .retain(|one| one != names::SERVICE_FINALIZER);
            let services = self
                .0
                .multi_cluster_services(&service.namespace().unwrap_or_default());
            services
                .replace(&service.name_any(), &update(), &service)
                .await?;
        }
        Ok(())
    }

    /// retrieveMultiClusterService and cleanProviderEndpointSliceWork: where it is provided no
    /// more, what was collected goes, then its own Work.
    async fn retrieve_works(
        &self,
        service: &MultiClusterService,
        kept: &BTreeSet<String>,
    ) -> Result<(), Error> {
        for own in self.0.works(&[(names::SERVICE_ID, id(service))]).await? {
            let namespace = own.namespace().unwrap_or_default();
            let Some(cluster) = names::cluster_of(&namespace) else {
                continue;
            };
            if !own.contains(names::MULTI_CLUSTER_SERVICE) || kept.contains(cluster) {
                continue;
            }
            let of_service = [
                (names::SERVICE_NAME, own.label(names::SERVICE_NAME)),
                (
                    names::SERVICE_NAMESPACE,
                    own.label(names::SERVICE_NAMESPACE),
                ),
            ];
            for collected in self.0.works_of(cluster, &of_service).await? {
                if collected.contains("EndpointSlice") && !collected.is_dispatched() {
                    give_up(&self.0, collected).await?;
                }
            }
            self.0.delete(&own).await?;
        }
        Ok(())
    }

    /// retrieveService: the claim ends; the binding stays, and goes on.
    async fn retrieve_service(&self, service: &MultiClusterService) -> Result<(), Error> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let services = self.0.service(&namespace);
        let Some(mut template) = services.get_opt(&name).await? else {
            return Ok(());
        };
        template.labels_mut().remove(names::CLAIMED_BY);
        template.labels_mut().remove(names::SERVICE_ID);
        services.replace(&name, &update(), &template).await?;
        let bindings = self.0.bindings(&namespace);
        let Some(mut binding) = bindings
            .get_opt(&names::binding_name("Service", &name))
            .await?
        else {
            return Ok(());
        };
        binding.annotations_mut().remove(names::SERVICE_NAME);
        binding.annotations_mut().remove(names::SERVICE_NAMESPACE);
        binding.labels_mut().remove(names::BINDING_MANAGED_BY);
        binding.labels_mut().remove(names::SERVICE_ID);
        bindings
            .replace(&binding.name_any(), &update(), &binding)
            .await?;
        Ok(())
    }

    /// claimMultiClusterServiceForService: no policy propagates it from now on.
    async fn claim(
        &self,
        mut template: DynamicObject,
        service: &MultiClusterService,
    ) -> Result<DynamicObject, Error> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let labels = template.labels_mut();
        labels.remove(names::POLICY_ID);
        labels.extend(map(&[
            (names::CLAIMED_BY, names::MULTI_CLUSTER_SERVICE),
            (names::SERVICE_ID, id(service)),
        ]));
        let annotations = template.annotations_mut();
        annotations.remove(names::POLICY_NAME);
        annotations.remove(names::POLICY_NAMESPACE);
        annotations.extend(map(&[
            (names::SERVICE_NAME, &name),
            (names::SERVICE_NAMESPACE, &namespace),
        ]));
        Ok(self
            .0
            .service(&namespace)
            .replace(&name, &update(), &template)
            .await?)
    }

    /// propagateService and buildResourceBinding: providers and consumers alike get the Service,
    /// whatever is there.
    async fn bind(
        &self,
        template: &DynamicObject,
        service: &MultiClusterService,
        clusters: impl Iterator<Item = &String>,
    ) -> Result<(), Error> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let labels = map(&[
            (names::BINDING_MANAGED_BY, names::MULTI_CLUSTER_SERVICE),
            (names::SERVICE_ID, id(service)),
        ]);
        let annotations = map(&[
            (names::SERVICE_NAME, &name),
            (names::SERVICE_NAMESPACE, &namespace),
        ]);
        let mut binding = binding_of(
            template,
            clusters.cloned().collect(),
            ConflictResolution::Overwrite,
        );
        binding.metadata.labels = Some(labels);
        binding.metadata.annotations = Some(annotations);
        self.0.keep_binding(binding).await
    }
}

/// The binding of a Service to these clusters, with nobody's claim on it yet.
pub(super) fn binding_of(
    template: &DynamicObject,
    mut cluster_names: Vec<String>,
    conflict_resolution: ConflictResolution,
) -> ResourceBinding {
    let (namespace, name) = (
        template.namespace().unwrap_or_default(),
        template.name_any(),
    );
    let uid = template.uid().unwrap_or_default();
    cluster_names.sort();
    cluster_names.dedup();
    let spec = ResourceBindingSpec {
        resource: ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            resource_version: template.resource_version().unwrap_or_default(),
        },
        placement: Placement {
            cluster_affinity: ClusterAffinity { cluster_names },
        },
        clusters: Vec::new(),
        conflict_resolution,
    };
    let mut binding = ResourceBinding::new(&names::binding_name("Service", &name), spec);
    binding.metadata.namespace = Some(namespace);
    binding.metadata.finalizers = Some(vec![names::BINDING_FINALIZER.to_owned()]);
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name,
        uid,
        ..OwnerReference::default()
    };
    binding.metadata.owner_references = Some(vec![owner]);
    binding
}

/// cleanProviderClustersEndpointSliceWork (`endpointslice_collect_controller.go`): deletes what was
/// collected, or, where ServiceExport's controllers collect it too, leaves it to them.
pub(super) async fn give_up(plane: &Plane, mut collected: Work) -> Result<(), Error> {
    let others = collected
        .label(names::COLLECTED_BY)
        .split('.')
        .filter(|one| *one != names::MULTI_CLUSTER_SERVICE);
    // An empty label splits into one empty name, which counts there too.
    let others = others.collect::<Vec<_>>().join(".");
    if collected.label(names::COLLECTED_BY) == names::MULTI_CLUSTER_SERVICE {
        return plane.delete(&collected).await;
    }
    let labels = collected.labels_mut();
    labels.remove(names::SERVICE_NAME);
    labels.remove(names::SERVICE_NAMESPACE);
    labels.insert(names::COLLECTED_BY.to_owned(), others);
    let works = Api::<Work>::namespaced(
        plane.hub.clone(),
        &collected.namespace().unwrap_or_default(),
    );
    works
        .replace(&collected.name_any(), &update(), &collected)
        .await?;
    Ok(())
}

impl Plane {
    /// Makes a binding, or changes of an existing one what its maker decides: where the scheduler
    /// put it stays.
    pub(super) async fn keep_binding(&self, wanted: ResourceBinding) -> Result<(), Error> {
        let bindings = self.bindings(&wanted.namespace().unwrap_or_default());
        let name = wanted.name_any();
        let Some(existing) = bindings.get_opt(&name).await? else {
            let mut wanted = wanted;
            // `pkg/webhook/resourcebinding/mutating.go`.
            wanted
                .labels_mut()
                .insert(names::BINDING_ID.to_owned(), crate::control_plane::secret());
            bindings.create(&update(), &wanted).await?;
            return Ok(());
        };
        let mut kept = existing.clone();
        kept.labels_mut().extend(wanted.labels().clone());
        kept.annotations_mut().extend(wanted.annotations().clone());
        kept.metadata.finalizers = wanted.metadata.finalizers;
        kept.metadata.owner_references = wanted.metadata.owner_references;
        kept.spec.placement = wanted.spec.placement;
        kept.spec.resource = wanted.spec.resource;
        kept.spec.conflict_resolution = wanted.spec.conflict_resolution;
        if kept != existing {
            bindings.replace(&name, &update(), &kept).await?;
        }
        Ok(())
    }

    /// Sets a condition of a MultiClusterService.
    pub(super) async fn report(&self, key: &Key, condition: Condition) -> Result<(), Error> {
        let services = self.multi_cluster_services(&key.namespace);
        store_condition(&services, &key.name, condition, |service| {
            let status = service.status.get_or_insert_default();
            status.conditions.get_or_insert_default()
        })
        .await
    }
}
