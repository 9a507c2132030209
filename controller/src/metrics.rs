//! What the controller counts. Labels hold names of clusters, and of resources, never of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway::domain::ClusterName;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use causeway_engine::model::Failure;

/// The controller's metrics. Clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    propagation: Histogram,
    writes: Family<WriteLabels, Counter>,
    written: Arc<Mutex<BTreeMap<String, BTreeSet<WriteLabels>>>>,
    queue_keys: Gauge,
    queue_oldest: Gauge<f64, AtomicU64>,
    retries: Counter,
    conflicts: Family<ClusterLabels, Counter>,
    member_state: Family<StateLabels, Gauge>,
    member_last_event: Family<ClusterLabels, Gauge<f64, AtomicU64>>,
    deletions_suspended: Family<ClusterLabels, Gauge>,
    consumer_tier: Family<TierLabels, Gauge>,
    leader: Gauge,
    hub_watch_up: Family<ResourceLabels, Gauge>,
    unreadable: Counter,
}

/// The state of a member in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connectivity {
    /// All that it holds is known.
    Synced,
    /// It is being listed.
    Syncing,
    /// It does not answer, or cannot be used.
    Unreachable,
}

impl Connectivity {
    const ALL: [Self; 3] = [Self::Synced, Self::Syncing, Self::Unreachable];

    fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Syncing => "syncing",
            Self::Unreachable => "unreachable",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct WriteLabels {
    cluster: String,
    kind: &'static str,
    verb: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    cluster: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TierLabels {
    cluster: String,
    tier: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

/// Seconds, from a millisecond to a minute.
const PROPAGATION_BUCKETS: [f64; 16] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0,
];

impl Default for Metrics {
    fn default() -> Self {
        Self {
            propagation: Histogram::new(PROPAGATION_BUCKETS),
            writes: Family::default(),
            written: Arc::default(),
            queue_keys: Gauge::default(),
            queue_oldest: Gauge::default(),
            retries: Counter::default(),
            conflicts: Family::default(),
            member_state: Family::default(),
            member_last_event: Family::default(),
            deletions_suspended: Family::default(),
            consumer_tier: Family::default(),
            leader: Gauge::default(),
            hub_watch_up: Family::default(),
            unreadable: Counter::default(),
        }
    }
}

impl Metrics {
    /// Has the registry show these metrics.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("causeway_controller");
        registry.register(
            "propagation_seconds",
            "Time from a source's event to the last consumer's acknowledged write",
            self.propagation.clone(),
        );
        registry.register(
            "writes",
            "Writes, by how they were answered",
            self.writes.clone(),
        );
        registry.register(
            "queue_keys",
            "Services that wait to be planned",
            self.queue_keys.clone(),
        );
        registry.register(
            "queue_oldest_seconds",
            "How long the first of the waiting services has been waiting",
            self.queue_oldest.clone(),
        );
        registry.register(
            "retries",
            "Writes that failed and are tried again",
            self.retries.clone(),
        );
        registry.register(
            "write_conflicts",
            "Times that an object was left as it is for a while because somebody changed it back as often as it was written",
            self.conflicts.clone(),
        );
        registry.register(
            "member_state",
            "1 for the state that the member is in",
            self.member_state.clone(),
        );
        registry.register(
            "member_last_event_timestamp_seconds",
            "When the member last said something",
            self.member_last_event.clone(),
        );
        registry.register(
            "deletions_suspended",
            "Objects that a list lacks and that are kept until a second list lacks them too",
            self.deletions_suspended.clone(),
        );
        registry.register(
            "consumer_tier",
            "Services of which this is the farthest tier that the consumer uses",
            self.consumer_tier.clone(),
        );
        registry.register("leader", "Whether this process writes", self.leader.clone());
        registry.register(
            "hub_watch_up",
            "Whether the watch of this resource of the hub is connected",
            self.hub_watch_up.clone(),
        );
        registry.register(
            "unreadable_objects",
            "Objects that could not be read and were passed over",
            self.unreadable.clone(),
        );
    }

    /// A change of a source has reached the last of its consumers.
    pub fn propagated(&self, taken: Duration) {
        self.propagation.observe(taken.as_secs_f64());
    }

    /// A write was answered, or was not; `cluster` is a member's name, or `hub`.
    pub fn wrote(
        &self,
        cluster: &str,
        kind: &'static str,
        verb: &'static str,
        failure: Option<&Failure>,
    ) {
        let result = failure.map_or("ok", |failure| failure.kind.as_str());
        let labels = WriteLabels {
            cluster: cluster.to_owned(),
            kind,
            verb,
            result,
        };
        self.writes.get_or_create(&labels).inc();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written
            .entry(cluster.to_owned())
            .or_default()
            .insert(labels);
    }

    /// A write failed and will be tried again.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// An object of the cluster, a member's name or `hub`, is left as it is for a while: somebody changes it back again and again.
    pub fn conflicted(&self, cluster: &str) {
        let labels = ClusterLabels {
            cluster: cluster.to_owned(),
        };
        self.conflicts.get_or_create(&labels).inc();
    }

    /// How many services wait, and for how long the first of them has been waiting.
    pub fn queue(&self, keys: usize, oldest: Duration) {
        self.queue_keys.set(i64::try_from(keys).unwrap_or(i64::MAX));
        self.queue_oldest.set(oldest.as_secs_f64());
    }

    /// The member is in that state.
    pub fn member_state(&self, cluster: &ClusterName, state: Connectivity) {
        for each in Connectivity::ALL {
            let labels = StateLabels {
                cluster: cluster.to_string(),
                state: each.as_str(),
            };
            self.member_state
                .get_or_create(&labels)
                .set((each == state).into());
        }
    }

    /// The member said something at that time.
    pub fn member_event(&self, cluster: &ClusterName, at: Timestamp) {
        let labels = ClusterLabels {
            cluster: cluster.to_string(),
        };
        self.member_last_event
            .get_or_create(&labels)
            .set(at.as_duration().as_secs_f64());
    }

    /// So many objects of the cluster, a member's name or `hub`, are kept although its last lists lacked them.
    pub fn deletions_suspended(&self, cluster: &str, count: usize) {
        let labels = ClusterLabels {
            cluster: cluster.to_owned(),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.deletions_suspended.get_or_create(&labels).set(count);
    }

    /// So many services does a consumer get by that farthest tier; of none nothing is shown.
    pub fn consumer_tier(&self, cluster: &ClusterName, tier: String, count: usize) {
        let labels = TierLabels {
            cluster: cluster.to_string(),
            tier,
        };
        match count {
            0 => drop(self.consumer_tier.remove(&labels)),
            _ => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.consumer_tier.get_or_create(&labels).set(count);
            }
        }
    }

    /// The watch of a resource of the hub is connected, or is not.
    pub fn hub_watch(&self, resource: &str, up: bool) {
        let labels = ResourceLabels {
            resource: resource.to_owned(),
        };
        self.hub_watch_up.get_or_create(&labels).set(up.into());
    }

    /// The member is gone: nothing is shown of it any more.
    pub fn forget_member(&self, cluster: &ClusterName) {
        for state in Connectivity::ALL {
            self.member_state.remove(&StateLabels {
                cluster: cluster.to_string(),
                state: state.as_str(),
            });
        }
        let labels = ClusterLabels {
            cluster: cluster.to_string(),
        };
        self.member_last_event.remove(&labels);
        self.deletions_suspended.remove(&labels);
        self.conflicts.remove(&labels);
        let written = self
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(cluster.as_str());
        for labels in written.into_iter().flatten() {
            self.writes.remove(&labels);
        }
    }

    /// Whether this process writes.
    pub fn leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// The counter of objects that cannot be read, for the watches.
    pub fn unreadable(&self) -> Counter {
        self.unreadable.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_engine::model::FailureKind;

    fn member(name: &str) -> ClusterName {
        ClusterName::try_from(name).unwrap()
    }

    fn shown(metrics: &Metrics) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn the_metrics_bear_the_names_that_are_promised() {
        let metrics = Metrics::default();
        let conflict = Failure::new(FailureKind::Conflict, "modified");
        let member1 = &member("member1");
        metrics.wrote("member1", "Service", "create", None);
        metrics.wrote("member1", "Service", "create", Some(&conflict));
        metrics.retried();
        metrics.conflicted("member1");
        metrics.propagated(Duration::from_millis(3));
        metrics.queue(2, Duration::from_millis(1_500));
        metrics.member_state(member1, Connectivity::Syncing);
        metrics.member_state(member1, Connectivity::Synced);
        metrics.member_event(member1, Timestamp::from_millisecond(1_500).unwrap());
        metrics.deletions_suspended("member1", 12);
        metrics.consumer_tier(member1, "local".to_owned(), 9);
        metrics.consumer_tier(member1, "local".to_owned(), 0);
        metrics.consumer_tier(member1, "region".to_owned(), 3);
        metrics.leader(true);
        let text = shown(&metrics);
        let lines = [
            r#"causeway_controller_writes_total{cluster="member1",kind="Service",verb="create",result="ok"} 1"#,
            r#"causeway_controller_writes_total{cluster="member1",kind="Service",verb="create",result="conflict"} 1"#,
            "causeway_controller_retries_total 1",
            r#"causeway_controller_write_conflicts_total{cluster="member1"} 1"#,
            r#"causeway_controller_propagation_seconds_bucket{le="0.005"} 1"#,
            "causeway_controller_queue_keys 2",
            "causeway_controller_queue_oldest_seconds 1.5",
            r#"causeway_controller_member_state{cluster="member1",state="synced"} 1"#,
            r#"causeway_controller_member_state{cluster="member1",state="syncing"} 0"#,
            r#"causeway_controller_member_last_event_timestamp_seconds{cluster="member1"} 1.5"#,
            r#"causeway_controller_deletions_suspended{cluster="member1"} 12"#,
            r#"causeway_controller_consumer_tier{cluster="member1",tier="region"} 3"#,
            "causeway_controller_leader 1",
            "causeway_controller_unreadable_objects_total 0",
        ];
        for line in lines {
            assert!(
                text.lines().any(|shown| shown == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(!text.contains(r#"tier="local""#), "{text}");
    }

    #[test]
    fn nothing_is_shown_of_a_member_that_is_gone() {
        let metrics = Metrics::default();
        for cluster in ["member1", "member2"] {
            metrics.wrote(cluster, "Service", "create", None);
            metrics.member_state(&member(cluster), Connectivity::Synced);
            metrics.member_event(&member(cluster), Timestamp::UNIX_EPOCH);
            metrics.deletions_suspended(cluster, 12);
            metrics.conflicted(cluster);
        }
        metrics.forget_member(&member("member1"));
        let text = shown(&metrics);
        assert!(
            !text.contains("member1") && text.contains("member2"),
            "{text}"
        );
    }
}
