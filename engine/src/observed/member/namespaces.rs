//! Namespaces of a member.

use causeway::api::labels;
use causeway::api::multicluster::ServiceExport;
use k8s_openapi::api::core::v1::Namespace;

use crate::model::Signal;
use crate::model::defaults::{self, Annotations, Defaults};
use crate::model::map::{HashMap, HashSet};
use crate::observed::clusterset::ExportView;

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
pub(super) struct Namespaces {
    states: HashMap<Box<str>, NamespaceState>,
    /// Those with annotations about exports.
    exports: HashMap<Box<str>, NamespaceExports>,
}

/// Annotations of a namespace about exports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NamespaceExports {
    /// UID of the namespace, if its Services are exported ([`labels::EXPORT`]).
    pub(crate) of_all: Option<Box<str>>,
    /// Annotations of each export in it that does not have them itself ([`labels::OF_EXPORTS`]).
    pub(crate) defaults: Annotations,
}

impl NamespaceExports {
    fn read(object: &Namespace) -> Option<Self> {
        let annotations = object.metadata.annotations.as_ref()?;
        let is_exported = annotations
            .get(labels::EXPORT)
            .is_some_and(|value| value == labels::EXPORT_ALL);
        let uid = object.metadata.uid.as_deref().filter(|_| is_exported);
        let read = Self {
            of_all: uid.map(Into::into),
            defaults: defaults::named(annotations, &labels::OF_EXPORTS),
        };
        (read != Self::default()).then_some(read)
    }
}

impl Namespaces {
    pub(super) fn get(&self, name: &str) -> NamespaceState {
        let known = self.states.get(name).copied();
        known.unwrap_or(NamespaceState::Missing)
    }

    /// Returns the annotations of a namespace about exports, if it has any.
    pub(super) fn exports(&self, name: &str) -> Option<&NamespaceExports> {
        self.exports.get(name)
    }

    /// Reads an export with the defaults of its namespace.
    pub(super) fn read_export(&self, export: &ServiceExport) -> Option<ExportView> {
        let namespace = export.metadata.namespace.as_deref()?;
        ExportView::read(export, self.defaults(namespace))
    }

    /// Returns the defaults of a namespace for the annotations of its exports.
    pub(super) fn defaults<'a>(&'a self, namespace: &'a str) -> Option<Defaults<'a>> {
        let annotations = &self.exports(namespace)?.defaults;
        Some(Defaults {
            namespace,
            annotations,
        })
    }

    /// Whether the Services of any namespace are exported.
    pub(super) fn export_any(&self) -> bool {
        self.exports
            .values()
            .any(|exports| exports.of_all.is_some())
    }

    pub(super) fn apply(&mut self, signal: Signal<Namespace>, changed: &mut HashSet<Box<str>>) {
        let known = self.states.keys().cloned();
        let (objects, gone) = signal.split(known, |object| Some(name_of(object)?.into()));
        for object in &objects {
            let Some(name) = name_of(object) else {
                continue;
            };
            let before = (self.get(name), self.exports(name).cloned());
            self.put(object);
            if (self.get(name), self.exports(name)) != (before.0, before.1.as_ref()) {
                changed.insert(name.into());
            }
        }
        for name in gone {
            self.states.remove(&name);
            self.exports.remove(&name);
            changed.insert(name);
        }
    }

    pub(super) fn put(&mut self, object: &Namespace) {
        let Some(name) = name_of(object) else {
            return;
        };
        let state = match object.metadata.deletion_timestamp {
            Some(_) => NamespaceState::Terminating,
            None => NamespaceState::Active,
        };
        self.states.insert(name.into(), state);
        match NamespaceExports::read(object) {
            Some(exports) => self.exports.insert(name.into(), exports),
            None => self.exports.remove(name),
        };
    }
}

fn name_of(object: &Namespace) -> Option<&str> {
    object.metadata.name.as_deref()
}
