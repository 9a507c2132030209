//! Sentences about the state of a member.

use std::fmt;

use super::cluster::{JOIN_AGAIN, REPORT_SECRETS};
use crate::model::{ConfigurationError, LeftOut, MemberState, Refusal, RequiredKind};

/// Returns the problem of a member that cannot be written to, to follow its name; `None` if it can
/// be written to, or soon can.
pub fn unusable(state: &MemberState) -> Option<String> {
    let text = match state {
        MemberState::Synced | MemberState::Syncing => return None,
        MemberState::NotJoined => "is not joined".to_owned(),
        MemberState::Refused(refusal) => refusal.to_string(),
        MemberState::LeftOut(left_out) => left_out.to_string(),
        MemberState::Unreachable { failure, since, .. } => {
            format!("unreachable since {since:.0} ({failure})")
        }
        MemberState::Unwatched {
            kind,
            failure,
            since,
        } => format!("not watched since {since:.0} ({kind}: {failure})"),
    };
    Some(text)
}

impl fmt::Display for RequiredKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Services => "Services",
            Self::Namespaces => "Namespaces",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(error) => error.fmt(out),
            Self::AnotherCluster => out.write_str(
                "its API server is another cluster's now (the UID of kube-system changed); \
                 if that is meant, unjoin it and join it again, or delete the Cluster of a \
                 ClusterProfile",
            ),
            Self::DuplicateOf(elder) => write!(
                out,
                "is the same cluster as {elder} (one kube-system UID); unjoin one of them"
            ),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PullWithoutCredentials => out.write_str("Pull mode without credentials"),
            Self::TooOld(version) => write!(out, "Kubernetes {version} is older than 1.21"),
        }
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSecretRef => write!(out, "its Cluster names no secretRef; {JOIN_AGAIN}"),
            Self::PullWithoutCredentials => write!(
                out,
                "its Cluster is in Pull mode and names no secretRef; {REPORT_SECRETS}"
            ),
            Self::NamespaceNotWatched(namespace) => write!(
                out,
                "its Secret is in namespace {namespace}, where causeway-controller does not look \
                 for any; start causeway-controller with --secret-namespace={namespace}"
            ),
            Self::SecretsUnreadable { namespace, failure } => write!(
                out,
                "Secrets in namespace {namespace} cannot be read ({failure}); let \
                 causeway-controller list and watch them there, as manifests/hub/rbac.yaml and \
                 options/karmada.yaml do"
            ),
            Self::SecretNotFound { namespace, name } => {
                write!(out, "there is no Secret {namespace}/{name}; {JOIN_AGAIN}")
            }
            Self::ProfileUnknown(namespace) => write!(
                out,
                "its Cluster was made of a ClusterProfile in namespace {namespace} that \
                 causeway-controller does not see; start it with --cluster-profiles={namespace}, or \
                 delete the Cluster"
            ),
            Self::ProfilesUnreadable { namespace, failure } => write!(
                out,
                "ClusterProfiles in namespace {namespace} cannot be read ({failure}); let \
                 causeway-controller list and watch them there, as options/cluster-profiles.yaml does"
            ),
            Self::ProfileUnusable(problem) => problem.fmt(out),
            Self::NoProfileSecret {
                provider,
                namespace,
                name,
                exists: false,
            } => write!(
                out,
                "there is no Secret {namespace}/{name} with a token, which provider {provider} reads"
            ),
            Self::NoProfileSecret {
                provider,
                namespace,
                name,
                exists: true,
            } => write!(
                out,
                "provider {provider} reads Secret {namespace}/{name}, which is another cluster's; \
                 the Secret has to be owned by the ClusterProfile, or bear its name"
            ),
            Self::NoCredentials { provider, failure } => {
                write!(out, "provider {provider} gives no credentials: {failure}")
            }
            Self::AgentCredentials(failure) | Self::Invalid(failure) => failure.fmt(out),
            Self::NoClient(failure) => write!(out, "no client can be made for it: {failure}"),
        }
    }
}
