//! Last result of `verify` for a service, stored in a ConfigMap in the service's namespace on the
//! hub.
//!
//! `verify` writes the ConfigMap with the rights of its user. `explain`, `bug-report` and `shift`
//! read it.

use std::collections::BTreeSet;

use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::objects::{self, ObjectError};

/// Label of all pods and stored results of `verify`.
pub(crate) const LABEL: &str = "mcs.causeway.dev/verify";
/// Maximum age of results that count.
pub(crate) const COUNTS_FOR: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of stored results. Problems take precedence, then unknown outcomes.
const MAX_RESULTS: usize = 100;
/// Maximum size in bytes of a stored result. Larger results are ignored.
const MAX_BYTES: usize = 256 * 1024;
/// Prefix of the names of the ConfigMaps, followed by the name of the service.
pub(crate) const PREFIX: &str = "causeway-verify.";
/// Key of the result in the data of the ConfigMap.
pub(crate) const KEY: &str = "result.json";

/// Destination of a service: a column of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Destination {
    Provider(String),
    ClusterIp,
    Names,
}

/// Last result of a service. Programs read this format, and its field names must not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verification {
    pub time: Timestamp,
    /// Number of parts that the run did not try.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untried: usize,
    /// Clusters that may consume the service and have no result. Each is an untried part.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub missing: BTreeSet<String>,
    /// Results by origin and destination.
    pub results: Vec<Reached>,
}

/// Paths from one origin to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// Cluster, and the node in parentheses if there is one.
    pub from: String,
    pub to: Destination,
    pub works: usize,
    pub tried: usize,
    /// Number of tried paths with an unknown outcome.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
    /// Outcome of the first failed path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Time of the earlier run that tried the paths, if it is not the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}

impl Reached {
    /// Creates the result of no path.
    pub(crate) fn new(from: String, to: Destination) -> Self {
        Self {
            from,
            to,
            works: 0,
            tried: 0,
            unknown: 0,
            problem: None,
            time: None,
        }
    }

    /// Returns the cluster of the origin.
    fn cluster(&self) -> &str {
        let from = self.from.as_str();
        from.split_once(' ').map_or(from, |(cluster, _)| cluster)
    }

    /// Whether the origin is a node.
    pub(crate) fn is_of_node(&self) -> bool {
        self.from != self.cluster()
    }

    /// Whether the result, of the given time without one of its own, is recent enough.
    fn counts(&self, time: Timestamp, now: Timestamp) -> bool {
        now.duration_since(self.time.unwrap_or(time)) <= COUNTS_FOR
    }

    /// Returns the problem of the paths in one sentence; `None` if all work.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        let to = match &self.to {
            Destination::Provider(provider) => format!("pods of {provider}"),
            Destination::ClusterIp => "its ClusterIP".to_owned(),
            Destination::Names => "its names".to_owned(),
        };
        let (from, works, tried) = (&self.from, self.works, self.tried);
        let at = self.time.map(|time| format!(", at {time:.0}"));
        let at = at.unwrap_or_default();
        Some(format!(
            "from {from} to {to} {works} of {tried} work ({problem}){at}"
        ))
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Last result of a service, or the reason that it is unknown.
pub(crate) type Read = Result<Option<Verification>, String>;

impl Verification {
    /// Creates a result of at most [`MAX_RESULTS`] entries, problems first. Returns `None` without
    /// entries.
    pub(crate) fn new(time: Timestamp, untried: usize, results: Vec<Reached>) -> Option<Self> {
        let is_empty = results.is_empty();
        let all = Self {
            time,
            untried,
            missing: BTreeSet::new(),
            results,
        };
        (!is_empty).then(|| all.bounded())
    }

    fn bounded(mut self) -> Self {
        self.results
            .sort_by_key(|one| (one.problem.is_none(), one.unknown == 0));
        self.results.truncate(MAX_RESULTS);
        self
    }

    /// Whether the run left out clusters or other parts of the service.
    pub(crate) fn is_partial(&self, left_out: &BTreeSet<String>) -> bool {
        self.untried > 0 || !left_out.is_empty()
    }

    /// Whether the run replaces an earlier result. A failure of a node is replaced only by results
    /// of nodes. If parts are untried, a failure is replaced only by a result of the same cluster,
    /// or of the same node, and of the same destination.
    fn replaces(&self, earlier: &Reached) -> bool {
        let mut results = self.results.iter();
        results.any(|own| {
            own.cluster() == earlier.cluster()
                && match (&earlier.problem, self.untried) {
                    (None, _) => true,
                    (Some(_), 0) => own.is_of_node() || !earlier.is_of_node(),
                    (Some(_), _) => {
                        own.to == earlier.to && (own.from == earlier.from || !earlier.is_of_node())
                    }
                }
        })
    }

    /// Adds the earlier results that still count, that this run does not replace, and whose
    /// clusters are among `consumers`, which may consume the service. `left_out` has those of them
    /// that the user did not choose: each without a result is an untried part.
    pub(crate) fn after(
        mut self,
        earlier: Option<Self>,
        consumers: &BTreeSet<String>,
        left_out: &BTreeSet<String>,
    ) -> Self {
        if let Some(earlier) = earlier {
            self.retain(earlier, consumers, left_out);
        }
        let known = self.clusters();
        self.untried += left_out.difference(&known).count();
        self.missing = consumers.difference(&known).cloned().collect();
        self.bounded()
    }

    /// Adds earlier results as [`Self::after`] does. If this run is partial and adds any, at least
    /// as many parts are untried as in the earlier run, except clusters without a result then. A
    /// sum would grow with each run.
    fn retain(&mut self, earlier: Self, consumers: &BTreeSet<String>, left_out: &BTreeSet<String>) {
        let (now, time) = (self.time, earlier.time);
        let untried = earlier.untried.saturating_sub(earlier.missing.len());
        let retained = earlier.results.into_iter().filter(|one| {
            consumers.contains(one.cluster()) && one.counts(time, now) && !self.replaces(one)
        });
        let retained = retained.map(|one| Reached {
            time: one.time.or(Some(time)),
            ..one
        });
        let retained: Vec<_> = retained.collect();
        if !retained.is_empty() && self.is_partial(left_out) {
            self.untried = self.untried.max(untried);
        }
        self.results.extend(retained);
    }

    /// Returns the clusters with a result.
    fn clusters(&self) -> BTreeSet<String> {
        let clusters = self.results.iter().map(Reached::cluster);
        clusters.map(str::to_owned).collect()
    }

    /// Stores the result on the hub.
    ///
    /// # Errors
    /// [`ObjectError`] if the user may not write ConfigMaps, or if the hub lacks the namespace.
    pub(crate) async fn write(&self, hub: &ApiServer, key: &ServiceKey) -> Result<(), ObjectError> {
        let map = objects::object(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name(key),
                "namespace": key.namespace.as_ref(),
                "labels": {LABEL: "result"},
            },
            "data": {KEY: serde_json::to_string(self)?},
        }))?;
        objects::apply_quietly(hub, &map).await.map(drop)
    }

    /// Reads the last result of a service. Returns `None` if no result is stored.
    ///
    /// # Errors
    /// The reason that the hub does not respond, as text.
    pub(crate) async fn read(hub: &ApiServer, key: &ServiceKey) -> Read {
        let stored = Self::stored(hub, key).await;
        stored.map_err(|error| error.to_string())
    }

    /// Reads the last result of a service as [`Self::read`] does.
    ///
    /// # Errors
    /// [`RequestError`] if the hub does not respond, or if the user may not get the ConfigMap.
    pub(crate) async fn stored(
        hub: &ApiServer,
        key: &ServiceKey,
    ) -> Result<Option<Self>, RequestError> {
        let maps: Api<ConfigMap> = hub.api(Some(&key.namespace));
        let map = hub.request(maps.get_opt(&name(key))).await?;
        let text = map.and_then(|map| map.data?.remove(KEY));
        Ok(text.and_then(|text| Self::parse(&text)))
    }

    /// Parses a stored result. Returns `None` if it is too long or if another program wrote it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.len() <= MAX_BYTES {
            true => serde_json::from_str(text).ok(),
            false => None,
        }
    }

    /// Summarizes the result in one sentence.
    pub(crate) fn summary(&self) -> String {
        let problems = self.results.iter().filter_map(Reached::problem);
        let problems: Vec<_> = problems.collect();
        let unknown: usize = self.results.iter().map(|one| one.unknown).sum();
        let mut gaps = Vec::new();
        if unknown > 0 {
            let tried: usize = self.results.iter().map(|one| one.tried).sum();
            gaps.push(format!(
                "the outcome of {unknown} of {tried} paths is unknown"
            ));
        }
        match self.untried {
            0 => {}
            1 => gaps.push("1 part was not tried".to_owned()),
            parts => gaps.push(format!("{parts} parts were not tried")),
        }
        match problems.split_first() {
            None if gaps.is_empty() => "everything that was dialled works".to_owned(),
            None => format!("nothing is known to fail; {}", gaps.join(", ")),
            Some((first, [])) => first.clone(),
            Some((first, others)) => format!("{first}, and {} more", others.len()),
        }
    }

    /// Returns the recent results with failed paths to pods of a provider.
    pub(crate) fn failed_to(&self, provider: &str, now: Timestamp) -> Vec<&Reached> {
        let results = self.results_to(provider);
        let failed = results.filter(|one| one.problem.is_some() && one.counts(self.time, now));
        failed.collect()
    }

    /// Whether the paths to pods of a provider were all tried and have a recent known outcome.
    pub(crate) fn is_complete_to(&self, provider: &str, now: Timestamp) -> bool {
        let mut results = self.results_to(provider).peekable();
        let is_tried = self.untried == 0 && results.peek().is_some();
        is_tried && results.all(|one| one.unknown == 0 && one.counts(self.time, now))
    }

    fn results_to(&self, provider: &str) -> impl Iterator<Item = &Reached> {
        let to = Destination::Provider(provider.to_owned());
        self.results.iter().filter(move |one| one.to == to)
    }
}

fn name(key: &ServiceKey) -> String {
    format!("{PREFIX}{}", key.name)
}
