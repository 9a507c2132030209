//! Writes of companions.

use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::ClusterName;

use super::{Target, delete_service};
use crate::model::slice::Exposure;
use crate::model::{LeftOut, MemberState, Write};
use crate::observed::member::Member;
use crate::plan::Desired;
use crate::plan::copies::{CopyState, entry_names};
use crate::plan::service::DesiredService;

impl Target<'_> {
    /// Returns the write of the companion of the service. Objects on behalf of a
    /// MultiClusterService are written only if the hub's desired state is known (`native`).
    ///
    /// A companion that is no longer wanted is deleted once no other cluster holds a copy that may
    /// lead there: until then its proxies send traffic there.
    pub(super) fn companion_write(&self, desired: &Desired, native: bool) -> Option<Write> {
        let companions = &desired.companions;
        if let Some(own) = companions.wanted.get(self.name) {
            if !native && own.owner.starts_with(NATIVE_OWNER) {
                return None;
            }
            let key = self.key.companion();
            let known = self.member.written_service(&key);
            let is_ours = known.is_none_or(|known| {
                let view = &known.view;
                view.hub.as_deref() == Some(self.hub) && view.companion_of.is_some()
            });
            let own = DesiredService::Own(own.clone().into());
            return is_ours.then(|| self.service_write(&key, &own)).flatten();
        }
        let (key, known) = self.member.written_companion(self.key)?;
        let view = &known.view;
        let is_unwanted = view.is_companion_by(self.hub, Exposure::Native) && native
            || view.is_companion_by(self.hub, Exposure::Clusterset) && !companions.keeps_exported;
        let is_there = !known.is_deleted() && !view.deleting;
        (is_unwanted && is_there && !self.is_entered(desired)).then(|| delete_service(key, view))
    }

    /// Whether a cluster holds a copy that may lead to the companion, or may hold one: what a
    /// cluster of another network holds is unknown. A copy that is as wanted leads elsewhere. A
    /// cluster that is of the same network now may have been of another when its copies were made.
    /// A requested cluster that has lost its credentials holds its copies, unless Karmada delivers
    /// the service.
    fn is_entered(&self, desired: &Desired) -> bool {
        let network = self.index.network(self.name);
        let is_apart = |name: &ClusterName| self.index.network(name) != network;
        let left_out = &desired.placement.left_out;
        let holds_on = |name: &ClusterName| {
            let why = left_out.get(name).filter(|_| desired.karmada.is_none());
            why == Some(&LeftOut::PullWithoutCredentials)
        };
        let elsewhere = self.index.cluster_names().filter(|name| {
            let is_out = matches!(self.index.member_state(name), MemberState::LeftOut(_));
            (!is_out || holds_on(name)) && *name != self.name
        });
        let holds = |name: &ClusterName, member: &Member| {
            let copies = member.copies(self.key);
            let mut copies = copies.map(|(slice, copy)| (slice, &copy.view));
            copies.any(|(slice, copy)| {
                let source = copy.source_cluster.as_deref();
                let entries = || entry_names(copy.exposure, self.name, &self.key.name);
                let wanted = desired.copies_in(copy.exposure, name);
                let wanted = wanted.and_then(|copies| copies.wanted.get(slice));
                let is_of_provider = *copy.hub == *self.hub && source == Some(self.name.as_str());
                is_of_provider
                    && (is_apart(name) || entries().contains(slice))
                    && wanted.is_none_or(|wanted| wanted.compare(copy) != CopyState::UpToDate)
            })
        };
        // Beside Karmada copies keep the form that they had in another network.
        let is_left = desired.karmada.is_some() || desired.clusterset.karmadas.is_some();
        let mut members = elsewhere.map(|name| (name, self.index.member(name)));
        members.any(|(name, member)| {
            let is_known = |member: &Member| member.copies_are_known();
            let may_hold = (is_apart(name) || is_left) && !member.is_some_and(is_known);
            may_hold || member.is_some_and(|member| holds(name, member))
        })
    }
}
