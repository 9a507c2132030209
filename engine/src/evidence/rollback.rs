//! Detection of a store that was restored from a snapshot: its objects retain their UIDs, and their
//! versions run lower than those from which copies were made.

use std::time::Duration;

use causeway::domain::ServiceKey;

use crate::model::TimePoint;
use crate::model::map::HashMap;
use crate::model::slice::{SourceVersion, Uid};

/// Minimum age of a suspected rollback that a complete list confirms. A second list comes half a
/// minute after it was requested; one that ends sooner may have begun before the version was
/// written.
const SETTLED: Duration = Duration::from_secs(20);
/// Pause between second lists for versions that copies name, at first and at most. A writer of
/// copies can name any version.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LAST_PAUSE: Duration = Duration::from_secs(3600);

/// Versions of source slices that copies name and the member does not show.
#[derive(Debug, Default)]
pub(crate) struct Rollbacks {
    suspected: HashMap<Uid, Newer>,
    /// Versions that are lost, as a second list confirmed, and with them all older ones that the
    /// member does not show.
    lost: HashMap<Uid, Newer>,
    last: Option<Request>,
}

/// Last request of a second list.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: TimePoint,
    pause: Duration,
    /// Time from which the next one may be requested.
    next: TimePoint,
}

/// Consequence of a copy that names a newer version than its source's cluster shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// The version is noted. A second list was requested, or is after the next initial list.
    Noted,
    /// The version is noted. A second list is to be requested.
    Request,
    /// Recent lists for such copies confirmed nothing. The copy is to be reviewed at that time.
    Later(TimePoint),
}

/// Newest version of a source slice that any copy names.
#[derive(Debug)]
struct Newer {
    key: ServiceKey,
    resource_version: u64,
    since: TimePoint,
}

impl Rollbacks {
    /// Returns the newest version of that slice that its cluster has lost, as a second list
    /// confirmed. Older versions are lost too.
    pub(crate) fn lost_versions(&self, source: &Uid) -> Option<u64> {
        let lost = self.lost.get(source)?;
        Some(lost.resource_version)
    }

    /// Notes that a copy names that version of a source slice, which is newer than the one that its
    /// cluster shows. The pauses between second lists grow.
    pub(crate) fn suspect(
        &mut self,
        key: &ServiceKey,
        version: &SourceVersion,
        now: TimePoint,
    ) -> Suspicion {
        let resource_version = version.resource_version;
        let known = self.suspected.get(&version.uid);
        if known.is_some_and(|known| known.resource_version >= resource_version) {
            return Suspicion::Noted;
        }
        let mut suspicion = Suspicion::Noted;
        if self.suspected.is_empty() {
            let pause = match self.last {
                Some(last) if now < last.next => return Suspicion::Later(last.next),
                Some(last) if now.since(last.next) < LAST_PAUSE => 2 * last.pause,
                _ => FIRST_PAUSE,
            };
            let pause = pause.min(LAST_PAUSE);
            self.last = Some(Request {
                at: now,
                pause,
                next: now.after(pause),
            });
            suspicion = Suspicion::Request;
        }
        let newer = Newer {
            key: key.clone(),
            resource_version,
            since: now,
        };
        self.suspected.insert(version.uid.clone(), newer);
        suspicion
    }

    /// Whether a version is suspected that no second list has settled.
    pub(crate) fn is_any_suspected(&self) -> bool {
        !self.suspected.is_empty()
    }

    /// Applies a second list, which confirms the versions of its slices that the cluster has
    /// (`shown`). A version that was suspected before the list and that the cluster still does not
    /// show is lost. Returns the services of all suspected versions, which are to be reviewed: a
    /// younger version is suspected again. Slices that the list does not cover (`is_listed`) are
    /// left out.
    pub(crate) fn confirm(
        &mut self,
        is_listed: impl Fn(&ServiceKey, &Uid) -> bool,
        shown: impl Fn(&ServiceKey, &Uid) -> Option<u64>,
        now: TimePoint,
    ) -> Vec<ServiceKey> {
        let is_newer = |uid: &Uid, newer: &Newer| {
            shown(&newer.key, uid).is_some_and(|shown| shown < newer.resource_version)
        };
        self.lost
            .retain(|uid, newer| !is_listed(&newer.key, uid) || is_newer(uid, newer));
        // A list that had begun before it was requested answers nothing.
        let unanswered = self.last.as_mut();
        if let Some(last) = unanswered.filter(|last| now.since(last.at) < SETTLED) {
            last.next = now;
        }
        let mut keys = Vec::new();
        for (uid, newer) in std::mem::take(&mut self.suspected) {
            if !is_listed(&newer.key, &uid) {
                self.suspected.insert(uid, newer);
                continue;
            }
            keys.push(newer.key.clone());
            if is_newer(&uid, &newer) && now.since(newer.since) >= SETTLED {
                self.lost.insert(uid, newer);
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{key, now};

    #[test]
    fn second_lists_for_forged_versions_come_ever_more_slowly() {
        let start = now();
        let mut rollbacks = Rollbacks::default();
        let mut requests = Vec::new();
        for second in (0..7200).step_by(40) {
            let at = start.after(Duration::from_secs(second));
            let version = SourceVersion {
                uid: "5d0f6f34-92a5-4f4b-a3ac-7f0f0ee2f7d1".into(),
                resource_version: 1_000_000 + second,
            };
            match rollbacks.suspect(&key("foo"), &version, at) {
                Suspicion::Request => requests.push(second),
                Suspicion::Later(then) => assert!(at < then),
                Suspicion::Noted => {}
            }
            rollbacks.confirm(
                |_, _| true,
                |_, _| Some(7),
                at.after(Duration::from_secs(30)),
            );
        }
        assert_eq!(requests, [0, 80, 200, 440, 920, 1880, 3800]);
    }
}
