//! Definitions of MultiClusterService and Cluster on a hub, including foreign ones.

use kube::api::DynamicObject;
use serde_json::Value;

use super::InstallError;
use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle::parts::PartArgs;
use crate::cluster::definitions::{self, CLUSTERS, Chosen, Found, Kind, Origin, SERVICES};
use crate::cluster::deployed;
use crate::cluster::objects;
use crate::term::exit::Failure;
use crate::term::output;

/// Fields of each kind's spec that causeway reads and writes.
const NEEDED: [(Kind, &[&str]); 2] = [
    (
        SERVICES,
        &["types", "ports", "providerClusters", "consumerClusters"],
    ),
    (CLUSTERS, &["apiEndpoint", "secretRef", "syncMode"]),
];

/// Selects the definitions that the hub lacks or that causeway applied. Prints foreign definitions,
/// which remain unchanged.
///
/// # Errors
/// [`deployed::NewerHub`], or [`InstallError`] if a foreign definition lacks a field that causeway
/// needs.
pub(super) async fn choose(hub: &ApiServer, parts: &PartArgs) -> Result<Vec<Chosen>, Failure> {
    if let Some(newer) = deployed::newer(hub).await? {
        return Err(newer.into());
    }
    let mut found = Vec::new();
    for (kind, fields) in NEEDED {
        let one = kind.find(hub).await?;
        if let (Origin::Foreign(_), Some(stored)) = (one.origin, &one.stored) {
            check_fields(stored, kind, fields)?;
        }
        found.push((kind, one));
    }
    let mut chosen = Vec::new();
    for (kind, one) in &found {
        match one.origin {
            Origin::Foreign(_) => output::result(format_args!(
                "hub: {}",
                definitions::left(kind.name, one.origin)
            ))?,
            Origin::Absent | Origin::Managed => chosen.push(kind.chosen()?),
        }
    }
    if !parts.karmada && found.iter().any(|(_, one)| is_aggregated(one)) {
        output::progress(
            "note: the hub is a Karmada control plane; with --karmada the controller may read the members' credentials there",
        )?;
    }
    Ok(chosen)
}

/// Whether the API server serves a kind without a definition, as Karmada does for Cluster.
fn is_aggregated(found: &Found) -> bool {
    matches!(found.origin, Origin::Foreign(Some(_))) && found.stored.is_none()
}

fn check_fields(stored: &DynamicObject, kind: Kind, fields: &[&str]) -> Result<(), InstallError> {
    let missing = missing(&stored.data, kind.versions, fields);
    if missing.is_empty() {
        return Ok(());
    }
    Err(InstallError::Lacks {
        title: objects::title(stored),
        fields: missing.join(", "),
    })
}

/// Returns the fields of spec that no supported version of a definition has.
fn missing(definition: &Value, versions: &[&str], fields: &[&str]) -> Vec<String> {
    let served = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let known = served.into_iter().flatten().filter(|one| {
        let name = one["name"].as_str();
        name.is_some_and(|name| versions.contains(&name))
    });
    let schemas: Vec<_> = known.map(|one| &one["schema"]["openAPIV3Schema"]).collect();
    if schemas.is_empty() {
        return vec![format!("version {}", versions.join(" or "))];
    }
    let keeps_all = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let has = |field: &str| {
        schemas.iter().any(|schema| {
            let spec = &schema["properties"]["spec"];
            keeps_all(schema) || keeps_all(spec) || spec["properties"][field].is_object()
        })
    };
    let missing = fields.iter().filter(|field| !has(field));
    missing.map(|field| format!("spec.{field}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_definitions_of_causeway_have_all_that_it_needs() {
        for (kind, fields) in NEEDED {
            let definition = kind.definition().expect(kind.name);
            assert!(
                check_fields(&definition, kind, fields).is_ok(),
                "{}",
                kind.name
            );
        }
    }

    #[test]
    fn another_s_definition_says_which_fields_it_lacks() {
        let with = |schema: Value| {
            let version = json!({"name": "v1alpha1", "schema": {"openAPIV3Schema": schema}});
            json!({"spec": {"versions": [version]}})
        };
        let spec = |spec: Value| with(json!({"properties": {"spec": spec}}));
        let old = json!({"properties": {"types": {"type": "array"}, "range": {"type": "object"}}});
        let all = json!({"x-kubernetes-preserve-unknown-fields": true});
        for (definition, expected) in [
            (spec(old), &["spec.ports"][..]),
            (spec(all.clone()), &[]),
            (with(all), &[]),
            (
                json!({"spec": {"versions": [{"name": "v2"}]}}),
                &["version v1alpha1"],
            ),
            (json!({}), &["version v1alpha1"]),
        ] {
            let missing = missing(&definition, &["v1alpha1"], &["types", "ports"]);
            assert_eq!(missing, expected, "{definition}");
        }
    }
}
