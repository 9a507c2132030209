//! Writes of companions.

use super::{Target, delete_service};
use crate::model::slice::Exposure;
use crate::model::{MemberState, Write};
use crate::observed::member::Member;
use crate::plan::Companions;
use crate::plan::service::DesiredService;

impl Target<'_> {
    /// Returns the write of the companion of the service. Objects on behalf of a
    /// MultiClusterService are written only if the hub's desired state is known (`native`).
    ///
    /// A companion that is no longer wanted is deleted once no cluster of another network holds a
    /// copy of the provider's endpoints: until then its proxies send traffic there.
    pub(super) fn companion_write(&self, companions: &Companions, native: bool) -> Option<Write> {
        if let Some(own) = companions.wanted.get(self.name) {
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
        (is_unwanted && is_there && !self.is_entered()).then(|| delete_service(key, view))
    }

    /// Whether a cluster of another network holds a copy of the provider's endpoints, or may: what
    /// it holds is unknown.
    fn is_entered(&self) -> bool {
        let network = self.index.network(self.name);
        let elsewhere = self.index.cluster_names().filter(|name| {
            let left_out = matches!(self.index.member_state(name), MemberState::LeftOut(_));
            !left_out && self.index.network(name) != network
        });
        let holds = |member: &Member| {
            let mut copies = member.copies(self.key).map(|(_, copy)| &copy.view);
            copies.any(|copy| {
                let source = copy.source_cluster.as_deref();
                *copy.hub == *self.hub && source == Some(self.name.as_str())
            })
        };
        let mut members = elsewhere.map(|name| self.index.member(name));
        members
            .any(|member| member.is_none_or(|member| !member.sources_are_known() || holds(member)))
    }
}
