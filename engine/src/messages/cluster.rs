//! Sentences of the conditions of a Cluster.

use causeway::api::labels;
use causeway::domain::Reach;

use super::remarks::TTL_EXPIRED;
use crate::model::MemberState;
use crate::observed::member::Membership;
use crate::problem::ClusterFacts;

/// Message of DeletionsSuspended while it is False.
pub(crate) const NO_DELETIONS_SUSPENDED: &str = "its last lists lack nothing that is kept";

impl ClusterFacts<'_> {
    /// Returns the message of Ready; empty for a member that is not joined.
    pub(crate) fn message(&self) -> String {
        if let Some(error) = self.outdated {
            return format!("{error}; until then its last connection is kept");
        }
        match self.state {
            MemberState::Synced => self.watched(),
            MemberState::Syncing => "the initial lists are not complete".to_owned(),
            MemberState::Unreachable { failure, .. } if self.has_ttl_expired => {
                format!("{failure}; {TTL_EXPIRED}: its endpoints are not used")
            }
            MemberState::Unreachable { failure, .. } => failure.to_string(),
            MemberState::Unwatched { kind, failure, .. } => {
                format!("cannot be watched ({kind}: {failure})")
            }
            MemberState::Refused(refusal) => refusal.to_string(),
            MemberState::LeftOut(left_out) => format!("takes no part: {left_out}"),
            MemberState::NotJoined => String::new(),
        }
    }

    fn watched(&self) -> String {
        let suspended = (self.suspended > 0).then(|| self.deletions_suspended());
        let ranges = (!self.unreadable.is_empty()).then(|| {
            format!(
                "annotation {} has invalid ranges, which are ignored: {}",
                labels::ENDPOINT_CIDRS,
                self.unreadable.join(", ")
            )
        });
        let network = self.invalid_network.map(|network| {
            format!(
                "annotation {} is {:?}, which is no DNS label; clusters with the same text are one \
                 network",
                labels::NETWORK,
                network.name().unwrap_or_default()
            )
        });
        let reach = self.unknown_reach.map(|text| {
            format!(
                "annotation {} has the unknown value {text:?}, which is ignored; write {}",
                labels::REACH,
                Reach::VALUES.join(", ")
            )
        });
        let nodes = self.nodes_failure.map(|failure| {
            format!(
                "its Nodes cannot be watched ({failure}), so clusters of other networks do not \
                 reach its pods by node ports; in {}: kubectl apply -f \
                 manifests/member/networks.yaml",
                self.name
            )
        });
        let watched = Some("Services and EndpointSlices are watched".to_owned());
        let all = [watched, suspended, ranges, network, reach, nodes];
        all.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Returns the message of DeletionsSuspended.
    pub(crate) fn deletions_suspended(&self) -> String {
        let (name, count) = (self.name, self.suspended);
        format!(
            "deletions of {count} objects are suspended: its last lists lack them, and they are kept until a second list lacks them \
             too; to confirm them now: kubectl mcs confirm-deletions {name}"
        )
    }
}

/// Returns the message of ClustersetAPI; `None` while the served API is unknown.
pub(crate) fn clusterset_api(membership: &Membership) -> Option<String> {
    Some(match membership {
        Membership::Unknown => return None,
        Membership::Failing(failure) => {
            format!("ServiceExports and ServiceImports cannot be watched ({failure})")
        }
        Membership::Part { exports, imports } => {
            let missing = match (exports, imports) {
                (Some(exports), Some(imports)) => {
                    let imports = imports.version;
                    return Some(format!(
                        "ServiceExport {exports} and ServiceImport {imports} are watched"
                    ));
                }
                (None, Some(_)) => "ServiceExport is",
                (Some(_), None) => "ServiceImport is",
                (None, None) => "ServiceExport and ServiceImport are",
            };
            format!(
                "{missing} not installed there; apply manifests/crds/member/, or join the cluster again"
            )
        }
    })
}
