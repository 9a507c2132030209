//! The watches of the hub, and what is said of one that fails: in the log, in the metrics, and in /readyz until its first list.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use causeway::api;
use causeway::process::readiness::{Awaited, Readiness};
use causeway::process::supervise::Tasks;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;

pub use self::follower::{Follower, Kind};
use crate::event::{Event, HubEvent};
use crate::index::hub::{exports, imports};
use crate::karmada;
use crate::metrics::Metrics;
use crate::watch::{self, Asks, Connect, Signal, Watch};

mod belief;
mod follower;

/// What the watches of the hub are made of.
pub struct HubWatches<'a> {
    /// The hub.
    pub client: &'a Client,
    /// What is asked of the watches while they run.
    pub asked: Receiver<Asks>,
    /// Makes a client of the hub with connections of its own.
    pub connect: Connect,
    /// The tasks of the process.
    pub tasks: &'a Tasks,
    /// Where the watches tell.
    pub events: &'a mpsc::Sender<Event>,
    /// The metrics.
    pub metrics: &'a Metrics,
}

impl HubWatches<'_> {
    /// Starts all of them, each a task that runs until the process ends.
    pub fn start(self, reports: Reports) {
        let mcs = Api::<api::MultiClusterService>::all(self.client.clone());
        let services = Api::<Service>::all(self.client.clone());
        let clusters = Api::<api::Cluster>::all(self.client.clone());
        self.watch(
            "watch-multiclusterservices",
            self.of(mcs),
            reports.multi_cluster_services,
            HubEvent::MultiClusterServices,
        );
        let services = self.of(services).never_empty();
        self.watch(
            "watch-services",
            services,
            reports.services,
            HubEvent::Services,
        );
        let clusters = self.of(clusters);
        self.watch(
            "watch-clusters",
            clusters,
            reports.clusters,
            HubEvent::Clusters,
        );
        for (namespace, report) in reports.secrets {
            let secrets = Api::<Secret>::namespaced(self.client.clone(), &namespace);
            let wrap = move |signal| HubEvent::Secrets(namespace.clone(), signal);
            self.watch("watch-secrets", self.of(secrets), report, wrap);
        }
        let works = self
            .follower("works")
            .run(karmada::works(), self.events.clone());
        self.tasks.spawn("watch-works", works);
        let exports = self.follower("serviceexports");
        let exports = exports.run(exports::kind(), self.events.clone());
        self.tasks.spawn("watch-serviceexports", exports);
        let imports = self.follower("serviceimports");
        let imports = imports.run(imports::kind(), self.events.clone());
        self.tasks.spawn("watch-serviceimports", imports);
    }

    /// Of a kind that the hub may not serve; nothing waits for its first list.
    fn follower(&self, plural: &str) -> Follower {
        Follower {
            client: self.client.clone(),
            asked: self.asked.clone(),
            connect: self.connect.clone(),
            unreadable: self.metrics.unreadable(),
            report: Report::new(plural, self.metrics.clone(), None),
        }
    }

    fn of<K>(&self, api: Api<K>) -> Watch<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Debug,
    {
        Watch::new(api, watch::Settings::default())
            .confirming_by(self.connect.clone())
            .asked_by(self.asked.clone())
            .counting(self.metrics.unreadable())
    }

    fn watch<K>(
        &self,
        task: &'static str,
        watch: Watch<K>,
        report: Report,
        wrap: impl Fn(Signal<K>) -> HubEvent + Send + Sync + 'static,
    ) where
        K: Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let events = self.events.clone();
        self.tasks.spawn(task, async move {
            let wrap = move |signal| {
                report.note(&signal);
                Event::Hub(wrap(signal))
            };
            watch.run(|object| object, wrap, events).await;
        });
    }
}

/// What is said of each watch of the hub. From when these are made until their first lists the process is not ready.
pub struct Reports {
    multi_cluster_services: Report,
    services: Report,
    clusters: Report,
    secrets: Vec<(String, Report)>,
}

impl Reports {
    /// Of the watches of a hub whose Secrets are read in these namespaces.
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
            secrets: secret_namespaces.iter().map(of_secrets).collect(),
        }
    }
}

/// What is said of one watch of the hub.
#[derive(Debug)]
pub struct Report {
    resource: String,
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_failing: bool,
    /// Held until the first list.
    awaited: Option<Awaited>,
}

impl Report {
    /// Of the watch of this resource, a plural and where there is one a namespace: `secrets/causeway-members`. `awaited` is held until
    /// its first list.
    pub fn new(resource: impl Into<String>, metrics: Metrics, awaited: Option<Awaited>) -> Self {
        Self {
            resource: resource.into(),
            metrics,
            state: Mutex::new(State {
                is_failing: false,
                awaited,
            }),
        }
    }

    /// Notes what the watch tells: a failure, each other one and its end are logged once.
    pub fn note<T>(&self, signal: &Signal<T>) {
        let resource = &self.resource;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match signal {
            Signal::Failed(error) => {
                tracing::warn!(resource, %error, "hub watch failed, retrying");
                if let Some(awaited) = &state.awaited {
                    awaited.is_held_up(error.to_string());
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
            Signal::Confirmed | Signal::Held(_) | Signal::Applied(_) | Signal::Deleted(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, FailureKind};

    #[test]
    fn a_failing_watch_is_named_until_its_first_list_and_counted_while_it_fails() {
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
            readiness.troubles(),
            ["the hub's Secrets in namespace a: secrets is forbidden"]
        );
        assert_eq!(up("secrets/a").as_deref(), Some("0"));
        assert_eq!(up("secrets/b"), None);
        for report in [
            a,
            b,
            &reports.multi_cluster_services,
            &reports.services,
            &reports.clusters,
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
    }
}
