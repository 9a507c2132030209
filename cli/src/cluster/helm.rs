//! Helm releases. Only Helm may change the objects that a release installed.

use std::fmt;

use causeway::api::labels;
use kube::api::DynamicObject;

use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle;
use crate::cluster::definitions::{CLUSTERS, SERVICES};
use crate::cluster::objects::{self, ObjectError};

/// Annotation of objects that outlive the release that installed them.
const POLICY: &str = "helm.sh/resource-policy";

/// Helm release, as recorded in the metadata of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub name: String,
    pub namespace: String,
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Helm release {} in namespace {}",
            self.name, self.namespace
        )
    }
}

impl Release {
    /// Returns the release that an object belongs to.
    fn of(object: &DynamicObject) -> Option<Self> {
        let labels = object.metadata.labels.as_ref()?;
        let annotations = object.metadata.annotations.as_ref()?;
        let by_helm = labels.get(labels::MANAGED_BY)? == labels::HELM;
        let release = Self {
            name: annotations.get(labels::HELM_RELEASE)?.clone(),
            namespace: annotations.get(labels::HELM_RELEASE_NAMESPACE)?.clone(),
        };
        by_helm.then_some(release)
    }
}

/// Returns the release that installed causeway on a hub. Ignores definitions, namespaces and the
/// Secret of the seal, which retain their labels when a release is uninstalled.
pub(crate) async fn release(hub: &ApiServer) -> Result<Option<Release>, ObjectError> {
    let rights = bundle::rights()?;
    for object in rights.iter().filter(|object| !outlives_release(object)) {
        let stored = objects::get(hub, object).await?;
        if let Some(release) = stored.as_ref().and_then(Release::of) {
            return Ok(Some(release));
        }
    }
    Ok(None)
}

fn outlives_release(object: &DynamicObject) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(POLICY))
}

/// Whether an installed release also owns one of the hub's definitions.
pub(crate) async fn has_definitions(
    hub: &ApiServer,
    release: &Release,
) -> Result<bool, ObjectError> {
    for kind in [SERVICES, CLUSTERS] {
        let stored = objects::get(hub, &kind.definition()?).await?;
        if stored.as_ref().and_then(Release::of).as_ref() == Some(release) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(labels: Value, annotations: Value) -> DynamicObject {
        objects::object(json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": "a", "labels": labels, "annotations": annotations },
        }))
        .expect("an object")
    }

    #[test]
    fn the_secret_of_the_seal_outlives_a_release() {
        let mut kept = bundle::rights().expect("objects");
        kept.retain(outlives_release);
        let titles: Vec<_> = kept.iter().map(objects::title).collect();
        assert_eq!(titles, ["secret/causeway-export-seal"]);
    }

    #[test]
    fn an_object_is_of_the_release_that_both_annotations_name_if_helm_still_manages_it() {
        let both = json!({ labels::HELM_RELEASE: "causeway", labels::HELM_RELEASE_NAMESPACE: "causeway-system" });
        let helm = json!({ labels::MANAGED_BY: labels::HELM });
        let found = Release::of(&object(helm.clone(), both.clone())).expect("a release");
        assert_eq!(
            found.to_string(),
            "Helm release causeway in namespace causeway-system"
        );
        for (labels, annotations) in [
            (json!({ labels::MANAGED_BY: labels::MANAGER }), both.clone()),
            (json!({}), both),
            (helm.clone(), json!({ labels::HELM_RELEASE: "causeway" })),
            (helm, json!({})),
        ] {
            assert_eq!(
                Release::of(&object(labels.clone(), annotations)),
                None,
                "{labels}"
            );
        }
    }
}
