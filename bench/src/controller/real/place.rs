//! A namespace with services, whose slices are in the provider.

use std::collections::HashMap;

use causeway::api::{MultiClusterService, labels};
use causeway_tests::{Space, eventually, multi_cluster_service, service};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::relay;
use super::super::sim::text::{Content, SliceId, push_source, service_name};
use super::clusters::Clusters;

/// Requests at one time.
const AT_ONCE: usize = 16;
/// For copies that a controller makes one after the other, on a machine that is busy.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(240);

/// A namespace with services.
pub(super) struct Place<'a> {
    clusters: &'a Clusters<'a>,
    space: Space<'a>,
    services: u32,
    /// As they were made.
    sources: HashMap<SliceId, EndpointSlice>,
}

impl<'a> Place<'a> {
    /// So many services of so many slices, in the provider alone. Nobody is to have copies yet.
    pub(super) async fn new(
        clusters: &'a Clusters<'a>,
        services: u32,
        slices: u16,
        endpoints: u16,
    ) -> anyhow::Result<Self> {
        let space = clusters.fleet.space("bench").await;
        let ids = (0..services).flat_map(|service| {
            let slices = 0..slices;
            slices.map(move |slice| SliceId { service, slice })
        });
        let each = u32::from(endpoints);
        let sources = ids.zip(0..).map(|(id, number)| {
            source(Content {
                id,
                endpoints,
                version: 0,
                first: number * each,
            })
        });
        let made = create(&space.api(clusters.provider()), sources).await?;
        let sources = made.into_iter().filter_map(|source| {
            let id = SliceId::of_name(source.metadata.name.as_deref()?)?;
            Some((id, source))
        });
        Ok(Self {
            clusters,
            services,
            sources: sources.collect(),
            space,
        })
    }

    pub(super) fn services(&self) -> u32 {
        self.services
    }

    pub(super) fn slices(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn namespace(&self) -> &str {
        self.space.name()
    }

    pub(super) fn sources_api(&self) -> Api<EndpointSlice> {
        self.space.api(self.clusters.provider())
    }

    pub(super) fn copies_api(&self) -> Api<EndpointSlice> {
        self.space.api(self.clusters.consumer())
    }

    /// The slice, another of whose pods is replaced: the address says by which change.
    pub(super) fn changed(&self, id: SliceId, change: u16) -> anyhow::Result<EndpointSlice> {
        let source = self.sources.get(&id);
        let mut source = source
            .cloned()
            .ok_or_else(|| anyhow::anyhow!("there is no slice {}", id.name()))?;
        source.metadata = ObjectMeta {
            name: source.metadata.name,
            labels: source.metadata.labels,
            ..ObjectMeta::default()
        };
        if let Some(first) = source.endpoints.first_mut() {
            let [high, low] = change.to_be_bytes();
            first.addresses = vec![format!("{CHANGED}{high}.{low}")];
        }
        Ok(source)
    }

    /// Has the controller make copies: a MultiClusterService for each service.
    pub(super) async fn expose(&self) -> anyhow::Result<()> {
        let names = || (0..self.services).map(service_name);
        let shapes = names().map(|name| {
            let shape = service(&name).without_selector();
            shape.port("http", 80).object()
        });
        let hub = self.clusters.hub();
        create(&self.space.api::<Service>(hub), shapes).await?;
        let (provider, consumer) = (self.clusters.provider(), self.clusters.consumer());
        let exposed = names().map(|name| {
            let mcs = multi_cluster_service(&name).providers([provider.name()]);
            mcs.consumers([consumer.name()]).object()
        });
        create(&self.space.api::<MultiClusterService>(hub), exposed).await?;
        Ok(())
    }

    /// Waits until the consumer has all copies, and the hub's status says so.
    pub(super) async fn copied(&self) {
        let copies = self.copies_api();
        // Not the slices that the consumer's own controller makes of the derived Services.
        let managed = format!("{}={}", labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER);
        let managed = ListParams::default().labels(&managed);
        eventually("all copies are there", PATIENCE, || async {
            let list = copies.list_metadata(&managed).await;
            let held = list.map_err(|error| error.to_string())?.items.len();
            match held == self.slices() {
                true => Ok(()),
                false => Err(format!("{held} of {}", self.slices())),
            }
        })
        .await;
        self.clusters.settled().await;
    }

    /// Makes the copies that the floor will write: it creates none.
    pub(super) async fn copy_by_hand(&self) -> anyhow::Result<()> {
        let provider = self.clusters.provider().name();
        let copies = self.sources.values();
        let copies = copies.filter_map(|source| Some(relay::copied(source, provider)?.1));
        create(&self.copies_api(), copies).await?;
        Ok(())
    }
}

/// What the address of a replaced pod begins with; that of no other does.
const CHANGED: &str = "10.254.";

/// The service whose slice was changed, and by which change: of a source or a copy.
pub(super) fn change_of(slice: &EndpointSlice) -> Option<(SliceId, u64)> {
    let service = slice.metadata.labels.as_ref()?.get(labels::SERVICE_NAME)?;
    let id = SliceId {
        service: super::super::sim::text::service_number(service)?,
        slice: 0,
    };
    let addresses = slice
        .endpoints
        .iter()
        .flat_map(|endpoint| &endpoint.addresses);
    let mut numbers = addresses.filter_map(|address| address.strip_prefix(CHANGED));
    let (high, low) = numbers.next()?.split_once('.')?;
    let (high, low): (u64, u64) = (high.parse().ok()?, low.parse().ok()?);
    Some((id, high << 8 | low))
}

/// A slice with all that the imitated ones say of each pod, that belongs to nobody. Names and UIDs of pods are as scattered as real
/// ones, so that they are no easier to compress.
fn source(content: Content) -> EndpointSlice {
    let mut text = Vec::new();
    push_source(&mut text, content, 0);
    let source: EndpointSlice = serde_json::from_slice(&text).expect("an EndpointSlice");
    let service = service_name(content.id.service);
    let mut endpoints = source.endpoints;
    for (endpoint, number) in endpoints.iter_mut().zip(u64::from(content.first)..) {
        if let Some(pod) = &mut endpoint.target_ref {
            let [high, low] = [2 * number, 2 * number + 1].map(scattered);
            let [one, two] = [high >> 48, low >> 48];
            pod.name = Some(format!("{service}-6d4b75cb6d-{:05x}", high & 0xf_ffff));
            pod.uid = Some(format!(
                "{:08x}-{one:04x}-4{:03x}-8{:03x}-{:04x}{:08x}",
                high as u32,
                two & 0xfff,
                two >> 4,
                one ^ two,
                low as u32
            ));
        }
    }
    EndpointSlice {
        endpoints,
        metadata: ObjectMeta {
            name: source.metadata.name,
            labels: Some([(labels::SERVICE_NAME.to_owned(), service)].into()),
            ..ObjectMeta::default()
        },
        ..source
    }
}

/// A number that looks like any other: a step of `SplitMix64`.
fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

async fn create<K>(api: &Api<K>, objects: impl Iterator<Item = K>) -> anyhow::Result<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: Serialize + DeserializeOwned,
{
    let created = stream::iter(objects).map(|object| async move {
        let params = PostParams::default();
        api.create(&params, &object).await
    });
    Ok(created.buffer_unordered(AT_ONCE).try_collect().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_which_change_it_was_made_from() {
        let id = SliceId {
            service: 7,
            slice: 0,
        };
        let mut slice = source(Content {
            id,
            endpoints: 3,
            version: 0,
            first: 40,
        });
        assert_eq!(change_of(&slice), None);
        let pods = slice.endpoints.iter();
        let uids: Vec<_> = pods.filter_map(|pod| pod.target_ref.clone()?.uid).collect();
        assert!(
            uids.len() == 3 && uids.iter().all(|uid| uid.len() == 36),
            "{uids:?}"
        );
        slice.endpoints[1].addresses = vec!["10.254.3.9".to_owned()];
        assert_eq!(change_of(&slice), Some((id, 777)));
    }
}
