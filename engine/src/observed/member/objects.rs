//! Objects of which a service key has at most one.

use causeway::domain::ServiceKey;
use kube::Resource;

use super::written::Written;
use crate::evidence::tombstones::Tombstones;
use crate::model::map::{HashMap, HashSet};
use crate::model::object::{is_older, key_of};
use crate::model::{Signal, TimePoint};
use crate::observed::clusterset::{ExportView, ImportView};
use crate::observed::service::ServiceView;

/// Observed objects of one kind, by their own namespace and name. Each is boxed, as half of a map's
/// slots may be empty.
#[derive(Debug)]
pub struct Objects<V>(HashMap<ServiceKey, Box<Written<V>>>);

impl<V> Default for Objects<V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

/// Fields that every observed object has.
pub trait View: PartialEq {
    /// Its UID.
    fn uid(&self) -> &str;
    /// Its resourceVersion.
    fn resource_version(&self) -> &str;
    /// Retains what an earlier version of it has shown and this one does not.
    fn remember(&mut self, _before: &Self) {}
    /// Returns the service that it belongs to if it has that key.
    fn service(&self, key: &ServiceKey) -> ServiceKey {
        key.clone()
    }
}

impl View for ServiceView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Retains the other writer: the last writer of a field owns it, so the object does not show
    /// the other one any more once causeway has restored the field.
    fn remember(&mut self, before: &Self) {
        if self.other_writer.is_none() && self.hub.is_some() && self.uid == before.uid {
            self.other_writer.clone_from(&before.other_writer);
        }
    }

    fn service(&self, key: &ServiceKey) -> ServiceKey {
        match self.derived_for.as_ref().or(self.companion_of.as_ref()) {
            Some(name) => ServiceKey::new(key.namespace.clone(), &**name),
            None => key.clone(),
        }
    }
}

impl View for ExportView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl View for ImportView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl<V: View> Objects<V> {
    /// Returns the object of that key, including one whose deletion was acknowledged.
    pub fn get(&self, key: &ServiceKey) -> Option<&Written<V>> {
        self.0.get(key).map(Box::as_ref)
    }

    /// Returns the object of that key, except one whose deletion was acknowledged.
    pub fn view(&self, key: &ServiceKey) -> Option<&V> {
        let written = self.0.get(key).filter(|written| !written.is_deleted())?;
        Some(&written.view)
    }

    /// Returns all objects and their keys, including those whose deletion was acknowledged.
    pub fn iter(&self) -> impl Iterator<Item = (&ServiceKey, &V)> {
        self.0.iter().map(|(key, written)| (key, &written.view))
    }

    /// Applies an event of a watch. Adds to `changed` the keys of the objects that changed and
    /// those of their services.
    pub(in crate::observed) fn apply<K: Resource>(
        &mut self,
        signal: Signal<K>,
        read: impl Fn(&K) -> Option<V>,
        tombstones: &mut Tombstones,
        changed: &mut HashSet<ServiceKey>,
    ) {
        match signal {
            Signal::Listed(objects) => {
                let mut old = std::mem::take(&mut self.0);
                for object in &objects {
                    let (Some(key), Some(mut view)) = (key_of(object.meta()), read(object)) else {
                        continue;
                    };
                    let before = old.remove(&key);
                    if let Some(before) = &before {
                        view.remember(&before.view);
                    }
                    let is_known = before.as_ref().is_some_and(|before| {
                        before.view == view && before.unseen_since().is_none()
                    });
                    if !is_known {
                        note(
                            changed,
                            &key,
                            before.as_ref().map(|old| &old.view),
                            Some(&view),
                        );
                    }
                    self.0.insert(key, Box::new(Written::seen(view)));
                }
                self.0.shrink_to_fit();
                for (key, gone) in old {
                    note(changed, &key, Some(&gone.view), None);
                }
            }
            Signal::Applied(object) => {
                if let (Some(key), Some(view)) = (key_of(object.meta()), read(&object)) {
                    self.put(key, view, changed);
                }
            }
            Signal::Deleted(object) => {
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                tombstones.add(uid);
                let Some(key) = key_of(object.meta()) else {
                    return;
                };
                if self.0.get(&key).is_some_and(|old| old.view.uid() == uid) {
                    let old = self.0.remove(&key).map(|old| old.view);
                    note(changed, &key, old.as_ref(), None);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, key: ServiceKey, mut view: V, changed: &mut HashSet<ServiceKey>) {
        let before = self.0.get(&key);
        if let Some(before) = before {
            view.remember(&before.view);
        }
        let same = before.filter(|before| before.view.uid() == view.uid());
        if same.is_some_and(|old| is_older(view.resource_version(), old.view.resource_version())) {
            return;
        }
        note(
            changed,
            &key,
            before.map(|before| &before.view),
            Some(&view),
        );
        let written = Written::seen_after(same.map(Box::as_ref), view);
        self.0.insert(key, Box::new(written));
    }

    /// Applies the answer to a write before the watch shows it.
    pub(in crate::observed) fn apply_ack(
        &mut self,
        key: ServiceKey,
        mut view: V,
        tombstones: &Tombstones,
        now: TimePoint,
    ) {
        if let Some(before) = self.0.get(&key) {
            view.remember(&before.view);
        }
        let newer = |old: &Written<V>| {
            old.view.uid() == view.uid()
                && !is_older(old.view.resource_version(), view.resource_version())
        };
        if !tombstones.contains(view.uid()) && !self.get(&key).is_some_and(newer) {
            self.0.insert(key, Box::new(Written::unseen(view, now)));
        }
    }

    /// Notes that the deletion of an object was acknowledged.
    pub(in crate::observed) fn note_deleted(&mut self, key: &ServiceKey, uid: &str) {
        if let Some(object) = self
            .0
            .get_mut(key)
            .filter(|object| object.view.uid() == uid)
        {
            object.note_deleted();
        }
    }

    /// Updates the objects of some keys. Returns the keys.
    pub(super) fn update(
        &mut self,
        is_one: impl Fn(&ServiceKey) -> bool,
        update: impl Fn(&ServiceKey, &mut V),
    ) -> HashSet<ServiceKey> {
        let found = self.0.iter_mut().filter(|(key, _)| is_one(key));
        let updated = found.map(|(key, object)| {
            update(key, &mut object.view);
            key.clone()
        });
        updated.collect()
    }

    /// Removes all objects, as their definition is gone.
    pub(super) fn clear(&mut self, changed: &mut HashSet<ServiceKey>) {
        changed.extend(self.0.drain().map(|(key, _)| key));
    }
}

fn note<V: View>(
    changed: &mut HashSet<ServiceKey>,
    key: &ServiceKey,
    old: Option<&V>,
    new: Option<&V>,
) {
    changed.insert(key.clone());
    changed.extend(old.map(|view| view.service(key)));
    changed.extend(new.map(|view| view.service(key)));
}
