//! Services that Karmada's own controllers carry, judged by what the members hold, and Services that they propagate.

use std::collections::BTreeMap;

use causeway::api::MultiClusterService;
use causeway::api::condition::{self, reason};
use causeway::domain::ServiceKey;
use futures::StreamExt as _;
use kube::ResourceExt as _;

use crate::ask::ApiServer;
use crate::explain::{self, Health};
use crate::karmada::binding::{self, Unapplied};

/// How many services are judged at once: each reads every member.
const AT_ONCE: usize = 4;

/// What is known of a service beside what its conditions say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Where Karmada carries it.
    pub health: Option<Health>,
    /// Where one service is asked about.
    pub unapplied: Option<Unapplied>,
}

/// By namespace and name.
pub(crate) type Knowledge = BTreeMap<(String, String), Known>;

/// Reads what is known beside; what cannot be read is left to the conditions.
pub(crate) async fn read(
    hub: &ApiServer,
    services: &[MultiClusterService],
    one: bool,
    allow_insecure: bool,
) -> Knowledge {
    let asked = services.iter().filter(|service| one || is_carried(service));
    let known = asked.map(|service| async move {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let key = ServiceKey::new(namespace.as_str(), name.as_str());
        let mut known = Known::default();
        if is_carried(service) {
            known.health = explain::health(hub, &key, allow_insecure).await.ok();
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

/// Whether the controller says that Karmada carries it.
fn is_carried(service: &MultiClusterService) -> bool {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = condition::find(conditions.unwrap_or_default(), condition::READY);
    service.metadata.deletion_timestamp.is_none()
        && ready.is_some_and(|ready| ready.reason == reason::MANAGED_BY_KARMADA)
}
