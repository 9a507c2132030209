//! Imported service as its exports describe it, or as each member recorded it.
//!
//! While a recorded exporter is unknown, no other export decides for it. A member that holds the
//! import retains it, with the content that its own import records. Records of other members take
//! nothing from it.

use std::borrow::Cow;

use causeway::domain::{
    ClusterName, ConsumerSelector, Consumers, Failover, ServiceKey, Unreachable,
};

use super::desired::NotImporting;
use super::exports::Exports;
use super::import;
use super::merge::{Constituent, ImportShape};
use crate::model::TimePoint;
use crate::model::served::ServedImports;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::clusterset::ImportView;
use crate::observed::hub::manager::Importer as By;
use crate::observed::member::{Member, Membership, NamespaceState};
use crate::plan::provider_use::{ProviderUses, UnreachablePolicy};
use crate::plan::providers::Provider;
use crate::plan::settings::Settings;

/// Imported service.
pub(super) struct Source<'a> {
    pub(super) index: &'a Index,
    pub(super) key: &'a ServiceKey,
    /// Exports of all clusters.
    pub(super) exports: &'a Exports<'a>,
    /// Merge of all known exports.
    pub(super) agreed: Option<&'a ImportShape>,
    /// Recorded exporters that are unknown; `None` if all exporters are known.
    pub(super) unknown: Option<&'a [ClusterName]>,
    /// Controller that makes the imports.
    pub(super) importer: By,
    /// Valid exports.
    pub(super) constituents: &'a [Constituent<'a>],
    pub(super) settings: &'a Settings,
    pub(super) now: TimePoint,
}

/// Policy for unreachable exporters, and whether the service is headless.
pub(super) type Policy = (Option<Unreachable>, bool);

/// Exporters whose slices are copied under one policy.
pub(super) struct ProviderSet<'a> {
    pub(super) providers: Vec<Provider<'a>>,
    /// Use of each exporter.
    pub(super) uses: ProviderUses,
}

impl<'a> Source<'a> {
    /// Returns how the member serves imports, or the reason why it imports nothing.
    pub(super) fn served(
        &self,
        name: &ClusterName,
        member: &Member,
    ) -> Result<ServedImports, NotImporting> {
        // A watch that fails is no evidence that the member ceased to serve imports.
        if let Membership::Unknown | Membership::Failing(_) = member.membership() {
            let selects = |shape: &ImportShape| self.selects(&shape.consumers, name, member);
            return Err(
                match self.unknown.is_some() || self.agreed.is_none_or(selects) {
                    true => NotImporting::Unknown,
                    false => NotImporting::NotConsumer,
                },
            );
        }
        let served = member.imports_followed();
        let served = served.ok_or(NotImporting::NotServed)?;
        let other = member.other_controller_in(&self.key.namespace);
        if other.is_some() && !self.is_held(member) {
            return Err(NotImporting::ManagedByOther);
        }
        if !self.lets_import(name, member) {
            return Err(NotImporting::NotConsumer);
        }
        match member.namespace(&self.key.namespace) {
            NamespaceState::Active => Ok(served),
            NamespaceState::Missing if self.creates_namespace(name) => Ok(served),
            NamespaceState::Missing => Err(NotImporting::NamespaceMissing),
            NamespaceState::Terminating => Err(NotImporting::NamespaceTerminating),
        }
    }

    /// Whether causeway creates missing namespaces of exported services in a member.
    fn creates_namespace(&self, name: &ClusterName) -> bool {
        let cluster = self.index.cluster(name);
        cluster.is_some_and(|cluster| cluster.creates_namespaces)
    }

    /// Whether the exports permit a member to import the service. While an exporter is unknown, no
    /// member ceases to import, and a member begins only if the known exports and every recorded
    /// list name it. If a recorded exporter is unknown and no import records a list, no member
    /// begins.
    fn lets_import(&self, name: &ClusterName, member: &Member) -> bool {
        let selects = |consumers: &Consumers| self.selects(consumers, name, member);
        let agreed = || self.agreed.is_none_or(|shape| selects(&shape.consumers));
        let Some(unknown) = self.unknown else {
            return agreed();
        };
        let mut lists = self.recorded_consumers().peekable();
        let are_recorded = unknown.is_empty() || lists.peek().is_some();
        self.is_held(member) || agreed() && are_recorded && lists.all(|all| selects(&all))
    }

    /// Whether a member holds any object that causeway wrote for the import.
    fn is_held(&self, member: &Member) -> bool {
        member.owns_clusterset(self.key, &self.key.derived(), self.index.hub_uid())
    }

    /// Whether an import that a user created gets its Service although no export is known. While an
    /// exporter is unknown, only a member that holds that Service retains it.
    pub(super) fn honours_hand_made(&self, member: &Member) -> bool {
        self.unknown.is_none() || self.is_held(member)
    }

    /// Whether a list selects a member; those that export always import (enhancements#6329). An
    /// invalid or forbidden export selects nothing.
    fn selects(&self, consumers: &Consumers, name: &ClusterName, member: &Member) -> bool {
        let cluster = self.index.cluster(name);
        let is_selected = |selector: &ConsumerSelector| match selector {
            ConsumerSelector::Cluster(one) => one == name,
            ConsumerSelector::Region(region) => {
                cluster.is_some_and(|cluster| cluster.region.as_ref() == Some(region))
            }
            ConsumerSelector::Zone(zone) => {
                cluster.is_some_and(|cluster| cluster.zones.contains(zone))
            }
        };
        let exports = || {
            self.exports.is_exporter(self.index, self.key, name)
                || self.exports.may_be_exporter(name) && self.is_held(member)
        };
        match consumers {
            Consumers::All => true,
            Consumers::Selected(selectors) => selectors.iter().any(is_selected) || exports(),
            Consumers::Unreadable => self.is_held(member) || exports(),
        }
    }

    fn recorded_consumers(&self) -> impl Iterator<Item = Consumers> {
        let holders = self.index.holders(self.key);
        let imports = holders.filter_map(|(_, member)| self.own_import(member));
        imports.map(import::recorded_consumers)
    }

    /// Returns the import of a member that this hub's causeway wrote for the clusterset.
    pub(super) fn own_import<'m>(&self, member: &'m Member) -> Option<&'m ImportView> {
        let import = member.import(self.key);
        import.filter(|import| import.exposure(self.index.hub_uid()) == Some(Exposure::Clusterset))
    }

    /// Returns the shape of a member's import. While an exporter is unknown it only grows from what
    /// the member holds.
    pub(super) fn shape(&self, member: &Member) -> Option<Cow<'_, ImportShape>> {
        match self.unknown.and_then(|_| self.record(member)) {
            Some(record) => Some(Cow::Owned(ImportShape::grown_from(&record, self.agreed))),
            None => self.agreed.map(Cow::Borrowed),
        }
    }

    fn record(&self, member: &Member) -> Option<ImportShape> {
        let hub = self.index.hub_uid();
        let derived = member.service(&self.key.derived());
        let derived = derived.filter(|service| service.is_derived_for(self.key, hub));
        let import = self.own_import(member);
        let record = import::record(import, derived)?;
        Some(match import {
            Some(_) => record,
            None => ImportShape {
                failover: self.recorded_failover(),
                ..record
            },
        })
    }

    /// Returns the failover that any import records. Without a record, a member that lost its
    /// import retains all endpoints, and records that.
    fn recorded_failover(&self) -> Failover {
        let holders = self.index.holders(self.key);
        let mut imports = holders.filter_map(|(_, member)| self.own_import(member));
        imports.next().map_or_else(
            || Failover {
                unreachable: Some(Unreachable::Keep),
                ..Failover::default()
            },
            import::recorded_failover,
        )
    }

    /// Whether an exporter is unknown and the member has no import that records the request.
    pub(super) fn lacks_record(&self, member: &Member) -> bool {
        self.unknown.is_some() && self.own_import(member).is_none()
    }

    /// Returns the policy for unreachable exporters that applies to a member's import. A member
    /// without a record retains all endpoints while an exporter is unknown, and so does every
    /// member while Karmada makes the imports.
    pub(super) fn policy(&self, member: &Member, shape: Option<&ImportShape>) -> Policy {
        let policy = match self.lacks_record(member) || self.importer == By::Karmada {
            true => Some(Unreachable::Keep),
            false => shape.and_then(|shape| shape.failover.unreachable),
        };
        (policy, shape.is_some_and(|shape| shape.headless))
    }

    /// Selects the valid exports, and the clusters whose export is unknown.
    pub(super) fn providers(&self, (requested, headless): Policy) -> ProviderSet<'a> {
        let (index, now) = (self.index, self.now);
        let exporters = self.constituents.iter().map(|export| export.cluster);
        let exporters = exporters.chain(self.unknown.into_iter().flatten());
        let exporters = exporters.chain(self.exports.unknown());
        let asked = UnreachablePolicy {
            requested,
            default: self.settings.unreachable,
            headless,
        };
        let uses = ProviderUses::of(index, self.settings, asked, exporters, now);
        let valid = self.constituents.iter().filter_map(|export| {
            let member = uses.member(index, self.key, export.cluster).ok()?;
            let ports = export.service.ports();
            Some(Provider::new(index, export.cluster, member, ports, now))
        });
        let unknown = self.exports.unknown();
        let unknown = unknown.filter(|name| uses.unused(name).is_none());
        let unknown = unknown.map(|name| Provider::new(index, name, None, Vec::new(), now));
        ProviderSet {
            providers: valid.chain(unknown).collect(),
            uses,
        }
    }
}
