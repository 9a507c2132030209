//! Whose an object in a member is, by what is written on it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::labels;

/// What the annotation [`labels::OWNER`] begins with on what a MultiClusterService asks for.
pub const NATIVE_OWNER: &str = "MultiClusterService/";

/// The exported service that a Service was derived for, where causeway, of whichever hub, derived it: its labels say so, and so does the
/// record of its owner, if it has one. The name of a Service says nothing: people and MultiClusterServices choose theirs.
pub fn derived_for(meta: &ObjectMeta) -> Option<&str> {
    let marks = meta.labels.as_ref()?;
    marks.get(labels::HUB)?;
    let of = marks.get(labels::MULTICLUSTER_SERVICE_NAME)?;
    let owner = meta
        .annotations
        .as_ref()
        .and_then(|all| all.get(labels::OWNER));
    let is_delivered = owner.is_some_and(|owner| owner.starts_with(NATIVE_OWNER));
    (!is_delivered).then_some(of)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(marks: Value, annotations: Value) -> ObjectMeta {
        let meta = json!({"labels": marks, "annotations": annotations});
        serde_json::from_value(meta).expect("metadata")
    }

    #[test]
    fn a_service_is_derived_by_its_marks_and_the_record_of_its_owner() {
        let both = || json!({labels::HUB: "h", labels::MULTICLUSTER_SERVICE_NAME: "foo"});
        for (marks, owner, of) in [
            (both(), "ServiceExport/foo", Some("foo")),
            (both(), "ServiceImport/uid", Some("foo")),
            (both(), "MultiClusterService/uid", None),
            (
                json!({labels::MULTICLUSTER_SERVICE_NAME: "foo"}),
                "ServiceExport/foo",
                None,
            ),
            (json!({labels::HUB: "h"}), "ServiceExport/foo", None),
        ] {
            let meta = meta(marks, json!({labels::OWNER: owner}));
            assert_eq!(derived_for(&meta), of, "{meta:?}");
        }
        assert_eq!(derived_for(&meta(both(), Value::Null)), Some("foo"));
        assert_eq!(derived_for(&ObjectMeta::default()), None);
    }
}
