use k8s_openapi::api::core::v1::ServiceStatus;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a MultiClusterService asks for, as Karmada's `networking.karmada.io/v1alpha1` defines it.
///
/// An object that Karmada stored decodes, and Karmada can read what is written from this type.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "networking.karmada.io",
    version = "v1alpha1",
    kind = "MultiClusterService",
    plural = "multiclusterservices",
    singular = "multiclusterservice",
    shortname = "mcs",
    category = "karmada-io",
    namespaced,
    status = "ServiceStatus",
    derive = "PartialEq",
    doc = "MultiClusterService is a named abstraction of a service in many clusters. Its name and namespace are those of the Service it exposes.",
    printcolumn(name = "Types", type_ = "string", json_path = ".spec.types[*]"),
    printcolumn(
        name = "Providers",
        type_ = "string",
        json_path = ".spec.providerClusters[*].name"
    ),
    printcolumn(
        name = "Consumers",
        type_ = "string",
        json_path = ".spec.consumerClusters[*].name"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterServiceSpec {
    /// How the service is exposed: CrossCluster (other clusters reach it by its own name) or LoadBalancer (its load balancers' addresses are gathered in the status).
    #[serde(default)]
    pub types: Vec<String>,
    /// The ports that are exposed. All ports of the Service when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ExposurePort>,
    /// The clusters whose pods back the service. All clusters when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_clusters: Vec<ClusterSelector>,
    /// The clusters whose clients may reach the service. All clusters when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumer_clusters: Vec<ClusterSelector>,
    /// Deprecated: use consumerClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ExposureRange>,
    /// Deprecated: use providerClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_provision_clusters: Option<Vec<String>>,
    /// Deprecated: use consumerClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_consumption_clusters: Option<Vec<String>>,
}

/// One exposed port of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExposurePort {
    /// The name of the port in the Service. A number alone means every Service port of that number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The number of the port in the Service.
    pub port: i32,
}

/// One selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSelector {
    /// The name of the Cluster object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// The deprecated list of clusters that a service is exposed in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRange {
    /// The names of the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_names: Option<Vec<String>>,
}
