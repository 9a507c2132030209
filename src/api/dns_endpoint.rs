//! DNSEndpoints, from which ExternalDNS reads the records to publish (kubernetes-sigs/external-dns,
//! `apis/v1alpha1` and `endpoint`).

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Records that ExternalDNS publishes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "externaldns.k8s.io",
    version = "v1alpha1",
    kind = "DNSEndpoint",
    plural = "dnsendpoints",
    namespaced,
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct DNSEndpointSpec {
    /// The records.
    #[serde(default)]
    pub endpoints: Vec<DnsRecord>,
}

/// Record of DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsRecord {
    /// Its name.
    #[serde(default)]
    pub dns_name: String,
    /// Its type: A, AAAA or CNAME.
    #[serde(default)]
    pub record_type: String,
    /// Its time to live, in seconds.
    #[serde(default, rename = "recordTTL")]
    pub record_ttl: i64,
    /// Its values.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Identifier that distinguishes records of one name and type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_identifier: Option<String>,
    /// Properties that one DNS provider reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_specific: Vec<DnsProperty>,
    /// Fields that causeway does not write: if a record has any, somebody changed it.
    #[serde(flatten)]
    pub others: serde_json::Map<String, Value>,
}

/// Property of a record that one DNS provider reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsProperty {
    /// Its name: `provider/property`.
    #[serde(default)]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}
