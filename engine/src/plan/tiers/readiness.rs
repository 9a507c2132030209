//! How many endpoints are ready, of how many.

use std::ops::AddAssign;

use causeway::domain::{Ranges, ServiceKey};

use crate::index::member::Member;
use crate::model::slice::{AddressType, SourceSlice};

/// Endpoints of one address family, that of which there are more. Those that are terminating do not count: others come for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// How many are ready.
    pub ready: usize,
    /// How many there are.
    pub total: usize,
}

impl Readiness {
    /// That of a member's own slices.
    pub fn of_sources(member: &Member, key: &ServiceKey) -> Self {
        let sources = member.sources(key).map(|(_, source)| &**source);
        Self::of(sources, &Ranges::default())
    }

    /// That of slices, but for endpoints that are not copied because of their addresses.
    pub fn of<'a>(slices: impl Iterator<Item = &'a SourceSlice>, ranges: &Ranges) -> Self {
        let (mut v4, mut v6) = (Self::default(), Self::default());
        for slice in slices {
            let of_family = match slice.address_type {
                AddressType::Ipv6 => &mut v6,
                _ => &mut v4,
            };
            for endpoint in slice.endpoints() {
                let [ready, _, terminating] = endpoint.conditions;
                let is_ready = ready.unwrap_or(true);
                let counts = is_ready || terminating != Some(true);
                if counts
                    && endpoint
                        .addresses()
                        .all(|one| ranges.refusal(one).is_none())
                {
                    of_family.total += 1;
                    of_family.ready += usize::from(is_ready);
                }
            }
        }
        if v6.total > v4.total { v6 } else { v4 }
    }
}

impl AddAssign for Readiness {
    fn add_assign(&mut self, other: Self) {
        self.ready += other.ready;
        self.total += other.total;
    }
}
