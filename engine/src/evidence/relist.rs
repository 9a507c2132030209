//! Compares a relist with the objects that were observed before it: the deletion guard of one
//! watch.
//!
//! An API server whose store was restored, or that answers from a part of it, lists far fewer
//! objects than exist. Only a second list distinguishes that list from a true one.
//!
//! | a list | its deletions | listed again |
//! | --- | --- | --- |
//! | lacks nothing | | |
//! | lacks few objects | count | once, to be sure |
//! | lacks many objects | are suspended | until a list that was requested later lacks no others |
//! | lacks an unobserved finalized object | are suspended | until a later list lacks no other one |
//! | is of an older state than was observed | are suspended | the same |
//! | is an initial list without any object | there are none | once, to be sure |
//! | is empty where some object always exists | are suspended | until a second list is empty too |
//! | follows a person's confirmation, and lacks few others | count | |
//!
//! An unobserved finalized object has finalizers and was not observed terminating.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::is_large_loss;
use crate::model::map::{HashMap, HashSet};

/// Hash of an object's namespace, name and UID.
///
/// Two objects with equal hashes count as one: the guard then misses one deletion among those that
/// it counts, or one object among those that a list lacks. It withdraws nothing by itself, since
/// the observed state holds objects by name. The probability is 3 in 100 million for a list of a
/// million objects, and nobody can construct a collision, because each guard has a key of its own.
type Id = u64;

/// Objects of a list, or those that were observed.
pub type ObservedObjects = HashMap<Id, ObservedObject>;

/// State of an object that the guard retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedObject {
    bytes: u32,
    /// Whether it was observed with a deletionTimestamp: it is expected to go.
    is_terminating: bool,
    has_finalizers: bool,
}

/// Comparison of the lists of one watch with the objects that were observed before them.
#[derive(Debug)]
pub struct DeletionGuard {
    observed: ObservedObjects,
    /// Bytes of all observed objects.
    bytes: usize,
    suspended: Option<Suspended>,
    /// Time at which a second list is due although no deletion is suspended.
    confirm_at: Option<Instant>,
    /// Whether a person confirmed the deletions that are suspended.
    confirmed_by_person: bool,
    awaits_initial_list: bool,
    never_empty: bool,
    confirmation_interval: Duration,
    hasher: RandomState,
}

/// Deletions that the last list suggests and that do not count yet.
#[derive(Debug)]
struct Suspended {
    /// Objects that the first list lacked: a second list confirms them.
    objects: HashSet<Id>,
    /// Objects that the last list lacked: a person confirms them.
    last: HashSet<Id>,
    /// Whether only a second list ends it, however small the loss: the list was of an older state,
    /// or lacked objects that are not deleted unobserved.
    needs_confirmation: bool,
    confirm_at: Instant,
}

/// Conclusion from a list.
#[derive(Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The list is complete: the objects that it lacks are deleted.
    Accepted {
        /// Whether it is a second list, requested after a first one.
        confirms: bool,
    },
    /// The objects of the list exist. Those that it lacks may be deleted, and are retained until a
    /// second list.
    Suspended {
        /// Number of objects that it lacks.
        missing: usize,
        /// Number of objects that were expected.
        of: usize,
    },
}

/// Deletions that a list suggests.
#[derive(Default)]
struct Loss {
    missing: HashSet<Id>,
    /// Number of objects that were expected.
    of: usize,
    /// Whether an object with finalizers is among them that was not observed terminating.
    is_unobserved: bool,
}

impl DeletionGuard {
    /// Returns a guard that requests a second list after `confirmation_interval`. If some object
    /// always exists (`never_empty`), the deletions of an empty list are suspended, however few
    /// they are.
    pub fn new(confirmation_interval: Duration, never_empty: bool) -> Self {
        Self {
            observed: ObservedObjects::default(),
            bytes: 0,
            suspended: None,
            confirm_at: None,
            confirmed_by_person: false,
            awaits_initial_list: true,
            never_empty,
            confirmation_interval,
            hasher: RandomState::new(),
        }
    }

    /// Returns the state that the guard retains of an object of `bytes` bytes.
    pub fn object(&self, meta: &ObjectMeta, bytes: usize) -> (Id, ObservedObject) {
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        let observed = ObservedObject {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            is_terminating: meta.deletion_timestamp.is_some(),
            has_finalizers: !finalizers.is_empty(),
        };
        (self.id(meta), observed)
    }

    /// Applies a watch event that shows the object, perhaps terminating. Returns its hash.
    pub fn observe_applied(&mut self, meta: &ObjectMeta, bytes: usize) -> Id {
        let (id, observed) = self.object(meta, bytes);
        let before = self.observed.insert(id, observed);
        self.bytes += observed.bytes as usize;
        self.bytes -= before.map_or(0, |before| before.bytes as usize);
        id
    }

    /// Applies a watch event that shows the object deleted. Returns its hash.
    pub fn observe_deleted(&mut self, meta: &ObjectMeta) -> Id {
        let id = self.id(meta);
        self.forget(&[id]);
        id
    }

    /// Forgets objects: later lists may lack them.
    pub fn forget(&mut self, ids: &[Id]) {
        for id in ids {
            let before = self.observed.remove(id);
            self.bytes -= before.map_or(0, |before| before.bytes as usize);
        }
    }

    /// Whether an unreadable object of a list was observed before.
    pub fn has_observed(&self, mut unread: impl Iterator<Item = Id>) -> bool {
        unread.any(|id| self.observed.contains_key(&id))
    }

    /// Whether a list lacks an object that was observed.
    pub fn is_lacking(&self, listed: &ObservedObjects) -> bool {
        self.observed.keys().any(|id| !listed.contains_key(id))
    }

    /// Returns the number of observed objects, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.observed.len(), self.bytes)
    }

    fn replace(&mut self, observed: ObservedObjects) {
        self.bytes = observed.values().map(|one| one.bytes as usize).sum();
        self.observed = observed;
    }

    fn id(&self, meta: &ObjectMeta) -> Id {
        self.hasher
            .hash_one((&meta.namespace, &meta.name, &meta.uid))
    }

    /// Returns the time at which the next list is due, if one is.
    pub fn relist_at(&self) -> Option<Instant> {
        let suspended = self.suspended.as_ref().map(|one| one.confirm_at);
        suspended.into_iter().chain(self.confirm_at).min()
    }

    /// Requests a second list: a comparison with the records of others suspects deletions in the
    /// last one. Of several requests the earliest counts.
    pub fn request_second_list(&mut self, now: Instant) {
        let at = now + self.confirmation_interval;
        self.confirm_at = Some(self.confirm_at.map_or(at, |before| before.min(at)));
    }

    /// Confirms the deletions that are suspended now, on behalf of a person. A list is due at once,
    /// and the objects that it lacks are deleted unless many of them are others.
    pub fn confirm_deletions(&mut self, now: Instant) {
        if self.relist_at().is_some() {
            self.confirm_at = Some(now);
            self.confirmed_by_person = true;
        }
    }

    /// Whether a person confirmed the deletions that the next list suggests.
    pub fn is_confirmed_by_person(&self) -> bool {
        self.confirmed_by_person
    }

    /// Concludes from a list that began at `begun`: a second list is one that began when it was
    /// due. `went_back` reports that it is of an older state than was observed.
    pub fn observe_list(
        &mut self,
        listed: ObservedObjects,
        went_back: bool,
        begun: Instant,
        now: Instant,
    ) -> Conclusion {
        let is_requested = self.confirm_at.is_some_and(|at| begun >= at);
        let confirmed_by_person = std::mem::take(&mut self.confirmed_by_person);
        let is_initial = std::mem::take(&mut self.awaits_initial_list);
        if is_requested {
            self.confirm_at = None;
        }
        let is_suspect = is_initial || self.never_empty;
        if listed.is_empty() && self.observed.is_empty() && is_suspect && !is_requested {
            return self.observe_nothing(now);
        }
        let loss = self.loss(&listed);
        let is_confirmed = self.is_confirmed(&loss, confirmed_by_person, begun);
        let before = self.suspended.as_ref();
        let is_emptied = self.never_empty && listed.is_empty() && !loss.missing.is_empty();
        let needs_confirmation = is_emptied
            || loss.is_unobserved
            || before.is_some_and(|before| before.needs_confirmation);
        let is_small = !is_large_loss(loss.missing.len(), loss.of) && !needs_confirmation;
        if (confirmed_by_person || !went_back) && (is_confirmed || is_small) {
            let confirms = is_confirmed || is_requested;
            if !loss.missing.is_empty() && !confirms {
                // Were the objects there all the same, no watch would ever show them.
                self.request_second_list(now);
            }
            self.replace(listed);
            self.suspended = None;
            return Conclusion::Accepted { confirms };
        }
        self.suspended.take_if(|before| begun >= before.confirm_at);
        self.suspend(loss, listed, went_back || is_emptied, now)
    }

    /// Concludes from an empty list if nothing was observed before.
    fn observe_nothing(&mut self, now: Instant) -> Conclusion {
        self.request_second_list(now);
        match self.never_empty {
            true => Conclusion::Suspended { missing: 0, of: 0 },
            false => Conclusion::Accepted { confirms: false },
        }
    }

    fn loss(&self, listed: &ObservedObjects) -> Loss {
        let mut loss = Loss::default();
        for (id, object) in &self.observed {
            if object.is_terminating {
                continue;
            }
            loss.of += 1;
            if !listed.contains_key(id) {
                loss.missing.insert(*id);
                loss.is_unobserved |= object.has_finalizers;
            }
        }
        loss
    }

    /// Whether a list that is due, or that a person requested, lacks the objects that the one
    /// before lacked, and few others, none of them with finalizers.
    fn is_confirmed(&self, loss: &Loss, by_person: bool, begun: Instant) -> bool {
        let has_finalizers = |id: &Id| self.observed.get(id).is_some_and(|one| one.has_finalizers);
        self.suspended.as_ref().is_some_and(|before| {
            let (suspended, is_due) = match by_person {
                true => (&before.last, true),
                false => (&before.objects, begun >= before.confirm_at),
            };
            let mut others = loss.missing.difference(suspended);
            is_due && !is_large_loss(others.clone().count(), loss.of) && !others.any(has_finalizers)
        })
    }

    /// Retains the objects that the list lacks, with those that it holds. A second list is due an
    /// interval after the first that suggested the deletions.
    fn suspend(
        &mut self,
        loss: Loss,
        listed: ObservedObjects,
        went_back: bool,
        now: Instant,
    ) -> Conclusion {
        let missing = loss.missing.len();
        let mut observed = std::mem::take(&mut self.observed);
        observed.extend(listed);
        self.replace(observed);
        match &mut self.suspended {
            Some(before) => before.last = loss.missing,
            None => {
                self.suspended = Some(Suspended {
                    objects: loss.missing.clone(),
                    last: loss.missing,
                    needs_confirmation: went_back || loss.is_unobserved,
                    confirm_at: now + self.confirmation_interval,
                });
            }
        }
        Conclusion::Suspended {
            missing,
            of: loss.of,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    const ACCEPTED: Conclusion = Conclusion::Accepted { confirms: false };
    const CONFIRMED: Conclusion = Conclusion::Accepted { confirms: true };

    fn suspended(missing: usize, of: usize) -> Conclusion {
        Conclusion::Suspended { missing, of }
    }

    fn listed(objects: impl IntoIterator<Item = Id>) -> ObservedObjects {
        let object = ObservedObject {
            bytes: 10,
            is_terminating: false,
            has_finalizers: false,
        };
        objects.into_iter().map(|id| (id, object)).collect()
    }

    /// Asserts the conclusion from a list of the present state.
    #[track_caller]
    fn assert_list(guard: &mut DeletionGuard, ids: Range<Id>, now: Instant, concludes: Conclusion) {
        assert_eq!(guard.observe_list(listed(ids), false, now, now), concludes);
    }

    fn guard(known: u64, now: Instant) -> DeletionGuard {
        let mut guard = DeletionGuard::new(INTERVAL, false);
        assert_list(&mut guard, 0..known, now, ACCEPTED);
        guard
    }

    #[test]
    fn few_deletions_of_an_empty_list_are_suspended_where_there_is_always_some_object() {
        let now = Instant::now();
        let mut guard = DeletionGuard::new(INTERVAL, true);
        assert_list(&mut guard, 0..3, now, ACCEPTED);
        assert_list(&mut guard, 0..0, now, suspended(3, 3));
        assert_list(&mut guard, 0..0, now + INTERVAL, CONFIRMED);
    }

    #[test]
    fn deletions_are_suspended_only_if_they_are_more_than_ten_and_more_than_a_fifth() {
        let now = Instant::now();
        for (known, left, conclusion) in [
            (10, 0, ACCEPTED),
            (11, 0, suspended(11, 11)),
            (12, 2, ACCEPTED),
            (100, 80, ACCEPTED),
            (100, 79, suspended(21, 100)),
            (1000, 800, ACCEPTED),
            (1000, 0, suspended(1000, 1000)),
        ] {
            let mut guard = guard(known, now);
            assert_eq!(
                guard.observe_list(listed(0..left), false, now, now),
                conclusion,
                "{known} {left}"
            );
        }
    }

    #[test]
    fn suspended_deletions_count_once_a_later_list_lacks_the_same() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        assert_list(&mut guard, 0..5, now, suspended(95, 100));
        assert_eq!(guard.relist_at(), Some(now + INTERVAL));
        let early = now + INTERVAL / 2;
        assert_list(&mut guard, 0..5, early, suspended(95, 100));
        assert_eq!(guard.relist_at(), Some(now + INTERVAL));
        let later = now + INTERVAL;
        assert_list(&mut guard, 0..4, later, CONFIRMED);
        assert_eq!(guard.relist_at(), None);
        assert_list(&mut guard, 0..0, later, ACCEPTED);
    }

    #[test]
    fn few_deletions_count_at_once_and_are_listed_again_once() {
        let now = Instant::now();
        let later = now + INTERVAL;
        let mut guard = guard(10, now);
        assert_list(&mut guard, 0..10, now, ACCEPTED);
        assert_eq!(guard.relist_at(), None);
        assert_list(&mut guard, 0..0, now, ACCEPTED);
        assert_eq!(guard.relist_at(), Some(later));
        assert_list(&mut guard, 0..10, later, CONFIRMED);
        assert_eq!(guard.relist_at(), None);
        assert_list(&mut guard, 0..9, later, ACCEPTED);
        let last = later + INTERVAL;
        assert_list(&mut guard, 0..9, last, CONFIRMED);
        assert_eq!(guard.relist_at(), None);
    }

    #[test]
    fn deletions_of_others_are_suspended_again_and_what_came_back_was_never_gone() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        assert_list(&mut guard, 0..50, now, suspended(50, 100));
        let later = now + INTERVAL;
        assert_list(&mut guard, 50..100, later, suspended(50, 100));
        assert_eq!(guard.relist_at(), Some(later + INTERVAL));
        let last = later + INTERVAL;
        assert_list(&mut guard, 0..100, last, CONFIRMED);
    }

    #[test]
    fn the_deletions_of_a_list_of_an_older_state_are_suspended_however_few() {
        let now = Instant::now();
        let mut guard = guard(5, now);
        assert_eq!(
            guard.observe_list(listed(0..5), true, now, now),
            suspended(0, 5)
        );
        assert_list(&mut guard, 0..4, now, suspended(1, 5));
        let later = now + INTERVAL;
        assert_eq!(
            guard.observe_list(listed(0..3), true, later, later),
            suspended(2, 5)
        );
        let last = later + INTERVAL;
        assert_list(&mut guard, 0..3, last, CONFIRMED);
    }

    #[test]
    fn an_object_with_finalizers_does_not_go_unobserved() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        let mut meta = ObjectMeta {
            finalizers: Some(vec!["mcs.causeway.dev/cleanup".to_owned()]),
            ..ObjectMeta::default()
        };
        guard.observe_applied(&meta, 10);
        assert_list(&mut guard, 0..3, now, suspended(1, 4));
        let later = now + INTERVAL;
        assert_list(&mut guard, 0..3, later, CONFIRMED);
        guard.observe_applied(&meta, 10);
        meta.finalizers = None;
        guard.observe_applied(&meta, 10);
        assert_list(&mut guard, 0..3, later, ACCEPTED);
    }

    #[test]
    fn second_list_without_another_finalized_object_suspends_again() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        let [a, b] = ["a", "b"].map(|name| ObjectMeta {
            name: Some(name.to_owned()),
            finalizers: Some(vec!["mcs.causeway.dev/cleanup".to_owned()]),
            ..ObjectMeta::default()
        });
        guard.observe_applied(&a, 10);
        guard.observe_applied(&b, 10);
        let mut with_b = listed(0..3);
        with_b.extend([guard.object(&b, 10)]);
        assert_eq!(guard.observe_list(with_b, false, now, now), suspended(1, 5));
        let later = now + INTERVAL;
        assert_list(&mut guard, 0..3, later, suspended(2, 5));
        let last = later + INTERVAL;
        assert_list(&mut guard, 0..3, last, CONFIRMED);
    }

    #[test]
    fn what_is_being_deleted_is_expected_to_go() {
        let mut guard = DeletionGuard::new(INTERVAL, false);
        let now = Instant::now();
        let mut metas: Vec<_> = (0..40)
            .map(|number| ObjectMeta {
                name: Some(format!("foo-{number}")),
                ..ObjectMeta::default()
            })
            .collect();
        for meta in &metas {
            guard.observe_applied(meta, 10);
        }
        for meta in &mut metas[..30] {
            meta.deletion_timestamp = Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH.into());
            guard.observe_applied(meta, 10);
        }
        assert_list(&mut guard, 0..0, now, ACCEPTED);
        for meta in &metas[30..] {
            guard.observe_applied(meta, 10);
        }
        assert_list(&mut guard, 0..0, now, ACCEPTED);
    }

    #[test]
    fn an_empty_initial_list_is_confirmed_and_its_deletions_suspended_where_there_is_always_some_object()
     {
        let now = Instant::now();
        let (early, later) = (now + INTERVAL / 2, now + INTERVAL);
        let none = suspended(0, 0);
        for (never_empty, first) in [(false, ACCEPTED), (true, none)] {
            for (second, at, conclusion) in [
                (
                    0,
                    early,
                    if never_empty {
                        suspended(0, 0)
                    } else {
                        ACCEPTED
                    },
                ),
                (3, early, ACCEPTED),
                (0, later, CONFIRMED),
                (3, later, CONFIRMED),
            ] {
                let mut guard = DeletionGuard::new(INTERVAL, never_empty);
                assert_eq!(guard.observe_list(listed([]), false, now, now), first);
                assert_eq!(guard.relist_at(), Some(later));
                let concluded = guard.observe_list(listed(0..second), false, at, at);
                assert_eq!(concluded, conclusion, "{never_empty} {second}");
                assert_eq!(guard.relist_at(), Some(later).filter(|_| at == early));
            }
        }
    }

    #[test]
    fn a_list_in_which_others_suspect_deletions_is_listed_again() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        guard.request_second_list(now + INTERVAL);
        guard.request_second_list(now);
        guard.request_second_list(now + INTERVAL / 2);
        let later = now + INTERVAL;
        assert_eq!(guard.relist_at(), Some(later));
        assert_list(&mut guard, 0..3, now, ACCEPTED);
        assert_list(&mut guard, 0..3, later, CONFIRMED);
        assert_eq!(guard.relist_at(), None);
    }

    #[test]
    fn deletions_that_a_person_confirms_are_listed_at_once_and_count_and_later_ones_are_suspended()
    {
        let now = Instant::now();
        let mut guard = guard(100, now);
        guard.confirm_deletions(now);
        assert_eq!(guard.relist_at(), None, "nothing is suspended");
        assert_list(&mut guard, 0..50, now, suspended(50, 100));
        guard.confirm_deletions(now);
        assert_eq!(guard.relist_at(), Some(now));
        assert_eq!(guard.observe_list(listed(0..40), true, now, now), CONFIRMED);
        assert_eq!(guard.relist_at(), None);
        assert_list(&mut guard, 0..0, now, suspended(40, 40));
    }

    #[test]
    fn a_person_confirms_what_the_last_list_lacked_and_few_others() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        assert_list(&mut guard, 0..70, now, suspended(30, 100));
        assert_list(&mut guard, 0..50, now, suspended(50, 100));
        guard.confirm_deletions(now);
        assert_list(&mut guard, 0..0, now, suspended(100, 100));
        assert_list(&mut guard, 0..0, now, suspended(100, 100));
        guard.confirm_deletions(now);
        assert_list(&mut guard, 0..0, now, CONFIRMED);
    }

    #[test]
    fn list_that_began_before_it_was_due_is_no_second_one() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        assert_list(&mut guard, 0..40, now, suspended(60, 100));
        let (due, moment) = (now + INTERVAL, Duration::from_millis(1));
        let slow = guard.observe_list(listed(0..40), false, due - moment, due + moment);
        assert_eq!(slow, suspended(60, 100));
        assert_eq!(guard.relist_at(), Some(due));
        assert_list(&mut guard, 0..40, due, CONFIRMED);
    }

    #[test]
    fn later_lists_may_lack_forgotten_objects() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        guard.forget(&(20..100).collect::<Vec<_>>());
        assert_eq!(guard.size(), (20, 200));
        assert_list(&mut guard, 0..20, now, ACCEPTED);
        assert_eq!(guard.relist_at(), None, "nothing is missing");
    }

    #[test]
    fn what_is_there_is_weighed() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        assert_eq!(guard.size(), (3, 30));
        let mut meta = ObjectMeta {
            name: Some("foo".to_owned()),
            ..ObjectMeta::default()
        };
        guard.observe_applied(&meta, 5);
        guard.observe_applied(&meta, 7);
        assert_eq!(guard.size(), (4, 37));
        meta.deletion_timestamp = Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH.into());
        guard.observe_applied(&meta, 8);
        assert_eq!(guard.size(), (4, 38), "it is there until it is gone");
        guard.observe_deleted(&meta);
        guard.observe_deleted(&meta);
        assert_eq!(guard.size(), (3, 30));
        guard.observe_list(listed(0..2), false, now, now);
        assert_eq!(guard.size(), (2, 20));
    }
}
