//! Reasons why clusters of other networks do not reach a provider.

use causeway::domain::PortId;

use crate::evidence::Proof;
use crate::model::Failure;
use crate::observed::member::Member;
use crate::observed::service::ServiceView;
use crate::reasons::Reason;

/// Reason why a provider has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoEntry {
    /// Neither its Cluster nor the service declares a way.
    NotDeclared,
    /// The Service of the consumer is headless: its names resolve to addresses, and the entry
    /// answers on other ports.
    HeadlessConsumer,
    /// The Service allows none.
    Refused(Why, Proof),
    /// It is unknown whether it has one, or which.
    Unknown(EntryUnknown),
}

/// Reason why a Service has no entry of the declared way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is headless: its names resolve to addresses, and the entry answers on other ports.
    Headless,
    /// It is another name for a name in DNS, and has no endpoints.
    ExternalName,
    /// It has no node ports of its own and no selector, so a companion would have no endpoints.
    NoSelector,
    /// Copies belong to it, so its virtual address leads to them, and it has no selector for a
    /// companion.
    AddressOfCopies,
    /// It is not of type LoadBalancer.
    NoLoadBalancer,
    /// Its endpoints are on no node: a person or another controller wrote them without.
    NoNode,
    /// A companion is the entry, and its selector finds none of the endpoints.
    NotSelected,
    /// No node has an address of the kind and of a family of the Service.
    NoAddress,
    /// Copies belong to it, and its load balancer leads to them.
    HoldsCopies,
    /// Its load balancer reports an error of each port.
    PortsRefused,
    /// It is terminating, and its load balancer is being removed.
    Terminating,
}

/// What is missing to know an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryUnknown {
    /// The way: the annotation that declares it has this text.
    Way {
        /// Text of the annotation.
        text: Box<str>,
        /// Whether the service, or its Namespace, bears the annotation; otherwise its Cluster does.
        of_service: bool,
    },
    /// The Service, of which there are slices.
    Service,
    /// The companion of the Service.
    Companion,
    /// The nodes; with the failure of their watch, if it fails.
    Nodes(Option<Failure>),
    /// The node of this name, on which ready endpoints are.
    Node(Box<str>),
    /// The port of the nodes that leads to this port.
    NodePort(PortId),
    /// The slices with the ports of the Service, which has changed them.
    Ports,
    /// The addresses of the load balancer.
    LoadBalancer,
    /// The addresses of this hostname, which the load balancer has.
    Hostname(Box<str>),
}

impl NoEntry {
    /// Returns the reason, as `explain`, conditions and metrics name it.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::NotDeclared => Reason::NoReach,
            Self::HeadlessConsumer | Self::Refused(..) => Reason::EntryRefused,
            Self::Unknown(_) => Reason::EntryPending,
        }
    }

    /// Returns a refusal that an observed Service proves.
    pub(super) fn of_service(service: &ServiceView, why: Why) -> Self {
        Self::Refused(why, Proof::of_presence(service))
    }
}

impl EntryUnknown {
    /// Returns the reason why the nodes of a member are unknown.
    pub(super) fn nodes(member: &Member) -> Self {
        Self::Nodes(member.nodes_failure().cloned())
    }
}

impl From<EntryUnknown> for NoEntry {
    fn from(unknown: EntryUnknown) -> Self {
        Self::Unknown(unknown)
    }
}
