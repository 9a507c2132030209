//! Health of services that Karmada's own controllers manage, and of Services that Karmada
//! propagates.

use std::collections::BTreeMap;

use causeway::api::MultiClusterService;
use causeway::api::condition;
use causeway::domain::ServiceKey;
use causeway_engine::reasons::Reason;
use futures::StreamExt as _;
use kube::ResourceExt as _;

use crate::api_server::ApiServer;
use crate::explain::{self, Health};
use crate::karmada::binding::Unapplied;
use crate::observe::once;
use crate::observe::service::Snapshot;

/// Maximum number of services that are evaluated at once. Each evaluation reads every member.
const AT_ONCE: usize = 4;

/// Observations of a service that its own conditions do not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Health of a service that Karmada manages.
    pub health: Option<Health>,
    /// Failed propagation by Karmada. Read for one named service only.
    pub unapplied: Option<Unapplied>,
}

/// Observations by namespace and name.
pub(crate) type Observations = BTreeMap<(String, String), Observed>;

/// Reads the health of the services that Karmada manages. A service that cannot be read has no
/// health, so its conditions remain in effect.
pub(crate) async fn read(
    hub: &ApiServer,
    services: &[MultiClusterService],
    allow_insecure: bool,
) -> Observations {
    let managed = services.iter().filter(|service| is_karmadas(service));
    let known = managed.map(|service| async move {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let key = ServiceKey::new(namespace.as_str(), name.as_str());
        let snapshot = once::read(hub, &key, allow_insecure).await.ok();
        let health = snapshot
            .as_ref()
            .and_then(|snapshot| observed(snapshot).health);
        let known = Observed {
            health,
            unapplied: None,
        };
        ((namespace, name), known)
    });
    futures::stream::iter(known)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// Returns the observations that the objects of a service add to its conditions.
pub(crate) fn observed(snapshot: &Snapshot) -> Observed {
    let managed = snapshot.mcs.as_ref().filter(|mcs| is_karmadas(mcs));
    Observed {
        health: managed.map(|_| explain::health(snapshot, &explain::explained(snapshot))),
        unapplied: snapshot.unapplied.clone(),
    }
}

/// Whether the controller reports that Karmada manages the service. False during deletion.
pub(crate) fn is_karmadas(service: &MultiClusterService) -> bool {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = condition::find(conditions.unwrap_or_default(), condition::READY);
    service.metadata.deletion_timestamp.is_none()
        && ready.is_some_and(|ready| ready.reason == Reason::ManagedByKarmada)
}
