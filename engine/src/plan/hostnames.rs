//! Hostnames of pods that name pods of several clusters in a headless Service.
//!
//! DNS answers `<hostname>.<service>.<namespace>.svc` with the addresses of every endpoint of that
//! hostname. Pods of two StatefulSets of one name share theirs across clusters, so the name leads
//! to either.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey};

use super::desired::Desired;
use crate::model::map::HashMap;
use crate::observed::Index;
use crate::observed::service::ServiceKind;

/// Hostnames that several providers have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    /// The first hostname.
    pub hostname: String,
    /// Two of the clusters with that hostname.
    pub clusters: [ClusterName; 2],
    /// Number of ambiguous hostnames.
    pub count: usize,
}

/// Finds hostnames that several providers have of a service with consumers. Looks at endpoints of
/// headless services with several providers alone, ready or not: a pod that restarts keeps its
/// name. The Services of entry clusters have virtual addresses.
pub(crate) fn ambiguous(index: &Index, key: &ServiceKey, desired: &Desired) -> Option<Ambiguous> {
    desired.placement.consumers().next()?;
    let service = index.hub_service(key)?;
    if service.shape.kind != ServiceKind::Headless || desired.entry_clusters.is_some() {
        return None;
    }
    let mut providers = desired.used_providers();
    let first_two = [providers.next()?, providers.next()?];
    let mut owners: HashMap<&str, &ClusterName> = HashMap::default();
    let mut shared = BTreeMap::new();
    for name in first_two.into_iter().chain(providers) {
        let member = index.member(name).into_iter();
        let sources = member.flat_map(|member| member.sources(key));
        let named = sources.filter(|(_, source)| source.has_hostnames());
        for (_, source) in named {
            for hostname in source.endpoints().filter_map(|endpoint| endpoint.hostname) {
                let owner = *owners.entry(hostname).or_insert(name);
                if owner != name {
                    shared.entry(hostname).or_insert([owner, name]);
                }
            }
        }
    }
    let count = shared.len();
    let (hostname, [first, other]) = shared.pop_first()?;
    Some(Ambiguous {
        hostname: hostname.to_owned(),
        clusters: [first.clone(), other.clone()],
        count,
    })
}
