//! Sudden mass loss is not believed: an API server whose store was restored, or that answers from a part of it, lists far
//! less than there is, and nothing tells that list from a true one but asking again.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

/// How many objects may go missing from one list to the next without a question, and how large a share of all.
const FEW: usize = 10;
const SHARE: usize = 5;

/// An object, by namespace, name and UID.
type Id = u64;

/// Objects that are there and expected to stay, and whether they have finalizers.
pub(super) type Objects = HashMap<Id, bool>;

/// What is known to be there, and what is missing from the last list and was not believed to be gone.
#[derive(Debug)]
pub(super) struct Guard {
    known: Objects,
    missing: Option<Missing>,
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
    Believed,
    /// What it holds is there, but so many are missing that it has to be asked for again.
    Held(usize),
}

impl Guard {
    /// A guard that asks again after that time.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            known: Objects::new(),
            missing: None,
            patience,
            hasher: RandomState::new(),
        }
    }

    /// The object; one that is being deleted is expected to go, and is none.
    pub(super) fn object(&self, meta: &ObjectMeta) -> Option<(Id, bool)> {
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        let stays = meta.deletion_timestamp.is_none();
        stays.then(|| (self.id(meta), !finalizers.is_empty()))
    }

    /// The object is there, or on its way out.
    pub(super) fn applied(&mut self, meta: &ObjectMeta) {
        match self.object(meta) {
            Some((id, has_finalizers)) => {
                self.known.insert(id, has_finalizers);
            }
            None => self.deleted(meta),
        }
    }

    /// The object is gone.
    pub(super) fn deleted(&mut self, meta: &ObjectMeta) {
        self.known.remove(&self.id(meta));
    }

    fn id(&self, meta: &ObjectMeta) -> Id {
        self.hasher
            .hash_one((&meta.namespace, &meta.name, &meta.uid))
    }

    /// When the list is to be asked for again, if it is.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        self.missing.as_ref().map(|missing| missing.ask_at)
    }

    /// Judges a list: a loss is believed if it is small, or if a list that was asked for later says the same. One of an older
    /// state than was seen before, which `went_back`, is not believed in anything that it lacks; nor is one that lacks an object
    /// with finalizers, which does not go before it is seen on its way.
    pub(super) fn judge(&mut self, listed: Objects, went_back: bool, now: Instant) -> Verdict {
        let known = self.known.iter();
        let missing: HashMap<_, _> = known.filter(|(id, _)| !listed.contains_key(id)).collect();
        let many = |count: usize| count > FEW.max(self.known.len() / SHARE);
        let before = self.missing.as_ref();
        let confirmed = before.is_some_and(|before| {
            let others = missing.keys().filter(|id| !before.objects.contains(id));
            now >= before.ask_at && !many(others.count())
        });
        let unseen = missing.values().any(|has_finalizers| **has_finalizers);
        let in_doubt = unseen || before.is_some_and(|before| before.in_doubt);
        let believed = !went_back && (confirmed || (!many(missing.len()) && !in_doubt));
        if believed {
            self.known = listed;
            self.missing = None;
            return Verdict::Believed;
        }
        let objects: HashSet<_> = missing.into_keys().copied().collect();
        let count = objects.len();
        self.known.extend(listed);
        if self.ask_at().is_none_or(|ask_at| now >= ask_at) {
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

    fn listed(objects: impl IntoIterator<Item = Id>) -> Objects {
        objects.into_iter().map(|id| (id, false)).collect()
    }

    fn guard(known: u64, now: Instant) -> Guard {
        let mut guard = Guard::new(PATIENCE);
        assert_eq!(guard.judge(listed(0..known), false, now), Verdict::Believed);
        guard
    }

    #[test]
    fn a_loss_is_held_only_if_it_is_more_than_ten_and_more_than_a_fifth() {
        let now = Instant::now();
        for (known, left, verdict) in [
            (10, 0, Verdict::Believed),
            (11, 0, Verdict::Held(11)),
            (12, 2, Verdict::Believed),
            (100, 80, Verdict::Believed),
            (100, 79, Verdict::Held(21)),
            (1000, 800, Verdict::Believed),
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
        assert_eq!(guard.judge(listed(0..4), false, later), Verdict::Believed);
        assert_eq!(guard.ask_at(), None);
        assert_eq!(guard.judge(listed([]), false, later), Verdict::Believed);
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
        assert_eq!(guard.judge(listed(0..100), false, last), Verdict::Believed);
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
        assert_eq!(guard.judge(listed(0..3), false, last), Verdict::Believed);
    }

    #[test]
    fn an_object_with_finalizers_does_not_go_unseen() {
        let now = Instant::now();
        let mut guard = guard(3, now);
        let mut meta = ObjectMeta {
            finalizers: Some(vec!["mcs.causeway.dev/cleanup".to_owned()]),
            ..ObjectMeta::default()
        };
        guard.applied(&meta);
        assert_eq!(guard.judge(listed(0..3), false, now), Verdict::Held(1));
        let later = now + PATIENCE;
        assert_eq!(guard.judge(listed(0..3), false, later), Verdict::Believed);
        guard.applied(&meta);
        meta.finalizers = None;
        guard.applied(&meta);
        assert_eq!(guard.judge(listed(0..3), false, later), Verdict::Believed);
    }

    #[test]
    fn what_is_being_deleted_is_expected_to_go() {
        let mut guard = Guard::new(PATIENCE);
        let now = Instant::now();
        let mut metas: Vec<_> = (0..40)
            .map(|number| ObjectMeta {
                name: Some(format!("foo-{number}")),
                ..ObjectMeta::default()
            })
            .collect();
        metas.iter().for_each(|meta| guard.applied(meta));
        for meta in &mut metas[..30] {
            meta.deletion_timestamp = Some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH.into());
            guard.applied(meta);
        }
        assert_eq!(guard.judge(listed([]), false, now), Verdict::Believed);
        metas[30..].iter().for_each(|meta| guard.applied(meta));
        assert_eq!(guard.judge(listed([]), false, now), Verdict::Believed);
    }
}
