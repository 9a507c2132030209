//! ServiceExport and ServiceImport of the Multi-Cluster Services API (KEP-1645).
//!
//! The API has two versions of one shape. [`ServiceExport`] and [`ServiceImport`] are the objects
//! as they are on the wire of either; [`ServiceExportDefinition`] and [`ServiceImportDefinition`]
//! are what the CustomResourceDefinitions are made from.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::SessionAffinityConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::DynamicResourceScope;
use kube::{CustomResource, Resource};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{bounds, condition};

/// The API group of ServiceExport and ServiceImport.
pub const GROUP: &str = "multicluster.x-k8s.io";

/// A version of the API. Karmada's definitions have v1alpha1 alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// The newer, and the one that is stored.
    #[default]
    V1beta1,
    /// The older; CoreDNS uses it.
    V1alpha1,
}

impl Version {
    /// All versions, the preferred first.
    pub const ALL: [Self; 2] = [Self::V1beta1, Self::V1alpha1];

    /// The version as paths write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1beta1 => "v1beta1",
            Self::V1alpha1 => "v1alpha1",
        }
    }

    /// Group and version, as objects write it.
    pub fn api_version(self) -> String {
        format!("{GROUP}/{self}")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// What is exported beside the Service of the same name. May be empty.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1beta1",
    kind = "ServiceExport",
    root = "ServiceExportDefinition",
    plural = "serviceexports",
    singular = "serviceexport",
    shortname = "svcex",
    shortname = "svcexport",
    category = "multicluster",
    namespaced,
    status = "ServiceExportStatus",
    doc = "ServiceExport declares that the Service of its name and namespace is to be reachable from other clusters.",
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Valid\")].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Conflict",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Conflict\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExportSpec {
    /// Labels to set on the ServiceImport.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_labels: BTreeMap<String, String>,
    /// Annotations to set on the ServiceImport.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_annotations: BTreeMap<String, String>,
    /// Selectors of the clusters that are preferred, in order (KEP-5939).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub cluster_selectors: Vec<ClusterSelector>,
    /// Fields that cannot be read, and are empty here, with the beginning of their values.
    #[serde(skip)]
    pub unreadable: BTreeMap<&'static str, String>,
}

impl<'de> Deserialize<'de> for ServiceExportSpec {
    /// Reads field by field: a member may have another definition, and the export counts by its
    /// name.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut fields = BTreeMap::<String, Value>::deserialize(input)?;
        let mut unreadable = BTreeMap::new();
        Ok(Self {
            exported_labels: read(&mut fields, "exportedLabels", &mut unreadable),
            exported_annotations: read(&mut fields, "exportedAnnotations", &mut unreadable),
            cluster_selectors: read(&mut fields, "clusterSelectors", &mut unreadable),
            unreadable,
        })
    }
}

/// Reads a field, and removes it. One that cannot be read is empty, and its value is added to
/// `unreadable`.
fn read<T: DeserializeOwned + Default>(
    fields: &mut BTreeMap<String, Value>,
    name: &'static str,
    unreadable: &mut BTreeMap<&'static str, String>,
) -> T {
    let value = fields.remove(name).unwrap_or_default();
    if value.is_null() {
        return T::default();
    }
    T::deserialize(&value).unwrap_or_else(|_| {
        let text = match &value {
            Value::String(text) => bounds::foreign(text),
            other => bounds::foreign(&other.to_string()),
        };
        unreadable.insert(name, text);
        T::default()
    })
}

/// Reads a field of a status. One that cannot be read is empty.
fn read_or_empty<'de, T, D>(input: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    let value = Value::deserialize(input)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Selector of clusters (KEP-5939).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Selects clusters by their ClusterProperties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
}

/// Query over the properties of clusters. All of its requirements hold for a cluster that it
/// selects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySelector {
    /// Names and values of ClusterProperties. "@SameAsImporter@" is the value of the importing
    /// cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_properties: BTreeMap<String, String>,
    /// Requirements of ClusterProperties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<PropertyRequirement>,
}

/// Requirement of a ClusterProperty, as in a label selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyRequirement {
    /// Name of the ClusterProperty.
    #[serde(default)]
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    #[serde(default)]
    pub operator: String,
    /// Values of In and NotIn. "@SameAsImporter@" is the value of the importing cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// The observed state of the export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceExportStatus {
    /// The conditions of the export: Valid, Ready and Conflict.
    #[serde(
        default,
        deserialize_with = "condition::read_whole",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
    /// The other clusters in which the service is available.
    #[serde(
        default,
        deserialize_with = "read_or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub clusters: Vec<ClusterOfSet>,
}

/// The imported service, as clients in this cluster reach it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1beta1",
    kind = "ServiceImport",
    root = "ServiceImportDefinition",
    plural = "serviceimports",
    singular = "serviceimport",
    shortname = "svcim",
    shortname = "svcimport",
    category = "multicluster",
    namespaced,
    status = "ServiceImportStatus",
    doc = "ServiceImport describes a service that is imported from clusters of the cluster set.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "IP", type_ = "string", json_path = ".spec.ips"),
    printcolumn(name = "Clusters", type_ = "string", json_path = ".status.clusters"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
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
    /// Selectors of the clusters that are preferred, in order, as the exports have them (KEP-5939).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub cluster_selectors: Vec<ClusterSelector>,
}

/// [`ServiceImportSpec::type_`] of an import that is reached by a virtual address.
pub const CLUSTER_SET_IP: &str = "ClusterSetIP";
/// [`ServiceImportSpec::type_`] of an import that is reached by its endpoints' own addresses.
pub const HEADLESS: &str = "Headless";

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
    /// Whether there are EndpointSlices for the import: Present or Absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_slice_objects: Option<String>,
    /// The clusters that export the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterOfSet>,
    /// Generation of the import when this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Clusters that each selector selects, in the order of the selectors (KEP-5939). Clients take
    /// the first result with a ready or serving endpoint, and else all clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_selector_results: Vec<ClusterSelectorResult>,
    /// The conditions, one a type.
    #[serde(
        default,
        deserialize_with = "condition::read_whole",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}

/// Clusters that one selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSelectorResult {
    /// Their names, as in clusters and in the label of EndpointSlices.
    #[serde(default)]
    pub clusters: Vec<String>,
}

/// A cluster of the clusterset, as a status names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterOfSet {
    /// Its name, a DNS label.
    pub cluster: String,
}

macro_rules! object {
    ($kind:ident, $plural:literal, $spec:ident, $status:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $kind {
            /// Group and version. API servers want it in what they are sent.
            #[serde(default)]
            pub api_version: String,
            /// The kind.
            #[serde(default)]
            pub kind: String,
            /// Name, namespace, labels and so on.
            pub metadata: ObjectMeta,
            /// The desired state.
            #[serde(default)]
            pub spec: $spec,
            /// The observed state.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub status: Option<$status>,
        }

        impl $kind {
            /// An object of that version, without a status.
            pub fn new(version: Version, metadata: ObjectMeta, spec: $spec) -> Self {
                Self {
                    api_version: version.api_version(),
                    kind: stringify!($kind).to_owned(),
                    metadata,
                    spec,
                    status: None,
                }
            }
        }

        impl Resource for $kind {
            type DynamicType = Version;
            type Scope = DynamicResourceScope;

            fn kind(_: &Version) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group(_: &Version) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version(version: &Version) -> Cow<'_, str> {
                version.as_str().into()
            }

            fn plural(_: &Version) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

object!(
    ServiceExport,
    "serviceexports",
    ServiceExportSpec,
    ServiceExportStatus,
    "The Service of its name and namespace is to be reachable from other clusters. It may say nothing beside its name."
);
object!(
    ServiceImport,
    "serviceimports",
    ServiceImportSpec,
    ServiceImportStatus,
    "A service that is imported from clusters of the clusterset."
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_export_that_says_nothing_but_its_name_decodes() {
        let object = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {"name": "serve"}});
        let export: ServiceExport = serde_json::from_value(object).expect("it decodes");
        assert_eq!(export.spec, ServiceExportSpec::default());
    }

    #[test]
    fn export_with_v1alpha1_conditions_is_readable() {
        let status = json!({"conditions": [{"type": "Valid", "status": "True"}]});
        let object = json!({"metadata": {"name": "serve"}, "status": status});
        let export: ServiceExport = serde_json::from_value(object).expect("it decodes");
        assert_eq!(export.status, Some(ServiceExportStatus::default()));
    }

    #[test]
    fn export_with_unreadable_fields_is_an_export() {
        let object = json!({
            "metadata": {"name": "serve"},
            "spec": {
                "exportedLabels": {"team": "web"},
                "exportedAnnotations": {"weight": 1},
                "clusterSelectors": "any",
            },
            "status": {"clusters": ["east"]},
        });
        let export: ServiceExport = serde_json::from_value(object).expect("it decodes");
        let unreadable = [
            ("exportedAnnotations", r#"{"weight":1}"#),
            ("clusterSelectors", "any"),
        ];
        let unreadable = unreadable.map(|(field, value)| (field, value.to_owned()));
        let expected = ServiceExportSpec {
            exported_labels: [("team".to_owned(), "web".to_owned())].into(),
            unreadable: unreadable.into(),
            ..ServiceExportSpec::default()
        };
        assert_eq!(export.spec, expected);
        assert_eq!(export.status, Some(ServiceExportStatus::default()));
    }

    #[test]
    fn an_object_is_sent_with_its_kind_and_version() {
        let import = ServiceImport::new(
            Version::V1alpha1,
            ObjectMeta::default(),
            ServiceImportSpec::default(),
        );
        let value = serde_json::to_value(import).expect("it is JSON");
        assert_eq!(value["apiVersion"], json!("multicluster.x-k8s.io/v1alpha1"));
        assert_eq!(value["kind"], json!("ServiceImport"));
        assert_eq!(value["spec"]["ports"], json!([]), "ports are required");
        let path = ServiceImport::url_path(&Version::V1alpha1, Some("shop"));
        assert_eq!(
            path,
            "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/shop/serviceimports"
        );
    }
}
