//! The EndpointSlices of a member, per service.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;

use super::{Written, differing};
use crate::index::hub::is_older;
use crate::index::slice::{CopiedSlice, ObservedSlice, SliceRole, SourceSlice};
use crate::watch::Signal;

type Keys = HashSet<ServiceKey>;

/// The EndpointSlices of a member.
#[derive(Debug, Default)]
pub(super) struct Slices {
    pub(super) sources: HashMap<ServiceKey, BTreeMap<Arc<str>, Arc<SourceSlice>>>,
    pub(super) copies: HashMap<ServiceKey, BTreeMap<Arc<str>, Written<CopiedSlice>>>,
    /// The service of each slice, by namespace and name: a slice may change sides.
    keys: HashMap<(Arc<str>, Arc<str>), ServiceKey>,
}

impl Slices {
    pub(super) fn fold(&mut self, signal: Signal<ObservedSlice>, changed: &mut Keys) {
        match signal {
            Signal::Listed(slices) => {
                let old_sources = std::mem::take(&mut self.sources);
                let old_copies = std::mem::take(&mut self.copies);
                self.keys.clear();
                for slice in slices {
                    self.put(slice, &mut Keys::new());
                }
                changed.extend(differing(&old_sources, &self.sources, |old, new| {
                    old == new
                }));
                // That a copy is seen now is news too.
                changed.extend(differing(&old_copies, &self.copies, |old, new| {
                    let news = |(name, copy)| {
                        let copy: &Written<CopiedSlice> = copy;
                        (name, &copy.view, copy.unseen_since)
                    };
                    old.iter().map(news).eq(new.iter().map(news))
                }));
            }
            Signal::Applied(slice) => self.put(slice, changed),
            Signal::Deleted(slice) => {
                let uid = match &slice.role {
                    SliceRole::Copy(_, copy) => Some(&copy.uid),
                    _ => None,
                };
                let known = self
                    .keys
                    .get(&(slice.namespace.clone(), slice.name.clone()));
                let stored = known.and_then(|key| self.copies.get(key)?.get(&slice.name));
                if stored.is_none_or(|copy| uid.is_none_or(|uid| *uid == copy.view.uid)) {
                    self.remove(&slice.namespace, &slice.name, changed);
                }
            }
            Signal::Connected | Signal::Failed(_) => {}
        }
    }

    fn put(&mut self, slice: ObservedSlice, changed: &mut Keys) {
        let ObservedSlice {
            namespace,
            name,
            role,
        } = slice;
        match role {
            SliceRole::Source(key, source) => {
                self.remove(&namespace, &name, changed);
                changed.insert(key.clone());
                self.keys.insert((namespace, name.clone()), key.clone());
                self.sources.entry(key).or_default().insert(name, source);
            }
            SliceRole::Copy(key, copy) => {
                let old = self.copies.get(&key).and_then(|copies| copies.get(&name));
                let same = old.filter(|old| old.view.uid == copy.uid);
                if same
                    .is_some_and(|old| is_older(&copy.resource_version, &old.view.resource_version))
                {
                    return;
                }
                let deleted = same.is_some_and(|old| old.deleted);
                self.remove(&namespace, &name, changed);
                self.put_copy(
                    namespace,
                    name,
                    key,
                    Written {
                        deleted,
                        ..Written::seen(copy)
                    },
                    changed,
                );
            }
            SliceRole::Other => self.remove(&namespace, &name, changed),
        }
    }

    fn put_copy(
        &mut self,
        namespace: Arc<str>,
        name: Arc<str>,
        key: ServiceKey,
        copy: Written<CopiedSlice>,
        changed: &mut Keys,
    ) {
        changed.insert(key.clone());
        self.keys.insert((namespace, name.clone()), key.clone());
        self.copies.entry(key).or_default().insert(name, copy);
    }

    fn remove(&mut self, namespace: &Arc<str>, name: &Arc<str>, changed: &mut Keys) {
        let Some(key) = self.keys.remove(&(namespace.clone(), name.clone())) else {
            return;
        };
        remove_from(&mut self.sources, &key, name);
        remove_from(&mut self.copies, &key, name);
        changed.insert(key);
    }

    pub(super) fn fold_ack(&mut self, slice: ObservedSlice, now: Timestamp) {
        let SliceRole::Copy(key, copy) = slice.role else {
            return;
        };
        let newer = |old: &Written<CopiedSlice>| {
            old.view.uid == copy.uid
                && !is_older(&old.view.resource_version, &copy.resource_version)
        };
        if !self
            .copies
            .get(&key)
            .and_then(|copies| copies.get(&slice.name))
            .is_some_and(newer)
        {
            let copy = Written::unseen(copy, now);
            self.put_copy(slice.namespace, slice.name, key, copy, &mut Keys::new());
        }
    }

    /// The deletion of a copy was acknowledged.
    pub(super) fn note_deleted(&mut self, key: &ServiceKey, name: &str, uid: &str) {
        let copy = self
            .copies
            .get_mut(key)
            .and_then(|copies| copies.get_mut(name));
        if let Some(copy) = copy.filter(|copy| *copy.view.uid == *uid) {
            copy.deleted = true;
        }
    }
}

fn remove_from<T>(
    map: &mut HashMap<ServiceKey, BTreeMap<Arc<str>, T>>,
    key: &ServiceKey,
    name: &Arc<str>,
) {
    if let Some(slices) = map.get_mut(key) {
        slices.remove(name);
        if slices.is_empty() {
            map.remove(key);
        }
    }
}
