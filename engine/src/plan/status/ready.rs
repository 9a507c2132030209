//! Condition Ready: whether a service can be reached.

use std::collections::BTreeMap;

use causeway::api::condition::{self as names, TRUE};
use causeway::api::labels;
use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::{ClusterName, ExposureType, Preference, Tier};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::View;
use crate::model::propagation::advice;
use crate::model::slice::Exposure;
use crate::plan::Members;
use crate::plan::condition_state::{ConditionState, Text};
use crate::plan::copies::Refused;
use crate::plan::disagreement;
use crate::plan::hostnames;
use crate::plan::ignored::{self, Ignored};
use crate::plan::no_endpoints;
use crate::plan::not_followed::not_followed;
use crate::plan::provider_use::Unused;
use crate::plan::tiers::Tiers;
use crate::problem::Problem;
use crate::reasons::Reason;

/// Description of a provider whose endpoints are not used since `--provider-ttl` expired.
pub(crate) const TTL_EXPIRED: &str = "out of reach for longer than --provider-ttl";
/// Description of a provider whose endpoints are not used since the service's own `withdraw-after`
/// expired.
const WITHDRAWN: &str = "out of reach for longer than withdraw-after";

impl View<'_> {
    /// Returns the state of Ready. A write conflict comes first, then Karmada's management, then
    /// the first condition that does not hold, including one that stays as it was. While anything
    /// is in progress, Ready stays as it was: it never reports a state too early. Ready that is not
    /// True still becomes True if all stored conditions of the current generation hold.
    pub(super) fn ready(
        &self,
        conditions: &[Condition],
        states: &[(&'static str, Text<'static>, ConditionState)],
    ) -> ConditionState {
        let not_ready = |reason: Reason, message: String| ConditionState::False {
            reason: reason.into(),
            message,
        };
        if let Some(conflict) = &self.conflict {
            return not_ready(Reason::WriteConflict, conflict.to_string());
        }
        if let Some(problem) = self.desired.karmadas_problem() {
            return self.karmada_managed(problem);
        }
        let found = states
            .iter()
            .map(|(type_, _, _)| names::find(conditions, type_));
        let stored: Vec<_> = found.flatten().collect();
        if let Some(failed) = stored.iter().find(|one| one.status != TRUE) {
            let mut message = failed.message.clone();
            if let Some(why) = self.without_providers().filter(|_| self.has_ttl_expired()) {
                message.push_str(&format!("; {why}"));
            }
            return ConditionState::False {
                reason: failed.reason.clone().into(),
                message,
            };
        }
        let settled = states
            .iter()
            .all(|(_, _, state)| *state == ConditionState::True);
        let is_current = |one: &&Condition| one.observed_generation == Some(self.mcs.generation);
        let current = stored.len() == states.len() && stored.iter().all(is_current);
        let was_ready = names::is_true(&self.mcs.conditions, names::READY);
        if settled || (current && !was_ready) {
            match self.without_providers() {
                Some(message) => not_ready(Reason::NoProviders, message),
                None => ConditionState::True,
            }
        } else {
            ConditionState::Unchanged
        }
    }

    /// Returns the state of Ready for a service that Karmada manages. A report of the current
    /// generation stays as long as it may hold again in a moment.
    fn karmada_managed(&self, problem: &Problem) -> ConditionState {
        let beside = self.desired.karmada.as_ref();
        let said = names::find(&self.mcs.conditions, names::READY);
        let said = said.filter(|ready| ready.reason == problem.reason());
        let is_current = |ready: &Condition| ready.observed_generation == Some(self.mcs.generation);
        match beside.is_some_and(|beside| beside.wavers) && said.is_some_and(is_current) {
            true => ConditionState::Unchanged,
            false => ConditionState::of_problem(self.key, problem),
        }
    }

    /// Describes why no cluster backs the service although all objects are in place; `None` if one
    /// does.
    fn without_providers(&self) -> Option<String> {
        let is_planned = matches!(self.desired.members, Members::Wanted(_));
        let used = self.used().next().is_some();
        let out = self.left_out();
        (is_planned && !used).then(|| {
            let out = match out.is_empty() {
                true => "no cluster is named that provides it".to_owned(),
                false => out.join(", "),
            };
            format!("no cluster backs {}: {out}", self.key)
        })
    }

    fn has_ttl_expired(&self) -> bool {
        let mut providers = self.desired.placement.providers();
        providers.any(|name| self.index.has_ttl_expired(name))
    }

    /// Lists the providers whose endpoints are used.
    fn used(&self) -> impl Iterator<Item = &ClusterName> {
        let providers = self.desired.placement.providers();
        providers.filter(|name| self.unused(name).is_none())
    }

    /// Returns the reason why nothing of a provider is used; `None` if something is.
    fn unused(&self, name: &ClusterName) -> Option<&'static str> {
        Some(match self.desired.uses.unused(name)? {
            Unused::NotJoined => "is not joined",
            Unused::Drained => "withdrawn",
            Unused::Duplicate => "the same cluster as another",
            Unused::TtlExpired => TTL_EXPIRED,
            Unused::WithdrawAfter => WITHDRAWN,
        })
    }

    /// Lists the clusters that take no part, with the reason.
    fn left_out(&self) -> Vec<String> {
        let placement = &self.desired.placement;
        let providers = placement.providers();
        let unused = providers.filter_map(|name| Some(format!("{name} ({})", self.unused(name)?)));
        let left_out = placement.left_out.iter();
        let left_out = left_out.map(|(name, reason)| format!("{name} ({reason})"));
        left_out.chain(unused).collect()
    }

    pub(super) fn ready_message(&self) -> String {
        let placement = &self.desired.placement;
        let used = self.used().count();
        let unserved = self.unserved();
        let consumers = placement.consumers().count() - unserved.len();
        let lacks_endpoints = self.lacks_endpoints();
        let mut message = match self.exposure() {
            ExposureType::CrossCluster => {
                let verb = match lacks_endpoints {
                    true => "is exposed in",
                    false => "can be reached from",
                };
                let (consumers, used) = (counted(consumers), counted(used));
                format!("{} {verb} {consumers}, backed by {used}", self.key)
            }
            ExposureType::LoadBalancer => {
                format!("the load balancers of {} are gathered", counted(used))
            }
        };
        if lacks_endpoints {
            message.push_str(&format!("; no provider {}", no_endpoints::SENTENCE));
        }
        message.push_str(&no_endpoints::unserved(&unserved));
        let out = self.left_out();
        if !out.is_empty() {
            message.push_str(&format!("; left out: {}", out.join(", ")));
        }
        let refused = self.refused();
        if !refused.is_empty() {
            message.push_str(&format!("; not copied: {}", refused.join(", ")));
        }
        message.push_str(&self.disagreements());
        let standby: Vec<_> = self.desired.uses.standby.iter().collect();
        if !standby.is_empty() {
            let names: Vec<_> = standby.iter().map(|name| name.as_str()).collect();
            let names = names.join(", ");
            message.push_str(&format!("; standby, because out of reach: {names}"));
        }
        let service = self.index.hub_service(self.key);
        let unfollowed = not_followed(&self.mcs.failover, &self.mcs.misread, service);
        if let Some(what) = unfollowed {
            message.push_str(&format!("; not followed: {what}"));
        }
        message.push_str(&self.ambiguous_hostnames());
        message.push_str(&self.without_places());
        message.push_str(&self.remarks());
        message
    }

    /// Describes problems that need a person's attention although the service is exposed.
    fn remarks(&self) -> String {
        let mut message = String::new();
        for (ignored, clusters) in self.ignored() {
            let clusters = clusters.join(", ");
            message.push_str(&format!(
                "; {}: {}",
                ignored.sentence(self.key, &clusters),
                ignored.remedy(self.key, &clusters)
            ));
        }
        let clusters = self.index.refused_propagation(self.key);
        if !clusters.is_empty() {
            message.push_str(&format!("; {}", advice(self.key, &clusters)));
        }
        message.push_str(&self.lost_copies());
        if self.index.hides_works(self.now) {
            message.push_str("; unknown whether Karmada manages it too (its Works cannot be read)");
        }
        message
    }

    /// Names copies that lost their labels and are no longer wanted. Causeway deletes nothing
    /// without its label, and clients still use these copies.
    fn lost_copies(&self) -> String {
        let owner = format!("{NATIVE_OWNER}{}", self.mcs.uid);
        let mut text = String::new();
        for name in self.desired.placement.consumers() {
            let (Some(member), Some(desired)) = (self.member(name), self.desired_member(name))
            else {
                continue;
            };
            for slice in member.lost_copies(self.key, &owner) {
                if desired.copies.abandons(slice) {
                    let namespace = &self.key.namespace;
                    text.push_str(&format!(
                        "; in {name} EndpointSlice {slice} is a copy without its labels and its source is gone: kubectl delete \
                         endpointslice {slice} -n {namespace}"
                    ));
                }
            }
        }
        text
    }

    fn lacks_endpoints(&self) -> bool {
        let stored = names::find(&self.mcs.conditions, names::READY);
        self.exposure() == ExposureType::CrossCluster
            && no_endpoints::are_unready(self.index, self.key, self.used(), stored)
    }

    /// Lists the consumers whose preference leads to no provider.
    fn unserved(&self) -> Vec<(&ClusterName, &Tiers)> {
        let consumers = self.desired.placement.consumers();
        let tiers = consumers
            .filter_map(|name| Some((name, self.desired_member(name)?.copies.tiers.as_ref()?)));
        tiers.filter(|(_, tiers)| tiers.lack_providers()).collect()
    }

    /// Names the consumers without a region or zone in their Cluster, if the preference names that
    /// tier.
    fn without_places(&self) -> String {
        let preference = self.mcs.failover.preference.as_ref();
        let tiers = preference.map(Preference::tiers).unwrap_or_default();
        let lacks = |tier: &Tier, name: &ClusterName| {
            let cluster = self.index.cluster(name);
            cluster.is_some_and(|cluster| match tier {
                Tier::Region => cluster.region.is_none(),
                Tier::Zone => cluster.zones.is_empty(),
                _ => false,
            })
        };
        let lacking = tiers.iter().filter_map(|tier| {
            let consumers = self.desired.placement.consumers();
            let names = consumers.filter(|name| lacks(tier, name));
            let names: Vec<_> = names.map(ClusterName::as_str).collect();
            let first = names.first()?;
            Some(format!(
                "; the Cluster of {} has no {tier}, which {} names: kubectl mcs join {first} --{tier} NAME",
                names.join(", "),
                labels::PREFER
            ))
        });
        lacking.collect()
    }

    /// Groups the consumers whose clients do not reach existing copies by reason.
    fn ignored(&self) -> BTreeMap<Ignored, Vec<&str>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for name in self.desired.placement.consumers() {
            let service = self
                .member(name)
                .and_then(|member| member.service(self.key));
            let found = service
                .zip(self.desired_member(name))
                .and_then(|(service, desired)| {
                    ignored::ignored(Exposure::Native, name, service, &desired.copies)
                });
            if let Some(found) = found {
                all.entry(found).or_default().push(name.as_str());
            }
        }
        all
    }

    /// Returns the part of Ready on hostnames that lead to pods of several clusters; empty without
    /// any.
    fn ambiguous_hostnames(&self) -> String {
        if self.desired.placement.consumers().next().is_none() {
            return String::new();
        }
        let providers = self.desired.placement.providers();
        let used = providers.filter(|name| self.unused(name).is_none());
        let found = hostnames::ambiguous(self.index, self.key, used);
        found.map_or_else(String::new, |found| {
            format!("; {}: {}", found.sentence(self.key), found.remedy(self.key))
        })
    }

    fn disagreements(&self) -> String {
        let Members::Wanted(members) = &self.desired.members else {
            return String::new();
        };
        let stored = names::find(&self.mcs.conditions, names::READY);
        let all = members.values();
        let all = all.flat_map(|member| member.copies.disagreements());
        disagreement::reported(self.index, self.key, all, stored, self.now)
    }

    /// Describes the endpoints and slices of each provider that are copied to no consumer.
    fn refused(&self) -> Vec<String> {
        let Members::Wanted(members) = &self.desired.members else {
            return Vec::new();
        };
        let all: BTreeMap<_, _> = members
            .values()
            .flat_map(|member| &member.copies.refused)
            .collect();
        let worded = |(name, refused): (&ClusterName, &Refused)| refused.of(name);
        all.into_iter().map(worded).collect()
    }
}

fn counted(clusters: usize) -> String {
    format!(
        "{clusters} {}",
        if clusters == 1 { "cluster" } else { "clusters" }
    )
}
