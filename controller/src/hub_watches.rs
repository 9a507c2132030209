//! The watches of the hub, and what is said of one that fails: in the log, in the metrics, and in
//! /readyz until its initial list.

use std::fmt::Debug;

use causeway::api;
use causeway::process::supervise::Tasks;
use causeway_engine::model::{HubEvent, HubNamespace, Signal};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;

use self::follower::Follower;
use self::report::Report;
pub use self::report::Reports;
use crate::event::Event;
use crate::metrics::Metrics;
use crate::watch::{self, Connect, RelistRequests, Watch};

mod discovery;
mod follower;
mod kinds;
mod report;

/// Parts of the watches of the hub.
pub struct HubWatches<'a> {
    /// The hub.
    pub client: &'a Client,
    /// UID of the hub's kube-system namespace.
    pub uid: &'a str,
    /// The lists that are requested of the watches while they run.
    pub relist_requests: Receiver<RelistRequests>,
    /// Makes a client of the hub with connections of its own.
    pub connect: Connect,
    /// The tasks of the process.
    pub tasks: &'a Tasks,
    /// Receiver of their events.
    pub events: &'a mpsc::Sender<Event>,
    /// The metrics.
    pub metrics: &'a Metrics,
    /// Namespaces of the ClusterProfiles of which Clusters are made.
    pub profile_namespaces: &'a [String],
    /// Names of the providers that the controller knows, the preferred first.
    pub providers: Vec<Box<str>>,
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
        let services = Watch {
            never_empty: true,
            ..self.of(services)
        };
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
        let namespaces = Api::<PartialObjectMeta<Namespace>>::all(self.client.clone());
        let namespaces = Watch {
            metadata_only: true,
            never_empty: true,
            ..self.of(namespaces)
        };
        self.watch(
            "watch-namespaces",
            namespaces,
            reports.namespaces,
            |signal| HubEvent::Namespaces(signal.map(HubNamespace::read)),
        );
        for (namespace, report) in reports.secrets {
            let secrets = Api::<Secret>::namespaced(self.client.clone(), &namespace);
            let wrap = move |signal| HubEvent::Secrets(namespace.clone(), signal);
            self.watch("watch-secrets", self.of(secrets), report, wrap);
        }
        let works = self
            .follower("works")
            .run(kinds::works(), self.events.clone());
        self.tasks.spawn("watch-works", works);
        let exports = self.follower("serviceexports");
        let exports = exports.run(kinds::service_exports(), self.events.clone());
        self.tasks.spawn("watch-serviceexports", exports);
        let imports = self.follower("serviceimports");
        let imports = imports.run(kinds::service_imports(), self.events.clone());
        self.tasks.spawn("watch-serviceimports", imports);
        let names = self.follower("dnsendpoints");
        let names = names.run(kinds::dns_endpoints(), self.events.clone());
        self.tasks.spawn("watch-dnsendpoints", names);
        for namespace in self.profile_namespaces {
            let kind = kinds::cluster_profiles(namespace, self.providers.clone());
            let profiles = self.follower(&format!("clusterprofiles/{namespace}"));
            let profiles = profiles.run(kind, self.events.clone());
            self.tasks.spawn("watch-clusterprofiles", profiles);
        }
    }

    /// Returns the follower of a kind that the hub may not serve; nothing waits for its initial
    /// list.
    fn follower(&self, plural: &str) -> Follower {
        Follower {
            client: self.client.clone(),
            uid: self.uid.to_owned(),
            relist_requests: self.relist_requests.clone(),
            connect: self.connect.clone(),
            unreadable: self.metrics.unreadable(),
            report: Report::new(plural, self.metrics.clone(), None),
        }
    }

    fn of<K>(&self, api: Api<K>) -> Watch<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + 'static,
    {
        Watch {
            connect: Some(self.connect.clone()),
            relist_requests: Some(self.relist_requests.clone()),
            unreadable: self.metrics.unreadable(),
            ..Watch::new(api, watch::Settings::default())
        }
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

#[cfg(test)]
mod tests;
