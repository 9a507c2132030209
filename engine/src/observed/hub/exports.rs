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
        match signal {
            Signal::Listed(exports) => {
                let before = std::mem::take(self);
                for export in exports {
                    self.put(export, &before);
                }
            }
            Signal::Applied(export) => self.put(export, &Self::default()),
            Signal::Deleted(export) => {
                if let Some(key) = export.key {
                    self.uids.remove(&key);
                    self.unsaid.remove(&key);
                }
            }
            _ => {}
        }
    }

    /// Stores the export. It is to be reported if it is new, or if it was not reported `before`.
    fn put(&mut self, HubExport { key, uid }: HubExport, before: &Self) {
        let Some(key) = key else { return };
        let known = self.uids.get(&key).or(before.uids.get(&key));
        if known != Some(&uid) || before.unsaid.contains(&key) {
            self.unsaid.insert(key.clone());
        }
        self.uids.insert(key, uid);
    }
}
