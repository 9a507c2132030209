//! Which members hold something of a service: where there are hundreds, none of them is asked in vain.

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::map::HashMap;

/// The members that [hold something](super::member::Member::holds_any) of each service, and perhaps some that do no more.
#[derive(Debug, Default)]
pub(super) struct Holders(HashMap<ServiceKey, Vec<ClusterName>>);

impl Holders {
    /// Notes whether a member holds something of a service.
    pub(super) fn note(&mut self, key: &ServiceKey, name: &ClusterName, holds: bool) {
        match (self.0.get_mut(key), holds) {
            (Some(names), _) => match (names.binary_search(name), holds) {
                (Err(place), true) => {
                    names.reserve_exact(1);
                    names.insert(place, name.clone());
                }
                (Ok(place), false) => {
                    names.remove(place);
                    if names.is_empty() {
                        self.0.remove(key);
                    }
                }
                (Ok(_), true) | (Err(_), false) => {}
            },
            (None, true) => {
                self.0.insert(key.clone(), vec![name.clone()]);
            }
            (None, false) => {}
        }
    }

    /// Nothing is known of the member any more.
    pub(super) fn forget(&mut self, name: &ClusterName) {
        self.0.retain(|_, names| {
            names.retain(|other| other != name);
            !names.is_empty()
        });
    }

    /// In the order of their names.
    pub(super) fn of(&self, key: &ServiceKey) -> &[ClusterName] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }
}
