//! Causeway's finalizer among those of a hub object.

use causeway::api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Finalizers of a hub object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finalizers(Vec<String>);

impl Finalizers {
    pub(super) fn read(meta: &ObjectMeta) -> Self {
        Self(meta.finalizers.clone().unwrap_or_default())
    }

    /// Whether causeway's finalizer is among them.
    pub(crate) fn have_ours(&self) -> bool {
        self.0.iter().any(|name| name == labels::FINALIZER)
    }

    /// Returns a merge patch that adds causeway's finalizer if the object still has that
    /// resourceVersion.
    pub(crate) fn with_ours(&self, resource_version: &str) -> Value {
        let ours = std::iter::once(labels::FINALIZER);
        patch(resource_version, self.others().chain(ours).collect())
    }

    /// Returns a merge patch that removes causeway's finalizer if the object still has that
    /// resourceVersion.
    pub(crate) fn without_ours(&self, resource_version: &str) -> Value {
        patch(resource_version, self.others().collect())
    }

    /// Returns the finalizers of others.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let all = self.0.iter().map(String::as_str);
        all.filter(|name| *name != labels::FINALIZER)
    }
}

fn patch(resource_version: &str, finalizers: Vec<&str>) -> Value {
    json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}})
}
