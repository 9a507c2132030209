//! Bounded lists of stored objects of any kind.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::Value;

use super::archive::Archive;
use crate::cluster::api_server::{ApiServer, RequestError};

/// Group of the Multi-Cluster Services API.
pub(super) const CLUSTERSET: &str = "multicluster.x-k8s.io";
/// Maximum number of archived objects of a kind.
pub(super) const MOST: usize = 1000;

/// Selection of the listed objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    group: &'static str,
    version: &'static str,
    /// Version to read if `version` is not served.
    older: Option<&'static str>,
    kind: &'static str,
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

    /// Sets the version to read if the first one is not served.
    pub(super) fn or(mut self, older: &'static str) -> Self {
        self.older = Some(older);
        self
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

    fn api(&self, server: &ApiServer) -> Api<DynamicObject> {
        server.api_of(&self.resource(), self.namespace.as_deref())
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
        let list = match (
            server.found(self.api(server).list(&parameters)).await?,
            self.older,
        ) {
            (Some(list), _) => list,
            (None, None) => return Ok(Listed::default()),
            (None, Some(version)) => {
                let older = Self {
                    version,
                    older: None,
                    ..self.clone()
                };
                return Box::pin(older.read(server)).await;
            }
        };
        let more = list
            .metadata
            .continue_
            .is_some_and(|token| !token.is_empty());
        let objects = list.items.into_iter().filter_map(|mut object| {
            object.types = None;
            Some(self.typed(serde_json::to_value(object).ok()?))
        });
        Ok(Listed {
            objects: objects.collect(),
            more,
        })
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
