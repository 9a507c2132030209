//! The namespace of one test.

use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::binaries::Testbed;
use crate::control_plane::{ControlPlane, Role, secret};
use crate::eventually::{SOON, eventually};
use crate::reaper::{Program, tail};
use crate::write::merge_status;
use crate::{Cluster, Fleet};

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A namespace that belongs to one test. When the test fails, its objects in every cluster and the
/// ends of all logs are printed.
pub struct Space<'a> {
    fleet: &'a Fleet,
    name: String,
    patience: Duration,
    reports: bool,
}

impl<'a> Space<'a> {
    /// A namespace of a fresh name in these clusters only.
    pub async fn create(fleet: &'a Fleet, prefix: &str, clusters: &[&Cluster]) -> Self {
        let name = format!("{prefix}-{}", &secret()[..8]);
        let space = Self::existing(fleet, &name);
        join_all(clusters.iter().map(|cluster| space.create_in(cluster))).await;
        space
    }

    /// An existing namespace, `default` say: not for tests that share a fleet.
    pub fn existing(fleet: &'a Fleet, name: &str) -> Self {
        Self {
            fleet,
            name: name.to_owned(),
            patience: SOON,
            reports: true,
        }
    }

    /// Waits this long for what is expected, instead of [`SOON`].
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same namespace, for expectations that must hold within this time.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self {
            fleet: self.fleet,
            name: self.name.clone(),
            patience,
            reports: false,
        }
    }

    /// The time within which what is expected must hold.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Makes the namespace in one more cluster.
    pub async fn create_in(&self, cluster: &Cluster) {
        cluster.create_namespace(&self.name).await;
    }

    /// The name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fleet that it is in.
    pub fn fleet(&self) -> &'a Fleet {
        self.fleet
    }

    /// The objects of one kind in this namespace of a cluster.
    pub fn api<K>(&self, cluster: &Cluster) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(cluster.client(), &self.name)
    }

    /// Plays the load balancer of Service `foo` in a cluster: gives it this ingress, or takes it
    /// away.
    pub async fn set_ingress(&self, cluster: &Cluster, ingress: impl Into<Option<Value>>) {
        let services = self.api::<Service>(cluster);
        let ingress = Vec::from_iter(ingress.into());
        let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        merge_status(&services, "foo", status).await;
    }

    /// The EndpointSlices of a Service in a cluster, by name.
    pub async fn slices(&self, cluster: &Cluster, service: &str) -> Vec<EndpointSlice> {
        let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={service}"));
        let api = self.api::<EndpointSlice>(cluster);
        let what = format!("the slices of {service} in {} are listed", cluster.name());
        // A connection that breaks says nothing of what is looked at.
        let mut slices = eventually(&what, SOON, || async {
            let list = api.list(&of_service).await.map_err(anyhow::Error::from);
            list.map_err(|e| format!("{e:#}"))
        })
        .await
        .items;
        slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        slices
    }

    /// The addresses of all ready endpoints of a Service in a cluster, sorted.
    pub async fn ready_addresses(&self, cluster: &Cluster, service: &str) -> Vec<String> {
        let slices = self.slices(cluster, service).await;
        let mut addresses: Vec<_> = ready_of(&slices).collect();
        addresses.sort();
        addresses
    }

    /// Describes the state of the namespace, for the reader of a failure.
    fn report(&self) -> String {
        let mut report = format!("---- the objects of namespace {}\n", self.name);
        for cluster in self.fleet.awake() {
            let objects = self.objects(cluster);
            report.push_str(&format!("-- {}\n{objects}\n", cluster.name()));
        }
        for log in self.fleet.logs() {
            let end = tail(&log, 40);
            report.push_str(&format!("---- the end of {}\n{end}\n", log.display()));
        }
        report
    }

    fn objects(&self, cluster: &Cluster) -> String {
        let kinds = "services,endpointslices,pods,events";
        match cluster.role() {
            Role::Hub => self.get(cluster, &format!("multiclusterservices,{kinds}"), "wide"),
            // Not every member serves these.
            Role::Member => {
                self.get(cluster, kinds, "wide")
                    + &self.get(cluster, "serviceexports,serviceimports", "yaml")
            }
        }
    }

    fn get(&self, cluster: &Cluster, kinds: &str, format: &str) -> String {
        let out = cluster.directory().join("report.out");
        let kubectl = Program::new(Testbed::get().program("kubectl"), &out)
            .env("KUBECONFIG", cluster.kubeconfig().display().to_string())
            .args(["get", kinds, "--request-timeout=3s", "-o", format, "-n"])
            .arg(&self.name);
        let kubectl = self.fleet.reaper().run(kubectl);
        let deadline = Instant::now() + Duration::from_secs(5);
        while kubectl.is_running() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let objects = tail(&out, 100);
        std::fs::remove_file(&out).ok();
        objects
    }
}

/// Returns the addresses of the ready endpoints of these slices.
pub(crate) fn ready_of<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> impl Iterator<Item = String> {
    let endpoints = slices.into_iter().flat_map(|slice| &slice.endpoints);
    let ready = endpoints.filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|all| all.ready).unwrap_or(true)
    });
    ready.flat_map(|endpoint| endpoint.addresses.iter().cloned())
}

impl ControlPlane {
    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces = Api::<Namespace>::all(self.client());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.unwrap_or_else(|e| panic!("cannot make namespace {name} in {}: {e}", self.name()));
    }
}

impl Fleet {
    /// A namespace of a name that nobody else has, in the hub and in all members that do not sleep.
    pub async fn space(&self, prefix: &str) -> Space<'_> {
        let clusters: Vec<_> = self.awake().collect();
        Space::create(self, prefix, &clusters).await
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        if self.reports && std::thread::panicking() {
            // Captured with the test's output, and shown with its failure.
            eprintln!("{}", self.report());
        }
    }
}
