//! Proof of an absence or a presence.

use super::MemberEvidence;

/// Proof that a state was observed, not assumed. Only [`crate::evidence`] constructs it, so a copy
/// cannot be withdrawn because of an API server that was not asked or whose answer is suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof(());

impl Proof {
    /// Returns the proof that an observed object exists.
    pub(crate) fn of_presence<T>(_observed: &T) -> Self {
        Self(())
    }
}

impl MemberEvidence {
    /// Returns the proof that the member lacks each Service and EndpointSlice that was not
    /// observed: both lists are complete, and no deletion that they suggest is suspected.
    pub(crate) fn absence(&self) -> Option<Proof> {
        (self.suspected() == 0 && self.has_listed_natives()).then_some(Proof(()))
    }

    /// Returns the proof that the member lacks each ServiceExport that was not observed. A member
    /// that does not serve exports has none.
    pub(crate) fn absence_of_exports(&self, serves_exports: bool) -> Option<Proof> {
        let exports = self.exports.is_listed() || !serves_exports;
        (exports && self.services.is_listed() && self.suspected() == 0).then_some(Proof(()))
    }
}
