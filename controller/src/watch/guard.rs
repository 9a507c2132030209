//! Sudden mass loss is not believed: an API server whose store was restored, or that answers from a part of it, lists far
//! less than there is, and nothing tells that list from a true one but asking again.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use causeway_engine::evidence::is_much;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

/// An object, by namespace, name and UID.
type Id = u64;

/// Objects that are there.
pub(super) type Objects = HashMap<Id, Known>;

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    bytes: u32,
    /// Whether it is expected to stay: it is not on its way out.
    stays: bool,
    has_finalizers: bool,
}

/// What is known to be there, and what is missing from the last list and was not believed to be gone.
#[derive(Debug)]
pub(super) struct Guard {
    known: Objects,
    /// Bytes of all of them.
    bytes: usize,
    missing: Option<Missing>,
    /// When a list is to be asked for again although nothing is missing from what is known.
    again_at: Option<Instant>,
    /// A person says that what is missing is gone.
    released: bool,
    is_new: bool,
    never_empty: bool,
    patience: Duration,
    hasher: RandomState,
}

#[derive(Debug)]
struct Missing {
    objects: HashSet<Id>,
    /// Nothing of it is believed before the second list: it is of an older state, or lacks objects that do not go unseen.
    in_doubt: bool,
    ask_at: Instant,
}

/// What is made of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is all that there is.
    Believed {
        /// Whether it says what an earlier list said, that was in doubt.
        again: bool,
    },
    /// What it holds is there, but so many are missing that it has to be asked for again.
    Held(usize),
}

impl Guard {
    /// A guard that asks again after that time. Where there is always something, `never_empty`, an empty list is in doubt from
    /// the first.
    pub(super) fn new(patience: Duration, never_empty: bool) -> Self {
        Self {
            known: Objects::new(),
            bytes: 0,
            missing: None,
            again_at: None,
            released: false,
            is_new: true,
            never_empty,
            patience,
            hasher: RandomState::new(),
        }
    }

    /// The object, of so many bytes.
    pub(super) fn object(&self, meta: &ObjectMeta, bytes: usize) -> (Id, Known) {
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        let known = Known {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            stays: meta.deletion_timestamp.is_none(),
            has_finalizers: !finalizers.is_empty(),
        };
        (self.id(meta), known)
    }

    /// The object is there, or on its way out.
    pub(super) fn applied(&mut self, meta: &ObjectMeta, bytes: usize) {
        let (id, known) = self.object(meta, bytes);
        let before = self.known.insert(id, known);
        self.bytes += known.bytes as usize;
        self.bytes -= before.map_or(0, |before| before.bytes as usize);
    }

    /// The object is gone.
    pub(super) fn deleted(&mut self, meta: &ObjectMeta) {
        let before = self.known.remove(&self.id(meta));
        self.bytes -= before.map_or(0, |before| before.bytes as usize);
    }

    /// How many objects there are, and how many bytes they take.
    pub(super) fn holds(&self) -> (usize, usize) {
        (self.known.len(), self.bytes)
    }

    fn replace(&mut self, known: Objects) {
        self.bytes = known.values().map(|known| known.bytes as usize).sum();
        self.known = known;
    }

    fn id(&self, meta: &ObjectMeta) -> Id {
        self.hasher
            .hash_one((&meta.namespace, &meta.name, &meta.uid))
    }

    /// When the list is to be asked for again, if it is.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        let missing = self.missing.as_ref().map(|missing| missing.ask_at);
        missing.into_iter().chain(self.again_at).min()
    }

    /// The list is in doubt for reasons that are not seen here: it is to be asked for again.
    pub(super) fn ask_again(&mut self, now: Instant) {
        self.again_at.get_or_insert(now + self.patience);
    }

    /// A person says that what is missing now is gone: the list is to be asked for at once, and believed.
    pub(super) fn release(&mut self, now: Instant) {
        if self.ask_at().is_some() {
            self.again_at = Some(now);
            self.released = true;
        }
    }

    /// Judges a list: a loss is believed if it is small, or if a list that was asked for later says the same. One of an older
    /// state than was seen before, which `went_back`, is not believed in anything that it lacks; nor is one that lacks an object
    /// with finalizers, which does not go before it is seen on its way. A first list without anything is asked for again.
    pub(super) fn judge(&mut self, listed: Objects, went_back: bool, now: Instant) -> Verdict {
        let is_due = self.again_at.is_some_and(|again_at| now >= again_at);
        let released = std::mem::take(&mut self.released);
        let is_first = std::mem::take(&mut self.is_new);
        if is_due {
            self.again_at = None;
        }
        if listed.is_empty() && self.known.is_empty() && (is_first || self.never_empty) && !is_due {
            self.ask_again(now);
            return match self.never_empty {
                true => Verdict::Held(0),
                false => Verdict::Believed { again: false },
            };
        }
        let staying = || self.known.iter().filter(|(_, known)| known.stays);
        let missing: HashMap<_, _> = staying()
            .filter(|(id, _)| !listed.contains_key(id))
            .collect();
        let all = staying().count();
        let many = |count: usize| is_much(count, all);
        let before = self.missing.as_ref();
        let confirmed = before.is_some_and(|before| {
            let others = missing.keys().filter(|id| !before.objects.contains(id));
            now >= before.ask_at && !many(others.count())
        });
        let unseen = missing.values().any(|known| known.has_finalizers);
        let in_doubt = unseen || before.is_some_and(|before| before.in_doubt);
        let believed = !went_back && (confirmed || (!many(missing.len()) && !in_doubt));
        if believed || released {
            let again = confirmed || is_due;
            if !missing.is_empty() && !again {
                // A small loss is believed at once; if it was none, a second list finds what is there and no watch will show.
                self.ask_again(now);
            }
            self.replace(listed);
            self.missing = None;
            return Verdict::Believed { again };
        }
        let objects: HashSet<_> = missing.into_keys().copied().collect();
        let count = objects.len();
        let mut known = std::mem::take(&mut self.known);
        known.extend(listed);
        self.replace(known);
        if self
            .missing
            .as_ref()
            .is_none_or(|before| now >= before.ask_at)
        {
            self.missing = Some(Missing {
                objects,
                in_doubt: went_back || unseen,
                ask_at: now + self.patience,
            });
        }
        Verdict::Held(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    const BELIEVED: Verdict = Verdict::Believed { again: false };
    const BELIEVED_AGAIN: Verdict = Verdict::Believed { again: true };

    fn listed(objects: impl IntoIterator<Item = Id>) -> Objects {
        let known = Known {
            bytes: 10,
            stays: true,
            has_finalizers: false,
        };
        objects.into_iter().map(|id| (id, known)).collect()
    }

    fn guard(known: u64, now: Instant) -> Guard {
        let mut guard = Guard::new(PATIENCE, false);
        assert_eq!(guard.judge(listed(0..known), false, now), BELIEVED);
        guard
    }

    #[test]
    fn a_loss_is_held_only_if_it_is_more_than_ten_and_more_than_a_fifth() {
        let now = Instant::now();
        for (known, left, verdict) in [
            (10, 0, BELIEVED),
            (11, 0, Verdict::Held(11)),
            (12, 2, BELIEVED),
            (100, 80, BELIEVED),
            (100, 79, Verdict::Held(21)),
            (1000, 800, BELIEVED),
            (1000, 0, Verdict::Held(1000)),
        ] {
            let mut guard = guard(known, now);
            assert_eq!(
                guard.judge(listed(0..left), false, now),
                verdict,
                "{known} {left}"
            );
        }
    }

    #[test]
    fn a_loss_is_believed_once_a_list_says_the_same_later() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        assert_eq!(guard.judge(listed(0..5), false, now), Verdict::Held(95));
        assert_eq!(guard.ask_at(), Some(now + PATIENCE));
        let early = now + PATIENCE / 2;
        assert_eq!(guard.judge(listed(0..5), false, early), Verdict::Held(95));
        assert_eq!(guard.ask_at(), Some(now + PATIENCE));
        let later = now + PATIENCE;
        assert_eq!(guard.judge(listed(0..4), false, later), BELIEVED_AGAIN);
        assert_eq!(guard.ask_at(), None);
        assert_eq!(guard.judge(listed([]), false, later), BELIEVED);
    }

    #[test]
    fn a_small_loss_is_believed_and_asked_for_again_once() {
        let now = Instant::now();
        let later = now + PATIENCE;
        let mut guard = guard(10, now);
        assert_eq!(guard.judge(listed(0..10), false, now), BELIEVED);
        assert_eq!(guard.ask_at(), None);
        assert_eq!(guard.judge(listed([]), false, now), BELIEVED);
        assert_eq!(guard.ask_at(), Some(later));
        assert_eq!(guard.judge(listed(0..10), false, later), BELIEVED_AGAIN);
        assert_eq!(guard.ask_at(), None);
        assert_eq!(guard.judge(listed(0..9), false, later), BELIEVED);
        let last = later + PATIENCE;
        assert_eq!(guard.judge(listed(0..9), false, last), BELIEVED_AGAIN);
        assert_eq!(guard.ask_at(), None);
    }

    #[test]
    fn a_loss_of_others_is_held_anew_and_what_came_back_was_never_gone() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        assert_eq!(guard.judge(listed(0..50), false, now), Verdict::Held(50));
        let later = now + PATIENCE;
        assert_eq!(
            guard.judge(listed(50..100), false, later),
            Verdict::Held(50)
        );
        assert_eq!(guard.ask_at(), Some(later + PATIENCE));
        let last = later + PATIENCE;
        assert_eq!(guard.judge(listed(0..100), false, last), BELIEVED_AGAIN);
    }

    #[test]
    fn a_list_of_an_older_state_is_not_believed_whatever_it_lacks() {
        let now = Instant::now();
        let mut guard = guard(5, now);
        assert_eq!(guard.judge(listed(0..5), true, now), Verdict::Held(0));
        assert_eq!(guard.judge(listed(0..4), false, now), Verdict::Held(1));
        let later = now + PATIENCE;
        assert_eq!(guard.judge(listed(0..3), true, later), Verdict::Held(2));
        let last = later + PATIENCE;
        assert_eq!(guard.judge(listed(0..3), false, last), BELIEVED_AGAIN);
    }

    #[test]
    fn an_object_with_finalizers_does_not_go_unseen() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        let mut meta = ObjectMeta {
            finalizers: Some(vec!["mcs.causeway.dev/cleanup".to_owned()]),
            ..ObjectMeta::default()
        };
        guard.applied(&meta, 10);
        assert_eq!(guard.judge(listed(0..3), false, now), Verdict::Held(1));
        let later = now + PATIENCE;
        assert_eq!(guard.judge(listed(0..3), false, later), BELIEVED_AGAIN);
        guard.applied(&meta, 10);
        meta.finalizers = None;
        guard.applied(&meta, 10);
        assert_eq!(guard.judge(listed(0..3), false, later), BELIEVED);
    }

    #[test]
    fn what_is_being_deleted_is_expected_to_go() {
        let mut guard = Guard::new(PATIENCE, false);
        let now = Instant::now();
        let mut metas: Vec<_> = (0..40)
            .map(|number| ObjectMeta {
                name: Some(format!("foo-{number}")),
                ..ObjectMeta::default()
            })
            .collect();
        metas.iter().for_each(|meta| guard.applied(meta, 10));
        for meta in &mut metas[..30] {
            meta.deletion_timestamp = Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH.into());
            guard.applied(meta, 10);
        }
        assert_eq!(guard.judge(listed([]), false, now), BELIEVED);
        metas[30..].iter().for_each(|meta| guard.applied(meta, 10));
        assert_eq!(guard.judge(listed([]), false, now), BELIEVED);
    }

    #[test]
    fn a_first_list_without_anything_is_asked_for_again_and_in_doubt_where_there_is_always_something()
     {
        let now = Instant::now();
        let (early, later) = (now + PATIENCE / 2, now + PATIENCE);
        let held = Verdict::Held(0);
        for (never_empty, first) in [(false, BELIEVED), (true, held)] {
            for (second, at, verdict) in [
                (
                    0,
                    early,
                    if never_empty {
                        Verdict::Held(0)
                    } else {
                        BELIEVED
                    },
                ),
                (3, early, BELIEVED),
                (0, later, BELIEVED_AGAIN),
                (3, later, BELIEVED_AGAIN),
            ] {
                let mut guard = Guard::new(PATIENCE, never_empty);
                assert_eq!(guard.judge(listed([]), false, now), first);
                assert_eq!(guard.ask_at(), Some(later));
                let judged = guard.judge(listed(0..second), false, at);
                assert_eq!(judged, verdict, "{never_empty} {second}");
                assert_eq!(guard.ask_at(), Some(later).filter(|_| at == early));
            }
        }
    }

    #[test]
    fn a_list_that_others_doubt_is_asked_for_again() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        guard.ask_again(now);
        guard.ask_again(now + PATIENCE / 2);
        let later = now + PATIENCE;
        assert_eq!(guard.ask_at(), Some(later));
        assert_eq!(guard.judge(listed(0..3), false, now), BELIEVED);
        assert_eq!(guard.judge(listed(0..3), false, later), BELIEVED_AGAIN);
        assert_eq!(guard.ask_at(), None);
    }

    #[test]
    fn what_a_person_releases_is_asked_for_at_once_and_believed_and_later_losses_are_held() {
        let now = Instant::now();
        let mut guard = guard(100, now);
        guard.release(now);
        assert_eq!(guard.ask_at(), None, "nothing is held");
        assert_eq!(guard.judge(listed(0..50), false, now), Verdict::Held(50));
        guard.release(now);
        assert_eq!(guard.ask_at(), Some(now));
        assert_eq!(guard.judge(listed(0..40), true, now), BELIEVED_AGAIN);
        assert_eq!(guard.ask_at(), None);
        assert_eq!(guard.judge(listed([]), false, now), Verdict::Held(40));
    }

    #[test]
    fn what_is_there_is_weighed() {
        let mut guard = guard(3, Instant::now());
        assert_eq!(guard.holds(), (3, 30));
        let mut meta = ObjectMeta {
            name: Some("foo".to_owned()),
            ..ObjectMeta::default()
        };
        guard.applied(&meta, 5);
        guard.applied(&meta, 7);
        assert_eq!(guard.holds(), (4, 37));
        meta.deletion_timestamp = Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH.into());
        guard.applied(&meta, 8);
        assert_eq!(guard.holds(), (4, 38), "it is there until it is gone");
        guard.deleted(&meta);
        guard.deleted(&meta);
        assert_eq!(guard.holds(), (3, 30));
        guard.judge(listed(0..2), false, Instant::now());
        assert_eq!(guard.holds(), (2, 20));
    }
}
