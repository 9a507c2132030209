//! Notes on the reports of causeway-agent: while a hub takes note of its reports, the agent changes
//! no copy itself.

use std::time::Duration;

use causeway::api::labels;
use causeway::domain::{ClusterName, path};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Controller;
use crate::event_recorder::EventClient;
use crate::lease::{Leadership, while_leading};
use crate::lookup::DEADLINE;

impl Controller {
    /// Notes at the reports of a member that this process, which leads, knows of their paths. One
    /// job at a time does so for a member. A note that fails, or is wanted meanwhile, is made at
    /// the next report: the agent repeats reports without a note.
    pub(super) fn note_paths(&mut self, name: &ClusterName) {
        let parts = &self.parts;
        if !self.leads || !parts.index.is_hub_listed() {
            return;
        }
        self.path_notes.retain(|_, job| !job.is_finished());
        if self.path_notes.contains_key(name) {
            return;
        }
        let unseen = parts.index.unseen_paths(name);
        if unseen.is_empty() {
            return;
        }
        if let Some(EventClient { client, .. }) = parts.fleet.client(name) {
            let notes = Notes {
                leases: Api::namespaced(client.clone(), path::NAMESPACE),
                cluster: name.clone(),
                leadership: parts.leadership.clone(),
                deadline: DEADLINE,
            };
            let job = parts
                .tasks
                .spawn_job("note on paths", notes.make_all(unseen));
            self.path_notes.insert(name.clone(), job);
        }
    }

    /// Does so for all members.
    pub(super) fn note_all_paths(&mut self) {
        let reporters: Vec<_> = self.parts.index.reporters().cloned().collect();
        for name in &reporters {
            self.note_paths(name);
        }
    }

    /// Ends the jobs of all members.
    pub(super) fn end_path_notes(&mut self) {
        for job in std::mem::take(&mut self.path_notes).into_values() {
            job.abort();
        }
    }
}

/// Notes at the reports of one member.
struct Notes {
    leases: Api<Lease>,
    cluster: ClusterName,
    leadership: watch::Receiver<Leadership>,
    /// Maximum time of a request.
    deadline: Duration,
}

impl Notes {
    /// Makes them one after the other, while this process leads and the member answers.
    async fn make_all(self, paths: Vec<(ClusterName, Timestamp)>) {
        for (source, since) in paths {
            let note = timeout(self.deadline, self.make(&source, since));
            let Some(made) = while_leading(&self.leadership, note).await else {
                return;
            };
            let (error, answers) = match made {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => (error.to_string(), true),
                Err(_) => ("no answer in time".to_owned(), false),
            };
            let cluster = &self.cluster;
            tracing::debug!(%cluster, %source, error, "report on a path not noted");
            if !answers {
                return;
            }
        }
    }

    async fn make(&self, source: &ClusterName, since: Timestamp) -> kube::Result<()> {
        let seen = json!({"metadata": {"annotations": {labels::PATH_SEEN: since.to_string()}}});
        let lease = path::lease_name(source);
        let (params, patch) = (PatchParams::default(), Patch::Merge(seen));
        let noted = self.leases.patch_metadata(&lease, &params, &patch);
        noted.await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use tokio::time::Instant;
    use tower::{BoxError, service_fn};

    use super::*;

    /// Makes three notes at a member that answers with a status code, or never. Returns the number
    /// of its requests.
    async fn requests(leads: bool, answer: Option<u16>) -> usize {
        let counted = Arc::new(AtomicUsize::new(0));
        let count = counted.clone();
        let member = service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                let Some(code) = answer else {
                    return pending().await;
                };
                let answer = Response::builder().status(code).body(Body::empty());
                answer.map_err(BoxError::from)
            }
        });
        let until = Instant::now() + Duration::from_secs(if leads { 3600 } else { 0 });
        let (_sender, leadership) = watch::channel(Leadership::Leader { until });
        let cluster = |name| ClusterName::try_from(name).expect("a name");
        let notes = Notes {
            leases: Api::namespaced(Client::new(member, "default"), path::NAMESPACE),
            cluster: cluster("member1"),
            leadership,
            deadline: Duration::from_millis(50),
        };
        let sources = ["a", "b", "c"].map(|name| (cluster(name), Timestamp::UNIX_EPOCH));
        notes.make_all(sources.to_vec()).await;
        counted.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn notes_end_with_leadership_and_at_a_member_that_does_not_answer() {
        assert_eq!(requests(true, Some(403)).await, 3, "each may be refused");
        assert_eq!(requests(true, None).await, 1, "it does not answer");
        assert_eq!(requests(false, Some(403)).await, 0, "another leads");
    }
}
