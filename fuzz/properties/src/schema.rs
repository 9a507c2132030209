//! What an API server does with an object of a structural schema (apiextensions.k8s.io/v1): unknown
//! fields and nulls are dropped, the rest is validated. Of the schema's vocabulary as much as
//! causeway's definitions use.

use causeway::api::crds;
use serde_json::{Map, Value, json};

/// The fields that every object has, whatever its schema says.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The schema of a kind, as its definition in `manifests/` gives it.
///
/// # Panics
/// Where a hub has no such definition.
pub fn of(kind: &str) -> Value {
    let definition = crds::hub()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind);
    let version = definition.and_then(|crd| crd.spec.versions.into_iter().next());
    let schema = version.and_then(|version| version.schema?.open_api_v3_schema);
    json!(schema.expect("a schema"))
}

/// Admits an object as an API server does: the object becomes what would be stored.
///
/// # Errors
/// The path of a field and what is wrong with it.
pub fn admit(schema: &Value, object: &mut Value) -> Result<(), String> {
    let Some(fields) = object.as_object_mut() else {
        return Err("no object".to_owned());
    };
    let common: Vec<_> = COMMON
        .iter()
        .filter_map(|name| fields.remove_entry(*name))
        .collect();
    let admitted = value(schema, object, "");
    if let Some(fields) = object.as_object_mut() {
        fields.extend(common);
    }
    admitted
}

fn value(schema: &Value, given: &mut Value, path: &str) -> Result<(), String> {
    let fits = match schema["type"].as_str() {
        Some("object") => given.is_object(),
        Some("array") => given.is_array(),
        Some("string") => given.is_string(),
        Some("boolean") => given.is_boolean(),
        Some("integer") => given.is_i64() || given.is_u64(),
        Some(other) => panic!("{path}: the schema's type {other} is not known here"),
        None => true,
    };
    if !fits {
        return Err(format!("{path}: {given} is no {}", schema["type"]));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|all| !all.contains(given))
    {
        return Err(format!("{path}: {given} is none of {}", schema["enum"]));
    }
    match given {
        Value::Object(fields) => object(schema, fields, path),
        Value::Array(list) => array(schema, list, path),
        _ => Ok(()),
    }
}

fn object(schema: &Value, fields: &mut Map<String, Value>, path: &str) -> Result<(), String> {
    let known = schema["properties"].as_object();
    let others = schema
        .get("additionalProperties")
        .filter(|schema| schema.is_object());
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
    let schema_of = |name: &str| known.and_then(|known| known.get(name)).or(others);
    fields.retain(|name, value| match schema_of(name) {
        Some(schema) => !value.is_null() || schema["nullable"] == json!(true),
        None => preserves,
    });
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !fields.contains_key(name) {
            return Err(format!("{path}.{name}: required"));
        }
    }
    for (name, given) in fields.iter_mut() {
        if let Some(schema) = schema_of(name) {
            value(schema, given, &format!("{path}.{name}"))?;
        }
    }
    Ok(())
}

fn array(schema: &Value, list: &mut [Value], path: &str) -> Result<(), String> {
    let least = schema["minItems"].as_u64().unwrap_or_default();
    if (list.len() as u64) < least {
        return Err(format!("{path}: fewer than {least} items"));
    }
    for (index, given) in list.iter_mut().enumerate() {
        value(&schema["items"], given, &format!("{path}[{index}]"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_pruned_and_validated_as_an_api_server_does_it() {
        let schema = of("MultiClusterService");
        let cases = [
            (
                json!({"types": ["CrossCluster"]}),
                Ok(json!({"types": ["CrossCluster"]})),
            ),
            (
                json!({"types": ["CrossCluster"], "ports": null, "other": 1, "range": {"x": 1}}),
                Ok(json!({"types": ["CrossCluster"], "range": {}})),
            ),
            (json!({}), Err(".spec.types: required")),
            (json!({"types": null}), Err(".spec.types: required")),
            (json!({"types": []}), Err(".spec.types: fewer than 1 items")),
            (
                json!({"types": ["x"]}),
                Err(r#".spec.types[0]: "x" is none of ["CrossCluster","LoadBalancer"]"#),
            ),
            (
                json!({"types": ["CrossCluster"], "ports": [{}]}),
                Err(".spec.ports[0].port: required"),
            ),
            (
                json!({"types": ["CrossCluster"], "ports": [{"port": "80"}]}),
                Err(r#".spec.ports[0].port: "80" is no "integer""#),
            ),
            (
                json!({"types": ["CrossCluster"], "providerClusters": [null]}),
                Err(r#".spec.providerClusters[0]: null is no "object""#),
            ),
        ];
        for (spec, expected) in cases {
            let mut object = json!({"metadata": {"name": "foo", "x": 1}, "spec": spec});
            let admitted = admit(&schema, &mut object);
            assert_eq!(
                object["metadata"]["x"], 1,
                "metadata has a schema of its own"
            );
            match expected {
                Ok(stored) => assert_eq!((admitted, &object["spec"]), (Ok(()), &stored)),
                Err(why) => assert_eq!(admitted, Err(why.to_owned())),
            }
        }
    }
}
