//! Objects, chained and readable.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::{ClusterSelector, ExposurePort, MultiClusterService, MultiClusterServiceSpec};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{
    Container, Pod, PodCondition, PodIP, PodSpec, PodStatus, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::network::PodNetwork;
use crate::write::merge_status;
use crate::{Cluster, Space};

/// A Service that selects the pods with label `app=<name>`.
pub fn service(name: &str) -> ServiceFixture {
    ServiceFixture(Service {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(BTreeMap::from([("app".to_owned(), name.to_owned())])),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

/// See [`service`].
#[derive(Clone, Debug)]
pub struct ServiceFixture(Service);

impl ServiceFixture {
    /// Adds a TCP port; the pods listen on the same number.
    #[must_use]
    pub fn port(self, name: &str, number: u16) -> Self {
        self.port_to(name, number, number)
    }

    /// Adds a TCP port; the pods listen on `target`.
    #[must_use]
    pub fn port_to(mut self, name: &str, number: u16, target: u16) -> Self {
        let port = ServicePort {
            name: Some(name.to_owned()),
            port: number.into(),
            target_port: Some(IntOrString::Int(target.into())),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        };
        self.spec().ports.get_or_insert_default().push(port);
        self
    }

    /// Selects the pods with this label instead.
    #[must_use]
    pub fn selector(mut self, key: &str, value: &str) -> Self {
        self.spec().selector = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        self
    }

    /// Selects nothing: its endpoints are made by hand.
    #[must_use]
    pub fn without_selector(mut self) -> Self {
        self.spec().selector = None;
        self
    }

    /// Has no cluster IP.
    #[must_use]
    pub fn headless(mut self) -> Self {
        self.spec().cluster_ip = Some("None".to_owned());
        self
    }

    /// Has this `spec.type`, `LoadBalancer` say.
    #[must_use]
    pub fn type_(mut self, type_: &str) -> Self {
        self.spec().type_ = Some(type_.to_owned());
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.0.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Changes whatever has no name here.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ServiceSpec)) -> Self {
        change(self.spec());
        self
    }

    /// The object, not yet in a cluster.
    #[must_use]
    pub fn object(self) -> Service {
        self.0
    }

    /// Makes it in a cluster.
    pub async fn create(self, cluster: &Cluster, space: &Space<'_>) -> Service {
        let api = space.api::<Service>(cluster);
        let made = api.create(&PostParams::default(), &self.0).await;
        made.unwrap_or_else(|e| panic!("cannot make a Service in {}: {e}", cluster.name()))
    }

    fn spec(&mut self) -> &mut ServiceSpec {
        self.0.spec.get_or_insert_default()
    }
}

/// A MultiClusterService of type CrossCluster, for all ports and all clusters.
pub fn multi_cluster_service(name: &str) -> MultiClusterServiceFixture {
    let spec = MultiClusterServiceSpec {
        types: vec!["CrossCluster".to_owned()],
        ..MultiClusterServiceSpec::default()
    };
    MultiClusterServiceFixture(MultiClusterService::new(name, spec))
}

/// See [`multi_cluster_service`].
#[derive(Clone, Debug)]
pub struct MultiClusterServiceFixture(MultiClusterService);

impl MultiClusterServiceFixture {
    /// Only these clusters provide it.
    #[must_use]
    pub fn providers<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.0.spec.provider_clusters = names.map(selector).to_vec();
        self
    }

    /// Only these clusters consume it.
    #[must_use]
    pub fn consumers<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.0.spec.consumer_clusters = names.map(selector).to_vec();
        self
    }

    /// Exposes this port, beside others named so.
    #[must_use]
    pub fn port(mut self, name: &str, number: u16) -> Self {
        let name = Some(name.to_owned());
        let port = number.into();
        self.0.spec.ports.push(ExposurePort { name, port });
        self
    }

    /// Is of this type instead.
    #[must_use]
    pub fn type_(mut self, type_: &str) -> Self {
        self.0.spec.types = vec![type_.to_owned()];
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.0.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Changes whatever has no name here.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut MultiClusterServiceSpec)) -> Self {
        change(&mut self.0.spec);
        self
    }

    /// The object, not yet in a cluster.
    #[must_use]
    pub fn object(self) -> MultiClusterService {
        self.0
    }

    /// Makes it on the hub.
    pub async fn create(self, space: &Space<'_>) -> MultiClusterService {
        let api = space.api::<MultiClusterService>(space.fleet().hub());
        let made = api.create(&PostParams::default(), &self.0).await;
        made.unwrap_or_else(|e| panic!("cannot make a MultiClusterService: {e}"))
    }
}

fn selector(name: &str) -> ClusterSelector {
    let name = name.to_owned();
    ClusterSelector { name }
}

/// A pod with label `app=<app>`, running and ready.
pub fn pod(name: &str, app: &str) -> PodFixture {
    PodFixture {
        name: name.to_owned(),
        labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        node: None,
        ips: Vec::new(),
        hostname: None,
        ready: true,
    }
}

/// See [`pod`].
#[derive(Clone, Debug)]
pub struct PodFixture {
    name: String,
    labels: BTreeMap<String, String>,
    node: Option<String>,
    ips: Vec<String>,
    hostname: Option<(String, String)>,
    ready: bool,
}

impl PodFixture {
    /// Bears this label too.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Runs on this node; without one on the member's own.
    #[must_use]
    pub fn on_node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Has this address, beside others named so; without one it gets a fresh one of each family.
    #[must_use]
    pub fn ip(mut self, ip: &str) -> Self {
        self.ips.push(ip.to_owned());
        self
    }

    /// Has this hostname in the headless Service of this name, as a StatefulSet's pods have.
    #[must_use]
    pub fn hostname(mut self, hostname: &str, service: &str) -> Self {
        self.hostname = Some((hostname.to_owned(), service.to_owned()));
        self
    }

    /// Runs but is not ready.
    #[must_use]
    pub fn unready(mut self) -> Self {
        self.ready = false;
        self
    }

    /// Makes it in a cluster, and plays its kubelet: it runs, and has its addresses. In a fleet
    /// with packets it listens on ports 80 and 8080, and answers `pod <name> in <cluster>`.
    pub async fn create(mut self, cluster: &Cluster, space: &Space<'_>) -> RunningPod {
        let node = self.node.clone().unwrap_or_else(|| cluster.node_name());
        if self.ips.is_empty() {
            self.ips = cluster.fresh_pod_ips_on(&node);
        }
        let api = space.api::<Pod>(cluster);
        let (hostname, subdomain) = self.hostname.unzip();
        let object = Pod {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                node_name: Some(node.clone()),
                containers: vec![Container {
                    name: "serve".to_owned(),
                    image: Some("serve".to_owned()),
                    ..Container::default()
                }],
                hostname,
                subdomain,
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        let made = api.create(&PostParams::default(), &object).await;
        made.unwrap_or_else(|e| panic!("cannot make pod {} in {}: {e}", self.name, cluster.name()));
        let text = format!("pod {} in {}", self.name, cluster.name());
        let network = cluster.connect_pod(&node, &self.ips, &text).await;
        let pod = RunningPod {
            api,
            name: self.name,
            node,
            ips: self.ips,
            network,
        };
        pod.set_ready(self.ready).await;
        pod
    }
}

/// A pod in a cluster.
#[derive(Clone)]
pub struct RunningPod {
    api: Api<Pod>,
    name: String,
    node: String,
    ips: Vec<String>,
    network: Option<Arc<PodNetwork>>,
}

impl RunningPod {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of its node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its first address.
    pub fn ip(&self) -> &str {
        &self.ips[0]
    }

    /// Its network, in a fleet with packets.
    pub fn network(&self) -> &PodNetwork {
        self.network.as_ref().expect("a fleet with packets")
    }

    /// Says that it is ready, or runs and is not.
    pub async fn set_ready(&self, ready: bool) {
        let patch = json!({ "status": running(&self.ips, ready) });
        merge_status(&self.api, &self.name, patch).await;
    }

    /// Asks it to end: it terminates, and stays until [`RunningPod::delete`], as no kubelet ends
    /// it.
    pub async fn terminate(&self) {
        self.remove(&DeleteParams::default()).await;
    }

    /// Removes it at once.
    pub async fn delete(&self) {
        self.remove(&DeleteParams::default().grace_period(0)).await;
        if let Some(network) = &self.network {
            network.kill().await;
        }
    }

    async fn remove(&self, how: &DeleteParams) {
        let removed = self.api.delete(&self.name, how).await;
        removed.unwrap_or_else(|e| panic!("cannot delete pod {}: {e}", self.name));
    }
}

/// The status that a kubelet gives a pod that runs.
pub(crate) fn running(ips: &[String], ready: bool) -> PodStatus {
    let condition = |type_: &str, status: bool| PodCondition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        ..PodCondition::default()
    };
    PodStatus {
        phase: Some("Running".to_owned()),
        pod_ip: ips.first().cloned(),
        pod_ips: Some(ips.iter().map(|ip| PodIP { ip: ip.clone() }).collect()),
        conditions: Some(vec![
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ]),
        ..PodStatus::default()
    }
}

/// Several pods of one app. See [`Space::backends`].
pub struct Backends<'a> {
    space: &'a Space<'a>,
    app: String,
    count: usize,
    node: Option<String>,
}

impl Space<'_> {
    /// Pods that back the Service of this name: they bear its label `app`.
    pub fn backends(&self, app: &str) -> Backends<'_> {
        Backends {
            space: self,
            app: app.to_owned(),
            count: 1,
            node: None,
        }
    }
}

impl Backends<'_> {
    /// This many; one without it.
    #[must_use]
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// They run on this node; without one on the member's own.
    #[must_use]
    pub fn on_node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Makes them in a cluster, running and ready.
    pub async fn create(self, cluster: &Cluster) -> Vec<RunningPod> {
        let pods = (0..self.count).map(|_| {
            let node = self.node.clone();
            let node = node.unwrap_or_else(|| cluster.node_name());
            let ips = cluster.fresh_pod_ips_on(&node);
            let name = format!("{}-{}", self.app, ips[0].replace('.', "-"));
            let pod = pod(&name, &self.app).on_node(&node);
            let pod = ips.iter().fold(pod, |pod, ip| pod.ip(ip));
            pod.create(cluster, self.space)
        });
        join_all(pods).await
    }
}

/// Number of objects of [`crowd`]: more than so few that their deletions count at once.
pub const CROWD: usize = 16;

/// Creates Services and EndpointSlices that nobody exposes, in a namespace of their own. They are
/// so many that a list without them is no small loss.
pub async fn crowd(cluster: &Cluster) {
    let mut objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: crowd}\n".to_owned();
    for number in 0..CROWD {
        let metadata = format!("name: crowd-{number}, namespace: crowd");
        objects.push_str(&format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{{metadata}}}\n\
             spec: {{ports: [{{port: 80}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{{metadata}, labels: {{kubernetes.io/service-name: crowd-{number}}}}}\n\
             addressType: IPv4\nendpoints: [{{addresses: [10.200.0.{number}]}}]\n\
             ports: [{{port: 80}}]\n"
        ));
    }
    cluster.apply(&objects).await.ok();
}
