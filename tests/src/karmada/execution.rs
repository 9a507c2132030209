//! The execution controller of one member, and what it does there:
//! `pkg/controllers/execution/execution_controller.go`, `pkg/util/objectwatcher/objectwatcher.go`.
//!
//! Two rules do harm where Karmada is not alone. A Work that is being deleted takes its object
//! along if that bears `karmada.io/managed=true`, whatever finalizers the Work has and even where
//! its dispatching is suspended (handleWorkDelete comes first; isManagedResource): a provider's own
//! slice bears that label once Karmada propagated its Service, for Kubernetes copies a Service's
//! labels to its slices. And every change in the member that is not its own is put back (onUpdate).

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, DynamicObject, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use super::names;
use super::objects::{Work, api_of, condition, prune, store_condition, update};
use super::plane::{Member, Plane, services, slices};
use super::queue::{Adder, Change, Error, Key, Queue, watch};

/// Runs for ever.
pub(super) async fn run(plane: Plane, member: Member) {
    let queue = Queue::new("execution-controller");
    let (adder, of_services, of_slices) = (queue.adder(), queue.adder(), queue.adder());
    let versions = Versions::default();
    let hub_works =
        Api::<Work>::namespaced(plane.hub.clone(), &names::execution_space(&member.name));
    let seen = plane.clone();
    let hub_works = seen.watch_works(hub_works, move |change| match change {
        // GenerationChangedPredicate: labels, finalizers and status are nothing.
        Change::Updated(old, new) if old.metadata.generation == new.metadata.generation => {}
        Change::Added(work) | Change::Updated(_, work) | Change::Deleted(work) => {
            adder.add(Key::of(&work))
        }
    });
    let kept_services = watch(plane.all_of(&member.client, &services()), |change| {
        versions.follow("Service", change, &of_services)
    });
    let kept_slices = watch(plane.all_of(&member.client, &slices()), |change| {
        versions.follow("EndpointSlice", change, &of_slices)
    });
    let executor = Executor {
        plane,
        member,
        versions: &versions,
    };
    let work = queue.work(async |key| executor.reconcile(key).await);
    tokio::join!(hub_works, kept_services, kept_slices, work);
}

/// The version of each object that was written or found well: what came of it is no change.
#[derive(Default)]
struct Versions(Mutex<HashMap<(String, Key), String>>);

impl Versions {
    fn of(&self, kind: &str, object: &DynamicObject) -> Option<String> {
        let key = (kind.to_owned(), Key::of(object));
        self.0.lock().get(&key).cloned()
    }

    fn record(&self, object: &DynamicObject) {
        let kind = object
            .types
            .as_ref()
            .map(|types| types.kind.clone())
            .unwrap_or_default();
        let version = object.resource_version().unwrap_or_default();
        self.0.lock().insert((kind, Key::of(object)), version);
    }

    fn forget(&self, object: &DynamicObject) {
        let kind = object
            .types
            .as_ref()
            .map(|types| types.kind.clone())
            .unwrap_or_default();
        self.0.lock().remove(&(kind, Key::of(object)));
    }

    /// onAdd, onUpdate, onDelete: what happens to an object is a matter of the Work that it names,
    /// or named before.
    fn follow(&self, kind: &str, change: Change<DynamicObject>, works: &Adder) {
        let (named_by, current) = match change {
            Change::Added(new) => (new.clone(), Some(new)),
            Change::Updated(old, new) if content(&old) == content(&new) => return,
            Change::Updated(old, new) => (old, Some(new)),
            Change::Deleted(old) => (old, None),
        };
        if let Some(current) = current {
            match self.of(kind, &current) {
                None => return,
                Some(version) if Some(&version) == current.metadata.resource_version.as_ref() => {
                    return;
                }
                Some(_) => {}
            }
        }
        if let Some(work) = work_of(&named_by) {
            works.add(work);
        }
    }
}

/// workKeyFromWorkload.
fn work_of(object: &DynamicObject) -> Option<Key> {
    is_managed(object).then_some(())?;
    let annotation = |name: &str| {
        object
            .annotations()
            .get(name)
            .filter(|value| !value.is_empty())
            .cloned()
    };
    Some(Key {
        namespace: annotation(names::WORK_NAMESPACE)?,
        name: annotation(names::WORK_NAME)?,
    })
}

fn is_managed(object: &DynamicObject) -> bool {
    object
        .labels()
        .get(names::MANAGED)
        .is_some_and(|value| value == "true")
}

fn content(object: &DynamicObject) -> (BTreeMap<String, String>, BTreeMap<String, String>, Value) {
    let mut object = object.clone();
    prune(&mut object);
    (
        object.metadata.labels.unwrap_or_default(),
        object.metadata.annotations.unwrap_or_default(),
        object.data,
    )
}

struct Executor<'a> {
    plane: Plane,
    member: Member,
    versions: &'a Versions,
}

impl Executor<'_> {
    async fn reconcile(&self, key: &Key) -> Result<(), Error> {
        let Some(work) = self.plane.work(key).await? else {
            return Ok(());
        };
        if work.metadata.deletion_timestamp.is_some() {
            for object in work.objects()? {
                self.delete(&object).await?;
            }
            return self.plane.release(work, names::EXECUTION_FINALIZER).await;
        }
        let (reason, message) = if work.is_suspended() {
            (
                "SuspendDispatching",
                "Work dispatching is in a suspended state.",
            )
        } else {
            (
                "Dispatching",
                "Work is being dispatched to member clusters.",
            )
        };
        let dispatching = condition("Dispatching", !work.is_suspended(), reason, message);
        self.tell(key, dispatching).await?;
        if work.is_suspended() {
            return Ok(());
        }
        self.sync(key, &work).await
    }

    /// syncToClusters.
    async fn sync(&self, key: &Key, work: &Work) -> Result<(), Error> {
        let objects = work.objects()?;
        let all = objects.len();
        let mut failed = Vec::new();
        for object in objects {
            if let Err(error) = self.keep(object).await {
                failed.push(error.to_string());
            }
        }
        if failed.is_empty() {
            let message = "Manifest has been successfully applied";
            let applied = condition("Applied", true, "AppliedSuccessful", message);
            return self.tell(key, applied).await;
        }
        let message = format!(
            "Failed to apply all manifests ({}/{all}): {}",
            all - failed.len(),
            failed.join(", ")
        );
        let applied = condition("Applied", false, "AppliedFailed", &message);
        self.tell(key, applied).await?;
        Err(Error::Refused(message))
    }

    /// tryCreateOrUpdateWorkload, once more after a conflict.
    async fn keep(&self, desired: DynamicObject) -> Result<(), Error> {
        let objects = api_of(&self.member.client, &desired);
        loop {
            let kept = match objects.get_opt(&desired.name_any()).await? {
                None => objects.create(&update(), &desired).await?,
                Some(observed) => match self.replace(&objects, desired.clone(), observed).await {
                    Err(error) if error.is_conflict() => continue,
                    kept => kept?,
                },
            };
            self.versions.record(&kept);
            return Ok(());
        }
    }

    /// Update, allowUpdate, retainClusterFields, RetainServiceFields.
    async fn replace(
        &self,
        objects: &Api<DynamicObject>,
        mut desired: DynamicObject,
        observed: DynamicObject,
    ) -> Result<DynamicObject, Error> {
        let resolution = desired
            .annotations()
            .get(names::CONFLICT_RESOLUTION)
            .map(String::as_str);
        if !is_managed(&observed) && resolution != Some("overwrite") {
            let kind = desired
                .types
                .as_ref()
                .map(|types| types.kind.clone())
                .unwrap_or_default();
            return Err(Error::Refused(format!(
                "resource(kind={kind}, {}/{}) already exists in the cluster {} and the {} strategy value is empty, Karmada will not manage this resource",
                desired.namespace().unwrap_or_default(),
                desired.name_any(),
                self.member.name,
                names::CONFLICT_RESOLUTION
            )));
        }
        retain(&mut desired, &observed);
        let mut same = observed.clone();
        prune(&mut same);
        retain(&mut same, &observed);
        retain_allocated(&mut desired, &observed);
        if same == desired {
            return Ok(observed);
        }
        Ok(objects
            .replace(&desired.name_any(), &update(), &desired)
            .await?)
    }

    /// Delete and isManagedResource.
    async fn delete(&self, object: &DynamicObject) -> Result<(), Error> {
        let objects = api_of(&self.member.client, object);
        // A kind that the member does not serve is not found either.
        let Some(observed) = objects
            .get_opt(&object.name_any())
            .await?
            .filter(is_managed)
        else {
            return Ok(());
        };
        let background = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match objects.delete(&observed.name_any(), &background).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted?),
        }
        self.versions.forget(&observed);
        Ok(())
    }

    /// setStatusCondition.
    async fn tell(&self, key: &Key, condition: Condition) -> Result<(), Error> {
        let works = Api::<Work>::namespaced(self.plane.hub.clone(), &key.namespace);
        store_condition(&works, &key.name, condition, |work| {
            &mut work.status.get_or_insert_default().conditions
        })
        .await
    }
}

/// retainClusterFields: what controllers of the member set stays, but for labels and annotations
/// that Karmada noted as its own and wants no more (`pkg/util/label.go`, RetainLabels;
/// `pkg/util/annotation.go`, RetainAnnotations).
fn retain(desired: &mut DynamicObject, observed: &DynamicObject) {
    desired
        .metadata
        .resource_version
        .clone_from(&observed.metadata.resource_version);
    desired
        .metadata
        .finalizers
        .clone_from(&observed.metadata.finalizers);
    desired
        .metadata
        .owner_references
        .clone_from(&observed.metadata.owner_references);
    let noted = |name: &str| {
        observed
            .annotations()
            .get(name)
            .cloned()
            .unwrap_or_default()
    };
    let (labels, annotations) = (
        noted(names::MANAGED_LABELS),
        noted(names::MANAGED_ANNOTATIONS),
    );
    merge(desired.labels_mut(), observed.labels(), &labels);
    merge(
        desired.annotations_mut(),
        observed.annotations(),
        &annotations,
    );
}

/// `pkg/util/lifted/retain.go`, RetainServiceFields; an EndpointSlice has no `spec`.
fn retain_allocated(desired: &mut DynamicObject, observed: &DynamicObject) {
    let Some(spec) = desired.data.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["clusterIP", "healthCheckNodePort"] {
        if let Some(value) = observed.data["spec"].get(field) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
}

fn merge(desired: &mut BTreeMap<String, String>, observed: &BTreeMap<String, String>, noted: &str) {
    for (key, value) in observed {
        let given_up = noted.split(',').any(|one| one == key) && !desired.contains_key(key);
        if !given_up {
            desired.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}
