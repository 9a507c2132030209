//! Health of services that Karmada's own controllers manage, and of Services that Karmada
//! propagates.

use std::collections::BTreeMap;

use causeway::api::MultiClusterService;
use causeway::api::condition;
use causeway::domain::ServiceKey;
use causeway_engine::reasons::Reason;

use crate::cluster::conditions::Conditions as _;
use crate::cluster::karmada::binding::Unapplied;
use crate::observe::service::Snapshot;
use crate::views::explain::{self, Health};

/// Observations of a service that its own conditions do not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Health of a service that Karmada manages.
    pub health: Option<Health>,
    /// Reason that the health is unknown: the service or members could not be read.
    pub unknown: Option<String>,
    /// Failed propagation by Karmada. Read for one named service only.
    pub unapplied: Option<Unapplied>,
}

/// Observations by service.
pub(crate) type Observations = BTreeMap<ServiceKey, Observed>;

/// Returns the observations that the objects of a service add to its conditions.
pub(crate) fn observed(snapshot: &Snapshot) -> Observed {
    let managed = snapshot.mcs.as_ref().filter(|mcs| is_karmadas(mcs));
    let explanation = managed.map(|_| explain::explained(snapshot));
    let unread = explanation.as_ref();
    let unread = unread.filter(|explanation| explanation.is_wrong_only_where_unread());
    Observed {
        unknown: unread.map(|explanation| explanation.unhealthy().join("; ")),
        health: explanation.map(|explanation| explain::health(snapshot, &explanation)),
        unapplied: snapshot.unapplied.clone(),
    }
}

/// Whether the controller reports that Karmada manages the service. False during deletion.
pub(crate) fn is_karmadas(service: &MultiClusterService) -> bool {
    let ready = service.condition(condition::READY);
    service.metadata.deletion_timestamp.is_none()
        && ready.is_some_and(|ready| ready.reason == Reason::ManagedByKarmada)
}
