//! The permanent-id: M1 sets it, V7 keeps it.

use causeway::api::labels::PERMANENT_ID;
use causeway::domain::{FieldError, is_label_value};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::json;

use super::{Change, Metadata, Stored};

/// The id of a new object that another may have: a copied manifest brings the id along. A text that is no label
/// value is borne by nothing.
pub(super) fn contested(change: &Change) -> Option<&str> {
    let id = change.object.metadata.permanent_id()?;
    (matches!(change.stored, Stored::Nothing) && is_label_value(id)).then_some(id)
}

/// M1: the operation that gives the object its id, where it has none of its own.
pub(super) fn set_id(change: &Change, id_taken: bool) -> Option<PatchOperation> {
    let metadata = &change.object.metadata;
    let taken = id_taken && contested(change).is_some();
    if metadata.permanent_id().is_some() && !taken {
        return None;
    }
    let kept = change
        .stored
        .object()
        .and_then(|stored| stored.metadata.permanent_id());
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

/// Returns a warning of an id that was replaced because another object has it: the manifest that
/// holds it would be refused when it is applied again (V7).
pub(super) fn replaced_id(change: &Change, id_taken: bool) -> Option<String> {
    let id = contested(change).filter(|_| id_taken)?;
    Some(format!(
        "{}: another MultiClusterService has the permanent-id {id:?}, so this one was given its own; remove the label from \
         the manifest, or it is refused when it is applied again",
        path()
    ))
}

/// V7: the id that was there and is another one, or gone.
pub(super) fn changed_id(metadata: &Metadata, stored: &Metadata) -> Option<FieldError> {
    let before = stored.permanent_id()?;
    let after = metadata.permanent_id();
    if after == Some(before) {
        return None;
    }
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
