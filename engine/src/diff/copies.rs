//! Compares the copies that a member holds with the desired ones: creates, replaces and deletes
//! them.
//!
//! A copy is deleted only if the plan withdraws it, by a request or by a proof of
//! [`crate::evidence`].

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway::domain::ServiceKey;

use super::{Diff, NewerCopy, Target};
use crate::model::slice::{CopiedSlice, Exposure, Uid};
use crate::model::{ObjectEvent, ObjectId, Operation, SliceId, Write};
use crate::plan::copies::{CopyDecision, CopyState, DesiredCopies, Hold, WantedCopy};

impl<'a> Target<'a> {
    /// Adds the writes that bring the copies of one exposure to the desired state. A copy is
    /// deleted only if the plan withdraws it.
    pub(super) fn copy_writes(
        &self,
        exposure: Exposure,
        desired: &DesiredCopies,
        diff: &mut Diff,
    ) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut news = BTreeSet::new();
        for (name, wanted) in &desired.wanted {
            let id = slice_id(self.key, exposure, name);
            match self.member.copy(self.key, name) {
                None => writes.extend(self.new_copy(id, wanted)),
                // A copy that is terminating is recreated once its deletion was observed.
                Some(known) if known.is_deleted() => {}
                Some(known) if *known.view.hub != *self.hub => {}
                Some(known) => {
                    let write = changed_copy(id, wanted, &known.view, diff);
                    writes.extend(write.map(|write| {
                        let event = self.change(desired, wanted, known.view.standby);
                        let is_news = |event: &ObjectEvent| news.insert(event.note.clone());
                        write.with_events(event.filter(is_news))
                    }));
                }
            }
        }
        for (name, copy) in self.own_copies(exposure) {
            let provider = copy.source_cluster.as_deref().unwrap_or_default();
            let copy_of = (&**name, copy.source.as_ref());
            match desired.decide(self.index, self.key, provider, copy_of) {
                CopyDecision::Withdraw(_) => writes.push(delete_copy(self.key, name, copy)),
                CopyDecision::Hold(Hold::Undecided) => diff.undecided += 1,
                CopyDecision::Keep(_) | CopyDecision::Hold(_) => {}
            }
        }
        writes
    }

    /// Returns the Event for a copy that becomes standby, or ready.
    fn change(
        &self,
        desired: &DesiredCopies,
        wanted: &WantedCopy,
        was_standby: bool,
    ) -> Option<ObjectEvent> {
        let tiers = desired.tiers.as_ref()?;
        tiers.change(self.name, wanted.provider(), was_standby)
    }

    /// Returns the creation of a copy. A copy that lost its labels is still causeway's if it was
    /// made for the same owner, and is replaced: no other controller maintains it. Any other slice
    /// with its name conflicts with it, which is reported.
    fn new_copy(&self, id: SliceId, wanted: &WantedCopy) -> Option<Write> {
        let Some(in_the_way) = self.member.in_the_way(self.key, &id.name) else {
            let create = Operation::CreateSlice(wanted.slice(&id.name).into(), wanted.content);
            return Some(Write::new(ObjectId::Slice(id), create));
        };
        let lost = in_the_way.lost_copy_of(wanted.owner())?;
        Some(replace(id, wanted, &lost.uid, lost.resource_version))
    }

    fn own_copies(
        &self,
        exposure: Exposure,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a CopiedSlice)> {
        let hub = self.hub;
        let copies = self.member.copies(self.key);
        copies
            .filter(move |(_, copy)| copy.view.is_of(hub, exposure))
            .map(|(name, copy)| (name, &copy.view))
    }
}

/// Returns the replacement of an existing copy; `None` if the copy stays.
fn changed_copy(
    id: SliceId,
    wanted: &WantedCopy,
    known: &CopiedSlice,
    diff: &mut Diff,
) -> Option<Write> {
    match wanted.compare(known) {
        CopyState::UpToDate => None,
        CopyState::NewerThanSource => {
            diff.newer_copies
                .extend(known.source.clone().map(|copied| NewerCopy {
                    provider: wanted.provider().clone(),
                    copied,
                }));
            None
        }
        CopyState::Outdated => Some(replace(id, wanted, &known.uid, known.resource_version)),
    }
}

/// Returns the replacement of that version of an object by the copy.
fn replace(id: SliceId, wanted: &WantedCopy, uid: &Uid, resource_version: u64) -> Write {
    let mut slice = wanted.slice(&id.name);
    slice.metadata.uid = Some(uid.to_string());
    slice.metadata.resource_version = Some(resource_version.to_string());
    let replace = Operation::ReplaceSlice(slice.into(), wanted.content);
    Write::new(ObjectId::Slice(id), replace)
}

fn delete_copy(key: &ServiceKey, name: &Arc<str>, copy: &CopiedSlice) -> Write {
    let object = ObjectId::Slice(slice_id(key, copy.exposure, name));
    let resource_version = copy.resource_version.to_string();
    Write::delete(object, &copy.uid.to_string(), &resource_version)
}

pub(super) fn slice_id(key: &ServiceKey, exposure: Exposure, name: &Arc<str>) -> SliceId {
    SliceId {
        service: key.clone(),
        exposure,
        name: name.clone(),
    }
}
