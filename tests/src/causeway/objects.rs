//! Clusters of the hub and their Secrets, as users change them.

use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};

use super::{Environment, MEMBERS_NAMESPACE};
use crate::write::merge;

impl Environment {
    /// The Secrets with the credentials of members.
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.hub().client(), MEMBERS_NAMESPACE)
    }

    /// Changes such a Secret by a merge patch.
    pub async fn patch_secret(&self, name: &str, patch: Value) {
        merge(&self.secrets(), name, patch).await;
    }

    /// Stores a Secret under that name, as a backup of it would be.
    pub async fn put_secret(&self, namespace: &str, name: &str, of: &Secret) {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            data: of.data.clone(),
            ..Secret::default()
        };
        let secrets = Api::<Secret>::namespaced(self.hub().client(), namespace);
        let created = secrets.create(&PostParams::default(), &secret).await;
        created.expect("the Secret is stored");
    }

    /// Changes a Cluster by a merge patch.
    pub async fn patch_cluster(&self, name: &str, patch: Value) {
        let clusters = Api::<causeway::api::Cluster>::all(self.hub().client());
        merge(&clusters, name, patch).await;
    }

    /// Makes a Cluster of that name, reached there by this Secret.
    pub async fn join_as(&self, name: &str, url: &str, secret: &str) {
        let cluster = format!(
            "{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: {name}}}, \
             spec: {{syncMode: Push, apiEndpoint: '{url}', \
             secretRef: {{namespace: {MEMBERS_NAMESPACE}, name: {secret}}}}}}}"
        );
        self.hub().apply(&cluster).await.ok();
    }

    /// Changes a Cluster without changing what it says.
    pub async fn touch(&self, name: &str) {
        let annotations = json!({ "touched": format!("{:?}", Instant::now()) });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch_cluster(name, patch).await;
    }
}
