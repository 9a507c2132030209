//! Paths from the member to the endpoints of other clusters.
//!
//! The agent connects to a few endpoints of each cluster whose copies the member holds, and reports
//! by Leases whether they answer ([`causeway::domain::path`]). The controller reads the Leases,
//! uses providers by them, and notes that it did. While it does not, no hub is there: the agent
//! itself then makes standby endpoints of those that do not answer. With a time to live of
//! providers, it deletes these after that time.

mod copies;
mod events;
mod lower;
mod path_state;
mod probe;
mod report;
mod silence;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use causeway::api::labels;
use causeway::domain::ClusterName;
use causeway::domain::path::{Path, PathReport};
use futures::StreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until};

use self::copies::{Copies, CopyId};
use self::events::Events;
use self::path_state::PathState;
use self::report::Reports;
use self::silence::Silence;
use crate::metrics::Metrics;

/// Interval of probes.
const INTERVAL: Duration = Duration::from_secs(10);
/// Interval of probes while a cluster does not answer and is not yet reported.
const DOUBTFUL: Duration = Duration::from_secs(5);
/// Maximum time of a request to the API server.
const REQUEST: Duration = Duration::from_secs(5);

/// Prober of the paths from a member.
pub struct Paths {
    client: Client,
    copies: Copies,
    states: BTreeMap<ClusterName, PathState>,
    reports: Reports,
    silence: Silence,
    events: Events,
    metrics: Metrics,
    rounds: usize,
}

/// Change of a copy without a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Lower,
    Raise,
    Delete,
}

impl Change {
    /// Returns the role of the endpoints after the change, in metrics and logs.
    fn role(self) -> &'static str {
        match self {
            Self::Lower => "standby",
            Self::Raise => "ready",
            Self::Delete => "deleted",
        }
    }
}

/// Time by both clocks.
#[derive(Clone, Copy, Debug)]
struct Now {
    instant: Instant,
    wall: Timestamp,
}

impl Paths {
    /// Creates a prober that reads the copies in the member of that client, and reports in the name
    /// of `holder`. Copies that were made standby are deleted after `ttl` without an answer and a
    /// hub.
    pub fn new(client: Client, holder: String, ttl: Option<Duration>, metrics: Metrics) -> Self {
        Self {
            reports: Reports::new(client.clone(), holder.clone()),
            events: Events::new(client.clone(), holder),
            client,
            copies: Copies::default(),
            silence: Silence::new(ttl),
            states: BTreeMap::new(),
            metrics,
            rounds: 0,
        }
    }

    /// Probes and reports. Never ends. Calls `listed` once the copies are known.
    pub async fn run(mut self, listed: impl FnOnce()) {
        let slices = Api::<EndpointSlice>::all(self.client.clone());
        let config = watcher::Config::default().labels(labels::HUB);
        let mut events = pin!(watcher(slices, config).default_backoff());
        let (mut next, mut listed) = (Instant::now(), Some(listed));
        loop {
            tokio::select! {
                Some(event) = events.next() => match event {
                    Ok(event) => {
                        let is_whole = matches!(event, watcher::Event::InitDone);
                        self.copies.apply(event);
                        if is_whole && let Some(listed) = listed.take() {
                            listed();
                        }
                    }
                    Err(error) => tracing::warn!(%error, "EndpointSlices not watched, retrying"),
                },
                () = sleep_until(next), if listed.is_none() => {
                    let begun = Instant::now();
                    self.round().await;
                    next = begun + self.pause();
                }
            }
        }
    }

    fn pause(&self) -> Duration {
        match self.states.values().any(PathState::is_doubtful) {
            true => DOUBTFUL,
            false => INTERVAL,
        }
    }

    /// Probes each cluster once, reports what changed, and lowers or raises copies if no hub does.
    async fn round(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        let is_bad = |state: &PathState| state.path().is_some_and(|(path, _)| path == Path::Bad);
        let bad = self.states.iter().filter(|(_, state)| is_bad(state));
        let bad = bad.map(|(source, _)| source.clone()).collect();
        let targets = self.copies.targets(self.rounds, &bad);
        let answers = probe::all(&targets, &self.metrics).await;
        let now = Now {
            instant: Instant::now(),
            wall: Timestamp::now(),
        };
        let probed: BTreeSet<_> = targets.keys().cloned().collect();
        self.forget(&probed, now).await;
        let none_answers = answers.values().all(|answer| answer.answered == 0);
        if none_answers && !answers.is_empty() && !probe::own_pods_answer(&self.client).await {
            // The network of this pod may be gone. Reports that are not renewed say nothing.
            tracing::warn!("no endpoint answers, not even in this cluster: paths are unknown");
            self.silence.clear();
            self.metrics.paths(0, 0, answers.len());
            return;
        }
        for (source, answer) in &answers {
            let state = self.states.entry(source.clone()).or_default();
            let is_known = state.path().is_some();
            let changed = state.note(answer.answered > 0, now);
            if let Some(path) = changed {
                let (answered, tried) = (answer.answered, answer.tried);
                tracing::info!(cluster = %source, ?path, answered, tried, "path changed");
            }
            if let Some((path, since)) = state.path() {
                let report = PathReport {
                    path,
                    since,
                    probed: now.wall,
                    answered: answer.answered,
                    tried: answer.tried,
                };
                self.reports.tell(source, report, now).await;
            }
            // That a new path works is no news.
            if let Some(path) = changed.filter(|path| is_known || *path == Path::Bad) {
                let uid = self.reports.uid(source);
                self.events.path_changed(source, uid, path).await;
            }
        }
        let count = |path| {
            let all = probed.iter().filter_map(|source| self.states.get(source));
            all.filter(|state| state.path().map(|(path, _)| path) == path)
                .count()
        };
        self.metrics
            .paths(count(Some(Path::Good)), count(Some(Path::Bad)), count(None));
        self.lower_and_raise(&probed, now).await;
    }

    /// Drops the clusters of which the member holds no copies any more. Clusters whose copies have
    /// nothing to probe retain their path until the report expires.
    async fn forget(&mut self, probed: &BTreeSet<ClusterName>, now: Now) {
        let present = self.copies.sources();
        self.states.retain(|source, _| present.contains(source));
        let states = self.states.iter_mut();
        let unprobed = states.filter(|(source, _)| !probed.contains(*source));
        unprobed.for_each(|(_, state)| state.interrupt(now));
        self.silence.retain(probed);
        self.reports.forget(&present).await;
    }

    /// Changes copies of the probed clusters where no hub is there: lowers those whose source does
    /// not answer, raises them when it answers again, and deletes them after the time to live of a
    /// provider.
    async fn lower_and_raise(&mut self, probed: &BTreeSet<ClusterName>, now: Now) {
        let good = |source: &ClusterName| {
            let state = self.states.get(source);
            let path = state
                .filter(|_| probed.contains(source))
                .and_then(PathState::path);
            path.is_some_and(|(path, _)| path == Path::Good)
        };
        let mut changes = Vec::new();
        let mut counts = BTreeMap::<_, usize>::new();
        for source in self.states.keys().filter(|one| probed.contains(*one)) {
            let (is_alone, is_good) = (self.reports.is_alone(source, now), good(source));
            let is_over = self.silence.note(source, is_alone && !is_good, now.instant);
            let lowered = self.copies.lowered(source).filter(|_| is_alone);
            match (is_good, is_over) {
                (true, _) => changes.extend(lowered.map(|copy| (source, copy, Change::Raise))),
                (false, true) => changes.extend(lowered.map(|copy| (source, copy, Change::Delete))),
                (false, false) => {}
            }
            if is_alone && !is_good {
                let ready = self.copies.ready(source);
                changes.extend(ready.map(|copy| (source, copy, Change::Lower)));
            }
        }
        for (source, copy, change) in changes {
            let done = match change {
                Change::Lower => self.lower(&copy, good).await,
                Change::Raise => lower::raise(&self.client, &copy).await,
                Change::Delete => {
                    let has_other = self.copies.substitutes(&copy).into_iter().any(good);
                    lower::delete(&self.client, &copy, has_other).await
                }
            };
            match done {
                Ok(true) => {
                    self.note_changed(&copy, change);
                    *counts.entry((source, change)).or_default() += 1;
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%copy, change = change.role(), error, "copy not changed");
                }
            }
        }
        for ((source, change), slices) in counts {
            let uid = self.reports.uid(source);
            self.events.changed(source, uid, slices, change).await;
        }
    }

    /// Lowers a copy if the service has other endpoints: ready ones of a cluster with a `good` path
    /// or of this cluster, or else standby ones of clusters with a good path, which become ready.
    /// Returns whether the copy changed.
    async fn lower(
        &self,
        copy: &CopyId,
        good: impl Fn(&ClusterName) -> bool,
    ) -> Result<bool, String> {
        let mut has_other = self.copies.others(copy).into_iter().any(&good);
        if !has_other && !lower::has_own(&self.client, copy, None).await? {
            for standby in self.copies.standby(copy).filter(|one| good(&one.source)) {
                if lower::promote(&self.client, standby).await? {
                    self.note_changed(standby, Change::Raise);
                }
                has_other = true;
            }
            if !has_other {
                return Ok(false);
            }
        }
        lower::lower(&self.client, copy).await
    }

    fn note_changed(&self, copy: &CopyId, change: Change) {
        self.metrics.changed_copy(change.role());
        tracing::info!(%copy, change = change.role(), "copy changed, no hub did");
    }
}
