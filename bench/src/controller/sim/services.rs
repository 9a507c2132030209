//! Which services there are, who provides them, and who has copies of their slices.

use std::sync::Arc;

use super::text::{Content, SliceId, member_name};

/// A service: one provider, and some consumers.
#[derive(Clone, Debug)]
pub(crate) struct ServiceSpec {
    /// The member that provides it, counted from 0.
    pub(crate) provider: u16,
    /// How many slices it has.
    pub(crate) slices: u16,
    /// How many endpoints each of them has.
    pub(crate) endpoints: u16,
    /// The members that consume it, none of which is the provider.
    pub(crate) consumers: Arc<[u16]>,
}

/// All services, by number.
pub(crate) struct Services {
    all: Vec<ServiceSpec>,
    /// The number of each service's first endpoint.
    first: Vec<u32>,
    provider_names: Vec<String>,
}

impl Services {
    pub(crate) fn new(all: Vec<ServiceSpec>) -> Self {
        let mut next = 0_u32;
        let first = all.iter().map(|service| {
            let first = next;
            next = next.wrapping_add(u32::from(service.slices) * u32::from(service.endpoints));
            first
        });
        let first = first.collect();
        let names = all
            .iter()
            .map(|service| usize::from(service.provider) + 1)
            .max();
        Self {
            all,
            first,
            provider_names: (0..names.unwrap_or_default()).map(member_name).collect(),
        }
    }

    pub(crate) fn get(&self, service: u32) -> &ServiceSpec {
        &self.all[service as usize]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &ServiceSpec)> {
        (0..).zip(&self.all)
    }

    pub(crate) fn content(&self, id: SliceId, version: u32) -> Content {
        let endpoints = self.get(id.service).endpoints;
        let before = u32::from(id.slice) * u32::from(endpoints);
        Content {
            id,
            endpoints,
            version,
            first: self.first[id.service as usize].wrapping_add(before),
        }
    }

    pub(crate) fn provider_name(&self, id: SliceId) -> &str {
        &self.provider_names[usize::from(self.get(id.service).provider)]
    }
}
