//! Numbers of ready endpoints and of all endpoints.

use std::ops::AddAssign;

use causeway::domain::{Ranges, ServiceKey, ServicePort};

use super::candidates::{MOST_SLICES, candidates};
use crate::model::slice::{AddressType, SourceSlice};
use crate::observed::member::Member;
use crate::observed::service::{ServiceKind, ServiceView};
use crate::plan::entry::Entry;
use crate::plan::port_fit::PortFit;

/// Endpoints that a Service leads to, of the address family that has more of them. Endpoints that
/// are terminating and not ready do not count: others replace them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// Number of ready endpoints.
    pub ready: usize,
    /// Number of endpoints.
    pub total: usize,
    /// Number of further endpoints, of ports or address families that the Service does not have.
    pub unfit: usize,
}

/// Ports and address families that a consumer's Service leads to, directly or through an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frontend<'a> {
    /// Exposed ports, under the Service's own names.
    pub ports: &'a [ServicePort],
    /// Whether it leads to IPv4 endpoints.
    pub ipv4: bool,
    /// Whether it leads to IPv6 endpoints.
    pub(crate) ipv6: bool,
    /// Whether it is headless: an entry of another network answers on other ports.
    pub(super) is_headless: bool,
    /// Entry of the provider.
    entry: Option<&'a Entry>,
}

impl<'a> Frontend<'a> {
    /// Returns the frontend of a Service that exposes `ports`. A Service that does not exist yet,
    /// or whose address families are unknown, may lead to both families.
    pub(crate) fn new(ports: &'a [ServicePort], service: Option<&ServiceView>) -> Self {
        let clustered = service.filter(|service| service.shape.kind == ServiceKind::ClusterIp);
        let families = clustered.map_or(&[][..], |service| &service.ip_families);
        let has = |name: &str| families.is_empty() || families.iter().any(|one| **one == *name);
        Self {
            ports,
            ipv4: has("IPv4"),
            ipv6: has("IPv6"),
            is_headless: service.is_some_and(|one| one.shape.kind == ServiceKind::Headless),
            entry: None,
        }
    }

    /// Returns a frontend that leads to the endpoints behind an entry, of any address family.
    pub(super) fn through(self, entry: &'a Entry) -> Self {
        Self {
            ipv4: true,
            ipv6: true,
            entry: Some(entry),
            ..self
        }
    }

    /// Whether it leads to any endpoint of a slice, of the ports of the Services.
    fn leads_to_slice(&self, source: &SourceSlice) -> bool {
        let enters = self.entry.is_none_or(|entry| entry.leads_to(source));
        enters && self.leads_to(source.address_type)
    }

    /// Whether it leads to endpoints on a node of the provider.
    fn leads_to_node(&self, name: Option<&str>) -> bool {
        self.entry.is_none_or(|entry| entry.leads_to_node(name))
    }

    /// Whether it leads to any address of an entry.
    pub(super) fn leads_to_entry(&self, entry: &Entry) -> bool {
        let families = [AddressType::Ipv4, AddressType::Ipv6];
        let mut families = families.into_iter();
        let has_address = families.any(|family| self.leads_to(family) && entry.has_family(family));
        !self.is_headless && has_address
    }

    fn leads_to(&self, address_type: AddressType) -> bool {
        match address_type {
            AddressType::Ipv4 => self.ipv4,
            AddressType::Ipv6 => self.ipv6,
            AddressType::Other | AddressType::Unread => false,
        }
    }
}

impl Readiness {
    /// Returns the same endpoints, none of which the consumer reaches.
    pub(super) fn unreached(self) -> Self {
        Self {
            unfit: self.total + self.unfit,
            ..Self::default()
        }
    }

    /// Counts the endpoints of a provider's slices that `frontend` leads to. Endpoints in none of
    /// its ports and address families count as unfit; addresses that `ranges` refuses do not count.
    /// Endpoints behind a node that is not ready are not ready.
    ///
    /// Returns `None` where copies stay as they are, so that their content is unknown: the provider
    /// has too many slices, or its controllers have not caught up with its Service's ports.
    pub(crate) fn of(
        member: &Member,
        key: &ServiceKey,
        ports: &[ServicePort],
        ranges: &Ranges,
        frontend: &Frontend<'_>,
    ) -> Option<Self> {
        let fit = PortFit {
            provider: ports,
            consumer: frontend.ports,
        };
        if member.sources(key).count() > MOST_SLICES {
            return None;
        }
        let (mut v4, mut v6, mut unfit) = (Self::default(), Self::default(), 0);
        for (_, source) in candidates(member, key) {
            let Ok(source) = source else {
                continue;
            };
            if fit.is_behind(source) {
                return None;
            }
            let counted = Self::of_slice(source, ranges, frontend);
            match source.address_type {
                _ if !frontend.leads_to_slice(source) || !fit.offers(source) => {
                    unfit += counted.total;
                }
                AddressType::Ipv6 => v6 += counted,
                _ => v4 += counted,
            }
        }
        let most = if v6.total > v4.total { v6 } else { v4 };
        Some(Self { unfit, ..most })
    }

    fn of_slice(slice: &SourceSlice, ranges: &Ranges, frontend: &Frontend<'_>) -> Self {
        let mut counted = Self::default();
        for endpoint in slice.endpoints() {
            let [ready, _, terminating] = endpoint.conditions;
            let is_ready = ready.unwrap_or(true);
            let counts = is_ready || terminating != Some(true);
            let mut addresses = endpoint.addresses();
            if counts && addresses.all(|one| ranges.refusal(one).is_none()) {
                counted.total += 1;
                let is_reached = is_ready && frontend.leads_to_node(endpoint.node);
                counted.ready += usize::from(is_reached);
            }
        }
        counted
    }
}

impl AddAssign for Readiness {
    fn add_assign(&mut self, other: Self) {
        self.ready += other.ready;
        self.total += other.total;
        self.unfit += other.unfit;
    }
}
