//! Reports of hub watches that fail: in the log, in the metrics, and in /readyz until the initial
//! list.

use std::sync::{Mutex, PoisonError};

use causeway::process::readiness::{Awaited, Readiness};
use causeway_engine::model::{FailureKind, Signal};

use crate::metrics::Metrics;

/// Remedy for a watch that the hub refuses.
const MISSING_RIGHT: &str = "; apply the manifests of this version to the hub: kubectl mcs install";

/// Reports of all watches of the hub. The process is not ready until their initial lists.
pub struct Reports {
    pub(super) multi_cluster_services: Report,
    pub(super) services: Report,
    pub(super) clusters: Report,
    pub(super) namespaces: Report,
    pub(super) secrets: Vec<(String, Report)>,
}

impl Reports {
    /// Returns the reports of the watches of a hub whose Secrets are read in these namespaces.
    pub fn new(readiness: &Readiness, metrics: &Metrics, secret_namespaces: &[String]) -> Self {
        let of = |resource: &str, awaited: &str| {
            let awaited = readiness.awaits(format!("the hub's {awaited}"));
            Report::new(resource, metrics.clone(), Some(awaited))
        };
        let of_secrets = |namespace: &String| {
            let awaited = format!("Secrets in namespace {namespace}");
            let report = of(&format!("secrets/{namespace}"), &awaited);
            (namespace.clone(), report)
        };
        Self {
            multi_cluster_services: of("multiclusterservices", "MultiClusterServices"),
            services: of("services", "Services"),
            clusters: of("clusters", "Clusters"),
            namespaces: of("namespaces", "Namespaces"),
            secrets: secret_namespaces.iter().map(of_secrets).collect(),
        }
    }
}

/// Report of one watch of the hub.
#[derive(Debug)]
pub(super) struct Report {
    resource: String,
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_failing: bool,
    /// Held until the initial list.
    awaited: Option<Awaited>,
}

impl Report {
    /// Returns the report of the watch of this resource: a plural, with the namespace if there is
    /// one, such as `secrets/causeway-members`. `awaited` is held until its initial list.
    pub(super) fn new(
        resource: impl Into<String>,
        metrics: Metrics,
        awaited: Option<Awaited>,
    ) -> Self {
        Self {
            resource: resource.into(),
            metrics,
            state: Mutex::new(State {
                is_failing: false,
                awaited,
            }),
        }
    }

    /// Notes what the watch reports: a failure, each other one and its end are logged once.
    pub(super) fn note<T>(&self, signal: &Signal<T>) {
        let resource = &self.resource;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match signal {
            Signal::Failed(error) => {
                tracing::warn!(resource, %error, "hub watch failed, retrying");
                if let Some(awaited) = &state.awaited {
                    let remedy = match error.kind {
                        FailureKind::Forbidden => MISSING_RIGHT,
                        _ => "",
                    };
                    awaited.is_blocked_by(format!("{error}{remedy}"));
                }
                state.is_failing = true;
                self.metrics.hub_watch(resource, false);
            }
            Signal::Connected => {
                if std::mem::take(&mut state.is_failing) {
                    tracing::info!(resource, "hub watch restored");
                }
                self.metrics.hub_watch(resource, true);
            }
            Signal::Listed(_) => state.awaited = None,
            _ => {}
        }
    }

    /// Notes that the hub does not serve the resource, so nothing is watched.
    pub(super) fn note_unserved(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_failing = false;
        self.metrics.forget_hub_watch(&self.resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_engine::model::Failure;

    #[test]
    fn failing_watch_is_named_until_listed_and_counted() {
        let (readiness, metrics) = (Readiness::default(), Metrics::default());
        let reports = Reports::new(&readiness, &metrics, &["a".to_owned(), "b".to_owned()]);
        let [(_, a), (_, b)] = &reports.secrets[..] else {
            panic!("two namespaces")
        };
        let up = |resource: &str| {
            let mut registry = prometheus_client::registry::Registry::default();
            metrics.register(&mut registry);
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
            let line = format!("hub_watch_up{{resource=\"{resource}\"}} ");
            let found = text.lines().find_map(|one| one.split_once(&line));
            found.map(|(_, value)| value.to_owned())
        };
        let failure = Failure::new(FailureKind::Forbidden, "secrets is forbidden");
        a.note(&Signal::<()>::Failed(failure));
        assert_eq!(
            readiness.problems(),
            [format!(
                "the hub's Secrets in namespace a: secrets is forbidden{MISSING_RIGHT}"
            )]
        );
        assert_eq!(up("secrets/a").as_deref(), Some("0"));
        assert_eq!(up("secrets/b"), None);
        for report in [
            a,
            b,
            &reports.multi_cluster_services,
            &reports.services,
            &reports.clusters,
            &reports.namespaces,
        ] {
            assert!(readiness.check().is_err());
            report.note(&Signal::<()>::Listed(Vec::new()));
            report.note(&Signal::<()>::Connected);
        }
        assert_eq!(readiness.check(), Ok(()));
        assert_eq!(up("secrets/a").as_deref(), Some("1"));
        let failure = Failure::new(FailureKind::Refused, "connection refused");
        a.note(&Signal::<()>::Failed(failure));
        assert_eq!(readiness.check(), Ok(()), "what was listed counts on");
        assert_eq!(up("secrets/a").as_deref(), Some("0"));
        a.note_unserved();
        assert_eq!(up("secrets/a"), None);
        assert!(!a.state.lock().expect("the state").is_failing);
    }
}
