//! The objects behind a watch, as they are now.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};

type Key = (Option<String>, String);

/// Objects by namespace and name, kept up by the events of a watch.
#[derive(Debug)]
pub(crate) struct Mirror<K> {
    now: BTreeMap<Key, K>,
    /// A list that is being received: it replaces the objects only once it is complete.
    next: BTreeMap<Key, K>,
    is_listed: bool,
}

impl<K> Default for Mirror<K> {
    /// Nothing was listed yet.
    fn default() -> Self {
        Self {
            now: BTreeMap::new(),
            next: BTreeMap::new(),
            is_listed: false,
        }
    }
}

impl<K: Resource + Clone> Mirror<K> {
    /// The mirror of what a list gave.
    pub(crate) fn of(objects: Vec<K>) -> Self {
        Self {
            now: objects
                .into_iter()
                .map(|object| (key(&object), object))
                .collect(),
            next: BTreeMap::new(),
            is_listed: true,
        }
    }

    /// Whether all objects are known: a list was complete.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// The objects.
    pub(crate) fn objects(&self) -> Vec<K> {
        self.now.values().cloned().collect()
    }

    /// Takes one event in.
    pub(crate) fn take(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.next.clear(),
            Event::InitApply(object) => {
                self.next.insert(key(&object), object);
            }
            Event::InitDone => {
                self.now = std::mem::take(&mut self.next);
                self.is_listed = true;
            }
            Event::Apply(object) => {
                self.now.insert(key(&object), object);
            }
            Event::Delete(object) => {
                self.now.remove(&key(&object));
            }
        }
    }
}

fn key<K: Resource>(object: &K) -> Key {
    (object.namespace(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;

    fn namespace(name: &str) -> Namespace {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace
    }

    fn names(mirror: &Mirror<Namespace>) -> Vec<String> {
        mirror.objects().iter().map(Namespace::name_any).collect()
    }

    #[test]
    fn a_list_replaces_all_once_it_is_complete() {
        let mut mirror = Mirror::default();
        mirror.take(Event::Init);
        assert!(!mirror.is_listed());
        mirror.take(Event::InitApply(namespace("a")));
        mirror.take(Event::InitApply(namespace("b")));
        mirror.take(Event::InitDone);
        assert!(mirror.is_listed());
        mirror.take(Event::Delete(namespace("a")));
        mirror.take(Event::Apply(namespace("c")));
        assert_eq!(names(&mirror), ["b", "c"]);
        mirror.take(Event::Init);
        mirror.take(Event::InitApply(namespace("d")));
        assert_eq!(names(&mirror), ["b", "c"]);
        mirror.take(Event::InitDone);
        assert_eq!(names(&mirror), ["d"]);
    }
}
