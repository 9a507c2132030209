//! Hash of the content that a write brings about: equal for writes of the same content to any
//! version of the object.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use crate::model::Operation;

/// Fields of an object that change without its content: the version that is written, and the time
/// at which a condition last changed.
const BOOKKEEPING: [&str; 2] = ["resourceVersion", "lastTransitionTime"];

/// Returns a hash of the content that a write brings about.
pub fn content(operation: &Operation) -> u64 {
    let mut hasher = DefaultHasher::new();
    match operation {
        Operation::Create(manifest) => manifest.to_string().hash(&mut hasher),
        Operation::CreateSlice(_, content) | Operation::ReplaceSlice(_, content) => {
            content.hash(&mut hasher);
        }
        Operation::Delete(_) | Operation::DeleteResidue(..) => "deleted".hash(&mut hasher),
        Operation::Patch(patch) => {
            let mut desired = patch.clone();
            strip(&mut desired);
            desired.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Removes [`BOOKKEEPING`] and `null`: the fields that a patch removes depend on those that the
/// other writer set.
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
    use crate::model::ObservedVersion;

    #[test]
    fn content_is_what_is_desired_and_not_what_was_found() {
        let patch = |version: &str, selector: Value, at: &str| {
            let patch = json!({
                "metadata": {"resourceVersion": version},
                "spec": {"selector": selector},
                "status": {"conditions": [{"type": "Ready", "lastTransitionTime": at}]},
            });
            content(&Operation::Patch(patch))
        };
        let first = patch("7", json!({"app": "foo", "theirs": null}), "noon");
        assert_eq!(first, patch("8", json!({"app": "foo"}), "midnight"));
        assert_ne!(first, patch("7", json!({"app": "bar"}), "noon"));
        let delete = |uid: &str| {
            let observed = ObservedVersion {
                uid: uid.into(),
                resource_version: "7".into(),
            };
            content(&Operation::Delete(observed))
        };
        assert_eq!(delete("a"), delete("b"));
        assert_ne!(delete("a"), first);
    }
}
