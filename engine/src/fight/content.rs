//! What a write is to bring about, in a number: the same for writes of the same content to whatever version of the object.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;
use serde_json::Value;

use crate::model::Action;
use crate::model::slice::content_hash;

/// Says what of an object moves without being content: which version is written, and when a condition last changed.
const BOOKKEEPING: [&str; 2] = ["resourceVersion", "lastTransitionTime"];

/// What a write is to bring about.
pub fn content(action: &Action) -> u64 {
    let mut hasher = DefaultHasher::new();
    match action {
        Action::CreateNamespace(object) => text(&object).hash(&mut hasher),
        Action::CreateService(object) => text(&object).hash(&mut hasher),
        Action::CreateExport(object) => text(&object).hash(&mut hasher),
        Action::CreateImport(object) => text(&object).hash(&mut hasher),
        Action::CreateSlice(slice) | Action::ReplaceSlice(slice) => {
            content_hash(slice).hash(&mut hasher);
        }
        Action::Merge(patch) => {
            let mut desired = patch.clone();
            strip(&mut desired);
            desired.to_string().hash(&mut hasher);
        }
        Action::Delete { .. } => "deleted".hash(&mut hasher),
    }
    hasher.finish()
}

/// What cannot be written as JSON is sent to no API server.
fn text(object: &impl Serialize) -> String {
    serde_json::to_string(object).unwrap_or_default()
}

/// What is taken off depends on what the other put there.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| !value.is_null() && !BOOKKEEPING.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(all) => all.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_what_is_desired_and_not_what_was_found() {
        let patch = |version: &str, selector: Value, at: &str| {
            content(&Action::Merge(json!({
                "metadata": {"resourceVersion": version},
                "spec": {"selector": selector},
                "status": {"conditions": [{"type": "Ready", "lastTransitionTime": at}]},
            })))
        };
        let first = patch("7", json!({"app": "foo", "theirs": null}), "noon");
        assert_eq!(first, patch("8", json!({"app": "foo"}), "midnight"));
        assert_ne!(first, patch("7", json!({"app": "bar"}), "noon"));
        let delete = |uid: &str| {
            content(&Action::Delete {
                uid: uid.into(),
                resource_version: "7".into(),
            })
        };
        assert_eq!(delete("a"), delete("b"));
        assert_ne!(delete("a"), first);
    }
}
