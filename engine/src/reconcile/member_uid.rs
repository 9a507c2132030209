//! Record of a member's UID in `spec.id` of its Cluster.
//!
//! `kubectl mcs join` records the UID of a member that it reaches. It does not reach one that joins
//! by a file: without a record, a controller that starts would accept any cluster whose agent has
//! the certificate of the member.

use causeway::domain::ClusterName;
use serde_json::json;

use crate::model::{MemberState, ObjectId, Write};
use crate::observed::Index;

/// Returns the write that makes the Cluster record the UID of a synced member whose agent gives the
/// credentials; `None` if it records one, or if an earlier Cluster of that name engaged the member.
pub(super) fn write(index: &Index, name: &ClusterName) -> Option<Write> {
    let cluster = index.cluster(name)?;
    let is_by_agent = cluster.has_agent_credentials && cluster.made_of().is_none();
    let is_due = is_by_agent && cluster.id.is_none();
    if !is_due || index.member_state(name) != MemberState::Synced {
        return None;
    }
    let member = index.member(name);
    let member = member.filter(|member| member.is_engaged_by(&cluster.uid))?;
    let identity = member.identity()?;
    let patch = json!({
        "metadata": {"resourceVersion": cluster.resource_version},
        "spec": {"id": identity.uid},
    });
    Some(Write::patch(ObjectId::Cluster(name.clone()), patch))
}
