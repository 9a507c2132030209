//! MultiClusterServices that are sent all the time, right and wrong ones, each with the answer that
//! it should have.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway::api::MultiClusterService;
use causeway::api::labels::PERMANENT_ID;
use causeway_tests::seen::Seen as Requests;
use causeway_tests::{Fleet, Space, multi_cluster_service, service};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};

/// Number of concurrent senders, each twice a second.
const SENDERS: u32 = 8;
const PERIOD: Duration = Duration::from_millis(500);
const NAMESPACE: &str = "traffic";

/// Answers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// All requests; errors are answers that should not have been.
    pub(super) all: Requests,
    /// Right ones that were accepted.
    pub(super) accepted: usize,
    /// Wrong ones that were refused for the right reason.
    pub(super) refused: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            all,
            accepted,
            refused,
        } = self;
        write!(
            out,
            "admission: {all}; {accepted} accepted and {refused} refused, as they should be"
        )
    }
}

/// Senders at work.
pub(super) struct Traffic {
    stop: Arc<AtomicBool>,
    sending: JoinSet<Seen>,
}

impl Traffic {
    /// Makes the Services and an object for each sender, and begins. The members do not have the
    /// namespace.
    pub(super) async fn start(fleet: &Fleet) -> Self {
        let (hub, space) = (fleet.hub(), Space::existing(fleet, NAMESPACE));
        space.create_in(hub).await;
        let (stop, client) = (Arc::new(AtomicBool::new(false)), hub.unrepeating_client());
        let mut sending = JoinSet::new();
        for number in 0..SENDERS {
            let name = format!("kept-{number}");
            for name in [&name, &format!("tried-{number}")] {
                service(name).port("http", 80).create(hub, &space).await;
            }
            multi_cluster_service(&name).create(&space).await;
            let sender = Sender {
                api: Api::namespaced(client.clone(), NAMESPACE),
                number,
                turn: 0,
                seen: Seen::default(),
            };
            sending.spawn(sender.send(Arc::clone(&stop)));
        }
        Self { stop, sending }
    }

    /// Ends it.
    pub(super) async fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for seen in self.sending.join_all().await {
            all.all.add(seen.all);
            all.accepted += seen.accepted;
            all.refused += seen.refused;
        }
        all
    }
}

struct Sender {
    api: Api<MultiClusterService>,
    number: u32,
    turn: usize,
    seen: Seen,
}

type Answer = kube::Result<MultiClusterService>;

impl Sender {
    async fn send(mut self, stop: Arc<AtomicBool>) -> Seen {
        let begin = Instant::now() + PERIOD * self.number / SENDERS;
        let mut turns = interval_at(begin.into(), PERIOD);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.load(Ordering::Relaxed) {
            turns.tick().await;
            self.turn += 1;
            match self.turn % 7 {
                0 => self.defaulted().await,
                1 => self.converted().await,
                2 => self.labelled().await,
                3 => self.unknown_port().await,
                4 => self.missing_service().await,
                5 => self.changed_type().await,
                _ => self.changed_id().await,
            }
        }
        self.seen
    }

    /// The name of the object that stays.
    fn kept(&self) -> String {
        format!("kept-{}", self.number)
    }

    /// The name of a Service without an object.
    fn tried(&self) -> String {
        format!("tried-{}", self.number)
    }

    async fn create(&mut self, name: &str, spec: Value, dry_run: bool) -> Answer {
        let object = serde_json::from_value(json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": { "name": name }, "spec": spec,
        }));
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let object = object.expect("a MultiClusterService");
        self.seen.all.time(self.api.create(&params, &object)).await
    }

    async fn patch(&mut self, patch: Value) -> Answer {
        let (name, params) = (self.kept(), PatchParams::default());
        let patch = Patch::Merge(patch);
        let request = self.api.patch(&name, &params, &patch);
        self.seen.all.time(request).await
    }

    async fn defaulted(&mut self) {
        let spec = json!({ "types": ["CrossCluster"] });
        let answer = self.create(&self.tried(), spec, true).await;
        self.accepted("a new object", answer, |object| {
            let id = object.metadata.labels.as_ref();
            id.and_then(|all| all.get(PERMANENT_ID)).map(String::len) == Some(36)
        });
    }

    async fn converted(&mut self) {
        let spec = json!({
            "types": ["CrossCluster"], "serviceProvisionClusters": ["member1"], "range": { "clusterNames": ["member2"] },
        });
        let answer = self.create(&self.tried(), spec, true).await;
        self.accepted("an object with deprecated fields", answer, |object| {
            let spec = serde_json::to_value(&object.spec).unwrap_or_default();
            let expected = json!({
                "types": ["CrossCluster"],
                "providerClusters": [{ "name": "member1" }], "consumerClusters": [{ "name": "member2" }],
            });
            spec == expected
        });
    }

    async fn labelled(&mut self) {
        let tier = format!("{}", self.turn);
        let answer = self
            .patch(json!({ "metadata": { "labels": { "tier": &tier } } }))
            .await;
        self.accepted("a label", answer, |object| {
            let labels = object.metadata.labels.as_ref();
            labels.and_then(|all| all.get("tier")) == Some(&tier)
        });
    }

    async fn unknown_port(&mut self) {
        let spec = json!({ "types": ["CrossCluster"], "ports": [{ "name": "htp", "port": 80 }] });
        let answer = self.create(&self.tried(), spec, false).await;
        self.refused(
            answer,
            "spec.ports[0].name: Invalid value: \"htp\": Service ",
        );
    }

    async fn missing_service(&mut self) {
        let spec = json!({ "types": ["CrossCluster"] });
        let answer = self.create("nowhere", spec, false).await;
        self.refused(answer, "there is no Service traffic/nowhere");
    }

    async fn changed_type(&mut self) {
        let answer = self
            .patch(json!({ "spec": { "types": ["LoadBalancer"] } }))
            .await;
        self.refused(
            answer,
            "spec.types: Invalid value: [\"LoadBalancer\"]: the type cannot change",
        );
    }

    async fn changed_id(&mut self) {
        let labels = json!({ PERMANENT_ID: "another" });
        let answer = self
            .patch(json!({ "metadata": { "labels": labels } }))
            .await;
        self.refused(answer, "does not change once it is set");
    }

    fn accepted(
        &mut self,
        what: &str,
        answer: Answer,
        is_right: impl FnOnce(&MultiClusterService) -> bool,
    ) {
        match answer {
            Ok(object) if is_right(&object) => self.seen.accepted += 1,
            Ok(object) => {
                let error = format!("{what} was accepted as {object:?}");
                self.seen.all.errors.push(error);
            }
            Err(error) => {
                let error = format!("{what} was not accepted: {error}");
                self.seen.all.errors.push(error);
            }
        }
    }

    fn refused(&mut self, answer: Answer, why: &str) {
        match answer {
            Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains(why) => {
                self.seen.refused += 1;
            }
            Err(error) => {
                let error = format!("{why:?} is not what is said: {error}");
                self.seen.all.errors.push(error);
            }
            Ok(object) => {
                let error = format!("it was accepted in spite of {why:?}: {object:?}");
                self.seen.all.errors.push(error);
            }
        }
    }
}
