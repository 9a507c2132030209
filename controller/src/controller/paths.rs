//! Notes on the reports of causeway-agent: while a hub takes note of its reports, the agent changes
//! no copy itself.

use causeway::api::labels;
use causeway::domain::{ClusterName, path};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::Controller;
use crate::event_recorder::EventClient;
use crate::lookup::DEADLINE;

impl Controller {
    /// Notes at the reports of a member that this process, which leads, knows of their paths. A
    /// note that fails is made at the next report.
    pub(super) fn note_paths(&self, name: &ClusterName) {
        let parts = &self.parts;
        if !self.leads || !parts.index.is_hub_listed() {
            return;
        }
        let unseen = parts.index.unseen_paths(name);
        if unseen.is_empty() {
            return;
        }
        if let Some(EventClient { client, .. }) = parts.fleet.client(name) {
            let job = note_all(client.clone(), name.clone(), unseen);
            parts.tasks.spawn_job("note on paths", job);
        }
    }

    /// Does so for all members.
    pub(super) fn note_all_paths(&self) {
        for name in self.parts.index.reporters() {
            self.note_paths(name);
        }
    }
}

async fn note_all(client: Client, cluster: ClusterName, paths: Vec<(ClusterName, Timestamp)>) {
    let leases = Api::<Lease>::namespaced(client, path::NAMESPACE);
    for (source, since) in paths {
        let seen = json!({"metadata": {"annotations": {labels::PATH_SEEN: since.to_string()}}});
        let lease = path::lease_name(&source);
        let (params, patch) = (PatchParams::default(), Patch::Merge(seen));
        let error = match timeout(DEADLINE, leases.patch_metadata(&lease, &params, &patch)).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::debug!(%cluster, %source, error, "report on a path not noted");
    }
}
