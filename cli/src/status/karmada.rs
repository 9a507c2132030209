//! Services that Karmada's own controllers manage, evaluated from what the members hold, and Services that they propagate.

use std::collections::BTreeMap;

use causeway::api::MultiClusterService;
use causeway::api::condition;
use causeway::domain::ServiceKey;
use causeway_engine::reasons::Reason;
use futures::StreamExt as _;
use kube::ResourceExt as _;

use crate::api_server::ApiServer;
use crate::explain::{self, Health};
use crate::karmada::binding::{self, Unapplied};

/// How many services are evaluated at once: each reads every member.
const AT_ONCE: usize = 4;

/// What is known of a service beside what its conditions say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Where Karmada manages it.
    pub health: Option<Health>,
    /// Where one service is requested.
    pub unapplied: Option<Unapplied>,
}

/// By namespace and name.
pub(crate) type Observations = BTreeMap<(String, String), Observed>;

/// Reads what is known beside; what cannot be read is left to the conditions.
pub(crate) async fn read(
    hub: &ApiServer,
    services: &[MultiClusterService],
    one: bool,
    allow_insecure: bool,
) -> Observations {
    let requested = services
        .iter()
        .filter(|service| one || is_karmadas(service));
    let known = requested.map(|service| async move {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let key = ServiceKey::new(namespace.as_str(), name.as_str());
        let mut known = Observed::default();
        if is_karmadas(service) {
            known.health = explain::read_health(hub, &key, allow_insecure).await.ok();
        }
        if one {
            known.unapplied = binding::unapplied(hub, &key).await.unwrap_or_default();
        }
        ((namespace, name), known)
    });
    futures::stream::iter(known)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// Whether the controller says that Karmada manages it.
pub(crate) fn is_karmadas(service: &MultiClusterService) -> bool {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = condition::find(conditions.unwrap_or_default(), condition::READY);
    service.metadata.deletion_timestamp.is_none()
        && ready.is_some_and(|ready| ready.reason == Reason::ManagedByKarmada)
}
