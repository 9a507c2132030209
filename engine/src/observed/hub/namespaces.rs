//! Namespaces of the hub: defaults for the annotations of MultiClusterServices.

use crate::model::defaults::{Annotations, Defaults};
use crate::model::map::{HashMap, HashSet};
use crate::model::{HubNamespace, Signal};

/// Namespaces of the hub that have defaults.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    defaults: HashMap<Box<str>, Annotations>,
}

impl Namespaces {
    /// Returns the defaults of a Namespace, if it has any.
    pub(super) fn defaults<'a>(&'a self, namespace: &'a str) -> Option<Defaults<'a>> {
        let annotations = self.defaults.get(namespace)?;
        Some(Defaults {
            namespace,
            annotations,
        })
    }

    /// Applies the report of the watch. Returns the Namespaces whose defaults changed.
    pub(super) fn apply(&mut self, signal: Signal<HubNamespace>) -> HashSet<Box<str>> {
        let mut changed = HashSet::default();
        match signal {
            Signal::Listed(all) => {
                let mut gone: HashSet<_> = self.defaults.keys().cloned().collect();
                for namespace in all {
                    gone.remove(&namespace.name);
                    self.put(namespace, &mut changed);
                }
                for name in gone {
                    self.remove(name, &mut changed);
                }
            }
            Signal::Applied(namespace) => self.put(namespace, &mut changed),
            Signal::Deleted(namespace) => self.remove(namespace.name, &mut changed),
            _ => {}
        }
        changed
    }

    fn put(&mut self, namespace: HubNamespace, changed: &mut HashSet<Box<str>>) {
        let HubNamespace { name, defaults } = namespace;
        if defaults.is_empty() {
            return self.remove(name, changed);
        }
        if self.defaults.get(&name) != Some(&defaults) {
            changed.insert(name.clone());
            self.defaults.insert(name, defaults);
        }
    }

    fn remove(&mut self, name: Box<str>, changed: &mut HashSet<Box<str>>) {
        if self.defaults.remove(&name).is_some() {
            changed.insert(name);
        }
    }
}
