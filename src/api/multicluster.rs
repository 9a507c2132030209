//! ServiceExport and ServiceImport of the Multi-Cluster Services API (KEP-1645), in both versions
//! that are served. The two versions have the same shape.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of an export: conditions Valid, Ready and Conflict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceExportStatus {
    /// The conditions, one a type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A port of an imported service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The name of the port, a DNS label. Optional where it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// TCP (when empty), UDP or SCTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The application protocol, a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// The number of the port.
    pub port: i32,
}

/// The state of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportStatus {
    /// The clusters that export the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ExportingCluster>,
    /// The conditions, one a type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A cluster that exports a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportingCluster {
    /// Its name, a DNS label.
    pub cluster: String,
}

macro_rules! version {
    ($module:ident, $version:literal) => {
        #[doc = concat!("`multicluster.x-k8s.io/", $version, "`.")]
        pub mod $module {
            use std::collections::BTreeMap;

            use k8s_openapi::api::core::v1::SessionAffinityConfig;
            use kube::CustomResource;
            use schemars::JsonSchema;
            use serde::{Deserialize, Serialize};

            use super::{ServiceExportStatus, ServiceImportStatus, ServicePort};

            /// What an export says beside its name, which is that of the exported Service.
            #[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[kube(
                group = "multicluster.x-k8s.io",
                version = $version,
                kind = "ServiceExport",
                plural = "serviceexports",
                singular = "serviceexport",
                shortname = "svcex",
                shortname = "svcexport",
                category = "multicluster",
                namespaced,
                status = "ServiceExportStatus",
                derive = "PartialEq",
                doc = "ServiceExport declares that the Service of its name and namespace is to be reachable from other clusters.",
                printcolumn(name = "Valid", type_ = "string", json_path = ".status.conditions[?(@.type==\"Valid\")].status"),
                printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
                printcolumn(name = "Conflict", type_ = "string", json_path = ".status.conditions[?(@.type==\"Conflict\")].status"),
                printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
            )]
            #[serde(rename_all = "camelCase")]
            pub struct ServiceExportSpec {
                /// Labels that the import is to bear.
                #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
                pub exported_labels: BTreeMap<String, String>,
                /// Annotations that the import is to bear.
                #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
                pub exported_annotations: BTreeMap<String, String>,
            }

            /// An imported service and what is needed to consume it.
            #[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[kube(
                group = "multicluster.x-k8s.io",
                version = $version,
                kind = "ServiceImport",
                plural = "serviceimports",
                singular = "serviceimport",
                shortname = "svcim",
                shortname = "svcimport",
                category = "multicluster",
                namespaced,
                status = "ServiceImportStatus",
                derive = "PartialEq",
                doc = "ServiceImport describes a service that is imported from clusters of the cluster set.",
                printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
                printcolumn(name = "IP", type_ = "string", json_path = ".spec.ips"),
                printcolumn(name = "Clusters", type_ = "string", json_path = ".status.clusters[*].cluster"),
                printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
            )]
            #[serde(rename_all = "camelCase")]
            pub struct ServiceImportSpec {
                /// The ports of the service.
                #[serde(default)]
                pub ports: Vec<ServicePort>,
                /// The virtual addresses, one a family. Empty when the import is headless.
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                #[schemars(length(max = 2))]
                pub ips: Vec<String>,
                /// ClusterSetIP or Headless.
                #[serde(rename = "type")]
                pub type_: String,
                /// None or ClientIP.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub session_affinity: Option<String>,
                /// The settings of the session affinity.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub session_affinity_config: Option<SessionAffinityConfig>,
                /// The address families, in the order of ips.
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                #[schemars(length(max = 2))]
                pub ip_families: Vec<String>,
                /// Cluster or Local.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub internal_traffic_policy: Option<String>,
                /// A preference such as PreferClose.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub traffic_distribution: Option<String>,
            }
        }
    };
}

version!(v1beta1, "v1beta1");
version!(v1alpha1, "v1alpha1");
