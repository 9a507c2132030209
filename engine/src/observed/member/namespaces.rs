//! Namespaces of a member.

use k8s_openapi::api::core::v1::Namespace;

use super::written::differing;
use crate::model::Signal;
use crate::model::map::{HashMap, HashSet};

/// State of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// It exists and accepts objects.
    Active,
    /// It is terminating: no object can be created in it.
    Terminating,
    /// It does not exist.
    Missing,
}

/// Namespaces of a member.
#[derive(Debug, Default)]
pub(super) struct Namespaces(HashMap<Box<str>, NamespaceState>);

impl Namespaces {
    pub(super) fn get(&self, name: &str) -> NamespaceState {
        let known = self.0.get(name).copied();
        known.unwrap_or(NamespaceState::Missing)
    }

    pub(super) fn apply(&mut self, signal: Signal<Namespace>, changed: &mut HashSet<Box<str>>) {
        match signal {
            Signal::Listed(objects) => {
                let old = std::mem::take(&mut self.0);
                for object in &objects {
                    self.put(object);
                }
                changed.extend(differing(&old, &self.0, |old, new| old == new).cloned());
            }
            Signal::Applied(object) => {
                let Some(name) = object.metadata.name.as_deref() else {
                    return;
                };
                let before = self.get(name);
                self.put(&object);
                if self.get(name) != before {
                    changed.insert(name.into());
                }
            }
            Signal::Deleted(object) => {
                let Some(name) = object.metadata.name.as_deref() else {
                    return;
                };
                self.0.remove(name);
                changed.insert(name.into());
            }
            Signal::Confirmed
            | Signal::DeletionsSuspended(_)
            | Signal::Connected
            | Signal::Failed(_) => {}
        }
    }

    pub(super) fn put(&mut self, object: &Namespace) {
        let Some(name) = object.metadata.name.as_deref() else {
            return;
        };
        let state = match object.metadata.deletion_timestamp {
            Some(_) => NamespaceState::Terminating,
            None => NamespaceState::Active,
        };
        self.0.insert(name.into(), state);
    }
}
