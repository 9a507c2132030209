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

/// Versions of source slices that copies name and the member does not show.
#[derive(Debug, Default)]
pub struct Rollbacks {
    suspected: HashMap<Uid, Newer>,
    /// A second list confirmed that these versions, and all before them that the member does not show, are lost.
    lost: HashMap<Uid, Newer>,
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

    /// A copy was made from that version of a source slice, which is newer than what its cluster shows. Whether that is new: a
    /// second list is to be requested then.
    pub fn suspect(&mut self, key: &ServiceKey, version: &SourceVersion, now: TimePoint) -> bool {
        let resource_version = version.resource_version;
        let known = self.suspected.get(&version.uid);
        if known.is_some_and(|known| known.resource_version >= resource_version) {
            return false;
        }
        let newer = Newer {
            key: key.clone(),
            resource_version,
            since: now,
        };
        self.suspected.insert(version.uid.clone(), newer);
        true
    }

    /// Other watches begin, which know nothing of what was suspected; the services that are to be reviewed.
    pub fn drop_suspected(&mut self) -> Vec<ServiceKey> {
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
