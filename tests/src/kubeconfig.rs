//! Kubeconfig files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A kubeconfig with one cluster, one user with a bearer token, and one context named like the cluster.
pub(crate) fn with_token(cluster: &str, url: &str, ca_pem: &str, token: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    format!(
        "apiVersion: v1
kind: Config
current-context: {cluster}
clusters:
- name: {cluster}
  cluster:
    server: {url}
    certificate-authority-data: {ca}
contexts:
- name: {cluster}
  context:
    cluster: {cluster}
    user: {cluster}
users:
- name: {cluster}
  user:
    token: {token}
"
    )
}

/// The DER of the one certificate in a PEM.
pub(crate) fn der(pem: &str) -> Vec<u8> {
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(base64).expect("a certificate as PEM")
}
