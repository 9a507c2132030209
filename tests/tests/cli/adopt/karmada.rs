//! A service that Karmada carries, and what a test does to it in Karmada's place.

use causeway::api::{MultiClusterService, labels};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::karmada::{Work, at_rest, names, works_of};
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fleet, Karmada, SOON, Space, eventually, service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

/// `foo`, provided by a, consumed by b, carried by Karmada, whose feature gate was switched off
/// then.
pub(super) struct Carried<'a> {
    pub karmada: Karmada,
    pub space: Space<'a>,
    pub pods: Vec<RunningPod>,
    /// The name of Karmada's slice in b.
    pub dispatched: String,
}

impl<'a> Carried<'a> {
    pub(super) async fn new(fleet: &'a Fleet, prefix: &str) -> Self {
        let space = fleet.space(prefix).await;
        let karmada = Karmada::within(&space);
        karmada.gate(true);
        let template = service("foo").port("http", 80);
        template.create(fleet.hub(), &space).await;
        space.offer("foo", ["a"], ["b"]).await;
        let pods = space.backends("foo").count(2);
        let pods = pods.create(fleet.member("a")).await;
        let mut carried = Self {
            karmada,
            space,
            pods,
            dispatched: String::new(),
        };
        carried.dispatched = carried.is_karmadas().await;
        at_rest(fleet.hub(), &carried.space, "foo").await;
        carried.karmada.gate(false);
        carried
    }

    fn hub(&self) -> &'a Cluster {
        self.space.fleet().hub()
    }

    /// Returns the addresses of the ready endpoints, sorted.
    pub(super) fn addresses(&self) -> Vec<String> {
        let addresses = self.pods.iter().map(|pod| pod.ip().to_owned());
        let mut addresses: Vec<_> = addresses.collect();
        addresses.sort();
        addresses
    }

    /// Waits until Karmada's slice alone brings all endpoints to b, and causeway knows whose they
    /// are and has let go of the MultiClusterService; the name of the slice.
    async fn is_karmadas(&self) -> String {
        let consumer = self.space.fleet().member("b");
        eventually("Karmada's slice alone serves b", SOON, async || {
            let mut slices = self.space.slices(consumer, "foo").await;
            slices.retain(is_from_elsewhere);
            let ready = self.space.ready_addresses(consumer, "foo").await;
            let object = self.object().await;
            let is_let_go = !object
                .finalizers()
                .iter()
                .any(|one| one == labels::FINALIZER);
            let conditions = object.status.unwrap_or_default().conditions;
            let mut conditions = conditions.into_iter().flatten();
            let is_known = is_let_go
                && conditions.any(|one| one.type_ == "Ready" && one.reason == "ManagedByKarmada");
            match &slices[..] {
                [one] if is_known && ready == self.addresses() && is_dispatched(one) => {
                    Ok(one.name_any())
                }
                _ => Err(format!("known: {is_known}, {ready:?} of {slices:?}")),
            }
        })
        .await
    }

    /// A slice in b, as Karmada's of that source, of which Karmada knows nothing any more.
    pub(super) async fn leave_in_b(&self, provider: &str, source: &str, address: &str) {
        let slice = json!({
            "metadata": {
                "name": format!("{provider}-{source}"),
                "labels": {
                    labels::SERVICE_NAME: "foo",
                    labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
                    labels::KARMADA_MANAGED: "true",
                },
                "annotations": { labels::PROVISION_CLUSTER: provider },
            },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
            "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        });
        let slice = serde_json::from_value(slice).expect("an EndpointSlice");
        let consumer = self.space.fleet().member("b");
        let created = self.space.api::<EndpointSlice>(consumer);
        let created = created.create(&PostParams::default(), &slice).await;
        created.expect("an EndpointSlice");
    }

    /// Karmada's slice in b offers one more address. Karmada must not run: it would put that back.
    pub(super) async fn offer_in_b(&self, address: &str) {
        let endpoint = json!({ "addresses": [address], "conditions": { "ready": true } });
        let add = json!([{ "op": "add", "path": "/endpoints/-", "value": endpoint }]).to_string();
        let patch = [
            "patch",
            "endpointslice",
            &self.dispatched,
            "--type=json",
            "-p",
            &add,
        ];
        let patch = patch.into_iter().chain(["-n", self.space.name()]);
        self.space.fleet().member("b").kubectl(patch).await.ok();
    }

    pub(super) async fn object(&self) -> MultiClusterService {
        let api = self.space.api::<MultiClusterService>(self.hub());
        api.get("foo").await.expect("a MultiClusterService")
    }

    /// Every member provides it from now on.
    pub(super) async fn provided_by_all(&self) {
        self.patch(r#"{"spec":{"providerClusters":null}}"#).await;
    }

    /// Merges a patch into the MultiClusterService.
    pub(super) async fn patch(&self, patch: &str) {
        let patch = ["patch", "mcs", "foo", "--type=merge", "-p", patch];
        let patch = patch.into_iter().chain(["-n", self.space.name()]);
        self.hub().kubectl(patch).await.ok();
    }

    async fn all_works(&self) -> Vec<Work> {
        works_of(self.hub(), &self.space, "foo").await
    }

    /// The Work with this finalizer.
    async fn held_by(&self, finalizer: &str) -> (Api<Work>, String) {
        let all = self.all_works().await.into_iter();
        let mut held = all.filter(|work| work.finalizers().iter().any(|one| one == finalizer));
        let work = held.next().expect("the Work");
        let namespace = work.namespace().expect("a namespace");
        let works = Api::namespaced(self.hub().client(), &namespace);
        (works, work.name_any())
    }

    /// The finalizers go off the Work of the slice in b.
    pub(super) async fn free_dispatched(&self) {
        let (works, name) = self.held_by(names::EXECUTION_FINALIZER).await;
        merge(&works, &name, json!({ "metadata": { "finalizers": null } })).await;
    }

    /// Somebody deletes the Work of what was collected in a, which hangs on its finalizer. Karmada
    /// must not run: it would take the slice along.
    pub(super) async fn delete_collected(&self) {
        let (works, name) = self.held_by(names::DISPATCH_FINALIZER).await;
        let deleted = works.delete(&name, &DeleteParams::default()).await;
        deleted.expect("a Work");
    }

    /// The Works of the service, each with its finalizers.
    pub(super) async fn works(&self) -> Vec<String> {
        let all = self.all_works().await.into_iter();
        all.map(|work| format!("{} {:?}", work.name_any(), work.finalizers()))
            .collect()
    }

    /// All that adopt and hand-over may touch, but for the probe.
    pub(super) async fn snapshot(&self) -> Vec<String> {
        let mut all = self.works().await;
        all.push(format!("{:?}", self.object().await.finalizers()));
        for member in self.space.fleet().members() {
            let slices = self.space.slices(member, "foo").await;
            all.extend(
                slices
                    .iter()
                    .map(|slice| format!("{} {}", member.name(), slice.name_any())),
            );
        }
        all
    }
}

/// Whether a slice is a copy, of Karmada's or of causeway's.
pub(super) fn is_from_elsewhere(slice: &EndpointSlice) -> bool {
    let by = slice.labels().get(labels::SLICE_MANAGED_BY);
    by.is_some_and(|by| by == labels::SLICE_DISPATCHER)
}

/// Whether a copy is Karmada's.
fn is_dispatched(slice: &EndpointSlice) -> bool {
    slice.labels().contains_key(labels::KARMADA_MANAGED)
}

/// Returns the kind of write of a command.
pub(super) fn kind_of(command: &Value) -> &'static str {
    let text = command["command"].as_str().expect("a command");
    let kinds = [
        ("patch works", "free"),
        ("delete works", "delete"),
        ("delete endpointslice", "slice"),
        ("patch mcs", "release"),
    ];
    let found = kinds.iter().find(|(words, _)| text.contains(words));
    found.unwrap_or_else(|| panic!("{text}")).1
}
