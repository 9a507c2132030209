//! M2: the JSON Patch of the conversion of deprecated cluster lists.

use causeway::api::MultiClusterServiceSpec;
use causeway::domain::{ClusterField, Conversion};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::json;

/// Appends the operations that repeat conversions, after which an object has `spec`.
pub(super) fn patch(
    spec: &MultiClusterServiceSpec,
    conversions: &[Conversion],
    operations: &mut Vec<PatchOperation>,
) {
    for successor in [ClusterField::Consumers, ClusterField::Providers] {
        let is_changed = conversions.iter().any(|conversion| {
            conversion.field.successor() == successor && conversion.changed_successor()
        });
        if is_changed {
            operations.push(PatchOperation::Add(AddOperation {
                path: pointer(successor),
                value: json!(successor.selectors(spec)),
            }));
        }
    }
    operations.extend(conversions.iter().map(|conversion| {
        PatchOperation::Remove(RemoveOperation {
            path: pointer(conversion.field),
        })
    }));
}

fn pointer(field: ClusterField) -> PointerBuf {
    let path = match field {
        ClusterField::Range => "spec.range",
        other => other.path(),
    };
    PointerBuf::from_tokens(path.split('.'))
}
