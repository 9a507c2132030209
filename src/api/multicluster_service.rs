use k8s_openapi::api::core::v1::ServiceStatus;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The service's exposure: how, which ports, from which clusters and to which.
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
    doc = "MultiClusterService exposes a Service to other clusters. Its name and namespace are those of the Service.",
    printcolumn(name = "Types", type_ = "string", json_path = ".spec.types"),
    printcolumn(
        name = "Providers",
        type_ = "string",
        json_path = ".spec.providerClusters"
    ),
    printcolumn(
        name = "Consumers",
        type_ = "string",
        json_path = ".spec.consumerClusters"
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
    /// How the Service is exposed. One of CrossCluster (clients in the consumer clusters reach the
    /// pods in the provider clusters by the Service's own name) and LoadBalancer
    /// (status.loadBalancer lists addresses of load balancers: those of the clusters in
    /// consumerClusters, which lead to the pods in all provider clusters; if consumerClusters is
    /// empty, those of the Service in the provider clusters). Cannot be changed.
    #[serde(default, deserialize_with = "null_is_absent")]
    pub types: Vec<String>,
    /// The ports of the Service to expose. If empty, all of them.
    #[serde(
        default,
        deserialize_with = "null_is_absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub ports: Vec<ExposurePort>,
    /// The clusters whose pods serve the Service. If empty, all clusters.
    #[serde(
        default,
        deserialize_with = "null_is_absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub provider_clusters: Vec<ClusterSelector>,
    /// The clusters whose clients can reach the Service. If empty, all clusters.
    #[serde(
        default,
        deserialize_with = "null_is_absent",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub consumer_clusters: Vec<ClusterSelector>,
    /// Deprecated: use consumerClusters. Converted to it when the object is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ExposureRange>,
    /// Deprecated: use providerClusters. Converted to it when the object is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_provision_clusters: Option<Vec<String>>,
    /// Deprecated: use consumerClusters. Converted to it when the object is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_consumption_clusters: Option<Vec<String>>,
}

/// A port of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExposurePort {
    /// The name of the port in the Service. If empty, every port of the Service with this number is
    /// meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The number of the port in the Service.
    pub port: i32,
}

/// A cluster, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSelector {
    /// The name of the Cluster object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Deprecated: the clusters whose clients can reach the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRange {
    /// The names of the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_names: Option<Vec<String>>,
}

/// A null list is none: an API server drops it before it stores an object (Kubernetes, "Defaulting
/// and Nullable"), but one that is sent to a webhook by others may be there.
fn null_is_absent<'de, T, D>(input: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(input).map(Option::unwrap_or_default)
}
