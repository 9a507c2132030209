//! A store that was restored from a snapshot: its objects keep their UIDs, and their versions run lower than those from which
//! copies were made.

use std::time::Duration;

use causeway::domain::ServiceKey;

use crate::model::TimePoint;
use crate::model::map::HashMap;
use crate::model::slice::{SourceVersion, Uid};

/// How long a rollback has to have been suspected before a list was complete that confirms it. A second list comes half a minute
/// after it was requested; one that ends sooner may have begun before the version came to be.
const SETTLED: Duration = Duration::from_secs(20);
/// Pause between second lists for what copies name, at first and at most. Whoever writes copies can name any version.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LAST_PAUSE: Duration = Duration::from_secs(3600);

/// Versions of source slices that copies name and the member does not show.
#[derive(Debug, Default)]
pub struct Rollbacks {
    suspected: HashMap<Uid, Newer>,
    /// A second list confirmed that these versions, and all before them that the member does not show, are lost.
    lost: HashMap<Uid, Newer>,
    last: Option<Request>,
}

/// The last second list that was requested.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: TimePoint,
    pause: Duration,
    /// When the next one may be requested.
    next: TimePoint,
}

/// What follows from a copy that names a newer version than its source's cluster shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// It is noted, and a second list is under way.
    Noted,
    /// It is noted, and a second list is to be requested.
    Request,
    /// Lists that were requested for such copies came to nothing of late: the copy is to be reviewed then.
    Later(TimePoint),
}

/// The newest version of a source slice that any copy names.
#[derive(Debug)]
struct Newer {
    key: ServiceKey,
    resource_version: u64,
    since: TimePoint,
}

impl Rollbacks {
    /// Up to which version what was observed of that slice is of a state that its cluster has lost, as a second list has
    /// confirmed.
    pub fn lost_versions(&self, source: &Uid) -> Option<u64> {
        let lost = self.lost.get(source)?;
        Some(lost.resource_version)
    }

    /// A copy names that version of a source slice, which is newer than what its cluster shows. Second lists follow each other ever
    /// more slowly.
    pub fn suspect(
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

    /// Other watches begin, which know nothing of what was suspected; the services that are to be reviewed.
    pub fn drop_suspected(&mut self) -> Vec<ServiceKey> {
        self.last = None;
        let suspected = std::mem::take(&mut self.suspected);
        suspected.into_values().map(|newer| newer.key).collect()
    }

    /// A second list confirms which versions of its slices the cluster has (`shown`): what was suspected before it is lost where
    /// the cluster still does not show the version. The services of all that was suspected are to be reviewed: what is younger
    /// is suspected again.
    pub fn confirm(
        &mut self,
        shown: impl Fn(&ServiceKey, &Uid) -> Option<u64>,
        now: TimePoint,
    ) -> Vec<ServiceKey> {
        let is_newer = |uid: &Uid, newer: &Newer| {
            shown(&newer.key, uid).is_some_and(|shown| shown < newer.resource_version)
        };
        self.lost.retain(|uid, newer| is_newer(uid, newer));
        // A list that had begun before it was requested answers nothing.
        let unanswered = self.last.as_mut();
        if let Some(last) = unanswered.filter(|last| now.since(last.at) < SETTLED) {
            last.next = now;
        }
        let mut keys = Vec::new();
        for (uid, newer) in std::mem::take(&mut self.suspected) {
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
            rollbacks.confirm(|_, _| Some(7), at.after(Duration::from_secs(30)));
        }
        assert_eq!(requests, [0, 80, 200, 440, 920, 1880, 3800]);
    }
}
