//! ServiceExports on the hub itself. They export nothing unless the hub is one of its own members,
//! which is reported.

use causeway::domain::ServiceKey;

use crate::model::map::{HashMap, HashSet};
use crate::model::{HubExport, Signal};

/// ServiceExports on the hub.
#[derive(Debug, Default)]
pub(crate) struct HubExports {
    uids: HashMap<ServiceKey, Box<str>>,
    /// Exports that were not reported yet.
    unsaid: HashSet<ServiceKey>,
}

impl HubExports {
    /// Takes the exports that were not reported yet, with their UIDs. The next call does not return
    /// them.
    pub(in crate::observed) fn take_unsaid(&mut self) -> Vec<(ServiceKey, Box<str>)> {
        let unsaid = self.unsaid.drain();
        let with_uid = unsaid.filter_map(|key| {
            let uid = self.uids.get(&key)?.clone();
            Some((key, uid))
        });
        with_uid.collect()
    }

    /// Whether any export was not reported yet.
    pub(in crate::observed) fn has_unsaid(&self) -> bool {
        !self.unsaid.is_empty()
    }

    pub(super) fn apply(&mut self, signal: Signal<HubExport>) {
        let known = self.uids.keys().cloned();
        let (exports, gone) = signal.split(known, |export| export.key.clone());
        for HubExport { key, uid } in exports {
            let Some(key) = key else { continue };
            if self.uids.get(&key) != Some(&uid) {
                self.unsaid.insert(key.clone());
            }
            self.uids.insert(key, uid);
        }
        for key in gone {
            self.uids.remove(&key);
            self.unsaid.remove(&key);
        }
    }
}
