//! Companions of providers' Services: entries for clusters of other networks ([`super::entry`]).

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::{ClusterName, Network, ServiceKey};

use super::clusterset::Imports;
use super::copies::entry_names;
use super::desired::{Companions, Desired, Members};
use super::entry::{Entry, NoEntry, Site};
use super::inputs::Inputs;
use super::service;
use crate::model::slice::Exposure;
use crate::observed::Index;

/// Consumer of a service, as far as it needs companions.
struct Consumer<'a> {
    network: Network,
    /// Names of its copies; `None` where causeway begins copies.
    held: Option<BTreeSet<&'a str>>,
}

impl Companions {
    /// Plans the companions of one service, for the consumers of both exposures. Clusters that are
    /// not joined, and services that lead to no other cluster, need none. In a consumer in which
    /// causeway begins no copy, only existing copies of an entry need one: Karmada delivers the
    /// service there, or the Service of the own name serves the import.
    pub(super) fn of(inputs: Inputs<'_>, desired: &Desired) -> Self {
        let (index, key) = (inputs.index, inputs.key);
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
        // A companion that an export needs too is on its behalf: it waits for no finalizer.
        if let Imports::Wanted(imports) = &desired.clusterset.imports {
            let exposure = Exposure::Clusterset;
            let consumers = imports.iter().map(|(name, import)| {
                Consumer::of(index, key, exposure, name, import.service.is_some())
            });
            let consumers: Vec<_> = consumers.collect();
            let owner = format!("ServiceExport/{}", key.name);
            for provider in &desired.clusterset.exporters {
                companions.add(inputs, (exposure, &*owner), (provider, &*consumers));
            }
        }
        let mcs = index
            .multi_cluster_service(key)
            .filter(|mcs| !mcs.is_deleting());
        if let (Members::Wanted(members), Some(mcs)) = (&desired.members, mcs) {
            let exposure = Exposure::Native;
            let begins = desired.karmada.is_none();
            let consumers = desired.placement.consumers();
            let consumers = consumers.filter(|name| members.contains_key(*name));
            let consumers = consumers.map(|name| Consumer::of(index, key, exposure, name, begins));
            let consumers: Vec<_> = consumers.collect();
            let owner = format!("{NATIVE_OWNER}{}", mcs.uid);
            for provider in desired.placement.providers() {
                companions.add(inputs, (exposure, &*owner), (provider, &*consumers));
            }
        }
        companions
    }

    fn add(
        &mut self,
        inputs: Inputs<'_>,
        (exposure, owner): (Exposure, &str),
        (provider, consumers): (&ClusterName, &[Consumer<'_>]),
    ) {
        let (index, key) = (inputs.index, inputs.key);
        let own = index.network(provider);
        let holds = |held: &BTreeSet<&str>| {
            let mut entries = entry_names(exposure, provider, &key.name).into_iter();
            entries.any(|name| held.contains(&*name))
        };
        let mut apart = consumers.iter().filter(|one| one.network != own);
        let is_entered = apart.any(|one| one.held.as_ref().is_none_or(holds));
        let leaves = index.is_being_removed(provider);
        let Some(member) = index.member(provider).filter(|_| is_entered && !leaves) else {
            return;
        };
        let site = Site::of(index, key, exposure, (provider, member));
        self.hostnames.extend(site.hostnames().map(Into::into));
        match Entry::of(&site, inputs.now) {
            Ok(entry) => {
                let nodes = entry.serving_nodes();
                let nodes = nodes.map(|node| (provider.clone(), node.into()));
                self.entry_nodes.extend(nodes);
            }
            Err(NoEntry::Unknown(_)) => {
                let known = index.entry_nodes.all(key);
                let known = known.filter(|(name, _)| name == provider);
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

impl<'a> Consumer<'a> {
    fn of(
        index: &'a Index,
        key: &ServiceKey,
        exposure: Exposure,
        name: &ClusterName,
        begins: bool,
    ) -> Self {
        let held = || {
            let member = index.member(name).into_iter();
            let copies = member.flat_map(|member| member.copies(key));
            let own = copies.filter(|(_, copy)| copy.view.is_of(index.hub_uid(), exposure));
            own.map(|(name, _)| &**name).collect()
        };
        Self {
            network: index.network(name),
            held: (!begins).then(held),
        }
    }
}
