//! Preview of applying objects: conflicts with other field managers, lost arguments, and a diff.

use kube::api::DynamicObject;
use serde_json::Value;
use similar::TextDiff;

use super::{CONTAINERS, ObjectError, Run, desired, is_a, patch, stored, title};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::term::output::{self, OutputError};

/// Checks in a dry run that applying the objects takes no field from another field manager, unless
/// `force` is set. Prints container arguments that the objects would lose.
pub(crate) async fn check(
    server: &ApiServer,
    objects: impl Iterator<Item = &DynamicObject>,
    force: bool,
) -> Result<(), ObjectError> {
    let mut conflicts = Vec::new();
    for object in objects {
        let Some(before) = stored(server, object).await? else {
            continue;
        };
        match patch(server, object, Run::Dry, false).await {
            Err(ObjectError::Request(RequestError::Conflict { message, .. })) => {
                conflicts.push(format!(
                    "  {}: {}",
                    title(object),
                    message.replace('\n', " ")
                ));
            }
            tried => drop(tried?),
        }
        for argument in lost_arguments(&before, object) {
            let title = title(object);
            output::progress(format_args!("note: {title} loses {argument}"))?;
        }
    }
    match conflicts.join("\n") {
        none if none.is_empty() => Ok(()),
        taken if force => Ok(output::progress(format_args!(
            "note: taken over:\n{taken}"
        ))?),
        conflicts => {
            let side = server.side;
            Err(ObjectError::Conflicts { side, conflicts })
        }
    }
}

/// Returns the container arguments that a stored object has and an applied manifest lacks.
fn lost_arguments<'a>(before: &'a DynamicObject, applied: &DynamicObject) -> Vec<&'a str> {
    let then: Vec<_> = arguments(applied).collect();
    arguments(before)
        .filter(|argument| !then.contains(argument))
        .collect()
}

/// Returns the arguments of all containers of a Deployment.
pub(crate) fn arguments(object: &DynamicObject) -> impl Iterator<Item = &str> {
    let containers = object.data.pointer(CONTAINERS).and_then(Value::as_array);
    let containers = containers.into_iter().flatten();
    let all = containers
        .filter_map(|one| one.get("args")?.as_array())
        .flatten();
    all.filter_map(Value::as_str)
}

/// Returns a unified diff of the YAML of two versions. The diff of a Secret is empty.
pub(super) fn diff(before: &DynamicObject, after: &DynamicObject) -> Result<String, OutputError> {
    if is_a(after, "Secret") {
        return Ok(String::new());
    }
    let texts = [before, after].map(|object| output::manifest(&[desired(object)]));
    let [before, after] = texts;
    let (before, after) = (before?, after?);
    let diff = TextDiff::from_lines(&before, &after);
    Ok(diff.unified_diff().header("stored", "applied").to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::objects;

    fn deployment(args: &[&str], revision: i64) -> DynamicObject {
        objects::object(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "webhook", "generation": revision },
            "spec": { "template": { "spec": { "containers": [{ "name": "a", "args": args }] } } },
            "status": { "observedGeneration": revision },
        }))
        .expect("an object")
    }

    #[test]
    fn lost_arguments_are_those_that_the_manifest_lacks() {
        let before = deployment(&["--bind=a", "--client-ca=b", "--unknown-cluster=deny"], 1);
        let applied = deployment(&["--bind=a", "--unknown-cluster=warn"], 1);
        assert_eq!(
            lost_arguments(&before, &applied),
            ["--client-ca=b", "--unknown-cluster=deny"]
        );
        assert!(lost_arguments(&applied, &applied).is_empty());
    }

    #[test]
    fn diff_shows_specs_and_never_secrets() {
        let (before, after) = (deployment(&["--a"], 1), deployment(&["--b"], 2));
        let text = diff(&before, &after).expect("a diff");
        assert!(text.contains("--a") && text.contains("--b"), "{text}");
        assert!(!text.contains("eneration"), "{text}");
        let secret = |data: &str| {
            objects::object(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" },
                "data": { "token": data },
            }))
            .expect("an object")
        };
        assert_eq!(diff(&secret("a"), &secret("b")).expect("none"), "");
    }
}
