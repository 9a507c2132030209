//! Selects the slices of a provider that are copied, whatever is exposed of them.

use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::ServiceKey;

use crate::model::map::HashMap;
use crate::model::slice::{AddressType, SliceManager, SlicePort, SourceEndpoint, SourceSlice};
use crate::observed::member::Member;

/// Maximum number of slices of one service and provider that are copied. Slices of Kubernetes hold
/// a hundred endpoints each.
pub(crate) const MOST_SLICES: usize = 1000;
/// Maximum number of endpoints of a slice that is copied.
pub(crate) const MOST_ENDPOINTS: usize = SourceSlice::ENDPOINTS_MAX;

/// Reason why a slice is not copied, whatever a consumer exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Its addresses are hostnames, or of an unknown newer type.
    AddressType,
    /// It cannot be read.
    Unreadable,
    /// It has more endpoints than a slice may have.
    TooManyEndpoints,
    /// Slices that Kubernetes maintains hold all of its endpoints.
    Redundant {
        /// Slice that differs on the readiness of an endpoint, if any does.
        disagreement: Option<Disagreement>,
    },
}

/// Slice that Kubernetes maintains and that differs from a redundant one on the readiness of an
/// endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Disagreement {
    /// Name of the slice that Kubernetes keeps. Its readiness is what consumers get.
    pub kept: Arc<str>,
}

impl Unfit {
    /// Returns the reason why the slice itself cannot be copied.
    fn of(source: &SourceSlice) -> Option<Self> {
        match source.address_type {
            AddressType::Other => Some(Self::AddressType),
            AddressType::Unread => Some(Self::Unreadable),
            AddressType::Ipv4 | AddressType::Ipv6 => {
                (source.len() > MOST_ENDPOINTS).then_some(Self::TooManyEndpoints)
            }
        }
    }
}

/// Slice that is copied; or a slice that is not, with the reason.
type Candidate<'a> = Result<&'a Arc<SourceSlice>, (Unfit, &'a Arc<SourceSlice>)>;

/// Lists the slices of a provider by name. A slice that cannot be copied is never redundant: no
/// other slice holds content that nobody can read.
pub(crate) fn candidates<'a>(
    member: &'a Member,
    key: &ServiceKey,
) -> impl Iterator<Item = (&'a Arc<str>, Candidate<'a>)> {
    let kept = KeptByKubernetes::of(|| member.sources(key));
    member.sources(key).map(move |(name, source)| {
        let why = Unfit::of(source).or_else(|| kept.makes_redundant(source));
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
        for (name, source) in own.filter(|(_, source)| Unfit::of(source).is_none()) {
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
    fn makes_redundant(&self, source: &SourceSlice) -> Option<Unfit> {
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
            Unfit::Redundant { disagreement }
        })
    }
}
