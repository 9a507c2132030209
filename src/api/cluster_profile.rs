//! ClusterProfiles, by which a cluster manager lists its clusters (KEP-4322,
//! sigs.k8s.io/cluster-inventory-api).

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a cluster manager declares of a cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ClusterProfile",
    plural = "clusterprofiles",
    namespaced,
    status = "ClusterProfileStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// Name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Manager that owns the object.
    #[serde(default)]
    pub cluster_manager: ClusterManager,
}

/// Manager of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterManager {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// What the cluster manager reports of a cluster; causeway writes nothing here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileStatus {
    /// Properties of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Vec<Property>>,
    /// Ways to reach the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_providers: Option<Vec<AccessProvider>>,
    /// Deprecated name of `accessProviders`; of two of one name, that in `accessProviders` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_providers: Option<Vec<AccessProvider>>,
}

/// Property of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Property {
    /// Its name, such as that of a ClusterProperty (KEP-2149).
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// Way to reach a cluster, by credentials that a provider of that name gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessProvider {
    /// Name of the provider.
    pub name: String,
    /// Address of the API server.
    #[serde(default)]
    pub cluster: ClusterAccess,
}

/// Address of an API server, as a kubeconfig has it (client-go, `clientcmd/api/v1`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterAccess {
    /// URL, which may have a path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name in the server's certificate, where it is not the host of the URL.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tls_server_name: String,
    /// Whether the server's certificate goes unverified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    /// Authority of the server's certificate: PEM in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub certificate_authority_data: String,
    /// URL of a proxy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub proxy_url: String,
    /// Whether answers come uncompressed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_compression: bool,
    /// Extensions, of which some have names that the KEP reserves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<Extension>>,
}

/// Extension of the address of an API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    /// Its name.
    pub name: String,
    /// Its content, which the name defines.
    #[serde(default)]
    pub extension: Value,
}

impl ClusterProfile {
    /// Returns the ways to reach the cluster, by the name of their provider.
    pub fn access_providers(&self) -> BTreeMap<&str, &ClusterAccess> {
        let Some(status) = &self.status else {
            return BTreeMap::new();
        };
        let deprecated = status.credential_providers.iter().flatten();
        let all = deprecated.chain(status.access_providers.iter().flatten());
        all.map(|provider| (&*provider.name, &provider.cluster))
            .collect()
    }

    /// Returns a property of the cluster.
    pub fn property(&self, name: &str) -> Option<&str> {
        let properties = self.status.as_ref()?.properties.as_ref()?;
        let found = properties.iter().find(|property| property.name == name)?;
        Some(&found.value)
    }
}

impl ClusterAccess {
    /// Returns the content of the extension of that name.
    pub fn extension(&self, name: &str) -> Option<&Value> {
        let all = self.extensions.iter().flatten();
        let mut named = all.filter(|extension| extension.name == name);
        named.next().map(|extension| &extension.extension)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_one_name_the_access_provider_counts() {
        let profile: ClusterProfile = serde_json::from_value(json!({
            "metadata": {"name": "edge", "namespace": "fleet"},
            "spec": {"clusterManager": {"name": "manager"}},
            "status": {
                "properties": [{"name": "region", "value": "eu"}],
                "credentialProviders": [
                    {"name": "both", "cluster": {"server": "https://old"}},
                    {"name": "old", "cluster": {"server": "https://only"}},
                ],
                "accessProviders": [{"name": "both", "cluster": {
                    "server": "https://new",
                    "extensions": [{"name": "e", "extension": {"clusterName": "edge"}}],
                }}],
            },
        }))
        .expect("a ClusterProfile");
        let all = profile.access_providers();
        let servers = all.iter().map(|(name, access)| (*name, &*access.server));
        assert_eq!(
            servers.collect::<Vec<_>>(),
            [("both", "https://new"), ("old", "https://only")]
        );
        let config = all["both"].extension("e");
        assert_eq!(config, Some(&json!({"clusterName": "edge"})));
        assert_eq!(profile.property("region"), Some("eu"));
        assert_eq!(profile.property("zone"), None);
    }
}
