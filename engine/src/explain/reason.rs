//! Reasons for the state of an endpoint, a cluster or a service: one word, a sentence, and a
//! remedy.

use serde::Serialize;

/// Reason with a message and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnosis {
    /// Reason, in one word.
    pub reason: Reason,
    /// Message for a person.
    pub message: String,
    /// Command, with the cluster in which to run it unless that is the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Reason in one word, which programs read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// The consumer has the endpoint.
    Copied,
    /// The consumer runs the endpoint itself.
    Own,
    /// The consumer has the endpoint, which gets no traffic because it is not ready.
    NotReady,
    /// The consumer has the endpoint as a standby endpoint: nearer ones are ready, or its provider
    /// cannot be reached.
    Standby,
    /// The consumer uses the endpoint because nearer tiers have too few ready endpoints.
    Promoted,
    /// No tier of the consumer includes the provider.
    NotPreferred,
    /// No provider is in any tier of the consumer.
    NoPreferredProvider,
    /// The consumer retains the last endpoints of the provider.
    Kept,
    /// The consumer has the endpoint, in Karmada's own slice.
    CopiedByKarmada,
    /// Karmada's own controllers manage the MultiClusterService.
    ManagedByKarmada,
    /// Karmada's own controllers manage the service, and have not brought the endpoint to the
    /// consumer.
    NotDispatchedByKarmada,
    /// Nobody updates the slices that Karmada's controllers left.
    LeftByKarmada,
    /// Karmada's own controllers import the exported service.
    ImportedByKarmada,
    /// A consumer offers an endpoint that its provider no longer has.
    StaleEndpoints,
    /// Karmada propagates the Service, and not everywhere.
    NotPropagated,
    /// The hub has no MultiClusterService of the name, and no member exports it.
    NotExposed,
    /// Nothing exposes the service any more, and objects of it are left.
    Leftovers,
    /// Somebody made a ServiceImport of a service that no known member exports.
    ImportWithoutExport,
    /// The MultiClusterService is being deleted.
    Deleting,
    /// The object cannot be read.
    Invalid,
    /// The namespace or the service is protected.
    NamespaceProtected,
    /// The hub has no Service of the name.
    NoHubService,
    /// A Service of that type has no endpoints.
    ExternalName,
    /// The MultiClusterService is of type LoadBalancer, which brings no endpoint to another
    /// cluster.
    LoadBalancer,
    /// `spec.ports` names a port that the Service does not have.
    PortNotFound,
    /// `spec.ports` leaves the port out.
    PortNotExposed,
    /// No provider has a ready endpoint.
    NoEndpoints,
    /// Nobody holds the controller's Lease.
    ControllerNotRunning,
    /// The controller has not processed the last change.
    NotObserved,
    /// No Cluster of the hub has the name.
    NotJoined,
    /// The member takes no part: it is in Pull mode, or too old.
    LeftOut,
    /// The member is being removed.
    MemberTerminating,
    /// The cluster is joined twice.
    DuplicateMember,
    /// Nothing that the member provides is used.
    Drained,
    /// The member has been unreachable for longer than `--provider-ttl`.
    ProviderTtlExpired,
    /// The controller cannot reach the member.
    MemberUnreachable,
    /// The member cannot be used until a person acts.
    MemberRefused,
    /// The controller has not synced the member yet.
    MemberPending,
    /// The caller could not read the member.
    MemberNotRead,
    /// The deletion guard holds objects of the member.
    DeletionsSuspended,
    /// The member does not serve the Multi-Cluster Services API.
    DefinitionMissing,
    /// The member lacks the namespace.
    NamespaceMissing,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// A cluster without the namespace imports nothing.
    NotImported,
    /// The exports do not name the cluster among their consumers.
    NotConsumer,
    /// A cluster has endpoints of its own, and nothing exposes them.
    NotNamed,
    /// The hub does not permit the cluster to export from the namespace.
    ExportRefused,
    /// The cluster exports more than one member may.
    QuotaExceeded,
    /// The exports differ; the oldest decides.
    ExportsDisagree,
    /// The provider has no such Service.
    NoProviderService,
    /// The consumer has no such Service yet.
    ServiceMissing,
    /// A Service that somebody else made does not fit.
    ForeignService,
    /// Another Service has the name of the one that receives the endpoints.
    ServiceConflict,
    /// A ServiceImport that somebody made does not have the addresses of the service.
    NameNotResolved,
    /// The consumer's Service leads its clients to pods of their own node alone.
    InternalTrafficPolicyLocal,
    /// The consumer's Service has none of the address families of a provider's endpoints.
    AddressFamilyMismatch,
    /// The provider's Service lacks the port.
    PortNotInProvider,
    /// The consumer's Service lacks the port.
    PortNotInConsumer,
    /// The provider's EndpointSlice lacks the port.
    PortNotInSlice,
    /// The slice holds neither IPv4 nor IPv6 addresses.
    AddressTypeNotSupported,
    /// The address does not lead to another node.
    AddressNotRoutable,
    /// The provider may not provide the address.
    AddressOutsideRanges,
    /// The endpoint has no address of its slice's type, or the slice cannot be read.
    SliceInvalid,
    /// A hostname of a headless service leads to pods of several clusters.
    AmbiguousHostname,
    /// Two EndpointSlices of a provider differ on the readiness of an endpoint.
    WritersDisagree,
    /// The slice has more endpoints than an EndpointSlice may have.
    TooManyEndpoints,
    /// The provider has more slices of the service than are copied.
    TooManySlices,
    /// Something else has the name of the copy.
    NameTaken,
    /// Somebody changes objects back as often as causeway writes them.
    WriteConflict,
    /// The write is under way.
    Progressing,
    /// No known fact explains the state.
    Unexplained,
}

impl Reason {
    /// Whether a ready endpoint with this reason is where it should be, or there is nothing to fix.
    pub(super) fn is_healthy(self) -> bool {
        matches!(
            self,
            Self::Copied
                | Self::Own
                | Self::NotReady
                | Self::Standby
                | Self::Promoted
                | Self::NotPreferred
                | Self::Kept
                | Self::CopiedByKarmada
                | Self::ManagedByKarmada
                | Self::NotPropagated
                | Self::PortNotExposed
                | Self::NotNamed
                | Self::LoadBalancer
                | Self::NotImported
                | Self::NotConsumer
                | Self::ExportsDisagree
                | Self::AmbiguousHostname
                | Self::NotObserved
                | Self::DeletionsSuspended
        )
    }

    /// Whether the reason only reports that the endpoint is where it should be.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Copied | Self::CopiedByKarmada | Self::Own)
    }
}

impl Diagnosis {
    /// Returns a diagnosis without a remedy.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            remedy: None,
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn fix(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Whether there is nothing to fix.
    pub fn is_healthy(&self) -> bool {
        self.reason.is_healthy()
    }
}
