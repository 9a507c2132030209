//! The collect controller of one member:
//! `pkg/controllers/multiclusterservice/endpointslice_collect_controller.go`.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DynamicObject, ListParams, TypeMeta};
use kube::{Api, ResourceExt as _};

use super::mcs::give_up;
use super::names;
use super::objects::{Work, keep_work, work};
use super::plane::{Member, Plane, slices};
use super::queue::{Error, Key, Queue, watch};

/// Runs for ever.
pub(super) async fn run(plane: Plane, member: Member) {
    let (works, reported) = (
        Queue::new("endpointslice-collect-controller"),
        Queue::new("endpointslice-collect"),
    );
    let (work_added, slice_changed) = (works.adder(), reported.adder());
    let hub_works =
        Api::<Work>::namespaced(plane.hub.clone(), &names::execution_space(&member.name));
    let seen = plane.clone();
    let hub_works = seen.watch_works(hub_works, move |change| {
        work_added.add(Key::of(change.latest()));
    });
    let member_slices = watch(plane.all_of(&member.client, &slices()), move |change| {
        slice_changed.add(Key::of(change.latest()));
    });
    let collector = Collector { plane, member };
    let works = works.work(async |key| collector.reconcile(key).await);
    let reported = reported.work(async |key| collector.handle(key).await);
    tokio::join!(hub_works, member_slices, works, reported);
}

struct Collector {
    plane: Plane,
    member: Member,
}

impl Collector {
    /// Reconcile and collectTargetEndpointSlice: a MultiClusterService that is new here has its
    /// slices collected.
    async fn reconcile(&self, key: &Key) -> Result<(), Error> {
        let Some(work) = self.plane.work(key).await? else {
            return Ok(());
        };
        if !work.contains(names::MULTI_CLUSTER_SERVICE)
            || work.metadata.deletion_timestamp.is_some()
        {
            return Ok(());
        }
        let (namespace, name) = (
            work.label(names::SERVICE_NAMESPACE),
            work.label(names::SERVICE_NAME),
        );
        let of_service = ListParams::default().labels(&format!("{}={name}", names::SLICE_SERVICE));
        for mut slice in self
            .member
            .slices_in(namespace)
            .list(&of_service)
            .await?
            .items
        {
            // A list does not say it of each.
            slice.types = Some(TypeMeta::resource::<EndpointSlice>());
            if !is_karmadas(&slice) {
                self.report(slice).await?;
            }
        }
        Ok(())
    }

    /// handleEndpointSliceEvent: a slice of a service that is provided here is collected; one that
    /// is gone is given up.
    async fn handle(&self, key: &Key) -> Result<(), Error> {
        let Some(slice) = self
            .member
            .slices_in(&key.namespace)
            .get_opt(&key.name)
            .await?
        else {
            return self.gone(key).await;
        };
        if is_karmadas(&slice) {
            return Ok(());
        }
        let service = slice
            .labels()
            .get(names::SLICE_SERVICE)
            .cloned()
            .unwrap_or_default();
        let of_service = [
            (names::SERVICE_NAMESPACE, key.namespace.as_str()),
            (names::SERVICE_NAME, service.as_str()),
        ];
        let works = self.plane.works_of(&self.member.name, &of_service).await?;
        if works
            .iter()
            .any(|work| work.contains(names::MULTI_CLUSTER_SERVICE))
        {
            self.report(slice).await?;
        }
        Ok(())
    }

    /// cleanupWorkWithEndpointSliceDelete.
    async fn gone(&self, slice: &Key) -> Result<(), Error> {
        let key = Key {
            namespace: names::execution_space(&self.member.name),
            name: names::work_name("EndpointSlice", &slice.name, &slice.namespace),
        };
        match self.plane.work(&key).await? {
            Some(work) => give_up(&self.plane, work).await,
            None => Ok(()),
        }
    }

    /// reportEndpointSlice and getEndpointSliceWorkMeta.
    async fn report(&self, slice: DynamicObject) -> Result<(), Error> {
        let (namespace, name) = (slice.namespace().unwrap_or_default(), slice.name_any());
        let work_name = names::work_name("EndpointSlice", &name, &namespace);
        let service = slice
            .labels()
            .get(names::SLICE_SERVICE)
            .cloned()
            .unwrap_or_default();
        let key = Key {
            namespace: names::execution_space(&self.member.name),
            name: work_name.clone(),
        };
        let existing = self.plane.work(&key).await?;
        let mut managers: Vec<_> = existing
            .iter()
            .flat_map(|work| work.label(names::COLLECTED_BY).split('.'))
            .filter(|one| !one.is_empty())
            .collect();
        if !managers.contains(&names::MULTI_CLUSTER_SERVICE) {
            managers.push(names::MULTI_CLUSTER_SERVICE);
        }
        let managers = managers.join(".");
        let labels = [
            (names::SERVICE_NAMESPACE, namespace.as_str()),
            (names::SERVICE_NAME, service.as_str()),
            (names::COLLECTED_BY, managers.as_str()),
        ];
        let mut collected = work(&self.member.name, &work_name, &labels, true);
        collected
            .finalizers_mut()
            .push(names::DISPATCH_FINALIZER.to_owned());
        keep_work(&self.plane.hub, collected, slice).await
    }
}

/// `pkg/util/helper/mcs.go`, IsEndpointSliceManagedByKarmada.
fn is_karmadas(slice: &DynamicObject) -> bool {
    let manager = slice
        .labels()
        .get(names::SLICE_MANAGED_BY)
        .map(String::as_str);
    matches!(manager, Some(names::DISPATCHER | names::IMPORTER))
}
