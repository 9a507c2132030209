//! Providers of a service: their slices, ports and readiness, for any consumer.

mod candidates;
mod port_fit;
mod readiness;

use std::cell::RefCell;
use std::sync::Arc;

use causeway::domain::{ClusterName, Ranges, ServiceKey, ServicePort};

pub(crate) use self::candidates::MOST_ENDPOINTS;
pub(super) use self::candidates::candidates;
pub(crate) use self::candidates::{Disagreement, MOST_SLICES, Unfit};
pub(crate) use self::port_fit::MissingPort;
pub(super) use self::port_fit::PortFit;
pub(crate) use self::readiness::Frontend;
pub(crate) use self::readiness::Readiness;
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
    /// Address ranges that are copied.
    pub ranges: Arc<Ranges>,
    /// Readiness that was counted for consumers so far, few of which differ.
    counted: RefCell<Vec<Counted>>,
}

/// Readiness of a provider for consumers whose Services lead to the same ports and families.
#[derive(Clone, Debug)]
struct Counted {
    ports: Box<[ServicePort]>,
    families: [bool; 2],
    readiness: Option<Readiness>,
}

impl<'a> Provider<'a> {
    /// Returns a provider with its observed state.
    pub(crate) fn new(
        name: &'a ClusterName,
        member: Option<&'a Member>,
        ports: Vec<ServicePort>,
        ranges: Arc<Ranges>,
    ) -> Self {
        Self {
            name,
            member,
            ports,
            ranges,
            counted: RefCell::default(),
        }
    }

    /// Returns the readiness of the provider's endpoints that a consumer's Service leads to; `None`
    /// where that is unknown.
    pub(crate) fn readiness(&self, key: &ServiceKey, frontend: &Frontend<'_>) -> Option<Readiness> {
        let member = self.member?;
        let families = [frontend.ipv4, frontend.ipv6];
        let mut counted = self.counted.borrow_mut();
        let is_same = |one: &&Counted| *one.ports == *frontend.ports && one.families == families;
        if let Some(known) = counted.iter().find(is_same) {
            return known.readiness;
        }
        let readiness = Readiness::of(member, key, &self.ports, &self.ranges, frontend);
        counted.push(Counted {
            ports: frontend.ports.into(),
            families,
            readiness,
        });
        readiness
    }
}
