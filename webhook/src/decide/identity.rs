//! The permanent-id: M1 sets it, V7 keeps it.

use causeway::api::labels::PERMANENT_ID;
use causeway::domain::{FieldError, is_label_value, quoted};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::json;

use super::{Change, Metadata, Stored};

/// Returns the permanent-id of a new object that another MultiClusterService may have: a copied
/// manifest contains the id. `None` if the mutation needs no other object. No object has an id that
/// is no label value.
pub fn contested_id(change: &Change) -> Option<&str> {
    let id = change.object.metadata.permanent_id()?;
    (matches!(change.stored, Stored::Nothing) && is_label_value(id)).then_some(id)
}

/// Returns the operation that sets the id of an object without an id of its own (M1).
pub(super) fn set_id(change: &Change, id_taken: bool) -> Option<PatchOperation> {
    let metadata = &change.object.metadata;
    let taken = id_taken && contested_id(change).is_some();
    if metadata.permanent_id().is_some() && !taken {
        return None;
    }
    let kept = change
        .stored
        .object()
        .and_then(|stored| stored.metadata.permanent_id())
        .filter(|id| is_label_value(id));
    let id = kept.unwrap_or(&change.uid);
    let (path, value) = if metadata.labels.is_some() {
        (vec!["metadata", "labels", PERMANENT_ID], json!(id))
    } else {
        (vec!["metadata", "labels"], json!({ PERMANENT_ID: id }))
    };
    Some(PatchOperation::Add(AddOperation {
        path: PointerBuf::from_tokens(path),
        value,
    }))
}

/// Returns the warning of an id that was replaced because another object has it. Applying the same
/// manifest again would be refused (V7).
pub(super) fn replaced_id(change: &Change, id_taken: bool) -> Option<String> {
    let id = contested_id(change).filter(|_| id_taken)?;
    Some(format!(
        "{}: another MultiClusterService has the permanent-id {id:?}, so this one was given its \
         own; remove the label from \
         the manifest, or it is refused when it is applied again",
        path()
    ))
}

/// Returns the error of an id that was changed or removed (V7).
pub(super) fn changed_id(metadata: &Metadata, stored: &Metadata) -> Option<FieldError> {
    let before = stored.permanent_id()?;
    let after = metadata.permanent_id();
    if after == Some(before) {
        return None;
    }
    let before = quoted(before);
    Some(match after {
        Some(after) => {
            let detail = format!(
                "does not change once it is set; remove the label from the manifest, and it stays {before:?}"
            );
            FieldError::invalid(path(), after, detail)
        }
        None => {
            let detail = format!("does not change once it is set, and is {before:?}");
            FieldError::required(path(), detail)
        }
    })
}

fn path() -> String {
    format!("metadata.labels[{PERMANENT_ID}]")
}
