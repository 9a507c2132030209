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
        let known = self.defaults.keys().cloned();
        let (all, gone) = signal.split(known, |namespace| Some(namespace.name.clone()));
        let mut changed = HashSet::default();
        for namespace in all {
            self.put(namespace, &mut changed);
        }
        for name in gone {
            self.remove(name, &mut changed);
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
