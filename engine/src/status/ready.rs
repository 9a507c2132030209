//! Condition Ready: whether a service can be reached.

use std::collections::BTreeMap;

use causeway::api::condition::{self as names, TRUE};
use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::{ClusterName, ExposureType, Preference, Tier};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::View;
use super::condition_state::ConditionState;
use crate::messages::Text;
use crate::messages::endpoint::{none_ready, reports_none_ready};
use crate::messages::remarks::{self, with_remarks};
use crate::messages::{entry_clusters, events, name, native, problem, shares};
use crate::model::slice::Exposure;
use crate::observed::service::ServiceView;
use crate::plan::KarmadaManaged;
use crate::plan::copies::{DesiredCopies, Refused, SliceOfProvider};
use crate::plan::disagreement;
use crate::plan::dns::NameState;
use crate::plan::hostnames;
use crate::plan::ignored::{self, Ignored};
use crate::plan::no_endpoints;
use crate::plan::not_followed::not_followed;
use crate::plan::providers::Disagreement;
use crate::plan::remark::{NotUsed, no_path, some, unreached, unserved};
use crate::reasons::Reason;

impl View<'_> {
    /// Returns the state of Ready. A write conflict comes first, then a refused finalizer, then
    /// Karmada's management, then the first condition that does not hold, including one that stays
    /// as it was. While anything is in progress, Ready stays as it was: it never reports a state
    /// too early. Ready that is not True still becomes True if all stored conditions of the current
    /// generation hold.
    pub(super) fn ready(
        &self,
        conditions: &[Condition],
        states: &[(&'static str, Text<'static>, ConditionState)],
    ) -> ConditionState {
        if let Some(conflict) = &self.conflict {
            return ConditionState::failed(Reason::WriteConflict, conflict.to_string());
        }
        if let Some(failure) = &self.finalizer_failure {
            let message = native::finalizer_refused(self.key, failure);
            return ConditionState::failed(Reason::ServiceAppliedFailed, message);
        }
        if let Some(managed) = &self.desired.karmada {
            return self.karmada_managed(managed);
        }
        let found = states
            .iter()
            .map(|(type_, _, _)| names::find(conditions, type_));
        let stored: Vec<_> = found.flatten().collect();
        if let Some(failed) = stored.iter().find(|one| one.status != TRUE) {
            let mut message = failed.message.clone();
            if let Some(why) = self.without_providers().filter(|_| self.has_ttl_expired()) {
                message = [message, why].join("; ");
            }
            return ConditionState::failed(failed.reason.clone(), message);
        }
        let settled = states
            .iter()
            .all(|(_, _, state)| *state == ConditionState::True);
        let is_current = |one: &&Condition| one.observed_generation == Some(self.mcs.generation);
        let current = stored.len() == states.len() && stored.iter().all(is_current);
        let was_ready = names::is_true(&self.mcs.conditions, names::READY);
        if self.is_name_unsettled() {
            ConditionState::Unchanged
        } else if settled || (current && !was_ready) {
            match self.without_providers() {
                Some(message) => ConditionState::failed(Reason::NoProviders, message),
                None => self.without_address().unwrap_or(ConditionState::True),
            }
        } else {
            ConditionState::Unchanged
        }
    }

    /// Returns the state of Ready for a service that Karmada manages. A report of the current
    /// generation stays as long as it may hold again in a moment.
    fn karmada_managed(&self, managed: &KarmadaManaged) -> ConditionState {
        let said = names::find(&self.mcs.conditions, names::READY);
        let said = said.filter(|ready| ready.reason == Reason::ManagedByKarmada);
        let is_current = |ready: &Condition| ready.observed_generation == Some(self.mcs.generation);
        if managed.wavers() && said.is_some_and(is_current) {
            return ConditionState::Unchanged;
        }
        let message = problem::managed_by_karmada(self.key, self.desired, managed);
        ConditionState::failed(Reason::ManagedByKarmada, message)
    }

    /// Describes why no cluster backs the service although all objects are in place; `None` if one
    /// does.
    fn without_providers(&self) -> Option<String> {
        let is_planned = !self.desired.members.is_untouched();
        let used = self.desired.used_providers().next().is_some();
        (is_planned && !used).then(|| native::no_providers(self.key, &self.left_out()))
    }

    /// Returns the names that DNS is to publish, by their state; `None` if none is requested.
    fn name_states(&self) -> Option<Vec<(Vec<&str>, NameState<'_>)>> {
        let name = self.desired.name.wanted()?;
        Some(name.states(self.index, self.key, self.name_failure.as_ref()))
    }

    fn is_name_unsettled(&self) -> bool {
        let is_unsettled = |(_, state): &_| *state == NameState::Unsettled;
        self.name_states()
            .is_some_and(|all| all.is_empty() || all.iter().any(is_unsettled))
    }

    fn has_ttl_expired(&self) -> bool {
        let mut providers = self.desired.placement.providers();
        providers.any(|name| self.index.has_ttl_expired(name))
    }

    /// Lists the clusters that take no part, with the reason.
    fn left_out(&self) -> Vec<(&ClusterName, NotUsed<'_>)> {
        let placement = &self.desired.placement;
        let left_out = placement.left_out.iter();
        let left_out = left_out.map(|(name, why)| (name, NotUsed::LeftOut(why)));
        let unused = placement.providers().filter_map(|name| {
            let why = self.desired.uses.unused(name)?;
            Some((name, NotUsed::Unused(why)))
        });
        left_out.chain(unused).collect()
    }

    pub(super) fn ready_message(&self) -> String {
        let used = self.desired.used_providers().count();
        let unserved = unserved(self.copies());
        let lacks_endpoints = self.lacks_endpoints();
        let message = match self.entry_clusters() {
            Some((all, serving)) => entry_clusters::entered(self.key, serving, all, used),
            None if self.dispatches() => {
                let consumers = self.desired.placement.consumers().count() - unserved.len();
                native::exposed(self.key, consumers, used, !lacks_endpoints)
            }
            None => native::load_balancers(used),
        };
        let mut remarks = Vec::new();
        remarks.extend(self.entry_clusters_remark());
        remarks.extend(lacks_endpoints.then(|| none_ready(Exposure::Native)));
        remarks.extend(some(unserved).map(|all| remarks::unserved(&all)));
        self.push_remarks(&mut remarks);
        with_remarks(message, remarks)
    }

    /// Adds the facts that need a person's attention although the service is exposed.
    fn push_remarks(&self, remarks: &mut Vec<String>) {
        let key = self.key;
        let names = self.name_states().into_iter().flatten();
        let names = names.filter(|(_, state)| *state != NameState::Unsettled);
        remarks.extend(names.map(|(names, state)| name::sentence(key, &names, &state)));
        remarks.extend(some(self.left_out()).map(|all| remarks::left_out(&all)));
        let refused = self.refused();
        remarks.extend((!refused.is_empty()).then(|| remarks::not_copied(&refused)));
        remarks.extend(unreached(self.copies()).map(|all| remarks::unreached(key, &all)));
        remarks.extend(some(self.disagreements()).map(|all| remarks::writers_disagree(&all)));
        remarks.extend(no_path(self.copies()).map(|all| remarks::no_path(key, &all)));
        let standby = &self.desired.uses.standby;
        remarks.extend((!standby.is_empty()).then(|| remarks::standby(standby)));
        remarks.extend(shares::remarks(self.copies(), None));
        let service = self.crossing_service();
        let unfollowed = not_followed(&self.mcs.failover, &self.mcs.misread, service);
        remarks.extend(unfollowed.map(|what| remarks::not_followed(&what)));
        let ambiguous = hostnames::ambiguous(self.index, key, self.desired);
        remarks.extend(ambiguous.map(|found| remarks::ambiguous_hostname(key, &found)));
        remarks.extend(self.without_places());
        let ignored = self.ignored().into_iter();
        remarks.extend(ignored.map(|(why, clusters)| remarks::ignored(key, &why, &clusters)));
        let clusters = self.index.refused_propagation(key);
        remarks.extend(some(clusters).map(|all| events::refused_propagation(key, &all)));
        remarks.extend(self.lost_copies());
        let hides_works = self.index.hides_works(self.now);
        remarks.extend(hides_works.then(|| remarks::WORKS_HIDDEN.to_owned()));
    }

    /// Returns the hub's Service, unless the consumers are entry clusters or there are none. In
    /// entry clusters even a headless one has a virtual address.
    fn crossing_service(&self) -> Option<&ServiceView> {
        let spec = self.mcs.spec.as_ref();
        let is_crossing = spec.map_or(true, |spec| spec.exposure == ExposureType::CrossCluster);
        let service = self.index.hub_service(self.key);
        service.filter(|_| is_crossing)
    }

    /// Describes each copy that lost its labels and is no longer wanted.
    fn lost_copies(&self) -> Vec<String> {
        let owner = format!("{NATIVE_OWNER}{}", self.mcs.uid);
        let mut lost = Vec::new();
        for name in self.desired.placement.consumers() {
            let (Some(member), Some(desired)) = (self.member(name), self.desired_member(name))
            else {
                continue;
            };
            let copies = member.lost_copies(self.key, &owner);
            let copies = copies.filter(|slice| desired.copies.abandons(slice));
            lost.extend(copies.map(|slice| remarks::lost_copy(self.key, name, slice)));
        }
        lost
    }

    fn lacks_endpoints(&self) -> bool {
        let stored = names::find(&self.mcs.conditions, names::READY);
        self.dispatches()
            && no_endpoints::are_unready(
                self.index,
                self.key,
                self.desired.used_providers(),
                reports_none_ready(stored),
            )
    }

    /// Describes each tier of the preference that the Clusters of some consumers lack.
    fn without_places(&self) -> Vec<String> {
        let preference = self.mcs.failover.preference.as_ref();
        let tiers = preference.map(Preference::tiers).unwrap_or_default();
        let lacks = |tier: &Tier, name: &ClusterName| {
            let cluster = self.index.cluster(name);
            cluster.is_some_and(|cluster| match tier {
                Tier::Region => cluster.region.is_none(),
                Tier::Zone => cluster.zones.is_empty(),
                Tier::Property(selector) => {
                    let mut same = selector.same();
                    same.any(|key| self.index.property(name, key).is_none())
                }
                _ => false,
            })
        };
        let lacking = tiers.iter().filter_map(|tier| {
            let consumers = self.desired.placement.consumers();
            let names: Vec<_> = consumers.filter(|name| lacks(tier, name)).collect();
            Some(remarks::no_place(tier, &some(names)?))
        });
        lacking.collect()
    }

    /// Groups the consumers whose clients do not reach existing copies by reason.
    fn ignored(&self) -> BTreeMap<Ignored, Vec<&ClusterName>> {
        ignored::in_consumers(Exposure::Native, self.copies(), |name| {
            self.member(name)?.service(self.key)
        })
    }

    fn disagreements(&self) -> Vec<(SliceOfProvider<'_>, &Disagreement)> {
        let stored = names::find(&self.mcs.conditions, names::READY);
        let all = self.copies();
        let all = all.flat_map(|(_, copies)| copies.disagreements());
        disagreement::lasting(self.index, self.key, all, stored, self.now)
    }

    /// Returns the endpoints and slices of each provider that are copied to no consumer.
    fn refused(&self) -> BTreeMap<&ClusterName, &Refused> {
        self.copies()
            .flat_map(|(_, copies)| &copies.refused)
            .collect()
    }

    /// Lists the copies of each consumer.
    fn copies(&self) -> impl Iterator<Item = (&ClusterName, &DesiredCopies)> {
        let all = self.desired.each_copies();
        let native = all.filter(|(exposure, ..)| *exposure == Exposure::Native);
        native.map(|(_, name, copies)| (name, copies))
    }
}
