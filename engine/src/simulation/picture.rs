//! Final content of an environment, for comparison with another.

use std::collections::BTreeSet;

use causeway::api::labels;
use serde_json::{Value, json};

use crate::fixtures::Environment;
use crate::fixtures::networks::without_numbers;
use crate::fixtures::objects::{Kind, NAMESPACE, is_ours};

/// Returns the objects of the members, without identities, versions and times. Asserts that
/// addresses and owners are the desired ones.
pub(super) fn picture(env: &Environment) -> BTreeSet<String> {
    let kinds = [Kind::Service, Kind::Slice, Kind::Export, Kind::Import];
    let mut all = BTreeSet::new();
    for (member, server) in &env.members {
        let import = server.get(Kind::Import, NAMESPACE, "foo");
        if let Some(import) = import.filter(|import| is_ours(import)) {
            let owner = import["metadata"]["annotations"][labels::OWNER].as_str();
            let native = owner.is_some_and(|owner| owner.starts_with("MultiClusterService/"));
            let service = if native { "foo" } else { "derived-foo" };
            let service = server.get(Kind::Service, NAMESPACE, service);
            let service = service.expect("an import has its Service");
            let in_the_way = !native && !is_ours(service);
            let ips = match in_the_way || import["spec"]["type"] == "Headless" {
                true => &Value::Null,
                false => &service["spec"]["clusterIPs"],
            };
            assert_eq!(&import["spec"]["ips"], ips, "in {member}");
        }
        let of = |kind| server.all(kind).map(move |object| (kind, object));
        for (kind, object) in kinds.into_iter().flat_map(of) {
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            let uid = import.map_or(&Value::Null, |import| &import["metadata"]["uid"]);
            assert!(owner.is_null() || owner == uid, "{object} in {member}");
            let mut object = without_identity(object.clone());
            without_numbers(&mut object);
            let object = without_the_empty(object);
            all.insert(format!("{member} {kind:?} {object}"));
        }
    }
    all
}

/// Returns the identities and ports of the objects that causeway wrote, and the endpoints that
/// clients use by them.
pub(super) fn held(env: &Environment) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let each = |list: &Value| list.as_array().cloned().unwrap_or_default();
    for (member, server) in &env.members {
        for kind in [Kind::Service, Kind::Slice, Kind::Import] {
            for object in server.all(kind).filter(|object| is_ours(object)) {
                let (meta, spec) = (&object["metadata"], &object["spec"]);
                if kind != Kind::Slice {
                    let (name, uid) = (&meta["name"], &meta["uid"]);
                    let ports = each(&spec["ports"]).into_iter();
                    all.insert(format!("{member} {name} {uid} {}", spec["clusterIPs"]));
                    all.extend(ports.map(|port| format!("{member} {name} {uid} {port}")));
                }
                let endpoints = each(&object["endpoints"]).into_iter();
                let ready = endpoints.filter(|one| one["conditions"]["ready"] != false);
                let service = &meta["labels"][labels::SERVICE_NAME];
                all.extend(ready.map(|one| {
                    let (addresses, ports) = (&one["addresses"], &object["ports"]);
                    format!("{member} {service} {addresses} {ports}")
                }));
            }
        }
    }
    all
}

fn without_identity(mut object: Value) -> Value {
    for field in ["apiVersion", "kind"] {
        object[field] = Value::Null;
    }
    let meta = &mut object["metadata"];
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        meta[field] = Value::Null;
    }
    meta["annotations"][labels::SOURCE] = Value::Null;
    let owner = meta["annotations"][labels::OWNER]
        .as_str()
        .unwrap_or_default();
    let owner_kind = owner.split('/').next().unwrap_or_default().to_owned();
    meta["annotations"][labels::OWNER] = json!(owner_kind);
    for reference in meta["ownerReferences"].as_array_mut().into_iter().flatten() {
        reference["uid"] = Value::Null;
    }
    let spec = &mut object["spec"];
    spec["clusterIP"] = json!(spec["clusterIP"] == "None");
    for field in ["clusterIPs", "ips"] {
        spec[field] = json!(spec[field].as_array().map_or(0, Vec::len));
    }
    let conditions = object["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        for field in ["lastTransitionTime", "observedGeneration"] {
            condition[field] = Value::Null;
        }
        let message = condition["message"].as_str().unwrap_or_default();
        let (said, _seal) = message.split_once("; seal ").unwrap_or((message, ""));
        condition["message"] = json!(without_addresses(said));
    }
    object
}

/// Returns a message without the addresses of Services.
fn without_addresses(message: &str) -> String {
    let parts = message.split("10.96.0.");
    let parts = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    parts.collect::<Vec<_>>().join("ADDRESS")
}

fn without_the_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, without_the_empty(value)));
            fields
                .filter(|(_, value)| !value.is_null() && *value != json!({}) && *value != json!([]))
                .collect()
        }
        Value::Array(all) => all.into_iter().map(without_the_empty).collect(),
        other => other,
    }
}

/// Returns the elements that only the first set has, and those that only the other has.
pub(super) fn differences(
    one: &BTreeSet<String>,
    other: &BTreeSet<String>,
) -> (Vec<String>, Vec<String>) {
    let lacking = |of: &BTreeSet<String>, other| of.difference(other).cloned().collect();
    (lacking(one, other), lacking(other, one))
}
