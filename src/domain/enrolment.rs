//! Secrets by which causeway-agent of a member gets its certificate from causeway-tunnel.
//!
//! On the hub, `kubectl mcs join` creates two Secrets for a member in namespace [`NAMESPACE`]:
//! [`bootstrap_name`] allows to enrol once, [`member_name`] allows to renew. In the member, one
//! Secret has the token first, then the certificate.

use super::ClusterName;

/// Namespace on the hub that has these Secrets and nothing else: causeway-tunnel reads all of them.
pub const NAMESPACE: &str = "causeway-enrolment";
/// Key of a bootstrap Secret: SHA-256 of the token, in hexadecimal digits.
pub const HASH: &str = "hash";
/// Key of a bootstrap Secret: end of the token's validity, RFC 3339.
pub const EXPIRES: &str = "expires";
/// Key of a bootstrap Secret that is used: SHA-256 of the public key for which a certificate was
/// issued, in hexadecimal digits.
pub const USED_BY: &str = "usedBy";
/// Key of a bootstrap Secret: UID of the member's Cluster.
pub const CLUSTER_UID: &str = "clusterUid";
/// Key of the agent's Secret in the member: the token.
pub const TOKEN: &str = "token";
/// Key of the agent's Secret in the member: name of the member.
pub const NAME: &str = "name";

/// Returns the name of the Secret with the hash of a member's token.
pub fn bootstrap_name(member: &ClusterName) -> String {
    format!("bootstrap-{member}")
}

/// Returns the name of the Secret whose UID is in the certificates of a member's agent. Without it,
/// none is renewed.
pub fn member_name(member: &ClusterName) -> String {
    format!("member-{member}")
}
