//! Pods of one run: created with the user's rights, and deleted regardless of the result.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::ServiceKey;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, DynamicObject, ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
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
/// Name of the only container of a pod. A webhook of the member may add others.
const CONTAINER: &str = "probe";
/// Time after the command's own timeout at which Kubernetes ends the pods.
const GRACE: Duration = Duration::from_secs(30);
/// Maximum number of pods of earlier runs that one run deletes.
const MAX_OLD: u32 = 100;
/// Maximum time in which a run deletes its pods in all members.
pub(super) const DELETE_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of pods of a member that are created or deleted concurrently.
const AT_ONCE: u32 = 16;

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
        let metadata = json!({"labels": self.labels(), "annotations": annotations()});
        let template = json!({"metadata": metadata, "spec": self.spec(role, None)});
        objects::object(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(name),
            "spec": {"backoffLimit": 0, "template": template},
        }))
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
            "name": format!("causeway-verify-{}-{name}", self.id),
            "namespace": self.namespace,
            "labels": self.labels(),
            "annotations": annotations(),
        })
    }

    /// Returns the labels of a pod. They keep it out of the mesh of Istio, whose proxies accept
    /// each connection before they connect to its destination.
    fn labels(&self) -> Value {
        json!({
            LABEL: self.id,
            "istio.io/dataplane-mode": "none",
            "sidecar.istio.io/inject": "false",
        })
    }

    /// Returns the spec of a pod. The spec meets the Pod Security Standard "restricted" and has a
    /// deadline. The images are for Linux. A pod for a node is placed like the pods of a DaemonSet
    /// (Kubernetes, "DaemonSet").
    fn spec(&self, role: &Role<'_>, node: Option<&str>) -> Value {
        let mut spec = json!({
            "activeDeadlineSeconds": (self.timeout + GRACE).as_secs(),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "nodeSelector": {"kubernetes.io/os": "linux"},
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
            "name": CONTAINER,
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
    names: Mutex<Vec<String>>,
    /// Limit of concurrent creations, each of which has a permit until it is answered.
    creations: Arc<Semaphore>,
    /// Pods of earlier runs that ended or will not start.
    earlier: Vec<String>,
}

impl<'a> Pods<'a> {
    pub(super) fn new(member: &'a ApiServer, namespace: &'a str) -> Self {
        Self {
            member,
            namespace,
            names: Mutex::default(),
            creations: Arc::new(Semaphore::new(AT_ONCE as usize)),
            earlier: Vec::new(),
        }
    }

    fn api(&self) -> Api<Pod> {
        self.member.api(Some(self.namespace))
    }

    /// Records a pod, and creates it before the deadline. Returns its name. A pod that the member
    /// refused does not exist, and is not recorded. If this future is dropped, the creation goes on
    /// until it is answered.
    pub(super) async fn create(
        &self,
        pod: DynamicObject,
        deadline: Instant,
    ) -> Result<String, String> {
        let name = pod.name_any();
        let created = async {
            let turn = Arc::clone(&self.creations).acquire_owned().await;
            self.names.lock().push(name.clone());
            let member = self.member.clone();
            let created = tokio::spawn(async move {
                let _turn = turn;
                objects::create(&member, &pod).await
            });
            // Nothing ends the task, which only a panic could end early.
            created
                .await
                .unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
        };
        match timeout_at(deadline, created).await {
            Ok(Ok(())) => Ok(name),
            Ok(Err(ObjectError::Request(error))) => {
                if is_refusal(&error) {
                    self.names.lock().retain(|one| *one != name);
                }
                Err(match error {
                    RequestError::NotFound { .. } => format!(
                        "namespace {} does not exist there; choose another with --probe-namespace",
                        self.namespace
                    ),
                    error => error.to_string(),
                })
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(self.failure(&name, format_args!("did not start in time"))),
        }
    }

    /// Waits until a pod is ready and returns its addresses.
    pub(super) async fn ready(&self, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, String> {
        let mut state = String::new();
        let ready = wait::until(self.api(), name, deadline, |pod: Option<&Pod>| {
            let status = pod?.status.as_ref()?;
            state = describe(status);
            if pod.is_some_and(has_ended) {
                return Some(None);
            }
            let conditions = status.conditions.iter().flatten();
            let mut ready = conditions.filter(|one| one.type_ == "Ready" && one.status == "True");
            ready.next()?;
            let addresses = addresses(status);
            (!addresses.is_empty()).then_some(Some(addresses))
        });
        match ready.await {
            Ok(Some(addresses)) => Ok(addresses),
            Ok(None) => Err(self.failure(name, format_args!("failed{state}"))),
            Err(late) => {
                Err(self.failure(name, format_args!("did not start in time{state}{late}")))
            }
        }
    }

    fn failure(&self, name: &str, what: fmt::Arguments<'_>) -> String {
        format!("pod {}/{name} {what}", self.namespace)
    }

    /// Waits until a pod has ended and returns the outcomes that it printed. At the deadline it
    /// returns those that the pod has printed until then, and the error. A pod that failed without
    /// any outcome is an error, too.
    pub(super) async fn dialled(
        &self,
        name: &str,
        deadline: Instant,
    ) -> (Vec<Dialled>, Option<String>) {
        let (mut state, mut has_started, mut has_failed) = (String::new(), false, false);
        let ended = wait::until(self.api(), name, deadline, |pod: Option<&Pod>| {
            let status = pod?.status.as_ref()?;
            state = describe(status);
            let phase = status.phase.as_deref();
            has_started |= phase != Some("Pending");
            has_failed = phase == Some("Failed");
            pod.is_some_and(has_ended).then_some(())
        });
        let error = match ended.await {
            Err(late) => {
                let step = if has_started { "end" } else { "start" };
                Some(self.failure(name, format_args!("did not {step} in time{state}{late}")))
            }
            Ok(()) if has_failed => Some(self.failure(name, format_args!("failed{state}"))),
            Ok(()) => None,
        };
        let parameters = LogParams {
            container: Some(CONTAINER.to_owned()),
            limit_bytes: Some(MAX_LOG),
            ..LogParams::default()
        };
        let api = self.api();
        // The pod may have printed outcomes even if the watch has not reported that it started.
        match self.member.request(api.logs(name, &parameters)).await {
            Ok(log) => {
                let dialled = read(&log);
                // The pod fails if a path does not work, too.
                let is_relevant = dialled.is_empty() || !has_failed;
                (dialled, error.filter(|_| is_relevant))
            }
            Err(log) => {
                let error = match error {
                    Some(pod) => format!("{pod}; its log cannot be read: {log}"),
                    None => log.to_string(),
                };
                (Vec::new(), Some(error))
            }
        }
    }

    /// Deletes the recorded pods before the deadline, those of this run before those of earlier
    /// runs. Returns the error of each pod of this run that may still exist. A pod of an earlier
    /// run does nothing, and the next run deletes it.
    pub(super) async fn delete(&self, deadline: Instant) -> Vec<String> {
        // A creation that is answered after the deletion would leave its pod.
        let answered = self.creations.acquire_many(AT_ONCE);
        timeout_at(deadline, answered).await.ok();
        let names = self.names.lock().clone();
        let earlier = self.earlier.iter().map(|name| (name, false));
        let all = names.iter().map(|name| (name, true)).chain(earlier);
        let deletions = all.map(|(name, is_own)| async move {
            let left = self.delete_one(name, deadline).await;
            left.filter(|_| is_own)
        });
        let deletions: Vec<_> = deletions.collect();
        let deleted = stream::iter(deletions).buffer_unordered(AT_ONCE as usize);
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

    /// Records the pods of ended runs for deletion. Pods of a Job are its own.
    pub(super) async fn adopt_ended(&mut self) -> Result<(), RequestError> {
        let of_earlier = ListParams::default().labels(LABEL).limit(MAX_OLD);
        let pods = self.member.list(self.api(), &of_earlier).await?.into_iter();
        let now = Timestamp::now();
        let ended = pods.filter(|pod| {
            pod.owner_references().is_empty() && (has_ended(pod) || is_overdue(pod, now))
        });
        self.earlier.extend(ended.map(|pod| pod.name_any()));
        Ok(())
    }
}

/// Whether a pod has not started within its own deadline, so that its run has ended. Kubernetes
/// counts that deadline from the start, and never ends such a pod.
fn is_overdue(pod: &Pod, now: Timestamp) -> bool {
    let status = pod.status.as_ref();
    let has_started = status.is_some_and(|status| status.start_time.is_some());
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let spec = pod.spec.as_ref();
    let active = spec.and_then(|spec| spec.active_deadline_seconds);
    let is_late =
        |(created, active)| now.duration_since(created) > SignedDuration::from_secs(active);
    !has_started && created.zip(active).is_some_and(is_late)
}

/// Returns the annotations of a pod. They keep it out of the mesh of Linkerd.
fn annotations() -> Value {
    json!({"linkerd.io/inject": "disabled"})
}

/// Whether an error of a creation proves that the object was not created.
fn is_refusal(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::NotAllowed { .. }
            | RequestError::NotFound { .. }
            | RequestError::Refused { .. }
    )
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

/// Returns the addresses of a pod, one of each family.
fn addresses(status: &PodStatus) -> Vec<IpAddr> {
    let all: Vec<_> = match &status.pod_ips {
        Some(all) => all.iter().map(|one| &one.ip).collect(),
        None => status.pod_ip.iter().collect(),
    };
    all.into_iter().filter_map(|ip| ip.parse().ok()).collect()
}

/// Describes the reason that a pod does not run, if its status has one. The reason of the pod, such
/// as an eviction, takes precedence over those of its containers.
fn describe(status: &PodStatus) -> String {
    let containers = status.container_statuses.iter().flatten();
    let mut states = containers.filter_map(|one| one.state.as_ref());
    let stopped = states.find_map(|state| {
        let waiting = state.waiting.as_ref();
        let waiting = waiting.map(|one| (&one.reason, &one.message));
        let ended = state.terminated.as_ref();
        let ended = ended.map(|one| (&one.reason, &one.message));
        let (reason, message) = waiting.or(ended)?;
        Some((reason.clone()?, message.clone()))
    });
    let own = status.reason.clone();
    let own = own.map(|reason| (reason, status.message.clone()));
    let conditions = status.conditions.iter().flatten();
    let mut unscheduled =
        conditions.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    let unscheduled = || {
        let one = unscheduled.next()?;
        Some((one.reason.clone()?, one.message.clone()))
    };
    match own.or(stopped).or_else(unscheduled) {
        None => String::new(),
        Some((reason, None)) => format!(": {reason}"),
        Some((reason, Some(message))) => format!(": {reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use tokio::sync::Barrier;
    use tower::service_fn;

    use super::*;
    use crate::cluster::access::Side;
    use crate::commands::verify::probe::Outcome;
    use crate::fixtures::{answering, server};

    fn run() -> Run {
        Run {
            id: "0a1b2c3d".to_owned(),
            namespace: "causeway-system".to_owned(),
            image: "causeway/kubectl-mcs:1".to_owned(),
            timeout: Duration::from_secs(60),
        }
    }

    /// Answer with a status of a failure.
    fn failure(code: u16, message: &str) -> (u16, String) {
        let status = kube::core::Status::failure(message, "Reason").with_code(code);
        (code, json!(status).to_string())
    }

    /// Answer with a list of one failed pod.
    fn failed() -> (u16, String) {
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
        listed(&evicted)
    }

    /// Answer with a list of one pod.
    fn listed(status: &Value) -> (u16, String) {
        let metadata = json!({"name": "dial-0", "resourceVersion": "1"});
        let pod = json!({"metadata": metadata, "status": status});
        let list = json!({
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": {"resourceVersion": "1"},
            "items": [pod],
        });
        (200, list.to_string())
    }

    #[tokio::test]
    async fn only_pods_that_may_exist_are_left() {
        const QUOTA: &str = "exceeded quota: pods";
        let rights = "use a kubeconfig with administrator rights";
        for (code, message, left, has_remedy) in [
            (403, "pods is forbidden", 0, true),
            (403, QUOTA, 0, false),
            (404, "namespaces not found", 0, false),
            (422, "invalid", 0, false),
            (409, "already exists", 1, false),
            (504, "timed out", 1, false),
        ] {
            let member = answering(Side::Member, move |_| failure(code, message));
            let pods = Pods::new(&member, "causeway-system");
            let pod = run().pod("dial-0", &Role::Dial(&[]), None).expect("a pod");
            let deadline = Instant::now() + Duration::from_secs(10);
            let error = pods.create(pod, deadline).await.expect_err(message);
            assert_eq!(pods.names.lock().len(), left, "{message}");
            assert_eq!(error.contains(rights), has_remedy, "{error}");
        }
    }

    #[tokio::test]
    async fn failed_pod_without_an_outcome_is_an_error() {
        for (log, expected) in [
            (
                "",
                Some("pod causeway-system/dial-0 failed: Evicted: low on memory"),
            ),
            (LINE, None),
        ] {
            let member = answering(Side::Member, move |request| {
                if !request.uri().path().ends_with("/log") {
                    return failed();
                }
                let query = request.uri().query().unwrap_or_default();
                assert!(query.contains("container=probe"), "{query}");
                (200, log.to_owned())
            });
            let pods = Pods::new(&member, "causeway-system");
            let deadline = Instant::now() + Duration::from_secs(10);
            let (dialled, error) = pods.dialled("dial-0", deadline).await;
            assert_eq!(dialled, read(log));
            assert_eq!(error.as_deref(), expected);
            if let Some(expected) = expected {
                let error = pods.ready("dial-0", deadline).await.expect_err("it failed");
                assert_eq!(error, expected);
            }
        }
    }

    #[tokio::test]
    async fn ready_pod_has_an_address_of_each_family() {
        let listed_ips = json!([{"ip": "fd00::9"}, {"ip": "10.1.0.9"}]);
        let unreadable = json!([{"ip": "none"}, {"ip": "10.1.0.9"}]);
        for (ip, ips, expected) in [
            ("fd00::9", listed_ips, &["fd00::9", "10.1.0.9"][..]),
            ("none", unreadable, &["10.1.0.9"]),
            ("10.1.0.9", Value::Null, &["10.1.0.9"]),
        ] {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let status = json!({"conditions": ready, "podIP": ip, "podIPs": ips});
            let answer = listed(&status);
            let member = answering(Side::Member, move |_| answer.clone());
            let pods = Pods::new(&member, "causeway-system");
            let deadline = Instant::now() + Duration::from_secs(10);
            let found = pods.ready("dial-0", deadline).await.expect("addresses");
            let found: Vec<_> = found.iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{status}");
        }
    }

    #[tokio::test]
    async fn failed_pod_with_a_refused_log_has_both_causes() {
        let member = answering(Side::Member, |request| {
            match request.uri().path().ends_with("/log") {
                true => failure(403, "pods/log is forbidden"),
                false => failed(),
            }
        });
        let pods = Pods::new(&member, "causeway-system");
        let deadline = Instant::now() + Duration::from_secs(10);
        let (dialled, error) = pods.dialled("dial-0", deadline).await;
        assert_eq!(dialled, []);
        let error = error.expect("it failed");
        let expected = "pod causeway-system/dial-0 failed: Evicted: low on memory; ";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("pods/log is forbidden"), "{error}");
    }

    #[tokio::test]
    async fn pods_are_deleted_at_once_and_only_own_ones_are_left() {
        let barrier = Arc::new(Barrier::new(AT_ONCE as usize));
        let refuse = service_fn(move |_: http::Request<Body>| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                let (code, body) = failure(403, "no");
                let body = Body::from(body.into_bytes());
                http::Response::builder().status(code).body(body)
            }
        });
        let member = server(Side::Member, kube::Client::new(refuse, "default"));
        let named = |prefix: &str| -> Vec<String> {
            let numbers = 0..AT_ONCE;
            numbers.map(|number| format!("{prefix}-{number}")).collect()
        };
        let pods = Pods {
            names: Mutex::new(named("own")),
            earlier: named("earlier"),
            ..Pods::new(&member, "causeway-system")
        };
        let left = pods.delete(Instant::now() + Duration::from_secs(10)).await;
        assert_eq!(left.len(), AT_ONCE as usize, "{left:?}");
        for why in left {
            assert!(why.starts_with("pod causeway-system/own-"), "{why}");
            assert!(why.contains("forbidden by the member"), "{why}");
        }
    }

    #[tokio::test]
    async fn pod_whose_creation_is_dropped_is_deleted_after_it() {
        let methods = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&methods);
        let slow = service_fn(move |request: http::Request<Body>| {
            let log = Arc::clone(&log);
            async move {
                if request.method() == http::Method::POST {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                log.lock().push(request.method().clone());
                let (code, body) = failure(500, "no");
                let body = Body::from(body.into_bytes());
                http::Response::builder().status(code).body(body)
            }
        });
        let member = server(Side::Member, kube::Client::new(slow, "default"));
        let pods = Pods::new(&member, "causeway-system");
        let pod = run().pod("dial-0", &Role::Dial(&[]), None).expect("a pod");
        let soon = Instant::now() + Duration::from_millis(50);
        pods.create(pod, soon).await.expect_err("it is late");
        pods.delete(Instant::now() + Duration::from_secs(10)).await;
        let expected = [http::Method::POST, http::Method::DELETE];
        assert_eq!(*methods.lock(), expected);
    }

    #[test]
    fn unstarted_pod_is_overdue_after_its_own_deadline() {
        let now: Timestamp = "2026-11-28T12:02:00Z".parse().expect("a time");
        let started = json!({"startTime": "2026-11-28T12:00:01Z"});
        for (active, status, overdue) in [
            (json!(90), json!({"phase": "Pending"}), true),
            (json!(90), json!(null), true),
            (json!(150), json!({"phase": "Pending"}), false),
            (json!(90), started, false),
            (json!(null), json!({"phase": "Pending"}), false),
        ] {
            let pod = json!({
                "metadata": {"creationTimestamp": "2026-11-28T12:00:00Z"},
                "spec": {"containers": [], "activeDeadlineSeconds": active},
                "status": status,
            });
            let read: Pod = serde_json::from_value(pod.clone()).expect("a pod");
            assert_eq!(is_overdue(&read, now), overdue, "{pod}");
        }
    }

    #[test]
    fn pods_are_restricted_and_end_by_themselves() {
        let pod = run().pod("member1", &Role::Serve("member1"), None);
        let pod = serde_json::to_value(pod.expect("a pod")).expect("JSON");
        for (pointer, expected) in [
            ("/metadata/name", json!("causeway-verify-0a1b2c3d-member1")),
            ("/metadata/labels/sidecar.istio.io~1inject", json!("false")),
            ("/metadata/labels/istio.io~1dataplane-mode", json!("none")),
            (
                "/metadata/annotations/linkerd.io~1inject",
                json!("disabled"),
            ),
            ("/spec/activeDeadlineSeconds", json!(90)),
            ("/spec/automountServiceAccountToken", json!(false)),
            ("/spec/nodeSelector/kubernetes.io~1os", json!("linux")),
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
            (
                json!({"containerStatuses": [{
                    "name": "probe", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"reason": "StartError", "exitCode": 128}},
                }]}),
                ": StartError",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                ": Evicted: low on memory",
            ),
            (json!({"phase": "Running"}), ""),
        ] {
            let read: PodStatus = serde_json::from_value(status.clone()).expect("a status");
            assert_eq!(describe(&read), described, "{status}");
        }
    }

    #[tokio::test]
    async fn outcomes_printed_until_the_deadline_are_returned() {
        let member = answering(Side::Member, |request| {
            let is_log = request.uri().path().ends_with("/pods/dial-0/log");
            (200, if is_log { LINE } else { "{}" })
        });
        let pods = Pods::new(&member, "causeway-system");
        let (dialled, late) = pods.dialled("dial-0", Instant::now()).await;
        assert_eq!(dialled, read(LINE));
        let late = late.expect("it is late");
        let expected = "pod causeway-system/dial-0 did not start in time";
        assert!(late.starts_with(expected), "{late}");
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
