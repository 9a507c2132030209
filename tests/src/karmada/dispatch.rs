//! The dispatch controller:
//! `pkg/controllers/multiclusterservice/endpointslice_dispatch_controller.go`.

use std::collections::BTreeSet;

use causeway::api::MultiClusterService;
use kube::{Api, ResourceExt as _};

use super::names;
use super::objects::{Work, condition, keep_work, map, work};
use super::plane::Plane;
use super::queue::{Adder, Error, Key, Queue, watch};

/// Runs for ever.
pub(super) async fn run(plane: Plane) {
    let works = Queue::new("endpointslice-dispatch-controller");
    let services = Queue::new("endpointslice-dispatch-services");
    let (collected, again, changed) = (works.adder(), works.adder(), services.adder());
    let seen = plane.clone();
    let hub_works = seen.watch_works(Api::all(plane.hub.clone()), move |change| {
        if concerns(change.latest()) {
            collected.add(Key::of(change.latest()));
        }
    });
    let hub_services = watch(plane.all::<MultiClusterService>(), move |change| {
        changed.add(Key::of(change.latest()));
    });
    let dispatcher = Dispatcher(plane);
    let services = services.work(async |key| dispatcher.enqueue(key, &again).await);
    let works = works.work(async |key| dispatcher.reconcile(key).await);
    tokio::join!(hub_works, hub_services, services, works);
}

/// The predicate of SetupWithManager: what was collected, not what was dispatched.
fn concerns(work: &Work) -> bool {
    !work.label(names::SERVICE_NAME).is_empty() && !work.is_dispatched()
}

struct Dispatcher(Plane);

impl Dispatcher {
    /// newMultiClusterServiceFunc.
    async fn enqueue(&self, service: &Key, works: &Adder) -> Result<(), Error> {
        let collected = self.of(service).await?;
        let collected = collected.iter().filter(|work| !work.is_dispatched());
        collected.for_each(|work| works.add(Key::of(work)));
        Ok(())
    }

    /// getClusterEndpointSliceWorks.
    async fn of(&self, service: &Key) -> Result<Vec<Work>, Error> {
        let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
        self.0
            .works(&[
                (names::SERVICE_NAMESPACE, namespace),
                (names::SERVICE_NAME, name),
            ])
            .await
    }

    async fn reconcile(&self, key: &Key) -> Result<(), Error> {
        let Some(collected) = self
            .0
            .work(key)
            .await?
            .filter(|work| work.contains("EndpointSlice"))
        else {
            return Ok(());
        };
        let name = collected.label(names::SERVICE_NAME).to_owned();
        if collected.metadata.deletion_timestamp.is_some() || name.is_empty() {
            return self.withdraw(collected).await;
        }
        let service = Key {
            namespace: collected.label(names::SERVICE_NAMESPACE).to_owned(),
            name,
        };
        let services = self.0.multi_cluster_services(&service.namespace);
        let Some(found) = services.get_opt(&service.name).await? else {
            return Ok(());
        };
        let consumers = self.0.clusters(&found.spec.consumer_clusters);
        let dispatched = self.dispatch_all(&service, &collected, &consumers).await;
        let (reason, message) = match &dispatched {
            Ok(()) => (
                "EndpointSliceDispatchedSucceed",
                "EndpointSlice are dispatched successfully".to_owned(),
            ),
            Err(error) => ("EndpointSliceDispatchedFailed", error.to_string()),
        };
        let reported = condition(
            "EndpointSliceDispatched",
            dispatched.is_ok(),
            reason,
            &message,
        );
        self.0.report(&service, reported).await?;
        dispatched
    }

    /// cleanOrphanDispatchedEndpointSlice and dispatchEndpointSlice.
    async fn dispatch_all(
        &self,
        service: &Key,
        collected: &Work,
        consumers: &BTreeSet<String>,
    ) -> Result<(), Error> {
        for dispatched in self
            .of(service)
            .await?
            .iter()
            .filter(|work| work.is_dispatched())
        {
            let space = dispatched.namespace().unwrap_or_default();
            if names::cluster_of(&space).is_some_and(|cluster| !consumers.contains(cluster)) {
                self.0.delete(dispatched).await?;
            }
        }
        let space = collected.namespace().unwrap_or_default();
        let provider = names::cluster_of(&space).unwrap_or_default();
        for consumer in consumers
            .iter()
            .filter(|one| *one != provider && self.0.has(one))
        {
            self.dispatch(service, collected, provider, consumer)
                .await?;
        }
        Ok(())
    }

    /// ensureEndpointSliceWork: nothing of the slice's own labels and annotations goes along.
    async fn dispatch(
        &self,
        service: &Key,
        collected: &Work,
        provider: &str,
        consumer: &str,
    ) -> Result<(), Error> {
        let Some(mut slice) = collected.objects()?.into_iter().next() else {
            return Ok(());
        };
        slice.metadata.name = Some(format!("{provider}-{}", slice.name_any()));
        slice.metadata.labels = Some(map(&[
            (names::SLICE_SERVICE, &service.name),
            (names::SLICE_MANAGED_BY, names::DISPATCHER),
        ]));
        slice.metadata.annotations = Some(map(&[(names::PROVISION_CLUSTER, provider)]));
        let labels = [
            (names::SERVICE_NAME, service.name.as_str()),
            (names::SERVICE_NAMESPACE, service.namespace.as_str()),
        ];
        let mut dispatched = work(consumer, &collected.name_any(), &labels, false);
        dispatched.metadata.annotations = Some(map(&[(names::PROVISION_CLUSTER, provider)]));
        dispatched.metadata.finalizers = Some(vec![names::EXECUTION_FINALIZER.to_owned()]);
        keep_work(&self.0.hub, dispatched, slice).await
    }

    /// cleanupEndpointSliceFromConsumerClusters.
    async fn withdraw(&self, collected: Work) -> Result<(), Error> {
        let space = collected.namespace().unwrap_or_default();
        let provider = names::cluster_of(&space);
        for work in self.0.works(&[]).await? {
            let source = work
                .annotations()
                .get(names::PROVISION_CLUSTER)
                .map(String::as_str);
            if work.metadata.name == collected.metadata.name && source == provider {
                self.0.delete(&work).await?;
            }
        }
        self.0.release(collected, names::DISPATCH_FINALIZER).await
    }
}
