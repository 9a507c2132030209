//! Pods of one run: created with the user's rights, and deleted regardless of the result.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use causeway::domain::ServiceKey;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{DeleteParams, DynamicObject, ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::named;
use super::paths::Paths;
use super::probe::{Dialled, PORT};
use crate::cluster::admin_endpoint::has_ended;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::objects::{self, ObjectError};
use crate::cluster::wait;
use crate::observe::verification::LABEL;

/// Maximum size in bytes of one pod's output.
const MAX_LOG: i64 = 4 * 1024 * 1024;
/// Time after the command's own timeout at which Kubernetes ends the pods.
const GRACE: Duration = Duration::from_secs(30);
/// Maximum number of pods of earlier runs that one run deletes.
const MAX_OLD: u32 = 100;
/// Maximum time in which a run deletes its pods in all members.
pub(super) const DELETE_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of pods of a member that are deleted concurrently.
const DELETED_AT_ONCE: usize = 16;

/// Failed pod, with a message for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("namespace {0} does not exist there; choose another with --probe-namespace")]
    NoNamespace(String),
    #[error("pod {namespace}/{name} did not {step} in time{state}")]
    Late {
        namespace: String,
        name: String,
        /// `start` or `end`.
        step: &'static str,
        state: String,
    },
}

/// Properties that all pods of a run share.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Random identity of the run.
    pub id: String,
    pub namespace: String,
    pub image: String,
    pub timeout: Duration,
}

/// Role of a pod in one member.
#[derive(Clone, Debug)]
pub(super) enum Role<'a> {
    /// Connects to the paths of each service.
    Dial(&'a [(ServiceKey, Paths)]),
    /// Answers with the name of the given cluster.
    Serve(&'a str),
}

impl Run {
    /// Returns a pod. `node` restricts the pod to one node.
    pub(super) fn pod(
        &self,
        name: &str,
        role: &Role<'_>,
        node: Option<&str>,
    ) -> Result<DynamicObject, ObjectError> {
        objects::object(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self.metadata(name),
            "spec": self.spec(role, node),
        }))
    }

    /// Returns a Job that runs one pod.
    pub(super) fn job(&self, name: &str, role: &Role<'_>) -> Result<DynamicObject, ObjectError> {
        let template =
            json!({"metadata": {"labels": self.labels()}, "spec": self.spec(role, None)});
        objects::object(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(name),
            "spec": {"backoffLimit": 0, "template": template},
        }))
    }

    /// Returns the full name of a pod.
    pub(super) fn pod_name(&self, name: &str) -> String {
        format!("causeway-verify-{}-{name}", self.id)
    }

    /// Describes the pods that may still exist in a member, with the command that deletes those of
    /// this run.
    pub(super) fn left(&self, member: &str, pods: &[String]) -> String {
        let Self { id, namespace, .. } = self;
        let pods = named(pods.iter());
        format!(
            "{member}: {pods}; to delete those of this run there: \
             kubectl delete pods -n {namespace} -l {LABEL}={id}"
        )
    }

    fn metadata(&self, name: &str) -> Value {
        json!({
            "name": self.pod_name(name),
            "namespace": self.namespace,
            "labels": self.labels(),
        })
    }

    fn labels(&self) -> Value {
        json!({ LABEL: self.id })
    }

    /// Returns the spec of a pod. The spec meets the Pod Security Standard "restricted" and has a
    /// deadline. A pod for a node is placed like the pods of a DaemonSet (Kubernetes, "DaemonSet").
    fn spec(&self, role: &Role<'_>, node: Option<&str>) -> Value {
        let mut spec = json!({
            "activeDeadlineSeconds": (self.timeout + GRACE).as_secs(),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self.container(role)],
        });
        if let Some(node) = node {
            let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
            spec["affinity"] = json!({
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
            });
            spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
        spec
    }

    fn container(&self, role: &Role<'_>) -> Value {
        let mut container = json!({
            "name": "probe",
            "image": self.image,
            "resources": {
                "requests": {"cpu": "10m", "memory": "16Mi"},
                "limits": {"memory": "64Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
        });
        match role {
            Role::Dial(services) => {
                let services = services.iter();
                let services = services.map(|(_, paths)| json!(paths.paths).to_string());
                let args = ["probe", "dial", "--run", &self.id].map(str::to_owned);
                container["args"] = args.into_iter().chain(services).collect();
            }
            Role::Serve(cluster) => {
                container["args"] =
                    json!(["probe", "serve", "--run", self.id, "--cluster", cluster]);
                container["readinessProbe"] =
                    json!({"tcpSocket": {"port": PORT}, "periodSeconds": 1});
            }
        }
        container
    }
}

/// Pods of a run in one member. Pods are recorded before they are created, and `delete` misses
/// none.
pub(super) struct Pods<'a> {
    member: &'a ApiServer,
    namespace: &'a str,
    names: Vec<String>,
    /// Ended pods of earlier runs.
    earlier: Vec<String>,
}

impl<'a> Pods<'a> {
    pub(super) fn new(member: &'a ApiServer, namespace: &'a str) -> Self {
        Self {
            member,
            namespace,
            names: Vec::new(),
            earlier: Vec::new(),
        }
    }

    fn api(&self) -> Api<Pod> {
        self.member.api(Some(self.namespace))
    }

    /// Records a pod, and creates it before the deadline.
    pub(super) async fn create(
        &mut self,
        pod: &DynamicObject,
        deadline: Instant,
    ) -> Result<(), PodError> {
        let name = pod.name_any();
        self.names.push(name.clone());
        match timeout_at(deadline, objects::create(self.member, pod)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ObjectError::Request(RequestError::NotFound { .. }))) => {
                Err(PodError::NoNamespace(self.namespace.to_owned()))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(self.late(&name, "start", String::new())),
        }
    }

    /// Waits until a pod is ready and returns its address.
    pub(super) async fn ready(&self, name: &str, deadline: Instant) -> Result<IpAddr, PodError> {
        let mut state = String::new();
        let ready = wait::until(self.api(), name, deadline, |pod: Option<&Pod>| {
            let status = pod?.status.as_ref()?;
            state = describe(status);
            let conditions = status.conditions.iter().flatten();
            let mut ready = conditions.filter(|one| one.type_ == "Ready" && one.status == "True");
            ready.next()?;
            status.pod_ip.as_ref()?.parse().ok()
        });
        let ready = ready.await;
        ready.map_err(|_| self.late(name, "start", state))
    }

    fn late(&self, name: &str, step: &'static str, state: String) -> PodError {
        PodError::Late {
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            step,
            state,
        }
    }

    /// Waits until a pod has ended and returns the outcomes that it printed. At the deadline it
    /// returns those that the pod has printed until then, and the error.
    pub(super) async fn dialled(
        &self,
        name: &str,
        deadline: Instant,
    ) -> (Vec<Dialled>, Option<PodError>) {
        let (mut state, mut has_started) = (String::new(), false);
        let ended = wait::until(self.api(), name, deadline, |pod: Option<&Pod>| {
            let status = pod?.status.as_ref()?;
            state = describe(status);
            let phase = status.phase.as_deref();
            has_started |= phase != Some("Pending");
            pod.is_some_and(has_ended).then_some(())
        });
        let late = ended.await.err().map(|_| {
            let step = if has_started { "end" } else { "start" };
            self.late(name, step, state)
        });
        let parameters = LogParams {
            limit_bytes: Some(MAX_LOG),
            ..LogParams::default()
        };
        let api = self.api();
        // The pod may have printed outcomes even if the watch has not reported that it started.
        match self.member.request(api.logs(name, &parameters)).await {
            Ok(log) => (read(&log), late),
            Err(error) => (Vec::new(), late.or(Some(error.into()))),
        }
    }

    /// Deletes the recorded pods before the deadline, those of this run before those of earlier
    /// runs. Returns the error of each pod of this run that may still exist. A pod of an earlier
    /// run has ended, and the next run deletes it.
    pub(super) async fn delete(&self, deadline: Instant) -> Vec<String> {
        let earlier = self.earlier.iter().map(|name| (name, false));
        let all = self.names.iter().map(|name| (name, true)).chain(earlier);
        let deletions = all.map(|(name, is_own)| async move {
            let left = self.delete_one(name, deadline).await;
            left.filter(|_| is_own)
        });
        let deletions: Vec<_> = deletions.collect();
        let deleted = stream::iter(deletions).buffer_unordered(DELETED_AT_ONCE);
        let left: Vec<_> = deleted.collect().await;
        let mut left: Vec<_> = left.into_iter().flatten().collect();
        left.sort();
        left
    }

    /// Deletes a pod before the deadline. Returns an error if the pod may still exist.
    async fn delete_one(&self, name: &str, deadline: Instant) -> Option<String> {
        let (api, now) = (self.api(), DeleteParams::default().grace_period(0));
        let deleted = self.member.request(api.delete(name, &now));
        let why = match timeout_at(deadline, deleted).await {
            Ok(Ok(_) | Err(RequestError::NotFound { .. })) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not deleted within {} s", DELETE_WITHIN.as_secs()),
        };
        Some(format!("pod {}/{name}: {why}", self.namespace))
    }

    /// Records the ended pods of earlier runs for deletion. Pods of a Job are its own.
    pub(super) async fn adopt_ended(&mut self) -> Result<(), RequestError> {
        let of_earlier = ListParams::default().labels(LABEL).limit(MAX_OLD);
        let pods = self.member.list(self.api(), &of_earlier).await?.into_iter();
        let ended = pods.filter(|pod| pod.owner_references().is_empty() && has_ended(pod));
        self.earlier.extend(ended.map(|pod| pod.name_any()));
        Ok(())
    }
}

/// Parses the lines that the dialling role printed. The last line of a path counts. Ignores other
/// lines.
fn read(log: &str) -> Vec<Dialled> {
    let lines = log.lines();
    let mut all: Vec<Dialled> = Vec::new();
    let mut numbers = HashMap::new();
    for one in lines.filter_map(|line| serde_json::from_str::<Dialled>(line).ok()) {
        let path = json!([one.service, one.path]).to_string();
        let number = *numbers.entry(path).or_insert(all.len());
        match all.get_mut(number) {
            Some(before) => *before = one,
            None => all.push(one),
        }
    }
    all
}

/// Describes the reason that a pod does not run, if its status has one.
fn describe(status: &PodStatus) -> String {
    let containers = status.container_statuses.iter().flatten();
    let states = containers.filter_map(|one| one.state.as_ref());
    let mut waiting = states.filter_map(|state| state.waiting.as_ref());
    let waiting = waiting.find_map(|one| Some((one.reason.clone()?, one.message.clone())));
    let conditions = status.conditions.iter().flatten();
    let mut unscheduled =
        conditions.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    let unscheduled = || {
        let one = unscheduled.next()?;
        Some((one.reason.clone()?, one.message.clone()))
    };
    match waiting.or_else(unscheduled) {
        None => String::new(),
        Some((reason, None)) => format!(": {reason}"),
        Some((reason, Some(message))) => format!(": {reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::sync::Barrier;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::cluster::access::Side;
    use crate::commands::verify::probe::Outcome;

    fn run() -> Run {
        Run {
            id: "0a1b2c3d".to_owned(),
            namespace: "causeway-system".to_owned(),
            image: "causeway/kubectl-mcs:1".to_owned(),
            timeout: Duration::from_secs(60),
        }
    }

    #[tokio::test]
    async fn pods_are_deleted_at_once_and_only_own_ones_are_left() {
        let barrier = Arc::new(Barrier::new(DELETED_AT_ONCE));
        let refuse = service_fn(move |_: http::Request<kube::client::Body>| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                let refusal = kube::core::Status::failure("no", "Forbidden").with_code(403);
                let body = Full::new(Bytes::from(serde_json::to_vec(&refusal)?));
                let response = http::Response::builder().status(403);
                Ok::<_, BoxError>(response.body(body)?)
            }
        });
        let config = kube::Config::new("https://127.0.0.1:1/".parse().expect("a URL"));
        let member = ApiServer::new(Side::Member, config).expect("a client");
        let member = ApiServer {
            client: kube::Client::new(refuse, "default"),
            ..member
        };
        let named = |prefix: &str| -> Vec<String> {
            let numbers = 0..DELETED_AT_ONCE;
            numbers.map(|number| format!("{prefix}-{number}")).collect()
        };
        let pods = Pods {
            names: named("own"),
            earlier: named("earlier"),
            ..Pods::new(&member, "causeway-system")
        };
        let left = pods.delete(Instant::now() + Duration::from_secs(10)).await;
        assert_eq!(left.len(), DELETED_AT_ONCE, "{left:?}");
        for why in left {
            assert!(why.starts_with("pod causeway-system/own-"), "{why}");
            assert!(why.contains("forbidden by the member"), "{why}");
        }
    }

    #[test]
    fn pods_are_restricted_and_end_by_themselves() {
        let pod = run().pod("member1", &Role::Serve("member1"), None);
        let pod = serde_json::to_value(pod.expect("a pod")).expect("JSON");
        for (pointer, expected) in [
            ("/metadata/name", json!("causeway-verify-0a1b2c3d-member1")),
            ("/spec/activeDeadlineSeconds", json!(90)),
            ("/spec/automountServiceAccountToken", json!(false)),
            ("/spec/securityContext/runAsNonRoot", json!(true)),
            (
                "/spec/securityContext/seccompProfile/type",
                json!("RuntimeDefault"),
            ),
            (
                "/spec/containers/0/securityContext/capabilities/drop",
                json!(["ALL"]),
            ),
            (
                "/spec/containers/0/readinessProbe/tcpSocket/port",
                json!(PORT),
            ),
        ] {
            assert_eq!(pod.pointer(pointer), Some(&expected), "{pointer}");
        }
    }

    #[test]
    fn error_names_pods_that_are_left_and_the_command_for_them() {
        let pods = ["p0", "p1", "p2", "p3", "p4"].map(str::to_owned);
        for (number, named) in [(1, "p0"), (3, "p0, p1, p2"), (5, "p0, p1, p2 and 2 more")] {
            let expected = format!(
                "member1: {named}; to delete those of this run there: kubectl delete pods \
                 -n causeway-system -l mcs.causeway.dev/verify=0a1b2c3d"
            );
            assert_eq!(run().left("member1", &pods[..number]), expected);
        }
    }

    #[test]
    fn pod_for_a_node_is_placed_as_daemon_sets_place_theirs() {
        let pod = run().pod("member1-0", &Role::Dial(&[]), Some("node-a"));
        let pod = serde_json::to_value(pod.expect("a pod")).expect("JSON");
        let term = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                    /nodeSelectorTerms/0/matchFields/0/values/0";
        assert_eq!(pod.pointer(term), Some(&json!("node-a")));
        let toleration = pod.pointer("/spec/tolerations/0/operator");
        assert_eq!(toleration, Some(&json!("Exists")));
    }

    #[test]
    fn state_of_a_pod_names_the_cause_that_kubernetes_reports() {
        for (status, described) in [
            (
                json!({"containerStatuses": [{
                    "name": "probe", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
                }]}),
                ": ErrImagePull: not found",
            ),
            (
                json!({"conditions": [{
                    "type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "message": "0/1 nodes are available",
                }]}),
                ": Unschedulable: 0/1 nodes are available",
            ),
            (json!({"phase": "Running"}), ""),
        ] {
            let read: PodStatus = serde_json::from_value(status.clone()).expect("a status");
            assert_eq!(describe(&read), described, "{status}");
        }
    }

    #[tokio::test]
    async fn outcomes_printed_until_the_deadline_are_returned() {
        let answer = service_fn(|request: http::Request<kube::client::Body>| async move {
            let is_log = request.uri().path().ends_with("/pods/dial-0/log");
            let body = if is_log { LINE } else { "{}" };
            let body = Full::new(Bytes::from(format!("{body}\n")));
            Ok::<_, BoxError>(http::Response::new(body))
        });
        let config = kube::Config::new("https://127.0.0.1:1/".parse().expect("a URL"));
        let member = ApiServer::new(Side::Member, config).expect("a client");
        let member = ApiServer {
            client: kube::Client::new(answer, "default"),
            ..member
        };
        let pods = Pods::new(&member, "causeway-system");
        let (dialled, late) = pods.dialled("dial-0", Instant::now()).await;
        assert_eq!(dialled, read(LINE));
        assert!(matches!(late, Some(PodError::Late { .. })), "{late:?}");
    }

    /// Outcome of a path, as a pod prints it.
    const LINE: &str = r#"{"service":0,"path":{"kind":"ClusterIp","address":"10.0.0.1","port":80},"outcome":{"result":"TimedOut"},"milliseconds":1}"#;

    #[test]
    fn last_outcome_of_a_path_counts() {
        let other = LINE.replacen("10.0.0.1", "10.0.0.2", 1);
        let of_another_service = LINE.replacen("\"service\":0", "\"service\":1", 1);
        let changed = LINE.replace("TimedOut", "NoRoute");
        let all = read(&format!("{LINE}\n{other}\n{of_another_service}\n{changed}"));
        let outcomes: Vec<_> = all.iter().map(|one| (one.service, &one.outcome)).collect();
        let (timed_out, no_route) = (&Outcome::TimedOut, &Outcome::NoRoute);
        assert_eq!(outcomes, [(0, no_route), (0, timed_out), (1, timed_out)]);
    }

    #[test]
    fn lines_that_are_no_outcome_are_skipped() {
        let line = r#"{"service":0,"path":{"kind":"ClusterIp","address":"10.0.0.1","port":80},"outcome":{"result":"Refused"},"milliseconds":1}"#;
        let log = format!("warning: a library\n{line}\n{}", &line[..20]);
        assert_eq!(read(&log).len(), 1);
    }
}
