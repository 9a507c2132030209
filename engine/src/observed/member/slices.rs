//! EndpointSlices of a member, by service.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use causeway::domain::ServiceKey;

use super::Member;
use super::by_name::ByName;
use super::written::{Changed, Written, differing};
use crate::model::map::{HashMap, HashSet};
use crate::model::slice::{
    CopiedSlice, KarmadasSlice, ObservedSlice, SliceManager, SliceRole, SourceSlice, Uid,
    UnmanagedSlice,
};
use crate::model::{Signal, TimePoint};

type Keys = HashSet<ServiceKey>;
/// Slices by service. All slices of a service share its key.
type ByService<T> = HashMap<Arc<ServiceKey>, ByName<T>>;

/// EndpointSlices of a member.
#[derive(Debug, Default)]
pub(super) struct Slices {
    pub(super) sources: ByService<Arc<SourceSlice>>,
    pub(super) copies: ByService<Written<CopiedSlice>>,
    /// Slices that are neither; stored because their names are taken.
    unmanaged: ByService<UnmanagedSlice>,
    /// Service of each slice, by the hash of the slice's namespace and name: a slice may change its
    /// role. An entry counts only if its service has a slice of that name, so a slice is never
    /// mistaken for another one with the same hash.
    homes: HashMap<u64, Arc<ServiceKey>>,
    /// Services and names of slices whose hash is that of another slice. It is empty, except by a
    /// chance of 3 in 100 million among a million slices.
    collided: Vec<(Arc<ServiceKey>, Arc<str>)>,
    hasher: RandomState,
    /// Newest version of a source that was observed.
    pub(super) newest_source: u64,
}

/// Part of the slices that a watch shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    All,
    /// Those that Kubernetes makes.
    Kubernetes,
    /// Those that others make.
    Others,
}

impl Part {
    /// Whether a slice is in the part. `source` is `None` for one that is no source.
    fn has(self, source: Option<&SourceSlice>) -> bool {
        let is_of_others = source.is_none_or(|source| source.manager == SliceManager::Other);
        match self {
            Self::All => true,
            Self::Kubernetes => !is_of_others,
            Self::Others => is_of_others,
        }
    }
}

/// Slice that has the name of an absent copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTheWay<'a> {
    /// A source, or a copy of another service.
    Used,
    /// A slice that is neither.
    UnmanagedSlice(&'a UnmanagedSlice),
}

impl<'a> InTheWay<'a> {
    /// Returns the slice if it is a copy that was made on behalf of that owner and lost its labels.
    pub(crate) fn lost_copy_of(self, owner: &str) -> Option<&'a UnmanagedSlice> {
        match self {
            Self::UnmanagedSlice(unmanaged) if unmanaged.owner.as_deref() == Some(owner) => {
                Some(unmanaged)
            }
            _ => None,
        }
    }
}

impl Member {
    /// Returns the slice that has the name of a copy of the service and is none.
    pub(crate) fn in_the_way(&self, key: &ServiceKey, name: &str) -> Option<InTheWay<'_>> {
        let slices = &self.slices;
        if self.copy(key, name).is_some() {
            return None;
        }
        let home = slices.home(&key.namespace, name)?;
        let unmanaged = slices.unmanaged.get(home).and_then(|all| all.get(name));
        Some(unmanaged.map_or(InTheWay::Used, InTheWay::UnmanagedSlice))
    }

    /// Returns the copies of the Service of that key that were made on behalf of that owner and
    /// lost their labels.
    pub(crate) fn lost_copies(
        &self,
        service: &ServiceKey,
        owner: &str,
    ) -> impl Iterator<Item = &Arc<str>> {
        let unmanaged = self.unmanaged_slices(service);
        let lost =
            unmanaged.filter(move |(_, unmanaged)| unmanaged.owner.as_deref() == Some(owner));
        lost.map(|(name, _)| name)
    }

    /// Returns the slices of other clusters that Karmada's own controllers maintain for the Service
    /// of that key.
    pub(crate) fn karmadas_slices(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &KarmadasSlice)> {
        let unmanaged = self.unmanaged_slices(service);
        unmanaged.filter_map(|(name, unmanaged)| Some((name, &**unmanaged.karmadas.as_ref()?)))
    }

    /// Returns the slice of that name that Karmada's own controllers maintain for the Service of
    /// that key.
    pub(crate) fn karmadas_slice(
        &self,
        service: &ServiceKey,
        name: &str,
    ) -> Option<&KarmadasSlice> {
        let unmanaged = self.slices.unmanaged.get(service)?.get(name)?;
        unmanaged.karmadas.as_deref()
    }

    fn unmanaged_slices(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &UnmanagedSlice)> {
        let unmanaged = self.slices.unmanaged.get(service).into_iter();
        unmanaged.flat_map(ByName::iter)
    }
}

impl Slices {
    /// Returns a source of the service by its UID.
    fn source(&self, key: &ServiceKey, uid: &Uid) -> Option<&Arc<SourceSlice>> {
        let mut sources = self.sources.get(key)?.iter();
        let (_, source) = sources.find(|(_, source)| source.version.uid == *uid)?;
        Some(source)
    }

    /// Returns the version of a source of the service that the member shows.
    pub(super) fn shown_version(&self, key: &ServiceKey, uid: &Uid) -> Option<u64> {
        let source = self.source(key, uid)?;
        Some(source.version.resource_version)
    }

    /// Whether the part has that source of the service. An unknown source is in every part.
    pub(super) fn is_in(&self, part: Part, key: &ServiceKey, uid: &Uid) -> bool {
        let source = self.source(key, uid);
        source.is_none_or(|source| part.has(Some(source)))
    }

    /// Applies a report of the watch of that part.
    pub(super) fn apply(
        &mut self,
        signal: Signal<ObservedSlice>,
        part: Part,
        changed: &mut Changed,
    ) {
        match signal {
            Signal::Listed(slices) if part == Part::Kubernetes => {
                self.replace_sources(slices, |_| true, changed);
            }
            Signal::Listed(slices) => {
                let old_sources = std::mem::take(&mut self.sources);
                let old_copies = std::mem::take(&mut self.copies);
                let old_strays = std::mem::take(&mut self.unmanaged);
                self.homes.clear();
                self.collided.clear();
                for slice in slices {
                    self.put(slice, &mut Changed::default());
                }
                if part != Part::All {
                    self.retain_sources(&old_sources, part);
                }
                self.shrink();
                let differ = differing(&old_sources, &self.sources, |old, new| old == new);
                changed.keys.extend(differ.map(|key| (**key).clone()));
                for key in differing(&old_strays, &self.unmanaged, |old, new| old == new) {
                    Self::note_stray(key, changed);
                }
                // That a copy is seen now is news too.
                let differ = differing(&old_copies, &self.copies, |old, new| {
                    let news = |(name, copy)| {
                        let copy: &Written<CopiedSlice> = copy;
                        (name, &copy.view, copy.unseen_since())
                    };
                    old.iter().map(news).eq(new.iter().map(news))
                });
                changed.keys.extend(differ.map(|key| (**key).clone()));
            }
            Signal::Applied(slice) => self.put(slice, changed),
            Signal::Deleted(slice) => {
                let uid = match &slice.role {
                    SliceRole::Copy(_, copy) => Some(&copy.uid),
                    _ => None,
                };
                let known = self.home(&slice.namespace, &slice.name);
                let stored = known.and_then(|key| self.copies.get(key)?.get(&slice.name));
                let source = known.and_then(|key| self.sources.get(key)?.get(&slice.name));
                // A slice of another manager now left this part, and is in the other one.
                if part.has(source.map(|source| &**source))
                    && stored.is_none_or(|copy| uid.is_none_or(|uid| *uid == copy.view.uid))
                {
                    self.remove(&slice.namespace, &slice.name, changed);
                }
            }
            _ => {}
        }
    }

    /// Replaces the slices that Kubernetes makes for the services that `is_listed` selects by those
    /// of a complete list.
    pub(super) fn replace_sources(
        &mut self,
        slices: Vec<ObservedSlice>,
        is_listed: impl Fn(&ServiceKey) -> bool,
        changed: &mut Changed,
    ) {
        let names = slices.iter().map(|one| (&one.namespace, &one.name));
        let names: HashSet<_> = names.collect();
        let stored = self.sources.iter().filter(|(key, _)| is_listed(key));
        let stored = stored.flat_map(|(key, all)| all.iter().map(move |one| (key, one)));
        let gone = stored.filter(|(key, (name, source))| {
            Part::Kubernetes.has(Some(source)) && !names.contains(&(&key.namespace, *name))
        });
        let gone: Vec<_> = gone
            .map(|(key, (name, _))| (key.namespace.clone(), name.clone()))
            .collect();
        for (namespace, name) in &gone {
            self.remove(namespace, name, changed);
        }
        for slice in slices {
            let is_known = match &slice.role {
                SliceRole::Source(key, source) => {
                    let known = self.sources.get(key).and_then(|all| all.get(&slice.name));
                    known == Some(source)
                }
                SliceRole::Copy(..) | SliceRole::Other(..) => false,
            };
            if !is_known {
                self.put(slice, changed);
            }
        }
    }

    /// Puts back the sources that are not in the part, which was listed.
    fn retain_sources(&mut self, old: &ByService<Arc<SourceSlice>>, part: Part) {
        for (key, sources) in old {
            for (name, source) in sources.iter().filter(|(_, one)| !part.has(Some(one))) {
                if self.home(&key.namespace, name).is_none() {
                    let key = self.settle((**key).clone(), name);
                    let sources = self.sources.entry(key).or_default();
                    sources.insert(name.clone(), source.clone());
                }
            }
        }
    }

    /// Releases spare capacity: hardly anything is added after a list.
    fn shrink(&mut self) {
        self.sources.values_mut().for_each(ByName::shrink);
        self.copies.values_mut().for_each(ByName::shrink);
        self.unmanaged.values_mut().for_each(ByName::shrink);
        self.homes.shrink_to_fit();
        self.sources.shrink_to_fit();
        self.copies.shrink_to_fit();
        self.unmanaged.shrink_to_fit();
    }

    fn put(&mut self, slice: ObservedSlice, changed: &mut Changed) {
        let ObservedSlice {
            namespace,
            name,
            role,
        } = slice;
        match role {
            SliceRole::Source(key, source) => {
                let version = source.version.resource_version;
                self.newest_source = self.newest_source.max(version);
                self.remove(&namespace, &name, changed);
                changed.keys.insert(key.clone());
                let key = self.settle(key, &name);
                self.sources.entry(key).or_default().insert(name, source);
            }
            SliceRole::Copy(key, copy) => {
                let old = self.copies.get(&key).and_then(|copies| copies.get(&name));
                let same = old.filter(|old| old.view.uid == copy.uid);
                if same.is_some_and(|old| copy.resource_version < old.view.resource_version) {
                    return;
                }
                let copy = Written::seen_after(same, copy);
                self.remove(&namespace, &name, changed);
                self.put_copy(name, key, copy, &mut changed.copied);
            }
            SliceRole::Other(key, unmanaged) => {
                self.remove(&namespace, &name, changed);
                if unmanaged.karmadas.is_some() {
                    Self::note_stray(&key, changed);
                }
                let key = self.settle(key, &name);
                self.unmanaged
                    .entry(key)
                    .or_default()
                    .insert(name, unmanaged);
            }
        }
    }

    fn put_copy(
        &mut self,
        name: Arc<str>,
        key: ServiceKey,
        copy: Written<CopiedSlice>,
        changed: &mut Keys,
    ) {
        changed.insert(key.clone());
        let key = self.settle(key, &name);
        self.copies.entry(key).or_default().insert(name, copy);
    }

    fn home(&self, namespace: &str, name: &str) -> Option<&Arc<ServiceKey>> {
        if let Some(at) = self.collision(namespace, name) {
            return self.collided.get(at).map(|(key, _)| key);
        }
        let home = self.homes.get(&self.id(namespace, name));
        home.filter(|key| *key.namespace == *namespace && self.has(key, name))
    }

    fn collision(&self, namespace: &str, name: &str) -> Option<usize> {
        let mut collided = self.collided.iter();
        collided.position(|(key, slice)| **slice == *name && *key.namespace == *namespace)
    }

    /// Whether the service has a slice of that name.
    fn has(&self, key: &ServiceKey, name: &str) -> bool {
        fn has<T>(slices: &ByService<T>, key: &ServiceKey, name: &str) -> bool {
            slices.get(key).is_some_and(|all| all.get(name).is_some())
        }
        has(&self.copies, key, name)
            || has(&self.sources, key, name)
            || has(&self.unmanaged, key, name)
    }

    fn id(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }

    /// Marks the service of a slice that is no copy. The slice names its Service, which may be
    /// derived for another service.
    fn note_stray(key: &ServiceKey, changed: &mut Changed) {
        changed.copied.extend(key.underived());
        changed.copied.insert(key.clone());
    }

    /// Notes the service of a slice. Returns the shared key if another slice of the service has
    /// one: each slice comes with a text of its own.
    fn settle(&mut self, key: ServiceKey, slice: &Arc<str>) -> Arc<ServiceKey> {
        let of_copies = self.copies.get_key_value(&key).map(|(known, _)| known);
        let known = self.sources.get_key_value(&key).map(|(known, _)| known);
        let of_strays = self.unmanaged.get_key_value(&key).map(|(known, _)| known);
        let known = known.or(of_copies).or(of_strays).cloned();
        let key = known.unwrap_or_else(|| Arc::new(key));
        let id = self.id(&key.namespace, slice);
        match self.homes.entry(id) {
            Entry::Vacant(home) => {
                home.insert(key.clone());
            }
            Entry::Occupied(_) => self.collided.push((key.clone(), slice.clone())),
        }
        key
    }

    fn take_home(&mut self, namespace: &str, name: &str) -> Option<Arc<ServiceKey>> {
        if let Some(at) = self.collision(namespace, name) {
            return Some(self.collided.swap_remove(at).0);
        }
        self.home(namespace, name)?;
        self.homes.remove(&self.id(namespace, name))
    }

    fn remove(&mut self, namespace: &Arc<str>, name: &Arc<str>, changed: &mut Changed) {
        let Some(key) = self.take_home(namespace, name) else {
            return;
        };
        let source = remove_from(&mut self.sources, &key, name);
        remove_from(&mut self.copies, &key, name);
        remove_from(&mut self.unmanaged, &key, name);
        match source {
            Some(_) => {
                changed.keys.insert((*key).clone());
            }
            None => Self::note_stray(&key, changed),
        }
    }

    pub(super) fn apply_ack(&mut self, slice: ObservedSlice, now: TimePoint) {
        let SliceRole::Copy(key, copy) = slice.role else {
            return;
        };
        let newer = |old: &Written<CopiedSlice>| {
            old.view.uid == copy.uid && old.view.resource_version >= copy.resource_version
        };
        if !self
            .copies
            .get(&key)
            .and_then(|copies| copies.get(&slice.name))
            .is_some_and(newer)
        {
            let copy = Written::unseen(copy, now);
            self.remove(&slice.namespace, &slice.name, &mut Changed::default());
            self.put_copy(slice.name, key, copy, &mut Keys::default());
        }
    }

    /// Notes that the deletion of a copy was acknowledged.
    pub(super) fn note_deleted(&mut self, key: &ServiceKey, name: &str, uid: &str) {
        let uid = Uid::from(uid);
        let copy = self
            .copies
            .get_mut(key)
            .and_then(|copies| copies.get_mut(name));
        if let Some(copy) = copy.filter(|copy| copy.view.uid == uid) {
            copy.note_deleted();
        }
    }
}

fn remove_from<T>(map: &mut ByService<T>, key: &ServiceKey, name: &Arc<str>) -> Option<T> {
    let slices = map.get_mut(key)?;
    let removed = slices.remove(name);
    if slices.is_empty() {
        map.remove(key);
    }
    removed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(name: &str, service: &str) -> ObservedSlice {
        let slice = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "7",
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [],
        }));
        ObservedSlice::read(&slice.expect("a slice"))
    }

    #[test]
    fn slice_with_the_hash_of_another_is_found_and_removed() {
        let mut slices = Slices::default();
        let changed = &mut Changed::default();
        slices.apply(Signal::Applied(source("a", "foo")), Part::All, changed);
        let home = slices.homes.values().next().expect("a home").clone();
        let hash_of_b = slices.id("shop", "b");
        slices.homes.insert(hash_of_b, home);
        let of_b = |slices: &Slices| slices.home("shop", "b").map(|key| key.name.to_string());
        assert_eq!(of_b(&slices), None);
        for service in ["bar", "foo"] {
            slices.apply(Signal::Applied(source("b", service)), Part::All, changed);
            assert_eq!(of_b(&slices).as_deref(), Some(service));
        }
        slices.apply(Signal::Deleted(source("b", "foo")), Part::All, changed);
        assert_eq!(of_b(&slices), None);
        let names = slices.sources.values().flat_map(ByName::iter);
        assert_eq!(names.map(|(name, _)| &**name).collect::<Vec<_>>(), ["a"]);
    }
}
