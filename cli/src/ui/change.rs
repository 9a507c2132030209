//! What the watches of the hub and of the members tell.

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::ServiceKey;
use causeway_engine::model::{Failure, Identity};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;

use crate::connectivity::ConnectError;
use crate::karmada::binding::Unapplied;

/// The metadata of Karmada's Work.
pub(super) type WorkMeta = PartialObjectMeta<DynamicObject>;

/// What happened.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most changes are the large ones, and each is moved twice"
)]
pub(super) enum Change {
    Hub(HubChange),
    Member {
        name: String,
        /// How many clusters were engaged before: what an earlier engagement of that name still says is passed over.
        engagement: u64,
        change: MemberChange,
    },
    /// Why the controller seems not to run, if it seems so.
    Controller(Option<String>),
    /// What Karmada says of its own propagation of a Service, where that fails.
    Propagation(ServiceKey, Option<Unapplied>),
}

/// What happened on the hub.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most changes are the large ones, and each is moved twice"
)]
pub(super) enum HubChange {
    /// A connection begins: the UID of its kube-system namespace, if the person may see it, and whether Karmada runs there.
    Identified {
        uid: Option<String>,
        karmada: bool,
    },
    MultiClusterServices(Event<MultiClusterService>),
    Services(Event<Service>),
    Clusters(Event<Cluster>),
    /// In which version it serves ServiceImports, if the person may see them.
    ImportsServed(Option<Version>),
    Imports(Event<ServiceImport>),
    /// The person may not see Works.
    WorksForbidden,
    Works(Event<WorkMeta>),
    /// The connection has ended.
    Disconnected(String),
}

/// What happened in a member.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most changes are the large ones, and each is moved twice"
)]
pub(super) enum MemberChange {
    /// A connection begins.
    Identified(Identity),
    Namespaces(Event<Namespace>),
    Services(Event<Service>),
    Slices(Event<EndpointSlice>),
    /// In which version it serves ServiceExports, if it does, and the credentials on the hub may see them.
    ExportsServed(Option<Version>),
    Exports(Event<ServiceExport>),
    /// The same of ServiceImports.
    ImportsServed(Option<Version>),
    Imports(Event<ServiceImport>),
    Nodes(Event<Node>),
    /// Why its Nodes cannot be read.
    NodesUnread(Failure),
    /// The connection has ended.
    Disconnected(ConnectError),
}
