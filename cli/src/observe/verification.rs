//! Last result of `verify` for a service, stored in a ConfigMap in the service's namespace on the
//! hub.
//!
//! `verify` writes the ConfigMap with the rights of its user. `explain`, `bug-report` and `shift`
//! read it.

use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, ObjectError};

/// Label of all pods and stored results of `verify`.
pub(crate) const LABEL: &str = "mcs.causeway.dev/verify";
/// Maximum number of stored results. Problems take precedence.
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
    /// Results by origin and destination.
    pub results: Vec<Reached>,
}

/// Paths from one origin to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    pub from: String,
    pub to: Destination,
    pub works: usize,
    pub tried: usize,
    /// Number of tried paths of UDP that gave no answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
    /// Outcome of the first failed path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
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
        }
    }

    /// Returns the problem of the paths in one sentence; `None` if all work.
    fn problem(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        let to = match &self.to {
            Destination::Provider(provider) => format!("pods of {provider}"),
            Destination::ClusterIp => "its ClusterIP".to_owned(),
            Destination::Names => "its names".to_owned(),
        };
        let (from, works, tried) = (&self.from, self.works, self.tried);
        Some(format!(
            "from {from} to {to} {works} of {tried} work ({problem})"
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
    pub(crate) fn new(time: Timestamp, mut results: Vec<Reached>) -> Option<Self> {
        results.sort_by_key(|one| one.problem.is_none());
        results.truncate(MAX_RESULTS);
        (!results.is_empty()).then_some(Self { time, results })
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
        let maps: Api<ConfigMap> = hub.api(Some(&key.namespace));
        let map = hub.request(maps.get_opt(&name(key))).await;
        let map = map.map_err(|error| error.to_string())?;
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
        match problems.split_first() {
            None if unknown > 0 => format!(
                "nothing is known to fail; {unknown} of {} paths are of UDP and gave no answer",
                self.results.iter().map(|one| one.tried).sum::<usize>()
            ),
            None => "everything that was dialled works".to_owned(),
            Some((first, [])) => first.clone(),
            Some((first, others)) => format!("{first}, and {} more", others.len()),
        }
    }

    /// Lists the failed paths to pods of a provider, a sentence for each origin.
    pub(crate) fn failed_to(&self, provider: &str) -> Vec<String> {
        let to = Destination::Provider(provider.to_owned());
        let results = self.results.iter().filter(|one| one.to == to);
        results.filter_map(Reached::problem).collect()
    }
}

fn name(key: &ServiceKey) -> String {
    format!("{PREFIX}{}", key.name)
}
