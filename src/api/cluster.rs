//! The Cluster object, by which a hub knows a member.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part of Karmada's `cluster.karmada.io/v1alpha1` Cluster that causeway reads.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    singular = "cluster",
    category = "karmada-io",
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "Cluster is a member: a Kubernetes cluster that the hub knows and may reach.",
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.kubernetesVersion"
    ),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.syncMode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "APIEndpoint",
        type_ = "string",
        json_path = ".spec.apiEndpoint",
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
pub struct ClusterSpec {
    /// The UID of the member's kube-system namespace, by which it is known to be the same cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How the hub and the member reach each other. Push when empty; Pull members are left out by causeway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_mode: Option<SyncMode>,
    /// The API server of the member: a URL, a host, host:port, an IP or IP:port.
    #[serde(
        rename = "apiEndpoint",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub api_endpoint: Option<String>,
    /// The Secret with the keys `token` and `caBundle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Do not verify the member's serving certificate. Honoured only where the controller runs with --allow-insecure-members.
    #[serde(
        rename = "insecureSkipTLSVerification",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub insecure_skip_tls_verification: Option<bool>,
    /// The proxy through which the member is reached.
    #[serde(rename = "proxyURL", default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
}

/// How a hub and a member reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// The hub reaches the member's API server.
    Push,
    /// An agent in the member reaches the hub.
    Pull,
}

/// Where a Secret is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is known of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The version that the member's API server gives, such as v1.36.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Whether the member is reachable and watched (type Ready).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
