//! Providers of a service: their slices, ports and readiness, for any consumer.

mod candidates;
mod readiness;

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use causeway::domain::{ClusterName, Network, Ranges, ServiceKey, ServicePort};

pub(crate) use self::candidates::{Disagreement, MOST_ENDPOINTS, MOST_SLICES, Unfit, candidates};
pub(crate) use self::readiness::Frontend;
pub(crate) use self::readiness::Readiness;
use super::entry::{Entry, NoEntry, Site};
use crate::model::TimePoint;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::member::Member;

/// Provider, as far as copies of its slices are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Provider<'a> {
    /// Name of the cluster.
    pub name: &'a ClusterName,
    /// Observed state of the provider; `None` while its endpoints are unknown.
    pub member: Option<&'a Member>,
    /// Ports of its Service.
    pub ports: Vec<ServicePort>,
    /// Ranges of the addresses of pods that are copied.
    pub ranges: Arc<Ranges>,
    /// Network of its pods.
    pub network: Network,
    /// Time of the plan.
    now: TimePoint,
    /// Entry for consumers of other networks, made for the first of them.
    entry: OnceCell<Result<Arc<Entry>, NoEntry>>,
    /// Readiness that was counted for consumers so far, few of which differ.
    counted: RefCell<Vec<Counted>>,
}

/// Readiness of a provider for consumers whose Services lead to the same ports and families.
#[derive(Clone, Debug)]
struct Counted {
    ports: Box<[ServicePort]>,
    families: [bool; 2],
    by_entry: bool,
    is_headless: bool,
    readiness: Option<Readiness>,
}

impl<'a> Provider<'a> {
    /// Returns a provider with its observed state.
    pub(crate) fn new(
        index: &Index,
        name: &'a ClusterName,
        member: Option<&'a Member>,
        ports: Vec<ServicePort>,
        now: TimePoint,
    ) -> Self {
        Self {
            now,
            name,
            member,
            ports,
            ranges: index.ranges(name),
            network: index.network(name),
            entry: OnceCell::new(),
            counted: RefCell::default(),
        }
    }

    /// Returns the entry by which a consumer of that network reaches the provider; `None` where it
    /// reaches the pods.
    pub(crate) fn entry(
        &self,
        (index, key): (&Index, &ServiceKey),
        exposure: Exposure,
        network: &Network,
    ) -> Option<&Result<Arc<Entry>, NoEntry>> {
        let member = self.member.filter(|_| *network != self.network)?;
        Some(self.entry.get_or_init(|| {
            let site = Site::of(index, key, exposure, (self.name, member));
            let entry = Entry::of(&site, self.now)?;
            let entry = entry.without_new_nodes((index, key), self.name, self.now);
            Ok(Arc::new(entry))
        }))
    }

    /// Whether the provider is known to have no endpoint.
    pub(crate) fn is_idle(&self, (index, key): (&Index, &ServiceKey), exposure: Exposure) -> bool {
        self.member.is_some_and(|member| {
            Site::of(index, key, exposure, (self.name, member)).lacks_endpoints()
        })
    }

    /// Returns the readiness of the provider's endpoints that a consumer's Service leads to; `None`
    /// where that is unknown. Behind an entry, the pods count, whatever their address family.
    pub(crate) fn readiness(
        &self,
        key: &ServiceKey,
        frontend: &Frontend<'_>,
        entry: Option<&Result<Arc<Entry>, NoEntry>>,
    ) -> Option<Readiness> {
        let member = self.member?;
        let families = [frontend.ipv4, frontend.ipv6];
        let (by_entry, is_headless) = (entry.is_some(), frontend.is_headless);
        let mut counted = self.counted.borrow_mut();
        let is_same = |one: &&Counted| {
            *one.ports == *frontend.ports
                && one.families == families
                && (one.by_entry, one.is_headless) == (by_entry, is_headless)
        };
        if let Some(known) = counted.iter().find(is_same) {
            return known.readiness;
        }
        let readiness = match entry {
            None => Readiness::of(member, key, &self.ports, &self.ranges, frontend),
            Some(Err(NoEntry::Unknown(_))) => None,
            Some(entry) => {
                let count = |frontend: &Frontend<'_>| {
                    Readiness::of(member, key, &self.ports, &Ranges::default(), frontend)
                };
                match entry {
                    Ok(entry) if frontend.leads_to_entry(entry) => count(&frontend.through(entry)),
                    _ => count(frontend).map(Readiness::unreached),
                }
            }
        };
        counted.push(Counted {
            ports: frontend.ports.into(),
            families,
            by_entry,
            is_headless,
            readiness,
        });
        readiness
    }
}
