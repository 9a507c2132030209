//! Bounded lists of stored objects of any kind.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::Value;

use super::archive::Archive;
use crate::cluster::api_server::{ApiServer, RequestError};

/// Maximum number of archived objects of a kind.
const MOST: usize = 1000;

/// Selection of the listed objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    group: &'static str,
    version: &'static str,
    /// Version to read if `version` is not served.
    older: Option<&'static str>,
    pub kind: &'static str,
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

/// Result of a list.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub objects: Vec<Value>,
    /// Whether the server has more objects. The API server does not count them for a list with
    /// selectors.
    pub more: bool,
}

impl Listing {
    /// Selects all objects of a kind.
    pub(super) fn of(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version,
            kind,
            ..Self::default()
        }
    }

    /// Selects the exports and the imports of a namespace, or of all namespaces.
    pub(super) fn clusterset(namespace: Option<&str>) -> [Self; 2] {
        ["ServiceExport", "ServiceImport"].map(|kind| Self {
            older: Some("v1alpha1"),
            ..Self::of("multicluster.x-k8s.io", "v1beta1", kind).within(namespace)
        })
    }

    /// Selects the objects of a namespace, or of all namespaces.
    pub(super) fn within(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(ToOwned::to_owned);
        self
    }

    /// Selects objects by labels.
    pub(super) fn labelled(mut self, labels: impl Into<String>) -> Self {
        self.labels = Some(labels.into());
        self
    }

    /// Selects objects by fields.
    pub(super) fn with_fields(mut self, fields: impl Into<String>) -> Self {
        self.fields = Some(fields.into());
        self
    }

    /// Returns a title such as `events of namespace shop`.
    pub(super) fn title(&self) -> String {
        let resource = self.resource().plural;
        match &self.namespace {
            Some(namespace) => format!("{resource} of namespace {namespace}"),
            None => resource,
        }
    }

    /// Returns a file name such as `multiclusterservices.yaml`.
    pub(super) fn file(&self) -> String {
        format!("{}.yaml", self.resource().plural)
    }

    fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk(&kind)
    }

    fn parameters(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: u32::try_from(MOST).ok(),
            ..ListParams::default()
        }
    }

    /// Lists at most [`MOST`] objects. The result is empty if the kind is not served.
    pub(super) async fn read(&self, server: &ApiServer) -> Result<Listed, RequestError> {
        let parameters = self.parameters();
        for version in std::iter::once(self.version).chain(self.older) {
            let listing = Self {
                version,
                ..self.clone()
            };
            let namespace = listing.namespace.as_deref();
            let api = server.api_of::<DynamicObject>(&listing.resource(), namespace);
            let Some(list) = server.found(api.list(&parameters)).await? else {
                continue;
            };
            let token = list.metadata.continue_;
            let objects = list.items.into_iter().filter_map(|mut object| {
                object.types = None;
                Some(listing.typed(serde_json::to_value(object).ok()?))
            });
            return Ok(Listed {
                objects: objects.collect(),
                more: token.is_some_and(|token| !token.is_empty()),
            });
        }
        Ok(Listed::default())
    }

    /// Adds apiVersion and kind, which the items of a list lack.
    fn typed(&self, mut object: Value) -> Value {
        if let Some(fields) = object.as_object_mut() {
            let version = match self.group {
                "" => self.version.to_owned(),
                group => format!("{group}/{}", self.version),
            };
            fields.insert("apiVersion".to_owned(), version.into());
            fields.insert("kind".to_owned(), self.kind.into());
        }
        object
    }
}

/// Records that a list is incomplete.
pub(super) fn note_more(archive: &mut Archive, what: &str, listed: &Listed) {
    if listed.more {
        let first = listed.objects.len();
        archive.missing(what, format!("only the first {first} are there"));
    }
}
