//! The comparison sees what a definition loses, and no loss in what it gains.

use serde_json::{Value, json};

use super::losses;

fn definition() -> Value {
    json!({
        "metadata": { "name": "foos.example" },
        "spec": {
            "group": "example", "scope": "Namespaced",
            "names": { "kind": "Foo", "plural": "foos", "shortNames": ["f"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "additionalPrinterColumns": [{ "name": "Ready", "type": "string", "jsonPath": ".status.ready" }],
                "schema": { "openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": { "spec": {
                        "type": "object",
                        "properties": {
                            "mode": { "type": "string", "enum": ["A", "B"], "maxLength": 5 },
                            "names": { "type": "array", "minItems": 1, "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
                            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                        },
                    } },
                } },
            }],
        },
    })
}

/// Stands for the schema of spec.
const SPEC: &str = "SPEC";

/// Value that is set or removed at a path, and the expected report.
type Damage = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
);

const DAMAGES: [Damage; 21] = [
    ("/spec", "scope", Some(r#""Cluster""#), "/spec/scope was"),
    ("/spec/names", "shortNames", None, "lacks f"),
    ("/spec", "versions", Some("[]"), "version v1 is gone"),
    ("/spec/versions/0", "served", Some("false"), "not served"),
    ("/spec/versions/0", "storage", Some("false"), "storage is"),
    (
        "/spec/versions/0",
        "subresources",
        None,
        "subresources were",
    ),
    (
        "/spec/versions/0",
        "additionalPrinterColumns",
        None,
        "column Ready",
    ),
    ("SPEC", "required", Some(r#"["mode"]"#), "asks for mode"),
    (
        "SPEC",
        "x-kubernetes-validations",
        Some(r#"[{"rule": "false"}]"#),
        "new rule",
    ),
    ("SPEC/properties", "mode", None, "v1.spec.mode is gone"),
    (
        "SPEC/properties/mode",
        "type",
        Some(r#""integer""#),
        "type was",
    ),
    (
        "SPEC/properties/mode",
        "enum",
        Some(r#"["A"]"#),
        "not allow \"B\"",
    ),
    (
        "SPEC/properties/mode",
        "maxLength",
        Some("4"),
        "was 5 and is 4",
    ),
    (
        "SPEC/properties/mode",
        "pattern",
        Some(r#""^A""#),
        "was absent",
    ),
    (
        "SPEC/properties/names",
        "minItems",
        Some("2"),
        "was 1 and is 2",
    ),
    ("SPEC/properties/names", "maxItems", Some("9"), "was absent"),
    (
        "SPEC/properties/names",
        "items",
        None,
        "names.items is gone",
    ),
    (
        "SPEC/properties/names",
        "x-kubernetes-list-type",
        None,
        "was \"set\"",
    ),
    (
        "SPEC/properties/labels",
        "enum",
        Some("[{}]"),
        "allows only",
    ),
    (
        "SPEC/properties/labels/additionalProperties",
        "type",
        None,
        "type was",
    ),
    (
        "SPEC/properties/free",
        "x-kubernetes-preserve-unknown-fields",
        None,
        "was true",
    ),
];

/// Sets a field of what is at a path, or takes it away.
fn with(changes: &[(&str, &str, Option<&str>)]) -> Vec<String> {
    let mut now = definition();
    for (path, key, value) in changes {
        let path = path.replace(
            SPEC,
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
        );
        let there = now.pointer_mut(&path).and_then(Value::as_object_mut);
        let there = there.unwrap_or_else(|| panic!("there is no object {path}"));
        match value {
            Some(text) => {
                let value = serde_json::from_str(text).expect("JSON");
                there.insert((*key).to_owned(), value)
            }
            None => there.remove(*key),
        };
    }
    losses(&definition(), &now)
}

#[test]
fn what_a_definition_loses_or_asks_for_is_found() {
    for (path, key, value, said) in DAMAGES {
        let lost = with(&[(path, key, value)]);
        assert_eq!(lost.len(), 1, "{path} {key}: {lost:?}");
        assert!(lost[0].contains(said), "{said:?} is not in {lost:?}");
    }
}

#[test]
fn column_of_a_whole_list_replaces_one_of_its_first_entry() {
    let column = |path: &str| {
        let mut definition = definition();
        definition["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] = path.into();
        definition
    };
    let before = column(".spec.names[*].first");
    assert_eq!(losses(&before, &column(".spec.names")), [""; 0]);
    for other in [".spec", ".spec.names.first", ".spec.names[*]"] {
        assert_eq!(losses(&before, &column(other)).len(), 1, "{other}");
    }
    assert_eq!(losses(&column(".spec.names"), &before).len(), 1);
}

#[test]
fn what_a_definition_gains_is_no_loss() {
    let new = r#"{"type": "string", "pattern": "^a", "default": "a"}"#;
    let lost = with(&[
        ("SPEC/properties", "new", Some(new)),
        ("SPEC", "required", Some(r#"["new"]"#)),
        ("SPEC", "description", Some(r#""What is wanted.""#)),
        ("SPEC/properties/mode", "enum", Some(r#"["A", "B", "C"]"#)),
        ("SPEC/properties/mode", "maxLength", None),
        ("SPEC/properties/names", "minItems", Some("0")),
        ("SPEC/properties/names", "nullable", Some("true")),
        ("/spec/names", "shortNames", Some(r#"["f", "fo"]"#)),
    ]);
    assert_eq!(lost, Vec::<String>::new());
}
