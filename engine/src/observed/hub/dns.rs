//! DNSEndpoints on the hub that causeway wrote for MultiClusterServices with a hostname.

use causeway::api::DNSEndpoint;
use causeway::domain::ServiceKey;

use super::change::Change;
use crate::evidence::list::ListEvidence;
use crate::evidence::tombstones::Tombstones;
use crate::model::object::key_of;
use crate::model::{Failure, HubDnsEndpoint, Signal, TimePoint};
use crate::observed::member::{Objects, View};

/// DNSEndpoints on the hub with causeway's label.
#[derive(Debug, Default)]
pub(crate) struct DnsEndpoints {
    served: Option<bool>,
    list: ListEvidence,
    all: Objects<HubDnsEndpoint>,
    tombstones: Tombstones,
}

impl View for HubDnsEndpoint {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

/// Knowledge about the DNSEndpoint of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnsKnowledge<'a> {
    /// It is not known yet whether the hub serves DNSEndpoints, or which ones there are.
    Pending,
    /// The hub serves no DNSEndpoints.
    NotServed,
    /// They cannot be read.
    Unreadable(&'a Failure),
    /// This one exists, or none with causeway's label.
    Known(Option<&'a HubDnsEndpoint>),
}

impl DnsEndpoints {
    /// Returns the knowledge about the DNSEndpoint of a service.
    pub(crate) fn get(&self, key: &ServiceKey) -> DnsKnowledge<'_> {
        match (self.served, &self.list.failure) {
            (Some(false), _) => DnsKnowledge::NotServed,
            (Some(true), _) if self.list.is_listed() => DnsKnowledge::Known(self.all.view(key)),
            (Some(true), Some(failure)) => DnsKnowledge::Unreadable(failure),
            _ => DnsKnowledge::Pending,
        }
    }

    /// Applies a report of discovery. `named` are the services with a hostname.
    pub(super) fn apply_served(
        &mut self,
        served: bool,
        named: impl Iterator<Item = ServiceKey>,
        change: &mut Change,
    ) {
        *self = Self {
            served: Some(served),
            ..Self::default()
        };
        change.services.extend(named);
    }

    pub(super) fn apply(
        &mut self,
        signal: Signal<DNSEndpoint>,
        named: impl Iterator<Item = ServiceKey>,
        now: TimePoint,
        change: &mut Change,
    ) {
        let is_list = matches!(signal, Signal::Listed(_));
        let (was_listed, had_failed) = (self.list.is_listed(), self.list.failure.is_some());
        self.list.observe(&signal, now);
        let read = |object: &DNSEndpoint| Some(HubDnsEndpoint::read(object));
        let (tombstones, changed) = (&mut self.tombstones, &mut change.services);
        self.all.apply(signal, read, tombstones, changed);
        let is_news = is_list
            || self.list.is_listed() != was_listed
            || !was_listed && self.list.failure.is_some() != had_failed;
        if is_news {
            change.services.extend(named);
        }
    }

    /// Applies the answer to a write, unless a watch has shown the object deleted since.
    pub(super) fn apply_ack(&mut self, object: &DNSEndpoint, now: TimePoint) {
        if let Some(key) = key_of(&object.metadata) {
            let view = HubDnsEndpoint::read(object);
            self.all.apply_ack(key, view, &self.tombstones, now);
        }
    }

    /// Applies the answer to a deletion.
    pub(super) fn apply_deleted_ack(&mut self, key: &ServiceKey, uid: &str) {
        self.all.note_deleted(key, uid);
    }
}
