//! Events about Services, deletions and policies of Karmada.

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};

use super::names;
use crate::model::{MemberState, ObjectEvent};
use crate::observed::service::ServiceKind;
use crate::reasons::Reason;
use crate::removal::Leftovers;

/// Maximum number of services that an Event about a removed member names.
const NAMED_AT_MOST: usize = 10;

pub(super) fn warning(reason: Reason, note: String) -> ObjectEvent {
    ObjectEvent {
        warning: true,
        reason: reason.into(),
        note,
    }
}

/// Reports that a Service of a member is deleted and created again with another kind.
pub(crate) fn service_recreated(
    member: &ClusterName,
    key: &ServiceKey,
    was: ServiceKind,
    wanted: ServiceKind,
) -> ObjectEvent {
    let note =
        format!("Service {key} of {member} is recreated: it was {was} and is to be {wanted}");
    warning(Reason::ServiceRecreated, note)
}

/// Reports that another writer took over a Service of causeway: the field manager `claimant`, or
/// a writer that removed the label.
pub(crate) fn service_taken_over(
    member: &ClusterName,
    key: &ServiceKey,
    claimant: Option<&str>,
) -> ObjectEvent {
    let change = match claimant {
        Some(claimant) => format!("was applied by {claimant}"),
        None => format!("lost causeway's label {}", labels::HUB),
    };
    let note = format!(
        "Service {key} of {member} {change} and is theirs from now on: it is used where its ports fit, and neither changed nor deleted"
    );
    warning(Reason::ServiceTakenOver, note)
}

/// Reports that these members hold objects of a deleted MultiClusterService.
pub(crate) fn leftovers_remain<'a>(
    key: &ServiceKey,
    members: impl IntoIterator<Item = &'a ClusterName>,
) -> ObjectEvent {
    let note = format!(
        "{key} is deleted, and objects of it are left in {}: they are collected as soon as causeway can delete them there",
        names(members)
    );
    warning(Reason::LeftoversRemain, note)
}

/// Reports that a removed member may hold objects of causeway; `None` if the member is clean.
pub fn member_leftovers(left: &Leftovers, member: &ClusterName, hub: &str) -> Option<ObjectEvent> {
    let mut services: Vec<_> = left.services.iter().map(ToString::to_string).collect();
    let more = services.len().saturating_sub(NAMED_AT_MOST);
    services.truncate(NAMED_AT_MOST);
    services.extend((more > 0).then(|| format!("{more} more")));
    let what = match (services.as_slice(), &left.unchecked) {
        ([], None) => return None,
        ([], Some(_)) => "what causeway wrote there".to_owned(),
        (services, _) => format!("what causeway wrote there for {}", services.join(", ")),
    };
    let why = left.unchecked.as_ref().map(unchecked);
    let note = format!(
        "{member} left before it was cleaned{}; {what} is left in it: join it and unjoin it again, or run there: kubectl delete \
         services,endpointslices -A -l {}={hub}, and the same of serviceexports,serviceimports if it serves them",
        why.unwrap_or_default(),
        labels::HUB
    );
    Some(warning(Reason::LeftoversRemain, note))
}

/// Describes the state that prevents the check of a removed member.
fn unchecked(state: &MemberState) -> String {
    let text = match state {
        MemberState::Synced | MemberState::LeftOut(_) | MemberState::NotJoined => {
            return String::new();
        }
        MemberState::Syncing => "it did not answer in time".to_owned(),
        MemberState::Refused(refusal) => refusal.to_string(),
        MemberState::Unreachable { failure, since, .. } => {
            format!("unreachable since {since:.0}: {failure}")
        }
        MemberState::Unwatched {
            kind,
            failure,
            since,
        } => format!("not watched since {since:.0}: {kind}: {failure}"),
    };
    format!(" ({text})")
}

/// Reports that Karmada cannot propagate a Service to these clusters because of causeway's.
pub fn policy_conflict(key: &ServiceKey, clusters: &[&ClusterName]) -> ObjectEvent {
    warning(Reason::PolicyConflict, refused_propagation(key, clusters))
}

/// Describes a policy of Karmada that is not applied in these clusters, with the remedy.
pub(crate) fn refused_propagation(key: &ServiceKey, clusters: &[&ClusterName]) -> String {
    format!(
        "Karmada's policy for Service {key} is not applied in {}, where causeway has delivered it already (ResourceBinding {}-service: already \
         exists); apply the policy before the MultiClusterService, or leave the Service out of the policy, or set conflictResolution: \
         Overwrite in it",
        names(clusters),
        key.name
    )
}
