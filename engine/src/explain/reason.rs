//! What is so of an endpoint, a cluster or a service, in one word, with a sentence and what to type.

use serde::Serialize;

/// A reason, in words, and what would fix it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnosis {
    /// The reason.
    pub reason: Reason,
    /// What is so, for a person.
    pub message: String,
    /// A command, and where it is to be run if not on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What is so, in one word; programs read it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// The consumer has it.
    Copied,
    /// The consumer runs it itself.
    Own,
    /// The consumer has it; it gets no traffic for it is not ready.
    NotReady,
    /// The consumer has it as a standby endpoint: nearer ones are ready, or its provider cannot be reached.
    Standby,
    /// The consumer uses it because nearer tiers have too few ready endpoints.
    Promoted,
    /// No tier of the consumer's takes the provider.
    NotPreferred,
    /// No provider is in any tier of the consumer.
    NoPreferredProvider,
    /// The consumer has what the provider gave last.
    Kept,
    /// The consumer has it, in Karmada's own slice.
    CopiedByKarmada,
    /// Karmada's own controllers manage the MultiClusterService.
    ManagedByKarmada,
    /// Karmada's own controllers manage it, and have not brought it to the consumer.
    NotDispatchedByKarmada,
    /// Nobody updates the slices that Karmada's controllers left.
    LeftByKarmada,
    /// Karmada's own controllers import what is exported.
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
    /// It is of type LoadBalancer, by which no endpoint goes to another cluster.
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
    /// No Cluster of the hub bears the name.
    NotJoined,
    /// The member takes no part: it is in Pull mode, or too old.
    LeftOut,
    /// The member is being removed.
    MemberTerminating,
    /// The cluster is joined twice.
    DuplicateMember,
    /// Nothing that the member provides is used.
    Drained,
    /// It has been out of reach for longer than `--provider-ttl`.
    ProviderTtlExpired,
    /// The controller does not reach the member.
    MemberUnreachable,
    /// The member cannot be used until a person acts.
    MemberRefused,
    /// The controller has not synced the member yet.
    MemberPending,
    /// Whoever asks could not read the member.
    MemberNotRead,
    /// The deletion guard keeps objects of the member.
    DeletionsSuspended,
    /// The member does not serve the Multi-Cluster Services API.
    DefinitionMissing,
    /// The namespace is not there.
    NamespaceMissing,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// A cluster without the namespace imports nothing.
    NotImported,
    /// The exports do not name the cluster among their consumers.
    NotConsumer,
    /// A cluster has endpoints of its own, and nothing exposes them.
    NotNamed,
    /// The export is not served.
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
    /// Another Service has the place of the one that endpoints are to be behind.
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
    /// The address is not one that the provider may give.
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
    /// It is on its way.
    Progressing,
    /// Nothing that is known explains it.
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

    /// Whether it only says that the endpoint is where it should be.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Copied | Self::CopiedByKarmada | Self::Own)
    }
}

impl Diagnosis {
    /// Without anything to type.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            remedy: None,
        }
    }

    /// With what to type.
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
