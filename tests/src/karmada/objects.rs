//! Karmada's own objects on the hub, and what it does to every object on its way to a member.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client, CustomResource, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names;
use super::queue::Error;

/// The definitions of Work and ResourceBinding, as far as they matter: what they hold is not
/// checked.
pub const DEFINITIONS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: works.work.karmada.io}
spec:
  group: work.karmada.io
  scope: Namespaced
  names: {kind: Work, plural: works, singular: work}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: resourcebindings.work.karmada.io}
spec:
  group: work.karmada.io
  scope: Namespaced
  names: {kind: ResourceBinding, plural: resourcebindings, singular: resourcebinding, shortNames: [rb]}
  versions:
  - name: v1alpha2
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Objects that Karmada maintains in one member (`pkg/apis/work/v1alpha1/work_types.go`).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha1",
    kind = "Work",
    namespaced,
    status = "WorkStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// The objects.
    #[serde(default)]
    pub workload: Workload,
    /// Whether nothing is to be done in the member: what was collected there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_dispatching: Option<bool>,
}

/// The objects of a Work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// One, in what the controllers here make.
    #[serde(default)]
    pub manifests: Vec<Value>,
}

/// Result of a Work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkStatus {
    /// Dispatching and Applied.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Destination of a resource of the hub (`pkg/apis/work/v1alpha2/binding_types.go`).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ResourceBinding",
    plural = "resourcebindings",
    namespaced,
    status = "BindingStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// The resource.
    pub resource: ObjectReference,
    /// Permitted destinations.
    #[serde(default)]
    pub placement: Placement,
    /// Destinations that the scheduler chose.
    #[serde(default)]
    pub clusters: Vec<TargetCluster>,
    /// Treatment of an object of another writer in a member.
    #[serde(default)]
    pub conflict_resolution: ConflictResolution,
}

/// The resource of a binding. Its version changes whenever the resource is to be read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "as in metav1")]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
}

/// Permitted destinations of a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// By name.
    #[serde(default)]
    pub cluster_affinity: ClusterAffinity,
}

/// Clusters by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Sorted.
    #[serde(default)]
    pub cluster_names: Vec<String>,
}

/// A cluster that the scheduler chose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetCluster {
    /// Its name.
    pub name: String,
}

/// Treatment of an object of that name in a member that is not Karmada's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictResolution {
    /// It stays, and the Work is not applied. What a PropagationPolicy does by default.
    #[default]
    Abort,
    /// It becomes Karmada's. What a MultiClusterService's binding does.
    Overwrite,
}

/// Result of a binding's Works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// FullyApplied.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// By cluster.
    #[serde(default)]
    pub aggregated_status: Vec<ClusterResult>,
}

/// Result of the Work in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "as Karmada names them")]
pub struct ClusterResult {
    pub cluster_name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    #[serde(default)]
    pub health: String,
}

impl Work {
    /// Whether one of its objects is of this kind (`pkg/util/work.go`, IsWorkContains).
    pub fn contains(&self, kind: &str) -> bool {
        self.spec
            .workload
            .manifests
            .iter()
            .any(|one| one["kind"] == kind)
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend_dispatching == Some(true)
    }

    /// Whether the execution controller has reported that it is applied, or that it is not to be.
    pub(super) fn is_executed(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        let status = |type_: &str| {
            let mut conditions = conditions.clone();
            let reported = conditions.find(|one| one.type_ == type_);
            reported.map(|one| one.status == "True")
        };
        match self.is_suspended() {
            true => status("Dispatching") == Some(false),
            false => status("Applied") == Some(true),
        }
    }

    pub(super) fn label(&self, name: &str) -> &str {
        self.labels().get(name).map_or("", String::as_str)
    }

    /// Whether it keeps a slice in a consumer.
    pub(super) fn is_dispatched(&self) -> bool {
        self.annotations()
            .get(names::PROVISION_CLUSTER)
            .is_some_and(|cluster| !cluster.is_empty())
    }

    /// Its objects.
    pub(super) fn objects(&self) -> Result<Vec<DynamicObject>, Error> {
        let manifests = self.spec.workload.manifests.iter().cloned();
        manifests
            .map(|one| Ok(serde_json::from_value(one)?))
            .collect()
    }
}

/// Takes off what an API server fills in (`pkg/resourceinterpreter/default/native/prune/prune.go`,
/// RemoveIrrelevantFields).
pub(super) fn prune(object: &mut DynamicObject) {
    let metadata = std::mem::take(&mut object.metadata);
    object.metadata.name = metadata.name;
    object.metadata.namespace = metadata.namespace;
    object.metadata.generate_name = metadata.generate_name;
    object.metadata.labels = metadata.labels;
    object.metadata.annotations = metadata.annotations;
    if let Some(data) = object.data.as_object_mut() {
        data.remove("status");
    }
    let is_service = object
        .types
        .as_ref()
        .is_some_and(|types| types.kind == "Service");
    let spec = object.data.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec.filter(|_| is_service)
        && spec.get("clusterIP").is_some_and(|ip| ip != "None")
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}

/// Notes in the object which of its annotations and labels are Karmada's, and whose Work it is
/// (`pkg/util/work.go`, SetLabelsAndAnnotationsForWorkload).
fn record(object: &mut DynamicObject, work_id: &str) {
    let mut annotations: Vec<String> = object.annotations().keys().cloned().collect();
    annotations.extend([names::MANAGED_ANNOTATIONS, names::MANAGED_LABELS].map(str::to_owned));
    annotations.sort();
    annotations.dedup();
    object
        .labels_mut()
        .insert(names::WORK_ID.to_owned(), work_id.to_owned());
    let labels: Vec<String> = object.labels().keys().cloned().collect();
    let noted = object.annotations_mut();
    noted.insert(names::MANAGED_ANNOTATIONS.to_owned(), annotations.join(","));
    noted.insert(names::MANAGED_LABELS.to_owned(), labels.join(","));
}

/// Makes or updates a Work that keeps this object (`pkg/controllers/ctrlutil/work.go`,
/// CreateOrUpdateWork, and what `pkg/webhook/work/mutating.go` adds). What is on its way out is not
/// touched.
pub(super) async fn keep_work(
    hub: &Client,
    wanted: Work,
    object: DynamicObject,
) -> Result<(), Error> {
    let mut object = object;
    let (name, namespace) = (wanted.name_any(), wanted.namespace().unwrap_or_default());
    let uid = object.uid().unwrap_or_default();
    object
        .labels_mut()
        .insert(names::MANAGED.to_owned(), "true".to_owned());
    let annotations = object.annotations_mut();
    annotations.insert(names::TEMPLATE_UID.to_owned(), uid);
    annotations.insert(names::WORK_NAME.to_owned(), name.clone());
    annotations.insert(names::WORK_NAMESPACE.to_owned(), namespace.clone());
    if let Some(resolution) = wanted.annotations().get(names::CONFLICT_RESOLUTION) {
        annotations.insert(names::CONFLICT_RESOLUTION.to_owned(), resolution.clone());
    }
    prune(&mut object);
    let works = Api::<Work>::namespaced(hub.clone(), &namespace);
    loop {
        let existing = works.get_opt(&name).await?;
        let kept = merged(existing.as_ref(), &wanted, object.clone())?;
        let stored = match &existing {
            Some(existing) if *existing == kept => return Ok(()),
            Some(_) => works.replace(&name, &update(), &kept).await,
            None => works.create(&update(), &kept).await,
        };
        match stored.map_err(Error::from) {
            Err(error) if error.is_conflict() && existing.is_some() => {}
            stored => return stored.map(drop),
        }
    }
}

fn merged(
    existing: Option<&Work>,
    wanted: &Work,
    mut object: DynamicObject,
) -> Result<Work, Error> {
    let mut kept = existing.unwrap_or(wanted).clone();
    if kept.metadata.deletion_timestamp.is_some() {
        let (namespace, name) = (kept.namespace().unwrap_or_default(), kept.name_any());
        return Err(Error::Refused(format!(
            "work {namespace}/{name} is being deleted"
        )));
    }
    kept.labels_mut().extend(wanted.labels().clone());
    kept.annotations_mut().extend(wanted.annotations().clone());
    for finalizer in wanted.finalizers() {
        if !kept.finalizers().contains(finalizer) {
            kept.finalizers_mut().push(finalizer.clone());
        }
    }
    let id = kept.labels_mut().entry(names::WORK_ID.to_owned());
    let id = id.or_insert_with(crate::control_plane::secret).clone();
    record(&mut object, &id);
    kept.spec = wanted.spec.clone();
    kept.spec.workload.manifests = vec![serde_json::to_value(object)?];
    // As it is read back.
    kept.metadata.annotations = kept.metadata.annotations.filter(|all| !all.is_empty());
    kept.metadata.finalizers = kept.metadata.finalizers.filter(|all| !all.is_empty());
    Ok(kept)
}

/// A write of Karmada's.
pub(super) fn update() -> PostParams {
    PostParams {
        field_manager: Some("karmada-controller-manager".to_owned()),
        ..PostParams::default()
    }
}

/// A condition that begins now.
pub(super) fn condition(type_: &str, status: bool, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::now()),
        observed_generation: None,
    }
}

/// Stores a condition among those of an object, again after each conflict. An object that is gone
/// needs none.
pub(super) async fn store_condition<K>(
    objects: &Api<K>,
    name: &str,
    new: Condition,
    conditions: impl Fn(&mut K) -> &mut Vec<Condition>,
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    loop {
        let Some(mut object) = objects.get_opt(name).await? else {
            return Ok(());
        };
        if !set_condition(conditions(&mut object), new.clone()) {
            return Ok(());
        }
        let stored = objects.replace_status(name, &update(), &object).await;
        match stored.map_err(Error::from) {
            Err(error) if error.is_conflict() => {}
            stored => return stored.map(drop),
        }
    }
}

/// Puts a condition among the others, as `meta.SetStatusCondition` does. Whether anything changed.
pub(super) fn set_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let Some(old) = conditions.iter_mut().find(|one| one.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    let since = if old.status == new.status {
        old.last_transition_time.clone()
    } else {
        new.last_transition_time.clone()
    };
    let new = Condition {
        last_transition_time: since,
        ..new
    };
    let changed = *old != new;
    *old = new;
    changed
}

/// Returns the API of this kind of objects in a cluster.
pub(super) fn api_of(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let types = object.types.clone().unwrap_or_default();
    let (group, version) = types
        .api_version
        .split_once('/')
        .unwrap_or(("", &types.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    Api::namespaced_with(
        client.clone(),
        &object.namespace().unwrap_or_default(),
        &resource,
    )
}

/// Metadata of a Work to be kept.
pub(super) fn work(cluster: &str, name: &str, labels: &[(&str, &str)], suspended: bool) -> Work {
    let mut work = Work::new(name, WorkSpec::default());
    work.metadata.namespace = Some(names::execution_space(cluster));
    work.metadata.labels = Some(map(labels));
    work.spec.suspend_dispatching = suspended.then_some(true);
    work
}

/// Owned labels or annotations.
pub(super) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
