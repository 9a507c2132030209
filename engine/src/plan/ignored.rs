//! Copies that exist and that clients of a consumer do not reach, because the consumer's own
//! Service does not lead to them.
//!
//! kube-proxy leads a Service with internalTrafficPolicy Local to endpoints on the client's own
//! node alone, which those of other clusters never are. It leads each address of a Service to
//! endpoints of that address family alone (Kubernetes, "Service Internal Traffic Policy" and
//! "IPv4/IPv6 dual-stack"). A headless Service has neither restriction: its clients take the
//! endpoints' addresses from DNS.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::ClusterName;

use super::copies::{DesiredCopies, WantedCopy};
use crate::model::slice::Exposure;
use crate::observed::service::{ServiceKind, ServiceView};

/// Reason why clients of a consumer do not reach copies that exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ignored {
    /// The consumer's Service leads to endpoints on the client's own node alone.
    LocalPolicy,
    /// The consumer's Service has none of the address families of these providers' endpoints.
    Families {
        /// Address families of the Service.
        has: Vec<Box<str>>,
        /// Address families of the endpoints.
        offered: BTreeSet<&'static str>,
        /// Providers of the endpoints.
        providers: BTreeSet<ClusterName>,
    },
}

/// Returns the reason why clients of a consumer do not reach the copies there. A cause that
/// concerns no endpoints of other clusters is ignored.
///
/// The exporters decide whether a derived Service is Local, which is therefore no problem.
pub(crate) fn ignored(
    exposure: Exposure,
    consumer: &ClusterName,
    service: &ServiceView,
    copies: &DesiredCopies,
) -> Option<Ignored> {
    if service.shape.kind != ServiceKind::ClusterIp {
        return None;
    }
    let all = copies.wanted.values();
    let mut remote = all.filter(|copy| copy.provider() != consumer);
    let is_local = service.internal_traffic_policy.as_deref() == Some("Local");
    if exposure == Exposure::Native && is_local {
        let is_held_up = remote.any(WantedCopy::has_endpoints);
        return is_held_up.then_some(Ignored::LocalPolicy);
    }
    let has = &service.ip_families;
    let is_known = |family: &str| has.iter().any(|one| **one == *family);
    if has.is_empty() || remote.clone().all(|copy| is_known(copy.family())) {
        return None;
    }
    let mut families: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for copy in remote.filter(|copy| copy.has_endpoints()) {
        let offered = families.entry(copy.provider()).or_default();
        offered.insert(copy.family());
    }
    families.retain(|_, offered| !offered.iter().copied().any(is_known));
    (!families.is_empty()).then(|| Ignored::Families {
        has: has.clone(),
        offered: families.values().flatten().copied().collect(),
        providers: families.into_keys().cloned().collect(),
    })
}

/// Groups the consumers whose clients do not reach existing copies by reason, from the copies of
/// each consumer and its Service.
pub(crate) fn in_consumers<'a>(
    exposure: Exposure,
    copies: impl Iterator<Item = (&'a ClusterName, &'a DesiredCopies)>,
    service: impl Fn(&ClusterName) -> Option<&'a ServiceView>,
) -> BTreeMap<Ignored, Vec<&'a ClusterName>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, copies) in copies {
        let found = service(name).and_then(|service| ignored(exposure, name, service, copies));
        if let Some(found) = found {
            all.entry(found).or_default().push(name);
        }
    }
    all
}

impl Ignored {
    /// Whether endpoints of that provider are among those that clients do not reach.
    pub(crate) fn concerns(&self, provider: &ClusterName) -> bool {
        match self {
            Self::LocalPolicy => true,
            Self::Families { providers, .. } => providers.contains(provider),
        }
    }
}
