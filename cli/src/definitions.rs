//! The definitions of ServiceExport and ServiceImport, which `join` brings to a member that has none.

use std::time::Duration;

use causeway::api::labels;
use causeway::api::multicluster::Version;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DynamicObject;
use tokio::time::Instant;

use crate::ask::{ApiServer, AskError};
use crate::follow::Late;
use crate::objects::{self, ObjectError};
use crate::{follow, say};

const EXPORTS: Kind = Kind {
    name: "ServiceExport",
    plural: "serviceexports",
    manifest: include_str!("../../manifests/crds/member/serviceexports.multicluster.x-k8s.io.yaml"),
};
const IMPORTS: Kind = Kind {
    name: "ServiceImport",
    plural: "serviceimports",
    manifest: include_str!("../../manifests/crds/member/serviceimports.multicluster.x-k8s.io.yaml"),
};
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

/// The definitions could not be brought to a member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("output: {0}")]
    Io(#[from] std::io::Error),
    #[error(
        "the member has not established customresourcedefinition.apiextensions.k8s.io/{name} within {seconds} s{late}{why}; \
         see kubectl describe crd {name} there, or join with --skip-crds"
    )]
    NotEstablished {
        name: String,
        seconds: u64,
        late: Late,
        why: String,
    },
}

struct Kind {
    name: &'static str,
    plural: &'static str,
    manifest: &'static str,
}

/// Whose a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// There is none.
    Absent,
    /// An earlier join brought it.
    Ours,
    /// Somebody else did: Karmada, another implementation of the API, a person.
    Others(Option<Version>),
}

/// Brings the definitions to a member that serves neither kind, and renews those that an earlier join brought. Where
/// somebody else's is there, all stay as they are, and it says so.
pub(crate) async fn install(member: &ApiServer) -> Result<(), DefinitionError> {
    let mut found = Vec::new();
    for kind in [EXPORTS, IMPORTS] {
        let definition = kind.definition()?;
        let origin = origin(member, &kind, &definition).await?;
        found.push((kind, definition, origin));
    }
    if found
        .iter()
        .any(|(_, _, origin)| matches!(origin, Origin::Others(_)))
    {
        for (kind, _, origin) in &found {
            say::result(format_args!("member: {}", left(kind.name, *origin)))?;
        }
        return Ok(());
    }
    for (_, definition, _) in &found {
        let applied = objects::apply(member, definition).await?;
        say::result(format_args!(
            "member: {} {}",
            objects::title(definition),
            applied.word()
        ))?;
    }
    for (_, definition, _) in found {
        established(member, definition.metadata.name.unwrap_or_default()).await?;
    }
    Ok(())
}

/// Says that the definitions of an earlier join are still there, if they are.
pub(crate) async fn say_left(member: &ApiServer) -> Result<(), DefinitionError> {
    for kind in [EXPORTS, IMPORTS] {
        let definition = kind.definition()?;
        let title = objects::title(&definition);
        if origin(member, &kind, &definition).await? == Origin::Ours {
            say::result(format_args!(
                "member: {title} left, deleting it would delete every {} there",
                kind.name
            ))?;
        }
    }
    Ok(())
}

impl Kind {
    fn definition(&self) -> Result<DynamicObject, ObjectError> {
        objects::object(serde_saphyr::from_str(self.manifest)?)
    }
}

async fn origin(
    member: &ApiServer,
    kind: &Kind,
    definition: &DynamicObject,
) -> Result<Origin, DefinitionError> {
    let stored = objects::get(member, definition).await?;
    if stored.as_ref().is_some_and(is_ours) {
        return Ok(Origin::Ours);
    }
    let version = served(member, kind).await?;
    Ok(match (stored, version) {
        (None, None) => Origin::Absent,
        _ => Origin::Others(version),
    })
}

fn is_ours(definition: &DynamicObject) -> bool {
    let labels = definition.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(labels::MANAGED_BY))
        .is_some_and(|manager| manager == labels::MANAGER)
}

/// The version in which the member serves the kind, the newest of those that it does.
async fn served(member: &ApiServer, kind: &Kind) -> Result<Option<Version>, AskError> {
    for version in Version::ALL {
        let group_version = version.api_version();
        let resources = member.client.list_api_group_resources(&group_version);
        match member.ask(resources).await {
            Ok(list) if list.resources.iter().any(|one| one.name == kind.plural) => {
                return Ok(Some(version));
            }
            Ok(_) | Err(AskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// What is said of a kind where somebody else's definitions are left alone.
fn left(kind: &str, origin: Origin) -> String {
    match origin {
        Origin::Others(Some(version)) => {
            format!("{kind} {version} is already served, left as it is")
        }
        Origin::Others(None) => {
            format!(
                "{kind} is defined and not served in a version that causeway knows, left as it is"
            )
        }
        Origin::Ours => format!("{kind} is causeway's, left as it is beside another's"),
        Origin::Absent => format!(
            "{kind} is not served; the member takes no part in the clusterset until whoever defined the other kind defines it too"
        ),
    }
}

/// Waits until the member serves what was defined.
async fn established(member: &ApiServer, name: String) -> Result<(), DefinitionError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(member.client.clone());
    let deadline = Instant::now() + ESTABLISHED_WITHIN;
    let mut why = String::new();
    let found = follow::one(definitions, &name, deadline, |definition| {
        let (is_established, trouble) = state(definition?);
        why = trouble;
        is_established.then_some(())
    });
    let found = found.await;
    found.map_err(|late| DefinitionError::NotEstablished {
        name,
        seconds: ESTABLISHED_WITHIN.as_secs(),
        late,
        why,
    })
}

/// Whether a definition is established, and what it says where it is not.
fn state(definition: &CustomResourceDefinition) -> (bool, String) {
    let status = definition.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    let is_established = conditions
        .iter()
        .any(|one| one.type_ == "Established" && one.status == "True");
    let trouble = conditions.iter().filter(|one| one.status != "True");
    let trouble = trouble.filter_map(|one| one.message.as_deref());
    let trouble: Vec<_> = trouble.map(|message| format!(": {message}")).collect();
    (is_established, trouble.concat())
}

#[cfg(test)]
mod tests {
    use causeway::api::crds;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_definitions_are_those_that_are_generated_and_bear_causeways_label() {
        let generated = crds::member();
        for (kind, generated) in [EXPORTS, IMPORTS].iter().zip(&generated) {
            let built_in: CustomResourceDefinition =
                serde_saphyr::from_str(kind.manifest).expect(kind.name);
            assert_eq!(&built_in, generated);
            assert_eq!(built_in.spec.names.kind, kind.name);
            assert_eq!(built_in.spec.names.plural, kind.plural);
            assert!(is_ours(&kind.definition().expect(kind.name)));
        }
    }

    #[test]
    fn what_is_left_alone_is_said_with_its_version() {
        for (origin, said) in [
            (
                Origin::Others(Some(Version::V1alpha1)),
                "ServiceExport v1alpha1 is already served, left as it is",
            ),
            (Origin::Others(None), "not served in a version"),
            (Origin::Absent, "takes no part in the clusterset until"),
            (Origin::Ours, "left as it is beside another's"),
        ] {
            let text = left("ServiceExport", origin);
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_definition_whose_names_are_taken_says_why_it_is_not_established() {
        let with = |established: &str, accepted: &str| {
            let mut definition = crds::member().remove(0);
            let conditions = json!([
                {"type": "NamesAccepted", "status": accepted, "message": "\"svcex\" is already in use", "lastTransitionTime": "2026-11-21T00:00:00Z"},
                {"type": "Established", "status": established, "message": "not all names are accepted", "lastTransitionTime": "2026-11-21T00:00:00Z"},
            ]);
            let status = json!({"conditions": conditions, "storedVersions": []});
            definition.status = Some(serde_json::from_value(status).expect("a status"));
            definition
        };
        assert_eq!(state(&with("True", "True")), (true, String::new()));
        let (is_established, why) = state(&with("False", "False"));
        assert!(!is_established);
        assert_eq!(
            why,
            ": \"svcex\" is already in use: not all names are accepted"
        );
        assert_eq!(state(&crds::member().remove(0)), (false, String::new()));
    }
}
