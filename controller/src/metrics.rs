//! Metrics of the controller. Labels hold names of clusters and of resources, never of objects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use causeway::domain::{ClusterName, Network, Reach};
use causeway::process::certificate;
use causeway::process::metrics::ComputedGauge;
use causeway::process::traces::Exemplar;
use causeway::register_metrics;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use causeway_engine::model::Failure;
use causeway_engine::observed::{Counted, DeclaredReach, ShareResult};

/// Registers the expiry of the certificate that agents verify. Its files are read with each scrape.
pub fn register_certificate(directory: PathBuf, registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("causeway_controller");
    let ends = move || Some(certificate::read(&directory).ok()?.ends as f64);
    register_metrics! { registry;
        "tunnel_certificate_expiry_timestamp_seconds":
            "Expiry of the certificate that agents verify, in Unix time",
            ComputedGauge::new(ends);
    }
}

/// The controller's metrics. Clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    propagation: HistogramWithExemplars<Exemplar>,
    writes: Family<Labels<4>, Counter>,
    written: Arc<Mutex<BTreeMap<String, BTreeSet<Labels<4>>>>>,
    write_duration: Family<Labels<1>, Histogram, fn() -> Histogram>,
    queue_keys: Gauge,
    queue_waiting: Waiting,
    retries: Counter,
    conflicts: Family<Labels<1>, Counter>,
    member_state: Family<Labels<2>, Gauge>,
    member_last_event: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    deletions_suspended: Family<Labels<1>, Gauge>,
    consumer_tier: Family<Labels<2>, Gauge>,
    shared_services: Family<Labels<1>, Gauge>,
    share_deviation: Gauge<f64, AtomicU64>,
    clusters: Family<Labels<3>, Gauge>,
    cluster_labels: Arc<Mutex<BTreeMap<ClusterName, Labels<3>>>>,
    unreached: Family<Labels<2>, Gauge>,
    services_not_ready: Family<Labels<1>, Gauge>,
    leader: Gauge,
    lease_transitions: LeaseTransitions,
    hub_watch_up: Family<Labels<1>, Gauge>,
    unreadable: Counter,
    undecided: Counter,
}

/// The state of a member in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connectivity {
    /// All that it holds is known.
    Synced,
    /// It is being listed.
    Syncing,
    /// It does not answer.
    Unreachable,
    /// It cannot be used until a person changes something.
    Refused,
    /// It takes no part.
    LeftOut,
}

impl Connectivity {
    const ALL: [Self; 5] = [
        Self::Synced,
        Self::Syncing,
        Self::Unreachable,
        Self::Refused,
        Self::LeftOut,
    ];

    /// Returns its value of the label `state`, and of the log key `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Syncing => "syncing",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::LeftOut => "left_out",
        }
    }
}

/// Time since which something waits. Readers of the metrics see its age also while the loop makes
/// no progress.
#[derive(Clone, Debug)]
struct Waiting {
    epoch: Instant,
    /// Nanoseconds since the epoch, and one; 0 where nothing waits.
    since: Arc<AtomicU64>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            epoch: Instant::now(),
            since: Arc::default(),
        }
    }
}

impl Waiting {
    fn encode(&self, since: Instant) -> u64 {
        let after = since.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(after).unwrap_or(u64::MAX - 1) + 1
    }

    fn set(&self, since: Option<Instant>) {
        let since = since.map_or(0, |since| self.encode(since));
        self.since.store(since, Ordering::Relaxed);
    }

    /// Something begins to wait, unless something waits already.
    fn begin(&self, now: Instant) {
        let now = self.encode(now);
        // Whether it waits already is all that there is to learn.
        self.since
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            .ok();
    }

    fn seconds(&self) -> f64 {
        match self.since.load(Ordering::Relaxed) {
            0 => 0.0,
            since => {
                let since = self.epoch + Duration::from_nanos(since - 1);
                since.elapsed().as_secs_f64()
            }
        }
    }
}

/// Number of changes of the Lease's holder, by the Lease's own count; absent until it was read.
#[derive(Clone, Debug)]
pub struct LeaseTransitions(Arc<AtomicI64>);

impl Default for LeaseTransitions {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(-1)))
    }
}

impl LeaseTransitions {
    /// The Lease was read, and has that count.
    pub fn read(&self, count: i32) {
        self.0.store(count.into(), Ordering::Relaxed);
    }

    fn gauge(&self) -> ComputedGauge {
        let count = Arc::clone(&self.0);
        ComputedGauge::new(move || {
            let count = i32::try_from(count.load(Ordering::Relaxed)).ok()?;
            (count >= 0).then(|| count.into())
        })
    }
}

/// Names and values of the labels of a metric.
type Labels<const N: usize> = [Label; N];
type Label = (&'static str, Cow<'static, str>);

fn of(cluster: impl ToString) -> Label {
    ("cluster", cluster.to_string().into())
}

fn state_of(cluster: &ClusterName, state: Connectivity) -> Labels<2> {
    [of(cluster), ("state", state.as_str().into())]
}

/// Label in place of an annotation's value that the controller reports as invalid.
const INVALID: &str = "(invalid)";

/// Sets the gauge of these labels; removes it where nothing is counted.
fn set_or_remove(family: &Family<Labels<2>, Gauge>, labels: &Labels<2>, count: usize) {
    match count {
        0 => drop(family.remove(labels)),
        _ => set(&family.get_or_create(labels), count),
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds, from a millisecond to a minute.
const PROPAGATION_BUCKETS: [f64; 16] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0,
];

/// Seconds, from a write within a rack to the default of `--member-timeout`.
const WRITE_BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

impl Default for Metrics {
    fn default() -> Self {
        let write_duration: fn() -> Histogram = || Histogram::new(WRITE_BUCKETS);
        Self {
            propagation: HistogramWithExemplars::new(PROPAGATION_BUCKETS.into_iter()),
            writes: Family::default(),
            written: Arc::default(),
            write_duration: Family::new_with_constructor(write_duration),
            queue_keys: Gauge::default(),
            queue_waiting: Waiting::default(),
            retries: Counter::default(),
            conflicts: Family::default(),
            member_state: Family::default(),
            member_last_event: Family::default(),
            deletions_suspended: Family::default(),
            consumer_tier: Family::default(),
            shared_services: Family::default(),
            share_deviation: Gauge::default(),
            clusters: Family::default(),
            cluster_labels: Arc::default(),
            unreached: Family::default(),
            services_not_ready: Family::default(),
            leader: Gauge::default(),
            lease_transitions: LeaseTransitions::default(),
            hub_watch_up: Family::default(),
            unreadable: Counter::default(),
            undecided: Counter::default(),
        }
    }
}

impl Metrics {
    /// Has the registry show these metrics.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("causeway_controller");
        let waiting = self.queue_waiting.clone();
        register_metrics! { registry;
            "propagation_seconds":
                "Time from a source's event to the last consumer's acknowledged write",
                self.propagation.clone();
            "writes": "Writes, by how they were answered", self.writes.clone();
            "write_duration_seconds": "How long writes took to be answered",
                self.write_duration.clone();
            "retries": "Writes that failed and are tried again", self.retries.clone();
            "write_conflicts":
                "Times that an object was left as it is for a while because somebody changed it \
                 back as often as it was written",
                self.conflicts.clone();
            "queue_keys": "Services that wait to be planned, including those that are due later",
                self.queue_keys.clone();
            "queue_oldest_seconds":
                "How long the first of the waiting services has been waiting, or the loop has \
                 been at work on one",
                ComputedGauge::new(move || Some(waiting.seconds()));
            "member_state": "1 for the state that the member is in", self.member_state.clone();
            "member_last_event_timestamp_seconds": "When the member last said something",
                self.member_last_event.clone();
            "deletions_suspended":
                "Objects that a list lacks and that are kept until a second list lacks them too",
                self.deletions_suspended.clone();
            "consumer_tier": "Services of which this is the farthest tier that the consumer uses",
                self.consumer_tier.clone();
            "shared_services":
                "Services with shares of traffic, by whether all consumers follow them; the leader \
                 counts them",
                self.shared_services.clone();
            "share_deviation_ratio":
                "Largest deviation of a share from the wanted one, of all services and consumers",
                self.share_deviation.clone();
            "cluster_info":
                "1; the labels are the network of the Cluster and the way to reach it from other \
                 networks, empty without the annotation",
                self.clusters.clone();
            "services_unreached":
                "Services that consumers of other networks do not get from this provider, by the \
                 reason of that; the leader counts them",
                self.unreached.clone();
            "services_not_ready":
                "MultiClusterServices that are not Ready, by the reason of that; the leader \
                 counts them",
                self.services_not_ready.clone();
            "leader": "Whether this process writes", self.leader.clone();
            "lease_transitions": "How often the Lease changed hands, by its own count",
                self.lease_transitions.gauge();
            "hub_watch_up": "Whether the watch of this resource of the hub is connected",
                self.hub_watch_up.clone();
            "unreadable_objects": "Objects that could not be read and were passed over",
                self.unreadable.clone();
            "undecided_copies":
                "Copies that were held because no rule decides about them, by each plan of their \
                 service",
                self.undecided.clone();
        }
    }

    /// A change of a source has reached the last of its consumers; where its trace is sampled, that
    /// is known by it.
    pub fn propagated(&self, taken: Duration, exemplar: Option<Exemplar>) {
        let at = exemplar.is_some().then(SystemTime::now);
        self.propagation.observe(taken.as_secs_f64(), exemplar, at);
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
        let labels = [
            of(cluster),
            ("kind", kind.into()),
            ("verb", verb.into()),
            ("result", result.into()),
        ];
        self.writes.get_or_create(&labels).inc();
        lock(&self.written)
            .entry(cluster.to_owned())
            .or_default()
            .insert(labels);
    }

    /// A write was under way for so long.
    pub fn write_took(&self, cluster: &str, taken: Duration) {
        let duration = self.write_duration.get_or_create(&[of(cluster)]);
        duration.observe(taken.as_secs_f64());
    }

    /// A write failed and will be tried again.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// An object of the cluster, a member's name or `hub`, is left as it is for a while: somebody
    /// changes it back again and again.
    pub fn conflicted(&self, cluster: &str) {
        self.conflicts.get_or_create(&[of(cluster)]).inc();
    }

    /// Records the number of services that wait, and the time since which the first of them does.
    pub fn queue(&self, keys: usize, oldest: Option<Instant>) {
        set(&self.queue_keys, keys);
        self.queue_waiting.set(oldest);
    }

    /// The loop begins to work. Until [`Metrics::queue`] is called next, something waits.
    pub fn begins_to_work(&self, now: Instant) {
        self.queue_waiting.begin(now);
    }

    /// The member is in that state.
    pub fn member_state(&self, cluster: &ClusterName, state: Connectivity) {
        for each in Connectivity::ALL {
            let gauge = self.member_state.get_or_create(&state_of(cluster, each));
            gauge.set((each == state).into());
        }
    }

    /// The member said something at that time.
    pub fn member_event(&self, cluster: &ClusterName, at: Timestamp) {
        let gauge = self.member_last_event.get_or_create(&[of(cluster)]);
        gauge.set(at.as_duration().as_secs_f64());
    }

    /// So many objects of the cluster, a member's name or `hub`, are kept although its last lists
    /// lacked them.
    pub fn deletions_suspended(&self, cluster: &str, count: usize) {
        let gauge = self.deletions_suspended.get_or_create(&[of(cluster)]);
        set(&gauge, count);
    }

    /// Shows the number of services under a label. Labels of tiers and of unreached providers are
    /// removed with the last service. All results of shares are shown once any has been.
    pub fn services(&self, counted: Counted, count: usize) {
        match counted {
            Counted::Tier(consumer, tier) => {
                let labels = [of(consumer), ("tier", tier.into())];
                set_or_remove(&self.consumer_tier, &labels, count);
            }
            Counted::Unreached(provider, reason) => {
                let labels = [of(provider), ("reason", reason.into())];
                set_or_remove(&self.unreached, &labels, count);
            }
            Counted::NotReady(reason) => {
                let labels = [("reason", reason.into())];
                set(&self.services_not_ready.get_or_create(&labels), count);
            }
            Counted::Shares(result) => {
                for one in ShareResult::ALL {
                    let labels = [("result", one.as_str().into())];
                    let gauge = self.shared_services.get_or_create(&labels);
                    if one == result {
                        set(&gauge, count);
                    }
                }
            }
            // The largest deviation alone is shown.
            Counted::Deviation(_) => {}
        }
    }

    /// Shows the largest deviation from a wanted share, in hundredths of a percent.
    pub fn share_deviation(&self, deviation: u64) {
        self.share_deviation.set(deviation as f64 / 10_000.0);
    }

    /// Shows the network of a Cluster and the way to reach it, in place of those before.
    pub fn cluster(&self, cluster: &ClusterName, network: &Network, reach: Option<&DeclaredReach>) {
        let network = match network.is_valid() {
            true => network.name().unwrap_or_default(),
            false => INVALID,
        };
        let reach = reach.map(|declared| declared.way().map_or(INVALID, Reach::as_str));
        let labels = [
            of(cluster),
            ("network", network.to_owned().into()),
            ("reach", reach.unwrap_or_default().into()),
        ];
        let mut shown = lock(&self.cluster_labels);
        let before = shown.insert(cluster.clone(), labels.clone());
        if let Some(before) = before.filter(|before| *before != labels) {
            self.clusters.remove(&before);
        }
        self.clusters.get_or_create(&labels).set(1);
    }

    /// The watch of a resource of the hub is connected, or is not.
    pub fn hub_watch(&self, resource: &str, up: bool) {
        let labels = [("resource", resource.to_owned().into())];
        self.hub_watch_up.get_or_create(&labels).set(up.into());
    }

    /// The hub does not serve the resource: nothing is shown of its watch any more.
    pub fn forget_hub_watch(&self, resource: &str) {
        let labels = [("resource", resource.to_owned().into())];
        self.hub_watch_up.remove(&labels);
    }

    /// The member is gone: nothing is shown of it any more.
    pub fn forget_member(&self, cluster: &ClusterName) {
        for state in Connectivity::ALL {
            self.member_state.remove(&state_of(cluster, state));
        }
        let labels = [of(cluster)];
        self.member_last_event.remove(&labels);
        self.deletions_suspended.remove(&labels);
        self.conflicts.remove(&labels);
        self.write_duration.remove(&labels);
        if let Some(labels) = lock(&self.cluster_labels).remove(cluster) {
            self.clusters.remove(&labels);
        }
        let written = lock(&self.written).remove(cluster.as_str());
        for labels in written.into_iter().flatten() {
            self.writes.remove(&labels);
        }
    }

    /// Whether this process writes.
    pub fn leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// The gauge of how often the Lease changed hands, for leader election.
    pub fn lease_transitions(&self) -> LeaseTransitions {
        self.lease_transitions.clone()
    }

    /// Counts copies that a plan holds because no rule decides about them.
    pub fn undecided(&self, copies: usize) {
        self.undecided.inc_by(copies as u64);
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
        metrics.propagated(Duration::from_millis(3), None);
        metrics.queue(2, None);
        metrics.write_took("member1", Duration::from_millis(40));
        metrics.lease_transitions().read(4);
        metrics.member_state(member1, Connectivity::Syncing);
        metrics.member_state(member1, Connectivity::Synced);
        metrics.member_event(member1, Timestamp::from_millisecond(1_500).unwrap());
        metrics.deletions_suspended("member1", 12);
        for (counted, count) in [
            (Counted::NotReady("NoProviders"), 3),
            (Counted::NotReady("Pending"), 0),
            (Counted::Tier(member1.clone(), "local"), 9),
            (Counted::Tier(member1.clone(), "local"), 0),
            (Counted::Tier(member1.clone(), "region"), 3),
            (Counted::Shares(ShareResult::Met), 3),
            (Counted::Unreached(member1.clone(), "NoReach"), 2),
            (Counted::Unreached(member1.clone(), "EntryPending"), 1),
            (Counted::Unreached(member1.clone(), "EntryPending"), 0),
        ] {
            metrics.services(counted, count);
        }
        metrics.share_deviation(425);
        metrics.cluster(member1, &Network::default(), None);
        let ways = [
            DeclaredReach::read("node-ports"),
            DeclaredReach::read("balloon"),
        ];
        metrics.cluster(member1, &Network::read("edge"), Some(&ways[0]));
        metrics.cluster(&member("member2"), &Network::read("Edge_1"), Some(&ways[1]));
        metrics.cluster(&member("member3"), &Network::read(""), None);
        metrics.leader(true);
        let text = shown(&metrics);
        let lines = [
            r#"causeway_controller_writes_total{cluster="member1",kind="Service",verb="create",result="ok"} 1"#,
            r#"causeway_controller_writes_total{cluster="member1",kind="Service",verb="create",result="conflict"} 1"#,
            "causeway_controller_retries_total 1",
            r#"causeway_controller_write_conflicts_total{cluster="member1"} 1"#,
            r#"causeway_controller_propagation_seconds_bucket{le="0.005"} 1"#,
            "causeway_controller_queue_keys 2",
            "causeway_controller_queue_oldest_seconds 0.0",
            r#"causeway_controller_write_duration_seconds_bucket{le="0.05",cluster="member1"} 1"#,
            r#"causeway_controller_services_not_ready{reason="NoProviders"} 3"#,
            r#"causeway_controller_services_not_ready{reason="Pending"} 0"#,
            "causeway_controller_lease_transitions 4.0",
            r#"causeway_controller_member_state{cluster="member1",state="synced"} 1"#,
            r#"causeway_controller_member_state{cluster="member1",state="syncing"} 0"#,
            r#"causeway_controller_member_last_event_timestamp_seconds{cluster="member1"} 1.5"#,
            r#"causeway_controller_deletions_suspended{cluster="member1"} 12"#,
            r#"causeway_controller_consumer_tier{cluster="member1",tier="region"} 3"#,
            r#"causeway_controller_shared_services{result="met"} 3"#,
            r#"causeway_controller_shared_services{result="not_applied"} 0"#,
            "causeway_controller_share_deviation_ratio 0.0425",
            r#"causeway_controller_cluster_info{cluster="member1",network="edge",reach="node-ports"} 1"#,
            r#"causeway_controller_cluster_info{cluster="member2",network="(invalid)",reach="(invalid)"} 1"#,
            r#"causeway_controller_cluster_info{cluster="member3",network="",reach=""} 1"#,
            r#"causeway_controller_services_unreached{cluster="member1",reason="NoReach"} 2"#,
            "causeway_controller_leader 1",
            "causeway_controller_unreadable_objects_total 0",
            "causeway_controller_undecided_copies_total 0",
        ];
        for line in lines {
            assert!(
                text.lines().any(|shown| shown == line),
                "{line} is not in\n{text}"
            );
        }
        for gone in [
            r#"tier="local""#,
            r#"cluster="member1",network="""#,
            "EntryPending",
        ] {
            assert!(!text.contains(gone), "{text}");
        }
    }

    #[test]
    fn age_of_waiting_items_grows_between_counts() {
        let metrics = Metrics::default();
        let oldest = |metrics: &Metrics| metrics.queue_waiting.seconds();
        let now = Instant::now();
        metrics.begins_to_work(now);
        let first = oldest(&metrics);
        while oldest(&metrics) <= first {}
        metrics.queue(1, Some(now + Duration::from_secs(3600)));
        metrics.begins_to_work(now);
        assert_eq!(oldest(&metrics), 0.0);
        metrics.queue(0, None);
        assert_eq!(oldest(&metrics), 0.0);
    }

    #[test]
    fn lease_transitions_are_absent_before_the_first_read() {
        let metrics = Metrics::default();
        assert!(!shown(&metrics).contains("lease_transitions"));
        metrics.lease_transitions().read(0);
        let text = shown(&metrics);
        assert!(
            text.contains("causeway_controller_lease_transitions 0.0\n"),
            "{text}"
        );
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
            metrics.cluster(&member(cluster), &Network::default(), None);
            metrics.write_took(cluster, Duration::from_millis(1));
        }
        metrics.forget_member(&member("member1"));
        let text = shown(&metrics);
        assert!(
            !text.contains("member1") && text.contains("member2"),
            "{text}"
        );
    }
}
