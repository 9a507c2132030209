//! Problems of services, as facts. The messages module has the sentences.

use std::sync::Arc;

use causeway::domain::protected::Protected;
use causeway::domain::{ClusterName, ExposedPort, FieldErrors, ServiceKey, ServicePort};

use crate::model::{Failure, MemberState, ObjectId, TimePoint};
use crate::reasons::Reason;

/// Problem on the hub's side, which ServiceApplied reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The hub has no Service of the name.
    ServiceNotFound {
        /// Time until which the members retain what they hold, if they do.
        held_until: Option<TimePoint>,
    },
    /// The Service lacks ports that are to be exposed.
    PortNotFound {
        /// Entries of the MultiClusterService for which it has no port.
        missing: Vec<ExposedPort>,
        /// Ports that it has.
        has: Vec<ServicePort>,
        /// Time until which the first of the former ports stays exposed, if any does.
        held_until: Option<TimePoint>,
    },
    /// The Service is an ExternalName.
    ExternalName,
    /// The namespace or the service is protected.
    Protected(Protected),
    /// The MultiClusterService cannot be read.
    Invalid(FieldErrors),
}

impl Problem {
    /// Returns the reason of ServiceApplied.
    pub fn reason(&self) -> Reason {
        match self {
            Self::ServiceNotFound { .. } => Reason::ServiceNotFound,
            Self::PortNotFound { .. } => Reason::PortNotFound,
            Self::ExternalName | Self::Protected(_) | Self::Invalid(_) => {
                Reason::ServiceAppliedFailed
            }
        }
    }
}

/// Reason why a member's Service cannot serve as requested.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceProblem {
    /// The Service stands for an imported service.
    StandsFor {
        /// The Service.
        service: ServiceKey,
        /// The imported service.
        of: String,
    },
    /// Another Service has the name under which a service is imported.
    NameTaken {
        /// The Service.
        service: ServiceKey,
        /// The imported service.
        imported: ServiceKey,
        /// Whether it is delivered for the MultiClusterService of its name.
        delivered: bool,
    },
    /// A Service of another writer is an ExternalName.
    ExternalName(ServiceKey),
    /// A Service of another writer lacks exposed ports.
    MissingPorts {
        /// Service of the member.
        service: ServiceKey,
        /// Exposed ports that it lacks.
        missing: Vec<ServicePort>,
        /// Ports that it has.
        has: Vec<ServicePort>,
    },
}

/// Object or endpoints that a consumer lacks of a service that Karmada manages. Karmada's
/// controllers lag for a moment, which is not reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// The consumer has no Service.
    Service {
        /// Name of the consumer.
        consumer: ClusterName,
    },
    /// The Service does not fit.
    Fit {
        /// Name of the consumer.
        consumer: ClusterName,
        /// Problem of the Service.
        problem: ServiceProblem,
    },
    /// Ready endpoints of a slice are in no slice of the consumer.
    Endpoints {
        /// Name of the consumer.
        consumer: ClusterName,
        /// Name of the provider.
        provider: ClusterName,
        /// Name of the slice in the provider.
        slice: Arc<str>,
    },
    /// Karmada's slice does not show the ready endpoints that its source has.
    Behind {
        /// Name of the consumer.
        consumer: ClusterName,
        /// Name of Karmada's slice in the consumer.
        slice: Arc<str>,
    },
}

/// Problem of the writes to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteProblem {
    /// The namespace is being deleted in the member.
    NamespaceTerminating(Arc<str>),
    /// The namespace does not exist in the member and cannot be created.
    NamespaceNotCreated {
        /// Name of the namespace.
        namespace: Arc<str>,
        /// Failure of the write.
        failure: Failure,
    },
    /// The Service, ServiceExport or ServiceImport cannot be written.
    ObjectNotWritten {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: Box<str>,
        /// Failure of the write.
        failure: Failure,
    },
    /// Copies cannot be written.
    SlicesNotWritten {
        /// Number of the copies.
        count: usize,
        /// Failure of one of the writes.
        failure: Failure,
    },
    /// Another hub has written that many EndpointSlices of the same names.
    SlicesOfAnotherHub(usize),
    /// An EndpointSlice of another writer has the name of a copy.
    ForeignSlice {
        /// Namespace of the slice.
        namespace: Arc<str>,
        /// Name of the slice.
        name: Arc<str>,
        /// Number of further such slices.
        more: usize,
    },
    /// Another writer changes an object back.
    Conflict(ObjectConflict),
}

/// Object that another writer changes back as often as causeway writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectConflict {
    /// The object.
    pub object: ObjectId,
    /// Field manager of the other writer, if it is known.
    pub manager: Option<String>,
}

/// Progress of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is outstanding.
    Done,
    /// Work is outstanding.
    InProgress,
    /// The work cannot be completed.
    Failed(MemberProblem),
}

/// Problem of a member that a condition reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberProblem {
    /// The member cannot be written to.
    Unusable(MemberState),
    /// Its Service cannot serve as requested.
    Service(ServiceProblem),
    /// A write fails, or another object is in the way.
    Write(WriteProblem),
    /// It has no such Service.
    NoService(ServiceKey),
    /// Its Service is being deleted.
    ServiceDeleting(ServiceKey),
    /// It has no EndpointSlice of the Service.
    NoSlice(ServiceKey),
    /// That many copies were written, and no watch has shown them.
    NotSeen(usize),
    /// Its ServiceExports and ServiceImports cannot be listed.
    ClustersetHidden(Failure),
}

/// States of the clusters of one role: their number, the failing ones, and whether any is in
/// progress.
pub(crate) struct Tally<'a> {
    pub(crate) noun: &'static str,
    pub(crate) total: usize,
    pub(crate) problems: Vec<(&'a ClusterName, MemberProblem)>,
    pub(crate) under_way: bool,
}

/// Sums up the states of the clusters of one role.
pub(crate) fn tally<'a>(noun: &'static str, states: Vec<(&'a ClusterName, State)>) -> Tally<'a> {
    let mut tally = Tally {
        noun,
        total: states.len(),
        problems: Vec::new(),
        under_way: false,
    };
    for (name, state) in states {
        match state {
            State::Failed(why) => tally.problems.push((name, why)),
            State::InProgress => tally.under_way = true,
            State::Done => {}
        }
    }
    tally
}

/// Reason why the id that a member reports is not its name in the clusterset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdProblem<'a> {
    /// Text that is no DNS label.
    Invalid(&'a str),
    /// Id that is the name or the id of another cluster, and that cluster.
    Taken(&'a str, &'a ClusterName),
}
