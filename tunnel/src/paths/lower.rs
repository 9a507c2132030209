//! Standby endpoints while no hub answers, and their deletion.

use std::collections::HashSet;

use causeway::api::labels;
use causeway::domain::path::REPORTER;
use json_patch::Patch as JsonPatch;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::REQUEST;
use super::copies::{CopyId, Offer, has_ready};

/// Maximum number of slices of a service that are read.
const MOST_SLICES: u32 = 500;

/// Makes standby endpoints of the ready endpoints of a copy. Returns whether the copy changed.
///
/// # Errors
/// Refusal of the API server.
pub(super) async fn lower(client: &Client, copy: &CopyId) -> Result<bool, String> {
    change(client, copy, lowering).await
}

/// Makes the endpoints of a copy ready that the controller made standby endpoints. Returns whether
/// the copy changed.
///
/// # Errors
/// Refusal of the API server.
pub(super) async fn promote(client: &Client, copy: &CopyId) -> Result<bool, String> {
    change(client, copy, promotion).await
}

/// Makes the endpoints of a copy ready again that were lowered. Returns whether the copy changed.
///
/// # Errors
/// Refusal of the API server.
pub(super) async fn raise(client: &Client, copy: &CopyId) -> Result<bool, String> {
    change(client, copy, raising).await
}

/// Deletes a copy that was lowered, if the service has other ready endpoints of its address family
/// at all its ports: those of `has_other`, or pods of this cluster. Returns whether it was deleted.
/// A copy that changes meanwhile, or is made again, stays.
///
/// # Errors
/// Refusal of the API server.
pub(super) async fn delete(
    client: &Client,
    copy: &CopyId,
    has_other: bool,
) -> Result<bool, String> {
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), &copy.namespace);
    let slice = answered(slices.get(&copy.name)).await?;
    let Some(preconditions) = deletable(&slice) else {
        return Ok(false);
    };
    let lost = Offer::of(&slice);
    if !has_other && !has_own(client, copy, Some(&lost)).await? {
        return Ok(false);
    }
    let params = DeleteParams::default().preconditions(preconditions);
    answered(slices.delete(&copy.name, &params)).await?;
    Ok(true)
}

/// Returns the identity and version of a copy that was lowered and has stayed so; `None` for any
/// other.
fn deletable(slice: &EndpointSlice) -> Option<Preconditions> {
    let meta = &slice.metadata;
    let lowered = meta.annotations.as_ref()?.get(labels::LOWERED)?;
    let numbers = lowered.strip_prefix(REPORTER);
    let is_own = numbers.is_some_and(|rest| rest.is_empty() || rest.starts_with(OF));
    (is_own && !has_ready(slice)).then_some(Preconditions {
        uid: Some(meta.uid.clone()?),
        resource_version: Some(meta.resource_version.clone()?),
    })
}

/// Whether the service of a copy has ready endpoints in this cluster that are no copies, in a slice
/// that covers what would be `lost`.
///
/// # Errors
/// Refusal of the API server.
pub(super) async fn has_own(
    client: &Client,
    copy: &CopyId,
    lost: Option<&Offer>,
) -> Result<bool, String> {
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), &copy.namespace);
    let own = format!("{}={},!{}", labels::SERVICE_NAME, copy.service, labels::HUB);
    let own = ListParams::default().labels(&own).limit(MOST_SLICES);
    let slices = answered(slices.list(&own)).await?;
    let covers = |own: &EndpointSlice| lost.is_none_or(|lost| Offer::of(own).covers(lost));
    Ok(slices.iter().any(|own| has_ready(own) && covers(own)))
}

async fn change(
    client: &Client,
    copy: &CopyId,
    operations: impl Fn(&EndpointSlice) -> Option<Vec<Value>>,
) -> Result<bool, String> {
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), &copy.namespace);
    let slice = answered(slices.get(&copy.name)).await?;
    let Some(operations) = operations(&slice) else {
        return Ok(false);
    };
    let patch: JsonPatch =
        serde_json::from_value(Value::Array(operations)).map_err(|error| error.to_string())?;
    let params = PatchParams {
        field_manager: Some(REPORTER.to_owned()),
        ..PatchParams::default()
    };
    answered(slices.patch(&copy.name, &params, &Patch::Json::<()>(patch))).await?;
    Ok(true)
}

async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(REQUEST, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Returns the path of an annotation in a JSON Patch.
fn annotation(name: &str) -> String {
    format!(
        "/metadata/annotations/{}",
        name.replace('~', "~0").replace('/', "~1")
    )
}

/// Returns the operations that change conditions and annotations of a slice of this version; `None`
/// where none changes.
fn operations(
    slice: &EndpointSlice,
    conditions: impl Fn(usize, [Option<bool>; 3]) -> Option<[bool; 3]>,
    annotations: impl IntoIterator<Item = Value>,
) -> Option<Vec<Value>> {
    let version = slice.metadata.resource_version.as_deref()?;
    let changed = slice
        .endpoints
        .iter()
        .enumerate()
        .filter_map(|(number, endpoint)| {
            let before = endpoint.conditions.clone().unwrap_or_default();
            let [ready, serving, terminating] =
                conditions(number, [before.ready, before.serving, before.terminating])?;
            let value = json!({"ready": ready, "serving": serving, "terminating": terminating});
            let path = format!("/endpoints/{number}/conditions");
            Some(json!({"op": "add", "path": path, "value": value}))
        });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() {
        return None;
    }
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    Some(
        std::iter::once(test)
            .chain(changed)
            .chain(annotations)
            .collect(),
    )
}

/// Returns the operations that lower a copy as the controller would: ready endpoints are not ready,
/// serving and terminating, and all others do not serve.
fn lowering(slice: &EndpointSlice) -> Option<Vec<Value>> {
    if !has_ready(slice) {
        return None;
    }
    let annotations = slice.metadata.annotations.as_ref()?;
    let has_share = annotations.contains_key(labels::SHARE);
    let lowered = |_, [ready, serving, terminating]: [Option<bool>; 3]| match ready {
        None | Some(true) => Some([false, true, true]),
        Some(false) if has_share && (serving, terminating) == (Some(true), Some(true)) => None,
        Some(false) => Some([false, false, terminating.unwrap_or_default()]),
    };
    let set =
        |name: &str, value: &str| json!({"op": "add", "path": annotation(name), "value": value});
    // Some endpoints are standby endpoints already where a share is applied.
    let mark = match has_share {
        true => format!("{REPORTER}{OF}{}", ready(slice).join(",")),
        false => REPORTER.to_owned(),
    };
    operations(
        slice,
        lowered,
        [set(labels::STANDBY, "true"), set(labels::LOWERED, &mark)],
    )
}

/// Separates the reporter from the numbers of the endpoints that it lowered.
const OF: &str = ": ";

/// Lists the numbers of the endpoints that [`lowering`] lowers.
fn ready(slice: &EndpointSlice) -> Vec<String> {
    let endpoints = slice.endpoints.iter().enumerate();
    let ready = endpoints.filter(|(_, endpoint)| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|all| all.ready) != Some(false)
    });
    ready.map(|(number, _)| number.to_string()).collect()
}

/// Returns the operations that take back [`lowering`].
fn raising(slice: &EndpointSlice) -> Option<Vec<Value>> {
    let annotations = slice.metadata.annotations.as_ref()?;
    let (_, lowered) = annotations.get(labels::LOWERED)?.split_once(OF).unzip();
    let lowered: Option<HashSet<&str>> = lowered.map(|numbers| numbers.split(',').collect());
    let raised = |number: usize, conditions: [Option<bool>; 3]| {
        let numbers = lowered.as_ref();
        let is_own = numbers.is_none_or(|all| all.contains(&*number.to_string()));
        is_own.then(|| of_standby(conditions)).flatten()
    };
    let own = [labels::STANDBY, labels::LOWERED];
    let own = own
        .into_iter()
        .filter(|name| annotations.contains_key(*name));
    operations(
        slice,
        raised,
        own.map(|name| json!({"op": "remove", "path": annotation(name)})),
    )
}

/// Returns the operations that make the standby endpoints of a copy ready.
fn promotion(slice: &EndpointSlice) -> Option<Vec<Value>> {
    slice.metadata.annotations.as_ref()?.get(labels::STANDBY)?;
    let no_standby = json!({"op": "remove", "path": annotation(labels::STANDBY)});
    operations(slice, |_, conditions| of_standby(conditions), [no_standby])
}

/// Returns the conditions of a standby endpoint that becomes ready; `None` of any other endpoint.
fn of_standby(conditions: [Option<bool>; 3]) -> Option<[bool; 3]> {
    (conditions == [Some(false), Some(true), Some(true)]).then_some([true, true, false])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(conditions: &[Value]) -> Value {
        let endpoints = conditions
            .iter()
            .map(|one| json!({"addresses": ["10.0.0.1"], "conditions": one}));
        json!({
            "metadata": {"name": "a", "resourceVersion": "7", "annotations": {labels::OWNER: "somebody"}},
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<_>>(),
        })
    }

    fn read(value: &Value) -> EndpointSlice {
        serde_json::from_value(value.clone()).expect("a slice")
    }

    fn patched(value: &Value, operations: Vec<Value>) -> Value {
        let mut value = value.clone();
        let patch: JsonPatch = serde_json::from_value(Value::Array(operations)).expect("a patch");
        json_patch::patch(&mut value, &patch).expect("it applies");
        value
    }

    #[test]
    fn lowered_endpoints_are_ready_again_once_raised() {
        let before = slice(&[
            json!({}),
            json!({"ready": true, "serving": true}),
            json!({"ready": false, "serving": true, "terminating": true}),
        ]);
        let lowered = patched(&before, lowering(&read(&before)).expect("a change"));
        assert_eq!(lowered["metadata"]["annotations"][labels::STANDBY], "true");
        assert!(!has_ready(&read(&lowered)));
        let of = |value: &Value, number: usize| value["endpoints"][number]["conditions"].clone();
        let standby = json!({"ready": false, "serving": true, "terminating": true});
        assert_eq!(
            [of(&lowered, 0), of(&lowered, 1)],
            [standby.clone(), standby]
        );
        assert_eq!(
            of(&lowered, 2),
            json!({"ready": false, "serving": false, "terminating": true})
        );
        assert_eq!(lowering(&read(&lowered)), None);
        let raised = patched(&lowered, raising(&read(&lowered)).expect("a change"));
        assert_eq!(raised["metadata"], before["metadata"]);
        let ready = json!({"ready": true, "serving": true, "terminating": false});
        assert_eq!([of(&raised, 0), of(&raised, 1)], [ready.clone(), ready]);
        assert_eq!(raising(&read(&raised)), None);
    }

    #[test]
    fn endpoints_beyond_a_share_are_not_raised() {
        let standby = json!({"ready": false, "serving": true, "terminating": true});
        let ready = json!({"ready": true, "serving": true, "terminating": false});
        let mut before = slice(&[standby.clone(), ready.clone(), standby.clone(), ready]);
        before["metadata"]["annotations"][labels::SHARE] = json!("IPv4 below 80000000");
        let lowered = patched(&before, lowering(&read(&before)).expect("a change"));
        let conditions = |value: &Value| {
            let endpoints = value["endpoints"].as_array().expect("endpoints").iter();
            endpoints
                .map(|one| one["conditions"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(conditions(&lowered), vec![standby; 4]);
        assert_eq!(lowering(&read(&lowered)), None);
        let raised = patched(&lowered, raising(&read(&lowered)).expect("a change"));
        assert_eq!(raised, before);
    }

    #[test]
    fn copies_that_the_controller_lowered_are_promoted_and_not_raised() {
        let mut standby = slice(&[
            json!({"ready": false, "serving": true, "terminating": true}),
            json!({"ready": false, "serving": false, "terminating": true}),
        ]);
        assert_eq!(promotion(&read(&standby)), None);
        standby["metadata"]["annotations"][labels::STANDBY] = json!("true");
        assert_eq!(raising(&read(&standby)), None);
        assert_eq!(lowering(&read(&standby)), None);
        let promoted = patched(&standby, promotion(&read(&standby)).expect("a change"));
        let ready = json!({"ready": true, "serving": true, "terminating": false});
        assert_eq!(promoted["endpoints"][0]["conditions"], ready);
        assert_eq!(promoted["endpoints"][1], standby["endpoints"][1]);
        assert_eq!(promoted["metadata"], slice(&[])["metadata"]);
        assert_eq!(promotion(&read(&promoted)), None);
    }

    #[test]
    fn only_copies_that_were_lowered_and_stayed_so_are_deletable() {
        let standby = json!({"ready": false, "serving": true, "terminating": true});
        let ready = json!({"ready": true});
        let with_share = format!("{REPORTER}{OF}0");
        for (by, conditions, uid, expected) in [
            (Some(REPORTER), &standby, Some("u"), true),
            (Some(REPORTER), &ready, Some("u"), false),
            (Some(REPORTER), &standby, None, false),
            (Some(&*with_share), &standby, Some("u"), true),
            (Some(&*with_share), &ready, Some("u"), false),
            (Some("causeway-agents"), &standby, Some("u"), false),
            (Some("somebody"), &standby, Some("u"), false),
            (None, &standby, Some("u"), false),
        ] {
            let mut copy = slice(std::slice::from_ref(conditions));
            copy["metadata"]["uid"] = json!(uid);
            copy["metadata"]["annotations"][labels::STANDBY] = json!("true");
            if let Some(by) = by {
                copy["metadata"]["annotations"][labels::LOWERED] = json!(by);
            }
            let found = deletable(&read(&copy));
            let found = found.map(|one| (one.uid, one.resource_version));
            let identity = (Some("u".to_owned()), Some("7".to_owned()));
            assert_eq!(found, expected.then_some(identity), "{copy}");
        }
    }

    #[test]
    fn another_version_of_the_slice_is_not_patched() {
        let before = slice(&[json!({})]);
        let operations = lowering(&read(&before)).expect("a change");
        let mut newer = before;
        newer["metadata"]["resourceVersion"] = json!("8");
        let patch: JsonPatch = serde_json::from_value(Value::Array(operations)).expect("a patch");
        assert!(json_patch::patch(&mut newer, &patch).is_err());
    }
}
