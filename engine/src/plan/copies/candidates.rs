//! Selects the slices of a provider that are copied, whatever is exposed of them.

use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::ServiceKey;

use super::skipped::{Disagreement, Skipped};
use crate::model::map::HashMap;
use crate::model::slice::{SliceManager, SlicePort, SourceEndpoint, SourceSlice};
use crate::observed::member::Member;

/// Slice that is copied; or a slice that is not, with the reason.
type Candidate<'a> = Result<&'a Arc<SourceSlice>, (Skipped, &'a Arc<SourceSlice>)>;

/// Lists the slices of a provider by name. A slice that cannot be copied is never redundant: no
/// other slice holds content that nobody can read.
pub(in crate::plan) fn candidates<'a>(
    member: &'a Member,
    key: &ServiceKey,
) -> impl Iterator<Item = (&'a Arc<str>, Candidate<'a>)> {
    let kept = KeptByKubernetes::of(|| member.sources(key));
    member.sources(key).map(move |(name, source)| {
        let why = Skipped::of(source).or_else(|| kept.passes_over(source));
        (name, why.map_or(Ok(source), |why| Err((why, source))))
    })
}

/// Name of the slice that holds an address, and whether the address is ready there.
type Held<'a> = HashMap<IpAddr, (&'a Arc<str>, bool)>;

/// Endpoints of the slices that Kubernetes maintains for a service, by the ports of the slices.
/// Empty without slices of other writers. A slice of another writer that holds no other endpoints
/// (somebody wrote both Endpoints and a slice) is not copied beside them.
#[derive(Default)]
struct KeptByKubernetes<'a>(HashMap<&'a [SlicePort], Held<'a>>);

impl<'a> KeptByKubernetes<'a> {
    fn of<I>(sources: impl Fn() -> I) -> Self
    where
        I: Iterator<Item = (&'a Arc<str>, &'a Arc<SourceSlice>)>,
    {
        let mut kept = Self::default();
        if !sources().any(|(_, source)| source.manager == SliceManager::Other) {
            return kept;
        }
        let own = sources().filter(|(_, source)| source.manager != SliceManager::Other);
        for (name, source) in own.filter(|(_, source)| Skipped::of(source).is_none()) {
            let held = kept.0.entry(&source.ports).or_default();
            for endpoint in source.endpoints() {
                let ready = endpoint.is_ready();
                for address in endpoint.addresses() {
                    let known = held.entry(address).or_insert((name, ready));
                    if ready && !known.1 {
                        *known = (name, ready);
                    }
                }
            }
        }
        kept
    }

    /// Returns the reason why a slice of another writer is not copied: slices of Kubernetes with
    /// the same ports have each of its endpoints. Kubernetes decides whether these are ready.
    fn passes_over(&self, source: &SourceSlice) -> Option<Skipped> {
        if source.manager != SliceManager::Other {
            return None;
        }
        let held = self.0.get(&*source.ports)?;
        let is_held =
            |endpoint: SourceEndpoint<'_>| endpoint.addresses().all(|one| held.contains_key(&one));
        source.endpoints().all(is_held).then(|| {
            let disagreement = source.endpoints().find_map(|endpoint| {
                let (name, ready) = held.get(&endpoint.address)?;
                (*ready != endpoint.is_ready()).then(|| Disagreement {
                    kept: Arc::clone(name),
                })
            });
            Skipped::Redundant(disagreement)
        })
    }
}
