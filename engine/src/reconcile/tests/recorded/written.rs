//! Text form of a write: cluster, operation, and the whole content.

use causeway::api::labels;
use serde_json::{Value, json};

use crate::model::{ObjectId, Operation, Write};

/// Returns the write as the line that is compared.
pub(super) fn line(to: &str, write: &Write) -> String {
    let operation = write.operation();
    let events = write.events().iter();
    let events: Vec<_> = events
        .map(|event| json!([event.warning, event.reason, event.note]))
        .collect();
    let mut content = content(operation);
    if matches!(write.object(), ObjectId::ServiceImport(..)) {
        leave_out(&mut content);
    }
    let mut line = format!(
        "{to} {} {}{}",
        operation.verb(),
        write.object(),
        version(write)
    );
    line += &format!(" {content}");
    if !events.is_empty() {
        line += &format!(" {}", Value::from(events));
    }
    line
}

/// Returns the operation of a line: `patch the status of ServiceImport`.
pub(super) fn operation_of(line: &str) -> Option<String> {
    let (described, _) = line
        .strip_prefix('#')
        .is_none()
        .then(|| line.split_once(" {"))??;
    let mut words: Vec<_> = described.split(' ').skip(1).collect();
    words.retain(|word| !matches!(*word, "(v1beta1)" | "(v1alpha1)"));
    words.pop();
    Some(words.join(" "))
}

/// Returns the version in which the object is written, if the kind has several.
fn version(write: &Write) -> String {
    match write.object() {
        ObjectId::ServiceExport(version, _)
        | ObjectId::ServiceExportStatus(version, _)
        | ObjectId::ServiceImport(version, _)
        | ObjectId::ServiceImportStatus(version, _) => format!(" ({version})"),
        _ => String::new(),
    }
}

fn content(operation: &Operation) -> Value {
    match operation {
        Operation::Create(content) | Operation::Patch(content) => content.clone(),
        Operation::CreateSlice(slice, _) | Operation::ReplaceSlice(slice, _) => json!(slice),
        Operation::Delete(observed) | Operation::DeleteResidue(observed, _) => {
            json!({"uid": observed.uid, "resourceVersion": observed.resource_version})
        }
    }
}

/// Removes an annotation that is not compared: it was introduced after the record.
fn leave_out(content: &mut Value) {
    let metadata = content.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return };
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(labels::DERIVED_SERVICE);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}
