//! Admission requests that do not stop, right ones and wrong ones, and each answer looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway::api::{MultiClusterService, MultiClusterServiceSpec};
use causeway_tests::Cluster;
use causeway_tests::seen::Seen;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::Clusters;
use crate::workloads::SHOP;

/// A request follows an answer after so long.
const PAUSE: Duration = Duration::from_millis(20);

/// Message of the webhook about the wrong object.
const DENIED: &str = "namespace kube-system is protected";

/// Results of the requests.
#[derive(Default)]
struct Answers {
    admitted: u32,
    refused: u32,
    all: Seen,
}

/// Requests that go on until [`Admissions::all_answered`].
pub(crate) struct Admissions {
    ends: Arc<AtomicBool>,
    answers: JoinHandle<Answers>,
}

impl Admissions {
    /// Begins with them. Nothing is stored: each is a dry run.
    pub(crate) async fn begin(hub: &Cluster) -> Self {
        let service = [
            "create",
            "service",
            "clusterip",
            "probed",
            "--tcp=80",
            "-n",
            SHOP,
        ];
        hub.kubectl(service).await.ok();
        let client = hub.unrepeating_client();
        let in_namespace = |namespace| Api::namespaced(client.clone(), namespace);
        let (right, wrong) = (in_namespace(SHOP), in_namespace("kube-system"));
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let answers = tokio::spawn(async move {
            let mut answers = Answers::default();
            while !asked.load(Ordering::Relaxed) {
                answers.ask(&right, true).await;
                answers.ask(&wrong, false).await;
                tokio::time::sleep(PAUSE).await;
            }
            answers
        });
        Self { ends, answers }
    }

    /// Ends them; each must have been answered as it should.
    pub(crate) async fn all_answered(self, clusters: &Clusters) {
        self.ends.store(true, Ordering::Relaxed);
        let answers = self.answers.await.expect("the requests end");
        let Answers {
            admitted,
            refused,
            all,
        } = answers;
        assert!(all.errors.is_empty(), "{all}: {:#?}", all.errors);
        assert!(admitted > 0 && refused > 0, "no request was answered");
        clusters.did(&format!(
            "admissions meanwhile: {admitted} admitted, {refused} refused; {all}"
        ));
    }
}

impl Answers {
    async fn ask(&mut self, api: &Api<MultiClusterService>, right: bool) {
        let spec: MultiClusterServiceSpec =
            serde_json::from_value(json!({ "types": ["CrossCluster"] })).expect("a spec");
        let object = MultiClusterService::new("probed", spec);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match self.all.time(api.create(&dry, &object)).await {
            Ok(_) if right => self.admitted += 1,
            Err(kube::Error::Api(status)) if !right && status.message.contains(DENIED) => {
                self.refused += 1;
            }
            other => {
                let asked = if right { "a right one" } else { "a wrong one" };
                self.all.errors.push(format!("{asked}: {other:?}"));
            }
        }
    }
}
