//! Vocabulary of reasons: the words that conditions, Events, metrics, `kubectl mcs` and the page
//! publish.
//!
//! The name of a variant is the published word. Karmada and KEP-1645 define some of the words of
//! conditions, so a few facts have two: one in a condition, and one in `kubectl mcs explain`.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// Declares [`Reason`] from a table of words, each `healthy` or a `problem`.
macro_rules! reasons {
    (@is_healthy healthy) => { true };
    (@is_healthy problem) => { false };
    ($($(#[$doc:meta])* $name:ident: $health:ident,)*) => {
        /// Reason for the state of an endpoint, a cluster, a service or an object.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the published word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Whether the state is as it should be, or nothing needs a fix.
            pub const fn is_healthy(self) -> bool {
                match self {
                    $(Self::$name => reasons!(@is_healthy $health),)*
                }
            }
        }
    };
}

reasons! {
    /// The consumer has the endpoint.
    Copied: healthy,
    /// The consumer, of another network, reaches the endpoint by an entry of the provider.
    EntryCopied: healthy,
    /// The consumer runs the endpoint itself.
    Own: healthy,
    /// The consumer has the endpoint, which gets no traffic because it is not ready.
    NotReady: healthy,
    /// The consumer has the endpoint as a standby endpoint: nearer ones are ready, or its provider
    /// cannot be reached.
    Standby: healthy,
    /// The consumer uses the endpoint because nearer tiers have too few ready endpoints.
    Promoted: healthy,
    /// No tier of the consumer includes the provider.
    NotPreferred: healthy,
    /// No provider is in any tier of the consumer.
    NoPreferredProvider: problem,
    /// The consumer retains the last endpoints of the provider.
    Kept: healthy,
    /// The consumer has the endpoint, in Karmada's own slice.
    CopiedByKarmada: healthy,
    /// Karmada's own controllers manage the service; causeway creates nothing beside them.
    ManagedByKarmada: healthy,
    /// Another controller manages ServiceExports and ServiceImports of the cluster.
    ManagedByOther: problem,
    /// Karmada's own controllers manage the service, and have not brought the endpoint to the
    /// consumer.
    NotDispatchedByKarmada: problem,
    /// Nobody updates the slices that Karmada's controllers left.
    LeftByKarmada: problem,
    /// Karmada's own controllers import the exported service.
    ImportedByKarmada: problem,
    /// A consumer offers an endpoint that its provider no longer has.
    StaleEndpoints: problem,
    /// Karmada propagates the Service, and not everywhere.
    NotPropagated: healthy,
    /// The hub has no MultiClusterService of the name, and no member exports it.
    NotExposed: problem,
    /// Nothing exposes the service any more, and objects of it are left.
    Leftovers: problem,
    /// Somebody made a ServiceImport of a service that no known member exports.
    ImportWithoutExport: problem,
    /// The MultiClusterService is being deleted.
    Deleting: problem,
    /// The object cannot be read.
    Invalid: problem,
    /// The namespace or the service is protected.
    NamespaceProtected: problem,
    /// The hub has no Service of the name. The condition's word is `ServiceNotFound`.
    NoHubService: problem,
    /// A Service of that type has no endpoints. The condition's word is `InvalidServiceType`.
    ExternalName: problem,
    /// The MultiClusterService is of type LoadBalancer, which brings no endpoint to another
    /// cluster.
    LoadBalancer: healthy,
    /// The addresses of the entry cluster are in the status.
    EntryCluster: healthy,
    /// It is unknown whether the entry cluster serves: the status retains the addresses that it
    /// has.
    EntryHeld: healthy,
    /// The entry cluster has no usable endpoint, so its addresses are not in the status.
    EntryNotServing: problem,
    /// The entry cluster is drained, removed or out of reach, so its addresses are not in the
    /// status.
    EntryUnused: problem,
    /// No load balancer has given the Service of the entry cluster an address.
    NoEntryAddress: problem,
    /// The Service of the entry cluster was made by somebody else, and is of another type.
    EntryNotLoadBalancer: problem,
    /// The hub's Service lacks a port of `spec.ports`.
    PortNotFound: problem,
    /// `spec.ports` leaves the port out.
    PortNotExposed: healthy,
    /// No provider has a ready endpoint.
    NoEndpoints: problem,
    /// Nobody holds the controller's Lease.
    ControllerNotRunning: problem,
    /// The controller has not processed the last change.
    NotObserved: healthy,
    /// No Cluster of the hub has the name, or its Cluster is being removed.
    NotJoined: problem,
    /// The member takes no part: its Kubernetes is too old.
    LeftOut: problem,
    /// The member takes no part: it is in Pull mode, and its Cluster names no Secret.
    PullWithoutCredentials: problem,
    /// The member is being removed.
    MemberTerminating: problem,
    /// The cluster is joined twice.
    DuplicateMember: problem,
    /// Nothing that the member provides is used.
    Drained: problem,
    /// The member has been unreachable for longer than `--provider-ttl`.
    ProviderTtlExpired: problem,
    /// The controller cannot reach the member. The condition's word is `Unreachable`.
    MemberUnreachable: problem,
    /// The member cannot be used until a person acts. The condition's word is `Refused`.
    MemberRefused: problem,
    /// The controller has not synced the member yet. The condition's word is `Syncing`.
    MemberPending: problem,
    /// The caller could not read the member.
    MemberNotRead: problem,
    /// The caller could not read the Namespace of the MultiClusterService on the hub.
    NamespaceNotRead: problem,
    /// The caller could not read the ServiceImports of the hub.
    ImportNotRead: problem,
    /// The member's last lists lack objects, which causeway keeps until a second list lacks them.
    DeletionsSuspended: healthy,
    /// The member does not serve the Multi-Cluster Services API. The condition's word is
    /// `NotServed`.
    DefinitionMissing: problem,
    /// The member lacks the namespace.
    NamespaceMissing: problem,
    /// The namespace is being deleted.
    NamespaceTerminating: problem,
    /// A cluster without the namespace imports nothing.
    NotImported: healthy,
    /// The exports do not name the cluster among their consumers.
    NotConsumer: healthy,
    /// A cluster has endpoints of its own, and nothing exposes them.
    NotNamed: healthy,
    /// The hub does not permit the cluster to export from the namespace.
    ExportRefused: problem,
    /// The cluster exports more than one member may; older exports are served.
    QuotaExceeded: problem,
    /// The exports differ; the oldest decides. The condition's words name the field:
    /// `PortConflict`, `TypeConflict`, ...
    ExportsDisagree: healthy,
    /// The provider has no such Service. The condition's word is `NoService`.
    NoProviderService: problem,
    /// The consumer has no such Service yet.
    ServiceMissing: problem,
    /// A Service that somebody else made does not fit.
    ForeignService: problem,
    /// Another Service has the name of the derived Service, which receives the endpoints.
    ServiceConflict: problem,
    /// A ServiceImport that somebody made does not have the addresses of the service.
    NameNotResolved: problem,
    /// The consumer's Service leads its clients to pods of their own node alone.
    InternalTrafficPolicyLocal: problem,
    /// The consumer's Service has none of the address families of a provider's endpoints.
    AddressFamilyMismatch: problem,
    /// The provider's Service lacks the port.
    PortNotInProvider: problem,
    /// The consumer's Service lacks the port.
    PortNotInConsumer: problem,
    /// The provider's EndpointSlice lacks the port.
    PortNotInSlice: problem,
    /// The slice holds neither IPv4 nor IPv6 addresses.
    AddressTypeNotSupported: problem,
    /// The address does not lead to another node.
    AddressNotRoutable: problem,
    /// The provider may not provide the address.
    AddressOutsideRanges: problem,
    /// The consumer is of another network, and nothing says how to reach the provider.
    NoReach: problem,
    /// The Service allows no entry of the way by which its cluster is reached.
    EntryRefused: problem,
    /// The entry by which other networks reach the provider is not known yet.
    EntryPending: problem,
    /// The endpoint has no address of its slice's type, or the slice cannot be read.
    SliceInvalid: problem,
    /// A hostname of a headless service leads to pods of several clusters.
    AmbiguousHostname: healthy,
    /// DNS publishes the service's name, with the addresses of the clusters that can serve.
    NamePublished: healthy,
    /// DNS publishes the last addresses of the service's name, because no cluster can serve.
    NameHeld: problem,
    /// A cluster has no value by which DNS could route clients of the service's name to it.
    NoRoutingValue: problem,
    /// The service's name is not handed to ExternalDNS.
    NameNotPublished: problem,
    /// It is unknown whether ExternalDNS has the service's name: DNSEndpoints were not read.
    NameNotRead: problem,
    /// Two EndpointSlices of a provider differ on the readiness of an endpoint.
    WritersDisagree: problem,
    /// The slice has more endpoints than an EndpointSlice may have.
    TooManyEndpoints: problem,
    /// The provider has more slices of the service than are copied.
    TooManySlices: problem,
    /// Something else has the name of the copy.
    NameTaken: problem,
    /// Another writer reverts an object as often as causeway writes it, which pauses the writes.
    WriteConflict: problem,
    /// The write is under way.
    Progressing: problem,
    /// ServiceApplied is True.
    ServiceAppliedSucceed: healthy,
    /// ServiceApplied is False.
    ServiceAppliedFailed: problem,
    /// The hub has no Service of the name. `explain` publishes `NoHubService`.
    ServiceNotFound: problem,
    /// EndpointSliceDispatched is True.
    EndpointSliceDispatchedSucceed: healthy,
    /// EndpointSliceDispatched is False.
    EndpointSliceDispatchedFailed: problem,
    /// EndpointSliceApplied is True.
    EndpointSliceAppliedSuccess: healthy,
    /// EndpointSliceApplied is False.
    EndpointSliceAppliedFailed: problem,
    /// No provider's endpoints are used: all are drained, expired or left out.
    NoProviders: problem,
    /// Ready of a MultiClusterService or ServiceImport is True.
    Ready: healthy,
    /// Ready of a Cluster is True: all its watches have listed and are connected.
    Synced: healthy,
    /// The member's initial lists are not complete. `explain` publishes `MemberPending`.
    Syncing: problem,
    /// The member does not answer. `explain` publishes `MemberUnreachable`.
    Unreachable: problem,
    /// The member cannot be used until a person acts. `explain` publishes `MemberRefused`.
    Refused: problem,
    /// The member's Cluster or Secret is invalid; the last valid connection stays in use.
    InvalidConfiguration: problem,
    /// ClustersetAPI is True.
    Served: healthy,
    /// The member serves no ServiceExport or no ServiceImport. `explain` publishes
    /// `DefinitionMissing`.
    NotServed: problem,
    /// DeletionsSuspended is False.
    NoDeletionsSuspended: healthy,
    /// Valid of a ServiceExport is True.
    Valid: healthy,
    /// The exporter has no Service of the export's name. `explain` publishes `NoProviderService`.
    NoService: problem,
    /// The exported Service is an ExternalName. `explain` publishes `ExternalName`.
    InvalidServiceType: problem,
    /// A selector of the ServiceExport's `spec.clusterSelectors` breaks a rule.
    InvalidClusterSelector: problem,
    /// Ready of a ServiceExport is True.
    Exported: healthy,
    /// The Precedence condition holds the time at which the hub first observed the ServiceExport.
    FirstSeen: healthy,
    /// The controller has not processed the object yet.
    Pending: problem,
    /// The service cannot be exported, or not imported everywhere.
    Failed: problem,
    /// The importer has none of the service's address families.
    IPFamilyNotSupported: problem,
    /// Conflict of a ServiceExport is False.
    NoConflicts: healthy,
    /// The exports have different ports.
    PortConflict: healthy,
    /// Some of the exports are headless.
    TypeConflict: healthy,
    /// The exports have different session affinities.
    SessionAffinityConflict: healthy,
    /// The exports have different timeouts of session affinity.
    SessionAffinityConfigConflict: healthy,
    /// The exports have different internal traffic policies.
    InternalTrafficPolicyConflict: healthy,
    /// The exports have different traffic distributions.
    TrafficDistributionConflict: healthy,
    /// The exports have different address families.
    IPFamilyConflict: healthy,
    /// The exports have different exported labels.
    LabelsConflict: healthy,
    /// The exports have different exported annotations.
    AnnotationsConflict: healthy,
    /// The exports have different selectors of clusters.
    ClusterSelectorsConflict: healthy,
    /// The exports have different preferences.
    PreferConflict: healthy,
    /// The exports have different policies for unreachable providers.
    UnreachableConflict: healthy,
    /// The exports have different shares.
    ShareConflict: healthy,
    /// The exports name different consumers.
    ConsumersConflict: healthy,
    /// An Event: the endpoints of a tier, or of an unreachable provider, are standby endpoints.
    Demoted: healthy,
    /// An Event: a policy of Karmada would propagate a Service that causeway delivered.
    PolicyConflict: problem,
    /// An Event: a ServiceExport is on a hub that is not one of its own members.
    NotAMember: problem,
    /// An Event: a Service became headless, or ceased to be, and was created again.
    ServiceRecreated: healthy,
    /// An Event: another writer took over a Service that causeway had made.
    ServiceTakenOver: healthy,
    /// An Event: no Cluster is made of a ClusterProfile.
    ProfileNotUsed: problem,
    /// An Event: a member holds objects of a removed Cluster or MultiClusterService.
    LeftoversRemain: problem,
}

impl Reason {
    /// Returns the reason of a published word; `None` if another program wrote the word.
    pub fn of(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == word)
    }

    /// Whether the reason only reports that the endpoint is where it should be.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Copied | Self::CopiedByKarmada | Self::Own)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}

impl From<Reason> for Cow<'static, str> {
    fn from(reason: Reason) -> Self {
        reason.as_str().into()
    }
}

impl PartialEq<Reason> for String {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.as_str()
    }
}
