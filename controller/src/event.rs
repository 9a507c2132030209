//! What the controller's one loop is told: by the watches, and in answer to its own questions.
#![allow(
    clippy::large_enum_variant,
    reason = "most events are the large ones, and each is moved twice"
)]

use causeway::api;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};

use crate::failure::Failure;
use crate::index::hub::exports::HubExport;
use crate::index::hub::imports::HubImport;
use crate::index::served::Served;
use crate::index::slice::ObservedSlice;
use crate::karmada::ServiceWork;
use crate::karmada::binding::Propagation;
use crate::watch::Signal;

/// Events that wait to be folded in. A watch that is faster waits for its turn: senders are let in one after the other, so no more than
/// twice as many events of a member that floods come before one of another.
pub const WAITING: usize = 256;

/// How often a member has been engaged: what an earlier engagement still says is not listened to.
pub type Generation = u64;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// The hub said something.
    Hub(HubEvent),
    /// A member said something.
    Member {
        /// Which member.
        name: ClusterName,
        /// In which of its engagements.
        generation: Generation,
        /// What it said.
        event: MemberEvent,
    },
    /// The hub was asked for a MultiClusterService outright, and has it or not.
    Asked {
        /// The service asked about.
        key: ServiceKey,
        /// Whether the hub holds a MultiClusterService of that key.
        exists: Result<bool, Failure>,
    },
    /// The hub was asked what became of Karmada's propagation of a Service.
    Propagated {
        /// The Service.
        key: ServiceKey,
        /// What became of it.
        outcome: Result<Propagation, Failure>,
    },
}

/// What the hub says.
#[derive(Debug)]
pub enum HubEvent {
    /// MultiClusterServices.
    MultiClusterServices(Signal<api::MultiClusterService>),
    /// Services.
    Services(Signal<Service>),
    /// Clusters.
    Clusters(Signal<api::Cluster>),
    /// Secrets of one namespace that hold members' credentials.
    Secrets(String, Signal<Secret>),
    /// Whether it serves Karmada's Works; told once it is known, and when it changes.
    WorksServed(bool),
    /// Karmada's Works that may carry services.
    Works(Signal<ServiceWork>),
    /// Whether it serves ServiceExports; told once it is known, and when it changes.
    ExportsServed(bool),
    /// ServiceExports on the hub itself.
    Exports(Signal<HubExport>),
    /// Whether it serves ServiceImports; told once it is known, and when it changes.
    ImportsServed(bool),
    /// ServiceImports on the hub itself.
    Imports(Signal<HubImport>),
}

/// What a member says.
#[derive(Debug)]
pub enum MemberEvent {
    /// Who the member is, told once on every connection before anything else.
    Identified(Identity),
    /// The same member gives another version now; its watches go on.
    VersionChanged(Identity),
    /// Its Services.
    Services(Signal<Service>),
    /// Its EndpointSlices, sources and copies.
    Slices(Signal<ObservedSlice>),
    /// Its Namespaces, without their specs.
    Namespaces(Signal<Namespace>),
    /// What of the Multi-Cluster Services API it serves; told once it is known, and when it changes.
    Served(Served),
    /// Why it cannot be asked what it serves of that API.
    NotDiscovered(Failure),
    /// Its ServiceExports.
    Exports(Signal<ServiceExport>),
    /// Its ServiceImports.
    Imports(Signal<ServiceImport>),
    /// Whether it answers a small request; told when that changes.
    Probed(Result<(), Failure>),
}

/// Who a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UID of its kube-system namespace.
    pub uid: String,
    /// The version it gives, such as v1.36.3.
    pub version: String,
    /// Major and minor version.
    pub release: (u32, u32),
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use tokio::sync::mpsc;

    use super::WAITING;

    #[tokio::test]
    async fn a_member_that_floods_is_never_far_ahead_of_another() {
        const FLOODS: usize = 5;
        let (tell, mut told) = mpsc::channel(WAITING);
        for _ in 0..FLOODS {
            let tell = tell.clone();
            tokio::spawn(async move { while tell.send("flood").await.is_ok() {} });
        }
        for _ in 0..20 {
            while told.len() < WAITING {
                tokio::task::yield_now().await;
            }
            let mut quiet = pin!(tell.send("quiet"));
            assert!(poll!(&mut quiet).is_pending(), "it waits for its turn");
            let mut ahead = 0;
            let hear = async {
                while told.recv().await != Some("quiet") {
                    ahead += 1;
                }
            };
            let (sent, ()) = tokio::join!(quiet, hear);
            assert!(sent.is_ok() && ahead <= 2 * WAITING, "{ahead}");
        }
    }
}
