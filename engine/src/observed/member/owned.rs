//! Objects of a member that are causeway's.

use std::sync::Arc;

use causeway::domain::ServiceKey;
use string_cache::DefaultAtom;

use super::Member;
use super::by_name::ByName;
use super::objects::View as _;
use crate::model::slice::{Exposure, SourceSlice};

impl Member {
    /// Whether the member holds an object of that service that is or was causeway's, or belongs to
    /// the clusterset.
    pub(crate) fn holds_any(&self, key: &ServiceKey) -> bool {
        let service = self.services.get(key);
        let derived = self.services.get(&key.derived());
        service.is_some_and(|service| service.view.is_marked() || self.may_have_residue(key))
            || self.slices.copies.contains_key(key)
            || derived.is_some_and(|derived| derived.view.may_stand_for(key))
            || self.written_companion(key).is_some()
            || self.written_import(key).is_some()
            || self.written_export(key).is_some()
    }

    /// Whether any object of that service bears the hub's label, including one whose deletion was
    /// acknowledged and that is not observed gone.
    pub(crate) fn owns_any(&self, key: &ServiceKey, hub: &str) -> bool {
        self.owns_native(key, hub) || self.owns_clusterset(key, &key.derived(), hub)
    }

    /// Whether any object on behalf of a MultiClusterService bears the hub's label, or has marks
    /// that causeway still has to remove.
    pub fn owns_native(&self, key: &ServiceKey, hub: &str) -> bool {
        let service = self.services.get(key);
        service.is_some_and(|service| service.view.is_delivered_by(hub))
            || self.has_marks(key, hub)
            || self.owns_companion(key, hub, Exposure::Native)
            || self.owns_copies(key, hub, Exposure::Native)
            || self
                .written_export(key)
                .is_some_and(|export| export.view.exposure(hub) == Some(Exposure::Native))
            || self.owns_import(key, hub, Exposure::Native)
    }

    /// Whether a foreign Service, or a slice that Kubernetes made for it, has marks of the hub.
    fn has_marks(&self, key: &ServiceKey, hub: &str) -> bool {
        let service = self.services.view(key).filter(|service| !service.deleting);
        let marks = service.and_then(|service| service.marks.as_deref());
        marks.is_some_and(|marks| marks.may_be_of(hub)) || self.residues(key, hub).next().is_some()
    }

    /// Returns the empty EndpointSlices that Kubernetes made for the Service of that key while that
    /// hub's causeway managed it. Kubernetes left them when the Service became foreign and lost its
    /// selector.
    pub(crate) fn residues(
        &self,
        key: &ServiceKey,
        hub: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &SourceSlice)> {
        let service = self.services.view(key);
        let is_abandoned = service.is_some_and(|service| {
            let is_selecting = !service.shape.selector.is_empty() && !service.is_external_name();
            service.hub.is_none() && !is_selecting && !service.deleting
        });
        let sources = self.sources(key).filter(move |_| is_abandoned);
        let residues = sources.filter(move |(_, source)| source.copied_hub.as_deref() == Some(hub));
        residues.map(|(name, source)| (name, &**source))
    }

    /// Whether Kubernetes made an empty slice of the Service with a copy of some hub's label.
    fn may_have_residue(&self, key: &ServiceKey) -> bool {
        let mut sources = self.sources(key);
        sources.any(|(_, source)| source.copied_hub.is_some())
    }

    /// Whether any object on behalf of ServiceExports bears the hub's label. `derived` is the key
    /// of the service's derived Service.
    pub(crate) fn owns_clusterset(
        &self,
        key: &ServiceKey,
        derived: &ServiceKey,
        hub: &str,
    ) -> bool {
        self.owns_behind_import(key, derived, hub)
            || self.owns_import(key, hub, Exposure::Clusterset)
    }

    /// Whether any object behind an import bears the hub's label: the derived Service or a copy.
    pub(crate) fn owns_behind_import(
        &self,
        key: &ServiceKey,
        derived: &ServiceKey,
        hub: &str,
    ) -> bool {
        let derived = self.services.get(derived);
        derived.is_some_and(|service| service.view.is_derived_for(key, hub))
            || self.owns_companion(key, hub, Exposure::Clusterset)
            || self.owns_copies(key, hub, Exposure::Clusterset)
    }

    fn owns_companion(&self, key: &ServiceKey, hub: &str, exposure: Exposure) -> bool {
        let companion = self.written_companion(key);
        companion.is_some_and(|(_, service)| service.view.is_companion_by(hub, exposure))
    }

    fn owns_import(&self, key: &ServiceKey, hub: &str, exposure: Exposure) -> bool {
        let import = self.written_import(key);
        import.is_some_and(|import| import.view.exposure(hub) == Some(exposure))
    }

    fn owns_copies(&self, key: &ServiceKey, hub: &str, exposure: Exposure) -> bool {
        let copies = self.slices.copies.get(key).into_iter();
        copies
            .flat_map(ByName::iter)
            .any(|(_, copy)| *copy.view.hub == *hub && copy.view.exposure == exposure)
    }

    /// Returns the services of which an object bears the hub's label; some more than once.
    pub(crate) fn own_keys<'a>(&'a self, hub: &'a str) -> impl Iterator<Item = ServiceKey> + 'a {
        let ours = move |bearer: &Option<DefaultAtom>| bearer.as_deref() == Some(hub);
        let services = self.services.iter();
        let services = services
            .filter(move |(key, view)| ours(&view.hub) || self.has_marks(key, hub))
            .map(|(key, view)| view.service(key));
        let exports = self.clusterset.exports.iter();
        let exports = exports
            .filter(move |(_, view)| ours(&view.hub))
            .map(|(key, _)| key.clone());
        let imports = self.clusterset.imports.iter();
        let imports = imports
            .filter(move |(_, view)| ours(&view.hub))
            .map(|(key, _)| key.clone());
        let copies = self.slices.copies.iter();
        let copies = copies
            .filter(move |(_, copies)| copies.iter().any(|(_, copy)| *copy.view.hub == *hub))
            .map(|(key, _)| (**key).clone());
        services.chain(exports).chain(imports).chain(copies)
    }

    /// Returns the services of which the member holds a Service or a copy on behalf of
    /// ServiceExports; some more than once.
    pub(crate) fn own_clusterset_keys<'a>(
        &'a self,
        hub: &'a str,
    ) -> impl Iterator<Item = ServiceKey> + 'a {
        let services = self.services.iter();
        let services = services.filter_map(move |(key, view)| {
            let of = view.service(key);
            view.is_derived_for(&of, hub).then_some(of)
        });
        let copies = self.slices.copies.keys();
        let copies = copies.filter(move |key| self.owns_copies(key, hub, Exposure::Clusterset));
        services.chain(copies.map(|key| (**key).clone()))
    }
}
