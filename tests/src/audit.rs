//! Audit log of an API server: the writer of each write.

use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::Cluster;
use crate::control_plane::AUDIT_LOG;
use crate::eventually::{SOON, eventually};

/// One write request that an API server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedWrite {
    /// create, update, patch, delete or deletecollection.
    pub verb: String,
    /// For instance `endpointslices`.
    pub resource: String,
    /// For instance `status`; empty without one.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty where the server made the name, and for deletecollection.
    pub name: String,
    /// For instance `system:serviceaccount:causeway-system:causeway-controller`.
    pub user: String,
    /// Name that the client reports.
    pub user_agent: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
    /// Time at which the API server received the request, by the clock of this machine.
    pub received: Timestamp,
}

/// A moment, from which on writes are counted; by default the start of the fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark(usize);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    user_agent: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: MicroTime,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for AuditedWrite {
    fn from(event: Event) -> Self {
        Self {
            dry_run: event.request_uri.contains("dryRun="),
            verb: event.verb,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            user: event.user.username,
            user_agent: event.user_agent,
            code: event.response_status.code,
            received: event.request_received_timestamp.0,
        }
    }
}

impl Cluster {
    /// Now, after all writes that were answered until now.
    pub async fn mark(&self) -> Mark {
        Mark(self.audit_log().await.len())
    }

    /// All writes that were answered since then, whoever asked for them.
    pub async fn all_writes_since(&self, mark: Mark) -> Vec<AuditedWrite> {
        let events = self.events_since(mark).await.into_iter();
        let writes = events.filter(|event| event.verb != LIST);
        writes.map(AuditedWrite::from).collect()
    }

    /// Returns the URIs of the lists that causeway's account in a member has asked for since then.
    pub async fn lists_since(&self, mark: Mark) -> Vec<String> {
        self.lists_of_since("", mark).await
    }

    /// [`Cluster::lists_since`] by the program whose user agent begins so.
    pub async fn lists_of_since(&self, agent: &str, mark: Mark) -> Vec<String> {
        let events = self.events_since(mark).await.into_iter();
        let lists =
            events.filter(|event| event.verb == LIST && event.user_agent.starts_with(agent));
        lists.map(|event| event.request_uri).collect()
    }

    /// [`Cluster::lists_since`] of whole kinds that hold objects. A watch that ended looks at one
    /// object, by which it learns whether the store went back. ServiceExports and ServiceImports
    /// may be none, and the controller confirms a first list of nothing by a second one, half a
    /// minute later.
    pub async fn whole_lists_since(&self, mark: Mark) -> Vec<String> {
        let mut listed = self.lists_since(mark).await;
        listed.retain(|uri| !uri.ends_with("limit=1") && !uri.contains("/multicluster.x-k8s.io/"));
        listed
    }

    async fn events_since(&self, mark: Mark) -> Vec<Event> {
        let log = self.audit_log().await;
        let lines = log[mark.0.max(self.earlier_audit())..].lines();
        let events = lines.filter_map(|line| serde_json::from_str::<Event>(line).ok());
        events
            .filter(|event| !event.request_uri.contains(BARRIER))
            .collect()
    }

    /// The writes since then by users or programs whose name contains `who`, for instance
    /// `causeway`.
    pub async fn writes_since(&self, mark: Mark, who: &str) -> Vec<AuditedWrite> {
        let mut writes = self.all_writes_since(mark).await;
        writes.retain(|write| write.user.contains(who) || write.user_agent.contains(who));
        writes
    }

    /// The whole log. An event is written when its request is done, which may be a moment after the
    /// client has its answer: so a request of our own is waited for.
    async fn audit_log(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let barrier = format!("{BARRIER}-{}-{number}", std::process::id());
        let uri =
            format!("/apis/authentication.k8s.io/v1/selfsubjectreviews?fieldManager={barrier}");
        let review = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let request = http::Request::post(uri)
            .header("content-type", "application/json")
            .body(review.to_vec())
            .expect("a request");
        self.client()
            .request_text(request)
            .await
            .expect("a review by the API server");
        let file = self.directory().join(AUDIT_LOG);
        eventually("the audit log is written", SOON, || async {
            let log = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
            let complete = log.contains(&format!("{barrier}\"")) && log.ends_with('\n');
            complete
                .then_some(log)
                .ok_or_else(|| "our own request is not in it yet".to_owned())
        })
        .await
    }
}

const BARRIER: &str = "audit-barrier";
const LIST: &str = "list";
