//! A store that was restored from a snapshot: its objects keep their UIDs, and their versions run lower than those from which
//! copies were made.

use std::collections::HashMap;
use std::time::Duration;

use causeway::domain::ServiceKey;

use super::Member;
use crate::index::slice::{SourceVersion, Uid};
use crate::time_point::TimePoint;

/// How long a version has to have been observed before a list was complete that does not know it. A second list comes half a minute
/// after it was asked for; one that ends sooner may have begun before the version came to be.
const SETTLED: Duration = Duration::from_secs(20);

/// Versions of source slices that copies name and the member does not know.
#[derive(Debug, Default)]
pub(super) struct Rollbacks {
    suspected: HashMap<Uid, Newer>,
    /// Lists have confirmed that these versions, and all before them that the member does not show, are lost.
    lost: HashMap<Uid, Newer>,
}

/// The newest version of a source slice that any copy names.
#[derive(Debug)]
struct Newer {
    key: ServiceKey,
    resource_version: u64,
    since: TimePoint,
}

impl Member {
    /// Up to which version what is known of that slice is of a state that its cluster has lost, as a second list has confirmed.
    pub fn lost_versions(&self, source: &Uid) -> Option<u64> {
        let lost = self.rollbacks.lost.get(source)?;
        Some(lost.resource_version)
    }

    /// Notes that a copy was made from that version of a source slice, which is newer than what the member shows. Whether that was
    /// not known: the member is to be listed a second time then.
    pub(in crate::index) fn suspect_rollback(
        &mut self,
        key: &ServiceKey,
        version: &SourceVersion,
        now: TimePoint,
    ) -> bool {
        let resource_version = version.resource_version;
        let known = self.rollbacks.suspected.get(&version.uid);
        if known.is_some_and(|known| known.resource_version >= resource_version) {
            return false;
        }
        let newer = Newer {
            key: key.clone(),
            resource_version,
            since: now,
        };
        self.rollbacks.suspected.insert(version.uid.clone(), newer);
        true
    }

    /// Its next lists come from watches that know nothing of what was suspected; the services that are to be looked at again.
    pub(in crate::index) fn drop_suspected_rollbacks(&mut self) -> Vec<ServiceKey> {
        let suspected = std::mem::take(&mut self.rollbacks.suspected);
        suspected.into_values().map(|newer| newer.key).collect()
    }

    /// A list has confirmed what the member shows: suspicions that were there before it are true where the member still does not
    /// know the version. The services of all of them are to be looked at again: what is younger is suspected anew.
    pub(super) fn confirm_rollbacks(&mut self, now: TimePoint) -> Vec<ServiceKey> {
        let mut rollbacks = std::mem::take(&mut self.rollbacks);
        let shows = |uid: &Uid, newer: &Newer| {
            let mut sources = self.sources(&newer.key);
            let source = sources.find(|(_, source)| source.version.uid == *uid);
            source.map(|(_, source)| source.version.resource_version)
        };
        let is_newer = |uid: &Uid, newer: &Newer| {
            shows(uid, newer).is_some_and(|shown| shown < newer.resource_version)
        };
        rollbacks.lost.retain(|uid, newer| is_newer(uid, newer));
        let mut keys = Vec::new();
        for (uid, newer) in std::mem::take(&mut rollbacks.suspected) {
            keys.push(newer.key.clone());
            if is_newer(&uid, &newer) && now.since(newer.since) >= SETTLED {
                rollbacks.lost.insert(uid, newer);
            }
        }
        self.rollbacks = rollbacks;
        keys
    }
}
