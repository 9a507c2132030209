//! Record of a member's id in its clusterset (KEP-2149), an annotation of its Cluster.

use causeway::api::labels;
use causeway::domain::ClusterName;
use serde_json::json;

use crate::model::{ObjectId, Write};
use crate::observed::Index;

/// Returns the write that makes the Cluster record the id that its member reports; `None` if it
/// does, or while the member has reported nothing.
pub(super) fn write(index: &Index, name: &ClusterName) -> Option<Write> {
    let cluster = index.cluster(name)?;
    let id = index.wanted_id(name)?;
    let patch = || {
        let annotations = json!({ labels::CLUSTER_ID: id });
        json!({"metadata": {
            "resourceVersion": cluster.resource_version, "annotations": annotations,
        }})
    };
    let is_recorded = cluster.cluster_id.as_deref() == id;
    (!is_recorded).then(|| Write::patch(ObjectId::Cluster(name.clone()), patch()))
}
