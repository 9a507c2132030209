//! What is told; also the form that programs read, so names of fields stay as they are.

use std::collections::BTreeSet;

use serde::Serialize;

/// Where the endpoints of a service are.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    pub namespace: String,
    pub name: String,
    /// Whether every ready endpoint is in every consumer, there is one, and nothing is known to be wrong.
    pub ready: bool,
    /// What concerns the service as a whole.
    pub findings: Vec<Finding>,
    /// The ways in which it reaches other clusters.
    pub ways: Vec<Way>,
}

impl Explanation {
    /// What is wrong, once each.
    pub(super) fn wrong(&self) -> Vec<String> {
        let of_ways = self.ways.iter().flat_map(|way| {
            let consumers = way.consumers.iter().flat_map(|one| &one.findings);
            let providers = way.providers.iter().flat_map(|one| &one.findings);
            let endpoints = way.providers.iter().flat_map(|one| &one.endpoints);
            let ready = endpoints.filter(|endpoint| endpoint.ready);
            let fates = ready
                .flat_map(|one| &one.consumers)
                .map(|fate| &fate.finding);
            way.findings
                .iter()
                .chain(consumers)
                .chain(providers)
                .chain(fates)
        });
        let all = self.findings.iter().chain(of_ways);
        let wrong = all.filter(|finding| !finding.reason.is_well());
        let distinct: BTreeSet<_> = wrong.map(|finding| finding.message.clone()).collect();
        distinct.into_iter().collect()
    }
}

/// A reason, in words, and what would mend it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Finding {
    pub reason: Reason,
    pub message: String,
    /// A command, and where it is to be run if not on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What is so, in one word; the words stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Reason {
    /// The consumer has it.
    Copied,
    /// The consumer is its own cluster.
    Own,
    /// The consumer has it; it gets no traffic for it is not ready.
    NotReady,
    /// The consumer has what the provider gave last.
    Kept,
    /// The consumer has it, by Karmada's own slice.
    CopiedByKarmada,
    /// Karmada's own controllers carry the service.
    CarriedByKarmada,
    /// Karmada's own controllers carry the service, and have not brought it to the consumer.
    NotDispatchedByKarmada,
    /// Nobody keeps up the slices that Karmada's controllers left.
    LeftByKarmada,
    /// A consumer offers an endpoint that its provider no longer has.
    StaleEndpoints,
    /// Karmada propagates the Service, and not everywhere.
    NotPropagated,
    /// The hub has no MultiClusterService of the name, and no member exports it.
    NotAsked,
    NoHubService,
    NoEndpoints,
    ExternalName,
    PortNotFound,
    PortNotExposed,
    PortNotInProvider,
    PortNotInConsumer,
    PortNotInSlice,
    ManagedByKarmada,
    Deleting,
    ControllerNotRunning,
    /// The controller has not judged the object as it is.
    NotCarriedOut,
    /// The object cannot be read.
    Invalid,
    NotJoined,
    /// Its Cluster is being deleted.
    Leaving,
    /// Nothing asks for these objects any more, and they are there.
    Leftovers,
    /// It is of type LoadBalancer, by which no endpoint goes to another cluster.
    LoadBalancer,
    /// A cluster without the namespace imports nothing of it.
    NotImported,
    /// The exports differ; the oldest decides.
    ExportsDisagree,
    /// A cluster has endpoints of its own, and nobody asked for them.
    NotNamed,
    LeftOut,
    Drained,
    MemberUnreachable,
    MemberRefused,
    MemberPending,
    MemberNotRead,
    ListNotBelieved,
    NoProviderService,
    AddressTypeNotCarried,
    AddressNotRoutable,
    AddressOutsideRanges,
    NamespaceMissing,
    NamespaceTerminating,
    ForeignService,
    /// Another Service has the place of the one that endpoints are to be behind, and gets none.
    ServiceConflict,
    /// Somebody else's ServiceImport does not have the addresses of the service.
    NameNotResolved,
    ServiceMissing,
    DefinitionMissing,
    ExportRefused,
    UnderWay,
}

impl Reason {
    /// Whether a ready endpoint with this reason is where it should be, or there is nothing to mend.
    pub(super) fn is_well(self) -> bool {
        matches!(
            self,
            Self::Copied
                | Self::Own
                | Self::NotReady
                | Self::Kept
                | Self::CopiedByKarmada
                | Self::CarriedByKarmada
                | Self::NotPropagated
                | Self::PortNotExposed
                | Self::NotNamed
                | Self::LoadBalancer
                | Self::NotImported
                | Self::ExportsDisagree
                | Self::NotCarriedOut
                | Self::ListNotBelieved
        )
    }
}

impl Finding {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            remedy: None,
        }
    }

    #[must_use]
    pub(super) fn mend(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// By which name clients reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Path {
    /// Its own, for a MultiClusterService.
    Native,
    /// That of the clusterset, for ServiceExports.
    Clusterset,
}

/// One way in which a service reaches other clusters.
#[derive(Debug, Serialize)]
pub(super) struct Way {
    pub path: Path,
    /// The name by which clients reach it.
    pub address: String,
    pub findings: Vec<Finding>,
    pub consumers: Vec<ConsumerReport>,
    pub providers: Vec<ProviderReport>,
}

/// A cluster whose clients may reach it.
#[derive(Debug, Serialize)]
pub(super) struct ConsumerReport {
    pub cluster: String,
    pub findings: Vec<Finding>,
}

/// A cluster whose pods back it.
#[derive(Debug, Serialize)]
pub(super) struct ProviderReport {
    pub cluster: String,
    pub findings: Vec<Finding>,
    pub endpoints: Vec<EndpointReport>,
}

/// An endpoint.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointReport {
    pub addresses: Vec<String>,
    /// The EndpointSlice in the provider; absent where only what the consumers hold is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub consumers: Vec<Fate>,
}

/// What became of an endpoint in a consumer.
#[derive(Debug, Serialize)]
pub(super) struct Fate {
    pub cluster: String,
    /// Whether it is there.
    pub there: bool,
    /// The EndpointSlice in the consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    #[serde(flatten)]
    pub finding: Finding,
}
