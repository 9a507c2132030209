//! Objects of one kind in one cluster, as reported by a watch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use causeway::api::labels;
use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};

/// Namespace and name of an object.
type Id = (String, String);

/// Objects of one kind by key, such as their service.
#[derive(Debug)]
pub(crate) struct Store<Key, K> {
    key: fn(&K) -> Option<Key>,
    /// Objects by key and name.
    objects: HashMap<Key, BTreeMap<String, K>>,
    /// Key of each object.
    keys: HashMap<Id, Key>,
    /// Incomplete list. It replaces the objects once it is complete.
    next: Option<Vec<K>>,
}

impl<Key, K> Store<Key, K>
where
    Key: Clone + Eq + Hash + Ord,
    K: Resource,
{
    /// Returns an empty store. The store ignores objects without a `key`.
    pub(crate) fn new(key: fn(&K) -> Option<Key>) -> Self {
        Self {
            key,
            objects: HashMap::new(),
            keys: HashMap::new(),
            next: None,
        }
    }

    /// Returns the objects of a key.
    pub(crate) fn of(&self, key: &Key) -> impl Iterator<Item = &K> {
        self.objects.get(key).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether the store has an object of a key.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns all keys with objects.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// Returns all objects in the order of their keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = &K> {
        let sorted: BTreeMap<_, _> = self.objects.iter().collect();
        sorted.into_values().flat_map(BTreeMap::values)
    }

    /// Applies one event. Returns the keys whose objects changed.
    pub(crate) fn apply(&mut self, event: Event<K>) -> BTreeSet<Key> {
        match event {
            Event::Init => {
                self.next = Some(Vec::new());
                BTreeSet::new()
            }
            Event::InitApply(object) => {
                self.next.get_or_insert_default().push(object);
                BTreeSet::new()
            }
            Event::InitDone => {
                let objects = self.next.take().unwrap_or_default();
                self.replace(objects)
            }
            Event::Apply(object) => self.put(object),
            Event::Delete(object) => self.take(&id(&object)).into_iter().collect(),
        }
    }

    /// Replaces all objects. Returns the keys whose objects changed.
    pub(crate) fn replace(&mut self, objects: Vec<K>) -> BTreeSet<Key> {
        let mut gone: Vec<Id> = self.keys.keys().cloned().collect();
        if !gone.is_empty() {
            let listed: BTreeSet<_> = objects.iter().map(id).collect();
            gone.retain(|id| !listed.contains(id));
        }
        let gone = gone.iter().filter_map(|id| self.take(id));
        let mut changed: BTreeSet<_> = gone.collect();
        for object in objects {
            changed.extend(self.put(object));
        }
        changed
    }

    fn put(&mut self, object: K) -> BTreeSet<Key> {
        let id = id(&object);
        let key = (self.key)(&object);
        if let (Some(known), Some(key)) = (self.keys.get(&id), &key)
            && known == key
            && self.version(known, &id.1) == object.resource_version()
        {
            return BTreeSet::new();
        }
        let mut changed: BTreeSet<_> = self.take(&id).into_iter().collect();
        if let Some(key) = key {
            let name = id.1.clone();
            self.keys.insert(id, key.clone());
            let objects = self.objects.entry(key.clone()).or_default();
            objects.insert(name, object);
            changed.insert(key);
        }
        changed
    }

    fn version(&self, key: &Key, name: &str) -> Option<String> {
        self.objects.get(key)?.get(name)?.resource_version()
    }

    fn take(&mut self, id: &Id) -> Option<Key> {
        let key = self.keys.remove(id)?;
        if let Some(objects) = self.objects.get_mut(&key) {
            objects.remove(&id.1);
            if objects.is_empty() {
                self.objects.remove(&key);
            }
        }
        Some(key)
    }
}

/// Returns the key of the service with the name of an object.
pub(super) fn key_of<K: Resource>(object: &K) -> Option<ServiceKey> {
    let meta = object.meta();
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    Some(ServiceKey::new(namespace, name))
}

/// Returns the name of an object.
pub(super) fn name_of<K: Resource>(object: &K) -> Option<String> {
    object.meta().name.clone()
}

/// Returns the key of the Service that a slice backs.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<ServiceKey> {
    let service = slice.labels().get(labels::SERVICE_NAME)?;
    let namespace = slice.metadata.namespace.as_deref()?;
    Some(ServiceKey::new(namespace, service.as_str()))
}

fn id<K: Resource>(object: &K) -> Id {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn service(name: &str, of: &str, version: &str) -> Service {
        let labels = match of {
            "" => json!({}),
            of => json!({ "of": of }),
        };
        serde_json::from_value(json!({ "metadata": {
            "name": name, "namespace": "shop", "resourceVersion": version, "labels": labels,
        }}))
        .expect("a Service")
    }

    fn apply<const N: usize>(
        store: &mut Store<String, Service>,
        event: Event<Service>,
        keys: [&str; N],
    ) {
        assert_eq!(store.apply(event), keys.map(str::to_owned).into());
    }

    fn store() -> Store<String, Service> {
        Store::new(|service| service.labels().get("of").cloned())
    }

    fn names(store: &Store<String, Service>, key: &str) -> Vec<String> {
        store.of(&key.to_owned()).map(Service::name_any).collect()
    }

    #[test]
    fn an_object_that_belongs_elsewhere_now_changes_both() {
        let mut store = store();
        let version = |of, version| Event::Apply(service("x", of, version));
        apply(&mut store, version("a", "1"), ["a"]);
        apply(&mut store, version("a", "1"), []);
        apply(&mut store, version("b", "2"), ["a", "b"]);
        assert!(names(&store, "a").is_empty());
        assert_eq!(names(&store, "b"), ["x"]);
        apply(&mut store, version("", "3"), ["b"]);
        assert_eq!(store.keys().count(), 0);
    }

    #[test]
    fn a_list_changes_only_what_differs_from_it() {
        let mut store = store();
        for name in ["x", "y", "z"] {
            store.apply(Event::Apply(service(name, name, "1")));
        }
        store.apply(Event::Init);
        store.apply(Event::InitApply(service("x", "x", "1")));
        store.apply(Event::InitApply(service("y", "y", "2")));
        assert_eq!(names(&store, "z"), ["z"], "the list is not complete");
        apply(&mut store, Event::InitDone, ["y", "z"]);
        assert_eq!(store.all().count(), 2);
        apply(&mut store, Event::Delete(service("x", "x", "9")), ["x"]);
    }
}
