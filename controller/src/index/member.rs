//! What is known of one member.

mod graves;
mod slices;
mod watches;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::jiff::Timestamp;

use self::graves::Graves;
use self::slices::Slices;
use self::watches::Watches;
use super::Standing;
use super::hub::{is, is_older, key_of};
use super::service::ServiceView;
use super::slice::{CopiedSlice, ObservedSlice, SliceRole, SourceSlice};
use crate::apply::{Ack, DeletedObject};
use crate::event::{Generation, Identity, MemberEvent};
use crate::failure::Failure;
use crate::watch::Signal;

/// EndpointSlices of discovery.k8s.io/v1 are there since this release.
const OLDEST_RELEASE: (u32, u32) = (1, 21);

/// All that is known of a member.
#[derive(Debug)]
pub struct Member {
    /// Which engagement of the member this is.
    pub generation: Generation,
    /// Who it is, once it has said so.
    pub identity: Option<Identity>,
    /// The UID of the Cluster object by which it is engaged.
    pub cluster_uid: Option<Box<str>>,
    /// Who its Cluster says that it is: the UID of its kube-system namespace.
    pub recorded_uid: Option<String>,
    /// Why it cannot be used, where a person has to act.
    pub refusals: Refusals,
    /// Its Services.
    pub services: HashMap<ServiceKey, Written<ServiceView>>,
    slices: Slices,
    namespaces: HashMap<Box<str>, NamespaceState>,
    graves: Graves,
    watches: Watches,
    probe_failure: Option<Failure>,
    troubled_since: Option<Timestamp>,
}

/// Why a member cannot be used until a person acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Its Cluster object or its Secret is not as it should be.
    pub configuration: Option<String>,
    /// It is another cluster than it was.
    pub identity: Option<String>,
    /// It is the same cluster as another member.
    pub duplicate: Option<String>,
}

impl Refusals {
    fn first(&self) -> Option<&String> {
        [&self.configuration, &self.identity, &self.duplicate]
            .into_iter()
            .flatten()
            .next()
    }
}

/// An object, and how its state is known.
#[derive(Clone, Debug)]
pub struct Written<T> {
    /// The object.
    pub view: T,
    /// When a write of causeway's was acknowledged that no watch has shown yet.
    pub unseen_since: Option<Timestamp>,
    /// Whether its deletion was acknowledged.
    pub deleted: bool,
}

/// The state of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// There, and taking objects.
    Active,
    /// On its way out: nothing can be made in it.
    Terminating,
    /// Not there.
    Missing,
}

/// What a fold changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// Services of which something is new.
    pub keys: HashSet<ServiceKey>,
    /// Namespaces that came, went or began to.
    pub namespaces: HashSet<Box<str>>,
}

impl Member {
    /// A member of which nothing is known.
    pub fn new(generation: Generation) -> Self {
        Self {
            generation,
            identity: None,
            cluster_uid: None,
            recorded_uid: None,
            refusals: Refusals::default(),
            services: HashMap::new(),
            slices: Slices::default(),
            namespaces: HashMap::new(),
            graves: Graves::default(),
            watches: Watches::default(),
            probe_failure: None,
            troubled_since: None,
        }
    }

    /// The member is engaged anew, with other credentials: what was known stays known until its lists say otherwise.
    pub fn engage_again(&mut self, generation: Generation) {
        self.generation = generation;
        self.refusals.configuration = None;
        self.probe_failure = None;
        for watch in self.watches.all() {
            watch.failure = None;
        }
    }

    /// How the member stands.
    pub fn standing(&self) -> Standing {
        if let Some(why) = self.refusals.first() {
            return Standing::Refused(why.clone());
        }
        let failed = [
            &self.watches.slices,
            &self.watches.services,
            &self.watches.namespaces,
        ];
        let failure = self
            .probe_failure
            .as_ref()
            .or_else(|| failed.into_iter().find_map(|w| w.failure.as_ref()));
        match (failure, self.troubled_since) {
            (Some(why), Some(since)) => Standing::Unreachable {
                since,
                why: why.to_string(),
            },
            _ if self.identity.is_some() && failed.iter().all(|watch| watch.listed) => {
                Standing::Synced
            }
            _ => Standing::Syncing,
        }
    }

    /// Why the member takes no part, where its version is too old for EndpointSlices.
    pub fn too_old(&self) -> Option<String> {
        let identity = self.identity.as_ref()?;
        (identity.release < OLDEST_RELEASE)
            .then(|| format!("Kubernetes {} is older than 1.21", identity.version))
    }

    /// Whether what the member provides is known, now or from before it became unreachable.
    pub fn sources_are_known(&self) -> bool {
        self.watches.slices.listed && self.watches.services.listed
    }

    /// The slices that may back a service.
    pub fn sources(
        &self,
        key: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<SourceSlice>)> {
        self.slices.sources.get(key).into_iter().flatten()
    }

    /// The copies of every hub for a service, but for those whose deletion was acknowledged.
    pub fn copies(
        &self,
        key: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &Written<CopiedSlice>)> {
        self.slices
            .copies
            .get(key)
            .into_iter()
            .flatten()
            .filter(|(_, copy)| !copy.deleted)
    }

    /// The copy of that name.
    pub fn copy(&self, key: &ServiceKey, name: &str) -> Option<&Written<CopiedSlice>> {
        self.slices.copies.get(key)?.get(name)
    }

    /// The Service, but for one whose deletion was acknowledged.
    pub fn service(&self, key: &ServiceKey) -> Option<&ServiceView> {
        self.services
            .get(key)
            .filter(|service| !service.deleted)
            .map(|service| &service.view)
    }

    /// The state of a namespace.
    pub fn namespace(&self, name: &str) -> NamespaceState {
        self.namespaces
            .get(name)
            .copied()
            .unwrap_or(NamespaceState::Missing)
    }

    /// Whether anything of that service bears the hub's label, counting what is deleted but not seen gone.
    pub fn owns_any(&self, key: &ServiceKey, hub: &str) -> bool {
        let service = self
            .services
            .get(key)
            .and_then(|service| service.view.hub.as_deref());
        let mut copies = self.slices.copies.get(key).into_iter().flatten();
        service == Some(hub) || copies.any(|(_, copy)| &*copy.view.hub == hub)
    }

    /// The services of which something bears the hub's label.
    pub fn own_keys(&self, hub: &str) -> HashSet<ServiceKey> {
        let keys = self.services.keys().chain(self.slices.copies.keys());
        keys.filter(|key| self.owns_any(key, hub))
            .cloned()
            .collect()
    }

    pub(super) fn fold(&mut self, event: MemberEvent, now: Timestamp) -> Changed {
        let mut changed = Changed::default();
        if self.refusals.identity.is_some() && !matches!(event, MemberEvent::Identified(_)) {
            return changed;
        }
        match event {
            MemberEvent::Identified(identity) => self.identify(identity),
            MemberEvent::Probed(outcome) => self.probe_failure = outcome.err(),
            MemberEvent::Served(_) | MemberEvent::Exports(_) | MemberEvent::Imports(_) => {}
            MemberEvent::Services(signal) => {
                self.watches.services.note(&signal);
                self.fold_services(signal, &mut changed);
            }
            MemberEvent::Slices(signal) => {
                self.watches.slices.note(&signal);
                if let Signal::Deleted(ObservedSlice {
                    role: SliceRole::Copy(_, copy),
                    ..
                }) = &signal
                {
                    self.graves.bury(&copy.uid);
                }
                self.slices.fold(signal, &mut changed.keys);
            }
            MemberEvent::Namespaces(signal) => {
                self.watches.namespaces.note(&signal);
                self.fold_namespaces(signal, &mut changed);
            }
        }
        self.note_trouble(now);
        changed
    }

    /// A member is its kube-system namespace's UID: what another cluster says under its name is not listened to.
    fn identify(&mut self, identity: Identity) {
        let known = self.identity.as_ref().map(|identity| &identity.uid);
        let is_another = known
            .or(self.recorded_uid.as_ref())
            .is_some_and(|uid| *uid != identity.uid);
        self.refusals.identity = is_another.then(|| {
            "its API server is another cluster's now (the UID of kube-system changed); unjoin it and join it again \
             if that is meant"
                .to_owned()
        });
        if !is_another {
            self.identity = Some(identity);
        }
    }

    fn note_trouble(&mut self, now: Timestamp) {
        let troubled = self.probe_failure.is_some()
            || self
                .watches
                .all()
                .iter()
                .any(|watch| watch.failure.is_some());
        self.troubled_since = if troubled {
            self.troubled_since.or(Some(now))
        } else {
            None
        };
    }

    fn fold_services(&mut self, signal: Signal<Service>, changed: &mut Changed) {
        match signal {
            Signal::Listed(objects) => {
                let mut old = std::mem::take(&mut self.services);
                for object in &objects {
                    let (Some(key), Some(view)) =
                        (key_of(&object.metadata), ServiceView::read(object))
                    else {
                        continue;
                    };
                    let before = old.remove(&key);
                    if before.is_none_or(|before| before.view != view) {
                        changed.keys.insert(key.clone());
                    }
                    self.services.insert(key, Written::seen(view));
                }
                changed.keys.extend(old.into_keys());
            }
            Signal::Applied(object) => {
                let (Some(key), Some(view)) =
                    (key_of(&object.metadata), ServiceView::read(&object))
                else {
                    return;
                };
                let before = self.services.get(&key).map(|before| &before.view);
                if before.is_some_and(|old| {
                    old.uid == view.uid && is_older(&view.resource_version, &old.resource_version)
                }) {
                    return;
                }
                let deleted = self
                    .services
                    .get(&key)
                    .is_some_and(|old| old.deleted && old.view.uid == view.uid);
                self.services.insert(
                    key.clone(),
                    Written {
                        deleted,
                        ..Written::seen(view)
                    },
                );
                changed.keys.insert(key);
            }
            Signal::Deleted(object) => {
                self.graves
                    .bury(object.metadata.uid.as_deref().unwrap_or_default());
                let Some(key) = key_of(&object.metadata) else {
                    return;
                };
                if self
                    .services
                    .get(&key)
                    .is_some_and(|old| is(&old.view.uid, &object.metadata))
                {
                    self.services.remove(&key);
                    changed.keys.insert(key);
                }
            }
            Signal::Connected | Signal::Failed(_) => {}
        }
    }

    fn fold_namespaces(&mut self, signal: Signal<Namespace>, changed: &mut Changed) {
        match signal {
            Signal::Listed(objects) => {
                let old = std::mem::take(&mut self.namespaces);
                for object in &objects {
                    self.put_namespace(object);
                }
                changed
                    .namespaces
                    .extend(differing(&old, &self.namespaces, |old, new| old == new));
            }
            Signal::Applied(object) => {
                let Some(name) = object.metadata.name.as_deref() else {
                    return;
                };
                let before = self.namespace(name);
                self.put_namespace(&object);
                if self.namespace(name) != before {
                    changed.namespaces.insert(name.into());
                }
            }
            Signal::Deleted(object) => {
                let Some(name) = object.metadata.name.as_deref() else {
                    return;
                };
                self.namespaces.remove(name);
                changed.namespaces.insert(name.into());
            }
            Signal::Connected | Signal::Failed(_) => {}
        }
    }

    fn put_namespace(&mut self, object: &Namespace) {
        let Some(name) = object.metadata.name.as_deref() else {
            return;
        };
        let terminating = object.metadata.deletion_timestamp.is_some();
        let state = if terminating {
            NamespaceState::Terminating
        } else {
            NamespaceState::Active
        };
        self.namespaces.insert(name.into(), state);
    }

    pub(super) fn fold_ack(&mut self, ack: Ack, now: Timestamp) {
        match ack {
            Ack::Namespace(object) => self.put_namespace(&object),
            Ack::Service(object) => self.fold_service_ack(&object, now),
            Ack::Slice(object) => {
                let slice = ObservedSlice::read(*object);
                if let SliceRole::Copy(_, copy) = &slice.role
                    && !self.graves.hold(&copy.uid)
                {
                    self.slices.fold_ack(slice, now);
                }
            }
            Ack::Deleted(deleted) => self.fold_deleted_ack(&deleted),
            Ack::MultiClusterService(_) | Ack::Cluster(_) => {}
        }
    }

    fn fold_service_ack(&mut self, object: &Service, now: Timestamp) {
        let (Some(key), Some(view)) = (key_of(&object.metadata), ServiceView::read(object)) else {
            return;
        };
        let newer = |old: &Written<ServiceView>| {
            old.view.uid == view.uid
                && !is_older(&old.view.resource_version, &view.resource_version)
        };
        if !self.graves.hold(&view.uid) && !self.services.get(&key).is_some_and(newer) {
            self.services.insert(key, Written::unseen(view, now));
        }
    }

    fn fold_deleted_ack(&mut self, deleted: &DeletedObject) {
        match deleted {
            DeletedObject::Service { key, uid } => {
                if let Some(service) = self
                    .services
                    .get_mut(key)
                    .filter(|service| *service.view.uid == **uid)
                {
                    service.deleted = true;
                }
            }
            DeletedObject::Slice { key, name, uid } => {
                self.slices.note_deleted(key, name, uid);
            }
        }
    }
}

impl<T> Written<T> {
    fn seen(view: T) -> Self {
        Self {
            view,
            unseen_since: None,
            deleted: false,
        }
    }

    fn unseen(view: T, now: Timestamp) -> Self {
        Self {
            view,
            unseen_since: Some(now),
            deleted: false,
        }
    }
}

/// The keys whose values differ between two maps, absence included.
fn differing<K: Clone + Eq + Hash, V>(
    old: &HashMap<K, V>,
    new: &HashMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> Vec<K> {
    let changed = old
        .iter()
        .filter(|(key, old)| !new.get(*key).is_some_and(|new| same(old, new)));
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    changed.chain(added).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests;
