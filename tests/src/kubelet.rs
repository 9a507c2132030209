//! Imitation of a scheduler and a kubelet, without containers: pods of a Deployment are assigned to
//! the member's node, run, become ready, and end when they are deleted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::Cluster;
use crate::fixtures::running;
use crate::network::PodNetwork;

/// Serves the pods of one member.
pub struct Kubelet<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// The pods that run here, by UID. Pods that a test put on a node itself are not among them.
    pods: HashMap<String, PodHere>,
}

struct PodHere {
    ip: String,
    network: Option<Arc<PodNetwork>>,
}

impl<'a> Kubelet<'a> {
    /// A kubelet for this member; [`Kubelet::run`] sets it to work.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            client: cluster.client(),
            pods: HashMap::new(),
        }
    }

    /// Works until it is dropped. While the API server cannot be reached nothing changes.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.watch().await {
                tracing::debug!(cluster = self.cluster.name(), %error, "the watch of pods is begun again");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn watch(&mut self) -> Result<(), Error> {
        let all = Api::<Pod>::all(self.client.clone());
        let mut events = std::pin::pin!(watcher(all, watcher::Config::default()));
        while let Some(event) = events.try_next().await? {
            if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) = event {
                self.attend(&pod).await?;
            }
        }
        Ok(())
    }

    /// Does the next step for a pod. Repeating it changes nothing.
    async fn attend(&mut self, pod: &Pod) -> Result<(), Error> {
        let uid = pod.uid().unwrap_or_default();
        let placed = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if pod.metadata.deletion_timestamp.is_some() {
            if let Some(here) = self.pods.remove(&uid) {
                self.end(pod, here).await?;
            }
            return Ok(());
        }
        if !placed {
            let here = self.begin(pod).await;
            self.pods.insert(uid.clone(), here);
            self.place(pod).await?;
        }
        if let Some(here) = self.pods.get(&uid)
            && phase != Some("Running")
        {
            let status = running(std::slice::from_ref(&here.ip), true);
            let status = Patch::Merge(json!({ "status": status }));
            self.api(pod)
                .patch_status(&pod.name_any(), &PatchParams::default(), &status)
                .await?;
        }
        Ok(())
    }

    async fn begin(&self, pod: &Pod) -> PodHere {
        let ip = self.cluster.fresh_pod_ip();
        let name = pod.name_any();
        let text = format!("{}\npod {name} in {}", said_by(pod), self.cluster.name());
        let node = self.cluster.node_name();
        let network = self
            .cluster
            .connect_pod(&node, std::slice::from_ref(&ip), text.trim_start());
        let network = network.await;
        PodHere { ip, network }
    }

    async fn place(&self, pod: &Pod) -> Result<(), Error> {
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": self.cluster.node_name() },
        });
        let _: kube::core::Status = self
            .api(pod)
            .create_subresource("binding", &name, &PostParams::default(), &binding)
            .await?;
        Ok(())
    }

    async fn end(&self, pod: &Pod, here: PodHere) -> Result<(), Error> {
        if let Some(network) = here.network {
            self.cluster.disconnect_pod(&network).await;
        }
        let now = DeleteParams::default().grace_period(0);
        match self.api(pod).delete(&pod.name_any(), &now).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()).map_err(Error::from),
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Watch(#[from] watcher::Error),
}

/// Returns the pod's answer to requests: the arguments of its container.
fn said_by(pod: &Pod) -> String {
    let container = pod.spec.iter().flat_map(|spec| &spec.containers).next();
    let args = container.and_then(|container| container.args.as_ref());
    args.map(|args| args.join(" ")).unwrap_or_default()
}
