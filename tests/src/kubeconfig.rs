//! Kubeconfig files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A cluster and a bearer token for it.
pub(crate) struct Access<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) url: &'a str,
    pub(crate) ca_pem: &'a str,
    pub(crate) token: &'a str,
}

/// A kubeconfig with one context for each of these, named like the cluster; the first is the
/// current one.
pub(crate) fn with_tokens(all: &[Access<'_>]) -> String {
    let entries = |entry: fn(&Access<'_>) -> String| all.iter().map(entry).collect::<String>();
    let current = all.first().map(|access| access.cluster).unwrap_or_default();
    let clusters = entries(|access| {
        let ca = STANDARD.encode(access.ca_pem);
        format!(
            "- name: {}\n  cluster: {{server: \"{}\", certificate-authority-data: {ca}}}\n",
            access.cluster, access.url
        )
    });
    let contexts = entries(|access| {
        let name = access.cluster;
        format!("- name: {name}\n  context: {{cluster: {name}, user: {name}}}\n")
    });
    let users = entries(|access| {
        format!(
            "- name: {}\n  user: {{token: {}}}\n",
            access.cluster, access.token
        )
    });
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {current}\nclusters:\n{clusters}contexts:\n{contexts}users:\n{users}"
    )
}

/// The DER of the one certificate in a PEM.
pub(crate) fn der(pem: &str) -> Vec<u8> {
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(base64).expect("a certificate as PEM")
}
