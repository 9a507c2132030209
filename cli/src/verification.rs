//! Last result of `verify` for a service: a ConfigMap of the service's namespace on the hub.
//!
//! The caller of `verify` writes it. `explain` and `bug-report` read it.

use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api_server::ApiServer;
use crate::objects::{self, ObjectError};

/// Label of every pod and every stored result of `verify`.
pub(crate) const LABEL: &str = "mcs.causeway.dev/verify";
/// Maximum number of results that are stored. Problems come first.
const MAX_RESULTS: usize = 100;
/// Maximum size in bytes of a stored result that is read.
const MAX_BYTES: usize = 256 * 1024;
const KEY: &str = "result.json";

/// Something that a service leads to: a column of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Destination {
    Provider(String),
    ClusterIp,
    Names,
}

/// Last result of a service. The names of fields are stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verification {
    pub time: Timestamp,
    /// Results by place and destination.
    pub results: Vec<Reached>,
}

/// Paths from one place to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    pub from: String,
    pub to: Destination,
    pub works: usize,
    pub tried: usize,
    /// Outcome of the first path that does not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Last result of a service, or the cause why it is unknown.
pub(crate) type Read = Result<Option<Verification>, String>;

impl Verification {
    /// Returns a bounded result, problems first; `None` without any.
    pub(crate) fn new(time: Timestamp, mut results: Vec<Reached>) -> Option<Self> {
        results.sort_by_key(|one| one.problem.is_none());
        results.truncate(MAX_RESULTS);
        (!results.is_empty()).then_some(Self { time, results })
    }

    /// Stores the result on the hub.
    ///
    /// # Errors
    /// The caller may not, or the hub lacks the namespace.
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
        objects::apply_quietly(hub, &map).await
    }

    /// Reads the last result of a service; `None` if there is none.
    ///
    /// # Errors
    /// The cause why the hub gives no answer.
    pub(crate) async fn read(hub: &ApiServer, key: &ServiceKey) -> Read {
        let maps: Api<ConfigMap> = hub.api(Some(&key.namespace));
        let map = hub.request(maps.get_opt(&name(key))).await;
        let map = map.map_err(|error| error.to_string())?;
        let text = map.and_then(|map| map.data?.remove(KEY));
        let text = text.filter(|text| text.len() <= MAX_BYTES);
        // Another program's ConfigMap is no result.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Returns the result in one sentence.
    pub(crate) fn summary(&self) -> String {
        let problems = self.results.iter().filter_map(|one| {
            let problem = one.problem.as_ref()?;
            let to = match &one.to {
                Destination::Provider(provider) => format!("pods of {provider}"),
                Destination::ClusterIp => "its ClusterIP".to_owned(),
                Destination::Names => "its names".to_owned(),
            };
            let Reached {
                from, works, tried, ..
            } = one;
            Some(format!(
                "from {from} to {to} {works} of {tried} work ({problem})"
            ))
        });
        let problems: Vec<_> = problems.collect();
        match problems.split_first() {
            None => "everything that was dialled works".to_owned(),
            Some((first, [])) => first.clone(),
            Some((first, others)) => format!("{first}, and {} more", others.len()),
        }
    }
}

fn name(key: &ServiceKey) -> String {
    format!("causeway-verify.{}", key.name)
}
