//! The Cluster object, by which a hub knows a member.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition, labels};

/// How the hub reaches the member cluster.
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
    doc = "Cluster is a Kubernetes cluster that has joined the hub as a member.",
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
        name = "Region",
        type_ = "string",
        json_path = ".spec.region",
        priority = 1
    ),
    printcolumn(
        name = "Zones",
        type_ = "string",
        json_path = ".spec.zones",
        priority = 1
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
    /// The UID of the member's kube-system namespace, which identifies the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Push: Karmada's control plane connects to the member. Pull: karmada-agent in the member
    /// connects to the control plane. causeway connects to the member's API server in both modes; a
    /// member in Pull mode whose Cluster names no Secret is left out. If empty, Push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_mode: Option<SyncMode>,
    /// The address of the member's API server: a URL, a host or an IP address, with or without a
    /// port.
    #[serde(
        rename = "apiEndpoint",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub api_endpoint: Option<String>,
    /// The Secret with the member's credentials, in the keys token and caBundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Do not verify the serving certificate of the member's API server. The controller must run
    /// with --allow-insecure-members.
    #[serde(
        rename = "insecureSkipTLSVerification",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub insecure_skip_tls_verification: Option<bool>,
    /// The URL of the proxy to the member's API server: http://, https:// or socks5://.
    #[serde(rename = "proxyURL", default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// The headers that the proxy requires in CONNECT. Commas separate the values of one header.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_header: BTreeMap<String, String>,
    /// The region of the member, such as eu-west-1. The tier "region" of a preference means the
    /// clusters of one region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zones of the member, such as eu-west-1a. The tier "zone" of a preference means clusters
    /// that share a zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Deprecated: use zones. The one zone of the member, where zones is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Cluster {
    /// Whether a person stopped the use of the member's endpoints ([`labels::WITHDRAW`]).
    pub fn is_drained(&self) -> bool {
        self.has_annotation(labels::WITHDRAW, "true")
    }

    /// Returns the namespace of the ClusterProfile that the Cluster was made of
    /// ([`labels::PROFILE_NAMESPACE`]).
    pub fn profile_namespace(&self) -> Option<&str> {
        let labels = self.metadata.labels.as_ref()?;
        labels.get(labels::PROFILE_NAMESPACE).map(String::as_str)
    }

    /// Whether causeway serves the member. It leaves out a member in Pull mode without credentials:
    /// its karmada-agent reports none. By default karmada-agent reports a Secret with a token.
    pub fn takes_part(&self) -> bool {
        self.spec.sync_mode != Some(SyncMode::Pull)
            || self.spec.secret_ref.is_some()
            || self.has_agent_credentials()
    }

    /// Whether causeway-agent reports the paths from the member ([`labels::PATH_REPORTS`]).
    pub fn reports_paths(&self) -> bool {
        self.has_annotation(labels::PATH_REPORTS, "true")
    }

    /// Whether the agent of the member gives its credentials to the controller
    /// ([`labels::CREDENTIALS`]).
    pub fn has_agent_credentials(&self) -> bool {
        self.has_annotation(labels::TUNNEL, "true")
            && self.has_annotation(labels::CREDENTIALS, labels::FROM_AGENT)
    }

    fn has_annotation(&self, name: &str, value: &str) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        let found = annotations.and_then(|annotations| annotations.get(name));
        found.is_some_and(|found| found == value)
    }
}

impl ClusterSpec {
    /// The zones of the member: `zones`, else the deprecated `zone`; empty where nobody said any.
    pub fn effective_zones(&self) -> &[String] {
        if self.zones.is_empty() {
            self.zone.as_slice()
        } else {
            &self.zones
        }
    }
}

/// Direction in which Karmada connects to the member. causeway connects from the hub in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// Karmada's control plane connects to the member's API server.
    Push,
    /// karmada-agent in the member connects to Karmada's control plane.
    Pull,
}

/// The namespace and the name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
}

/// The observed state of the member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The Kubernetes version of the member's API server, such as v1.36.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The conditions of the member. Ready says whether it can be reached and watched.
    #[serde(
        default,
        deserialize_with = "condition::read_whole",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_deprecated_zone_counts_where_there_are_no_zones() {
        for (spec, zones) in [
            (json!({}), vec![]),
            (json!({"zone": "a"}), vec!["a"]),
            (json!({"zone": "a", "zones": []}), vec!["a"]),
            (json!({"zone": "a", "zones": ["b", "c"]}), vec!["b", "c"]),
        ] {
            let read: ClusterSpec = serde_json::from_value(spec).expect("a spec");
            assert_eq!(read.effective_zones(), zones);
        }
    }

    #[test]
    fn conditions_without_a_time_leave_the_cluster_readable() {
        let whole = json!({
            "type": "Ready",
            "status": "True",
            "reason": "ClusterReady",
            "message": "",
            "lastTransitionTime": "2026-11-29T00:00:00Z",
        });
        let mut zero = whole.clone();
        zero["lastTransitionTime"] = json!(null);
        for (conditions, read) in [
            (json!([zero, whole]), 1),
            (json!([zero]), 0),
            (json!(null), 0),
        ] {
            let status = json!({ "conditions": conditions });
            let status: ClusterStatus = serde_json::from_value(status).expect("a status");
            assert_eq!(status.conditions.len(), read, "{conditions}");
        }
    }

    #[test]
    fn reports_on_paths_are_read_where_the_cluster_says_so() {
        for (annotations, reports) in [
            (json!({}), false),
            (json!({ labels::PATH_REPORTS: "true" }), true),
            (json!({ labels::PATH_REPORTS: "false" }), false),
            (json!({ labels::PATH_REPORTS: "yes" }), false),
        ] {
            let mut cluster = Cluster::new("member1", ClusterSpec::default());
            let meta = json!({ "annotations": annotations });
            cluster.metadata = serde_json::from_value(meta).expect("metadata");
            assert_eq!(cluster.reports_paths(), reports, "{:?}", cluster.metadata);
        }
    }
}
