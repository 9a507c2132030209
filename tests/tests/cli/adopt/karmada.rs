//! What Karmada's controllers make of a MultiClusterService, made by hand (karmada-io/karmada, `pkg/controllers/multiclusterservice`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway::api::{MultiClusterService, labels};
use causeway_tests::{Cluster, Fleet, SOON, Space, eventually, multi_cluster_service, service};
use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(super) const FINALIZER: &str = "karmada.io/multiclusterservice-controller";

const DEFINITION: &str = "
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
";

/// Has the hub serve Works, with the namespaces of members a and b.
pub(super) async fn define_works(hub: &Cluster) {
    hub.apply(DEFINITION).await.ok();
    let established = [
        "wait",
        "--for=condition=Established",
        "crd/works.work.karmada.io",
        "--timeout=60s",
    ];
    hub.kubectl(established).await.ok();
    for name in ["karmada-es-a", "karmada-es-b"] {
        hub.kubectl(["create", "namespace", name]).await.ok();
    }
}

fn works_api(hub: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource {
        group: "work.karmada.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        plural: "works".to_owned(),
    };
    match namespace {
        "" => Api::all_with(hub.client(), &kind),
        namespace => Api::namespaced_with(hub.client(), namespace, &kind),
    }
}

/// `foo`, provided by a, consumed by b, carried by Karmada.
pub(super) struct Carried<'a> {
    pub space: Space<'a>,
    /// Of the ready endpoints.
    pub addresses: Vec<String>,
    /// The name of Karmada's slice in b.
    pub dispatched: String,
}

impl<'a> Carried<'a> {
    pub(super) async fn new(fleet: &'a Fleet, prefix: &str) -> Self {
        let space = fleet.space(prefix).await;
        let mut carried = Self {
            space,
            addresses: Vec::new(),
            dispatched: String::new(),
        };
        carried.works_are_made().await;
        let space = &carried.space;
        service("foo")
            .port("http", 80)
            .create(fleet.hub(), space)
            .await;
        for member in fleet.members() {
            service("foo").port("http", 80).create(member, space).await;
            let mark = [
                "label",
                "service",
                "foo",
                "karmada.io/managed=true",
                "-n",
                space.name(),
            ];
            member.kubectl(mark).await.ok();
        }
        space
            .backends("foo")
            .count(2)
            .create(fleet.member("a"))
            .await;
        let source = eventually("a has its slice", SOON, || async {
            let slices = space.slices(fleet.member("a"), "foo").await;
            slices.into_iter().find(|slice| slice.endpoints.len() == 2)
        })
        .await;
        let addresses = source.endpoints.iter().map(|one| one.addresses[0].clone());
        let mut addresses: Vec<_> = addresses.collect();
        addresses.sort();
        let dispatched = carried.dispatch("a", &source.name_any(), &addresses).await;
        let mut object = multi_cluster_service("foo")
            .providers(["a"])
            .consumers(["b"])
            .object();
        object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        let api = space.api::<MultiClusterService>(fleet.hub());
        api.create(&PostParams::default(), &object)
            .await
            .expect("a MultiClusterService");
        carried.addresses = addresses;
        carried.dispatched = dispatched;
        carried.is_known_as_karmadas().await;
        carried
    }

    fn hub(&self) -> &Cluster {
        self.space.fleet().hub()
    }

    /// The Works with the MultiClusterService and with the collected slice, of a, and with the dispatched slice, of b.
    async fn works_are_made(&self) {
        let of_service = json!({
            labels::WORK_SERVICE_NAMESPACE: self.space.name(), labels::WORK_SERVICE_NAME: "foo",
        });
        let mut collected = of_service.clone();
        collected[labels::WORK_COLLECTED_BY] = json!("MultiClusterService");
        let executed = "karmada.io/execution-controller";
        for (member, name, labels, finalizer) in [
            ("a", "foo-own", &of_service, executed),
            (
                "a",
                "foo-collected",
                &collected,
                "karmada.io/mcs-endpointslice-dispatch-controller",
            ),
            ("b", "foo-dispatched", &of_service, executed),
        ] {
            let namespace = format!("karmada-es-{member}");
            let name = self.of_space(name);
            let mut work = json!({
                "apiVersion": "work.karmada.io/v1alpha1",
                "kind": "Work",
                "metadata": { "name": name, "namespace": namespace, "labels": labels, "finalizers": [finalizer] },
                "spec": {},
            });
            if member == "b" {
                work["metadata"]["annotations"] = json!({ labels::PROVISION_CLUSTER: "a" });
            }
            let work = serde_json::from_value(work).expect("a Work");
            let api = works_api(self.hub(), &namespace);
            eventually("the Work is stored", SOON, || async {
                api.create(&PostParams::default(), &work).await
            })
            .await;
        }
    }

    fn of_space(&self, name: &str) -> String {
        format!("{name}-{}", self.space.name())
    }

    /// Karmada's slice in b, of that source; its name.
    pub(super) async fn dispatch(
        &self,
        provider: &str,
        source: &str,
        addresses: &[String],
    ) -> String {
        let name = format!("{provider}-{source}");
        let endpoints = addresses
            .iter()
            .map(|address| json!({ "addresses": [address], "conditions": { "ready": true } }));
        let slice = json!({
            "metadata": {
                "name": name,
                "labels": {
                    labels::SERVICE_NAME: "foo",
                    labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
                    labels::KARMADA_MANAGED: "true",
                },
                "annotations": { labels::PROVISION_CLUSTER: provider },
            },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
            "endpoints": endpoints.collect::<Value>(),
        });
        let slice = serde_json::from_value(slice).expect("an EndpointSlice");
        let api = self
            .space
            .api::<EndpointSlice>(self.space.fleet().member("b"));
        api.create(&PostParams::default(), &slice)
            .await
            .expect("an EndpointSlice");
        name
    }

    /// Karmada's slice in b offers one more address.
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

    async fn is_known_as_karmadas(&self) {
        eventually("causeway knows that Karmada carries it", SOON, || async {
            let conditions = self.object().await.status.unwrap_or_default().conditions;
            let mut conditions = conditions.unwrap_or_default().into_iter();
            conditions.find(|one| one.type_ == "Ready" && one.reason == "ManagedByKarmada")
        })
        .await;
    }

    pub(super) async fn object(&self) -> MultiClusterService {
        let api = self.space.api::<MultiClusterService>(self.hub());
        api.get("foo").await.expect("a MultiClusterService")
    }

    /// Every member provides it from now on.
    pub(super) async fn provided_by_all(&self) {
        let patch = [
            "patch",
            "mcs",
            "foo",
            "--type=merge",
            "-p",
            r#"{"spec":{"providerClusters":null}}"#,
        ];
        let patch = patch.into_iter().chain(["-n", self.space.name()]);
        self.hub().kubectl(patch).await.ok();
    }

    async fn work(&self, name: &str) -> (Api<DynamicObject>, String) {
        let name = self.of_space(name);
        let all = works_api(self.hub(), "")
            .list(&ListParams::default())
            .await
            .expect("Works");
        let found = all.items.into_iter().find(|work| work.name_any() == name);
        let namespace = found.expect("the Work").namespace().expect("a namespace");
        (works_api(self.hub(), &namespace), name)
    }

    /// The finalizers go off a Work.
    pub(super) async fn free(&self, name: &str) {
        let (api, name) = self.work(name).await;
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        api.patch(&name, &PatchParams::default(), &patch)
            .await
            .expect("a Work");
    }

    /// Somebody deletes a Work, which hangs on its finalizer.
    pub(super) async fn delete_work(&self, name: &str) {
        let (api, name) = self.work(name).await;
        api.delete(&name, &DeleteParams::default())
            .await
            .expect("a Work");
    }

    /// The Works of the service, each with its finalizers.
    pub(super) async fn works(&self) -> Vec<String> {
        let of_service = format!("{}={}", labels::WORK_SERVICE_NAMESPACE, self.space.name());
        let parameters = ListParams::default().labels(&of_service);
        let all = works_api(self.hub(), "")
            .list(&parameters)
            .await
            .expect("Works");
        let told = all
            .items
            .iter()
            .map(|work| format!("{} {:?}", work.name_any(), work.finalizers()));
        told.collect()
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

/// Which of the four kinds of writes a command is.
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

/// Karmada's MultiClusterService controller, as far as it answers a change of annotations: it puts the object into its Work
/// (mcs_controller.go, propagateMultiClusterService).
pub(super) struct Answering(JoinHandle<()>);

impl Answering {
    pub(super) fn start(carried: &Carried<'_>) -> Self {
        let services = carried.space.api::<MultiClusterService>(carried.hub());
        let works = works_api(carried.hub(), "karmada-es-a");
        let name = carried.of_space("foo-own");
        Self(tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher::watcher(services, watcher::Config::default()));
            let mut last = None;
            while let Ok(Some(event)) = events.try_next().await {
                let (Event::Apply(object) | Event::InitApply(object)) = event else {
                    continue;
                };
                let annotations = Some(object.annotations().clone());
                if last.is_some() && last != annotations {
                    let patch = Patch::Merge(json!({ "spec": { "annotations": annotations } }));
                    works
                        .patch(&name, &PatchParams::default(), &patch)
                        .await
                        .expect("a Work");
                }
                last = annotations;
            }
        }))
    }

    pub(super) async fn stop(self) {
        assert!(!self.0.is_finished(), "it was there until the end");
        self.0.abort();
    }
}

/// A watch on the slices of a consumer: whether any of these addresses was ever not ready in any of them.
pub(super) struct Watched {
    lacked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Watched {
    pub(super) async fn start(space: &Space<'_>, consumer: &Cluster, addresses: &[String]) -> Self {
        let lacked = Arc::<Mutex<Vec<String>>>::default();
        let api = space.api::<EndpointSlice>(consumer);
        let (addresses, told) = (addresses.to_vec(), Arc::clone(&lacked));
        let (listed, is_listed) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut listed = Some(listed);
            let mut slices = BTreeMap::new();
            let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    Event::Apply(slice) | Event::InitApply(slice) => {
                        drop(slices.insert(slice.name_any(), slice))
                    }
                    Event::Delete(slice) => drop(slices.remove(&slice.name_any())),
                    Event::InitDone => drop(listed.take().map(|listed| listed.send(()))),
                    Event::Init => {}
                }
                let lost = addresses
                    .iter()
                    .find(|address| !slices.values().any(|slice| offers(slice, address)));
                if let Some(lost) = lost.filter(|_| listed.is_none()) {
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.push(format!("{lost} in {:?}", slices.keys()));
                }
            }
        });
        is_listed.await.expect("a list of the consumer's slices");
        Self { lacked, task }
    }

    pub(super) async fn stop(self) -> Vec<String> {
        assert!(!self.task.is_finished(), "the watch has ended");
        self.task.abort();
        std::mem::take(&mut *self.lacked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn offers(slice: &EndpointSlice, address: &str) -> bool {
    slice.endpoints.iter().any(|endpoint| {
        let ready = endpoint.conditions.as_ref().and_then(|all| all.ready);
        ready.unwrap_or(true) && endpoint.addresses.iter().any(|one| one == address)
    })
}
