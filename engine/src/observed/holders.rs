//! Index of the members that hold an object of a service. With hundreds of members, only these have
//! to be searched.

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::map::HashMap;

/// Members that [hold an object](super::member::Member::holds_any) of each service, and perhaps
/// some that no longer do.
#[derive(Debug, Default)]
pub(super) struct Holders(HashMap<ServiceKey, Vec<ClusterName>>);

impl Holders {
    /// Notes whether a member holds an object of a service.
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

    /// Removes a member.
    pub(super) fn drop_member(&mut self, name: &ClusterName) {
        self.0.retain(|_, names| {
            names.retain(|other| other != name);
            !names.is_empty()
        });
    }

    /// Returns the members that hold an object of the service, in the order of their names.
    pub(super) fn of(&self, key: &ServiceKey) -> &[ClusterName] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }
}
