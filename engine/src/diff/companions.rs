//! Writes of companions.

use super::{Target, delete_service};
use crate::model::Write;
use crate::model::slice::Exposure;
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

    /// Whether a cluster of another network holds a copy of the provider's endpoints.
    fn is_entered(&self) -> bool {
        let network = self.index.network(self.name);
        let mut holders = self.index.holders(self.key);
        holders.any(|(name, member)| {
            let mut copies = member.copies(self.key);
            let holds = |source: Option<&str>| source == Some(self.name.as_str());
            self.index.network(name) != network
                && copies.any(|(_, copy)| {
                    *copy.view.hub == *self.hub && holds(copy.view.source_cluster.as_deref())
                })
        })
    }
}
