//! Imitation of a scheduler and a kubelet, without containers: pods are assigned to a node, run,
//! become ready, and end when they are deleted. Pods of this program's own image can run the
//! program itself, with their arguments, in their own network; their logs are served.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::Cluster;
use crate::binaries::Testbed;
use crate::fixtures::running;
use crate::network::PodNetwork;
use crate::reaper::{Exit, Process, Program};
use crate::write::merge_status;

/// Interval at which it looks for programs that have ended.
const LOOK: Duration = Duration::from_millis(100);
/// Port of the server of logs on each node.
const LOGS: u16 = 10250;

/// Serves the pods of one member.
pub struct Kubelet<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// The pods that run here, by UID. Pods that a test put on a node itself are not among them.
    pods: HashMap<String, PodHere>,
    /// Programs by the name of their image.
    programs: HashMap<String, PathBuf>,
    /// Servers of logs.
    logs: Vec<Process>,
}

struct PodHere {
    ip: String,
    network: Option<Arc<PodNetwork>>,
    program: Option<Running>,
}

/// Program of a pod.
struct Running {
    pod: Pod,
    process: Process,
    is_reported: bool,
}

impl<'a> Kubelet<'a> {
    /// A kubelet for this member; [`Kubelet::run`] sets it to work.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            client: cluster.client(),
            pods: HashMap::new(),
            programs: HashMap::new(),
            logs: Vec::new(),
        }
    }

    /// Runs this program in pods of the image of that name, and serves their logs. Only in a fleet
    /// with packets.
    pub async fn running(mut self, image: &str, program: PathBuf) -> Self {
        self.programs.insert(image.to_owned(), program);
        for node in self.cluster.node_networks() {
            let address = node.node_address();
            let log = self.cluster.directory().join(format!("logs-{address}.log"));
            let directory = self.cluster.directory().display().to_string();
            let listen = format!("{address}:{LOGS}");
            let serve = Program::new(Testbed::get().program("pod"), log)
                .args(["logs", &directory, &listen])
                .in_network(node.namespace());
            self.logs.push(self.cluster.reaper().run(serve));
            let nodes = Api::<Node>::all(self.client.clone());
            let status =
                json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": LOGS}}}});
            let name = self.cluster.node_name_of(node.site().node);
            merge_status(&nodes, &name, status).await;
        }
        self
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
        loop {
            match tokio::time::timeout(LOOK, events.try_next()).await {
                Err(_) => self.report_ended().await?,
                Ok(event) => match event? {
                    None => return Ok(()),
                    Some(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                        self.attend(&pod).await?;
                    }
                    Some(watcher::Event::Delete(pod)) => {
                        if let Some(here) = self.pods.remove(&pod.uid().unwrap_or_default()) {
                            self.disconnect(&here).await;
                        }
                    }
                    Some(_) => {}
                },
            }
        }
    }

    /// Reports the programs that have ended.
    async fn report_ended(&mut self) -> Result<(), Error> {
        let client = self.client.clone();
        let programs = self
            .pods
            .values_mut()
            .filter_map(|pod| pod.program.as_mut());
        for running in programs.filter(|running| !running.is_reported) {
            let Some(exit) = running.process.exit() else {
                continue;
            };
            let phase = if exit.success() {
                "Succeeded"
            } else {
                "Failed"
            };
            let code = match exit {
                Exit::Code(code) => code,
                Exit::Signal(signal) => 128 + signal,
            };
            let container = json!({
                "name": "probe", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            });
            let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
            let status = Patch::Merge(status);
            let namespace = running.pod.namespace().unwrap_or_default();
            let api = Api::<Pod>::namespaced(client.clone(), &namespace);
            let name = running.pod.name_any();
            api.patch_status(&name, &PatchParams::default(), &status)
                .await?;
            running.is_reported = true;
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
            && matches!(phase, None | Some("Pending"))
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
        let node = node_of(pod).unwrap_or_else(|| self.cluster.node_name());
        let ip = self.cluster.fresh_pod_ip_on(&node);
        let name = pod.name_any();
        let text = format!("{}\npod {name} in {}", said_by(pod), self.cluster.name());
        let network = self
            .cluster
            .connect_pod(&node, std::slice::from_ref(&ip), text.trim_start());
        let network = network.await;
        let program = network
            .as_ref()
            .and_then(|network| self.start(pod, network));
        PodHere {
            ip,
            network,
            program,
        }
    }

    /// Starts the program of a pod, if its image has one.
    fn start(&self, pod: &Pod, network: &PodNetwork) -> Option<Running> {
        let container = container(pod)?;
        let image = container.image.as_deref()?;
        let name = image.rsplit('/').next()?.split(':').next()?;
        let program = self.programs.get(name)?;
        let log = format!("{}_{}.log", pod.namespace()?, pod.name_any());
        let program = Program::new(program, self.cluster.directory().join(log))
            .args(container.args.iter().flatten())
            .in_network(network.namespace());
        Some(Running {
            pod: pod.clone(),
            process: self.cluster.reaper().run(program),
            is_reported: false,
        })
    }

    async fn place(&self, pod: &Pod) -> Result<(), Error> {
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": name },
            "target": {
                "apiVersion": "v1",
                "kind": "Node",
                "name": node_of(pod).unwrap_or_else(|| self.cluster.node_name()),
            },
        });
        let _: kube::core::Status = self
            .api(pod)
            .create_subresource("binding", &name, &PostParams::default(), &binding)
            .await?;
        Ok(())
    }

    async fn end(&self, pod: &Pod, here: PodHere) -> Result<(), Error> {
        self.disconnect(&here).await;
        let now = DeleteParams::default().grace_period(0);
        match self.api(pod).delete(&pod.name_any(), &now).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()).map_err(Error::from),
        }
    }

    async fn disconnect(&self, here: &PodHere) {
        if let Some(program) = &here.program {
            program.process.kill().await;
        }
        if let Some(network) = &here.network {
            self.cluster.disconnect_pod(network).await;
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

fn container(pod: &Pod) -> Option<&Container> {
    pod.spec.as_ref()?.containers.first()
}

/// Returns the node that a pod asks for, as those of a DaemonSet do.
fn node_of(pod: &Pod) -> Option<String> {
    let affinity = pod
        .spec
        .as_ref()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let fields = required
        .node_selector_terms
        .first()?
        .match_fields
        .as_ref()?;
    fields.first()?.values.as_ref()?.first().cloned()
}

/// Returns the pod's answer to requests: the arguments of its container.
fn said_by(pod: &Pod) -> String {
    let args = container(pod).and_then(|container| container.args.as_ref());
    args.map(|args| args.join(" ")).unwrap_or_default()
}
