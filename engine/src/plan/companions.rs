//! Companions of providers' Services: entries for clusters of other networks ([`super::entry`]).

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::{ClusterName, Network, ServiceKey};

use super::clusterset::Imports;
use super::desired::{Companions, Desired, Members};
use super::entry::{Entry, NoEntry, Site};
use super::service;
use crate::model::slice::Exposure;
use crate::observed::Index;

impl Companions {
    /// Plans the companions of one service, for the consumers of both exposures. Clusters that are
    /// not joined, and services that lead to no other cluster, need none.
    pub(super) fn of(index: &Index, key: &ServiceKey, desired: &Desired) -> Self {
        let unsure = desired.clusterset.unsure;
        let mut companions = Self {
            wanted: BTreeMap::new(),
            hostnames: BTreeSet::new(),
            entry_nodes: BTreeSet::new(),
            keeps_exported: unsure || desired.clusterset.imports.is_untouched(),
        };
        if !index.has_networks() {
            return companions;
        }
        let mcs = index
            .multi_cluster_service(key)
            .filter(|mcs| !mcs.is_deleting());
        if let (Members::Wanted(members), Some(mcs)) = (&desired.members, mcs) {
            let consumers = desired.placement.consumers();
            let consumers = consumers.filter(|name| members.contains_key(*name));
            let networks = consumers.map(|name| index.network(name)).collect();
            let owner = format!("{NATIVE_OWNER}{}", mcs.uid);
            for provider in desired.placement.providers() {
                let of = (Exposure::Native, &*owner);
                companions.add(index, key, of, (provider, &networks));
            }
        }
        if let Imports::Wanted(imports) = &desired.clusterset.imports {
            let networks = imports.keys().map(|name| index.network(name)).collect();
            let owner = format!("ServiceExport/{}", key.name);
            for provider in &desired.clusterset.exporters {
                let of = (Exposure::Clusterset, &*owner);
                companions.add(index, key, of, (provider, &networks));
            }
        }
        companions
    }

    fn add(
        &mut self,
        index: &Index,
        key: &ServiceKey,
        (exposure, owner): (Exposure, &str),
        (provider, networks): (&ClusterName, &BTreeSet<Network>),
    ) {
        let own = index.network(provider);
        let is_entered = networks.iter().any(|network| *network != own);
        let leaves = index.is_being_removed(provider);
        let Some(member) = index.member(provider).filter(|_| is_entered && !leaves) else {
            return;
        };
        let site = Site::of(index, key, exposure, (provider, member));
        self.hostnames.extend(site.hostnames().map(Into::into));
        match Entry::of(&site) {
            Ok(entry) => {
                let nodes = entry.serving_nodes();
                let nodes = nodes.map(|node| (provider.clone(), node.into()));
                self.entry_nodes.extend(nodes);
            }
            Err(NoEntry::Unknown(_)) => {
                let known = index.entry_nodes(key).filter(|(name, _)| name == provider);
                self.entry_nodes.extend(known.cloned());
            }
            Err(_) => {}
        }
        if let (Some(service), Some(type_)) = (member.service(key), site.companion_type()) {
            let companion = || service::companion(key, service, type_, owner.to_owned());
            let wanted = self.wanted.entry(provider.clone());
            // A load balancer leads by node ports as well.
            wanted.or_insert_with(companion).ask_for(type_);
        }
    }
}
