//! CustomResourceDefinitions: `join` applies those of ServiceExport and ServiceImport in a member
//! that has none, and `install` applies those of Cluster and MultiClusterService on a hub.

use std::time::Duration;

use causeway::api::ownership;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use tokio::time::Instant;

use crate::cluster::access::Side;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::objects::{self, ObjectError, Run};
use crate::cluster::wait::{self, TimedOut};
use crate::term::exit::{CommandError, Failure};
use crate::term::output;

const EXPORTS: Kind = Kind {
    name: "ServiceExport",
    plural: "serviceexports",
    group: "multicluster.x-k8s.io",
    versions: &["v1beta1", "v1alpha1"],
    manifest: include_str!(
        "../../../manifests/crds/member/serviceexports.multicluster.x-k8s.io.yaml"
    ),
};
const IMPORTS: Kind = Kind {
    name: "ServiceImport",
    plural: "serviceimports",
    group: "multicluster.x-k8s.io",
    versions: &["v1beta1", "v1alpha1"],
    manifest: include_str!(
        "../../../manifests/crds/member/serviceimports.multicluster.x-k8s.io.yaml"
    ),
};
/// Definition of Cluster, which represents a member on the hub.
pub(crate) const CLUSTERS: Kind = Kind {
    name: "Cluster",
    plural: "clusters",
    group: "cluster.karmada.io",
    versions: &["v1alpha1"],
    manifest: include_str!("../../../manifests/crds/hub/clusters.cluster.karmada.io.yaml"),
};
/// Definition of MultiClusterService, the desired state of a service.
pub(crate) const SERVICES: Kind = Kind {
    name: "MultiClusterService",
    plural: "multiclusterservices",
    group: "networking.karmada.io",
    versions: &["v1alpha1"],
    manifest: include_str!(
        "../../../manifests/crds/hub/multiclusterservices.networking.karmada.io.yaml"
    ),
};
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

/// Applied definition that the API server does not serve in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "the {side} has not established customresourcedefinition.apiextensions.k8s.io/{name} within {seconds} s{late}{why}; \
     see kubectl describe crd {name} there, or skip the CRDs with --skip-crds"
)]
pub(crate) struct NotEstablished {
    side: Side,
    name: String,
    seconds: u64,
    late: TimedOut,
    why: String,
}

impl CommandError for NotEstablished {
    fn exit_code(&self) -> u8 {
        self.late.exit_code()
    }
}

/// Resource kind with the definition that this program applies.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub name: &'static str,
    pub plural: &'static str,
    pub group: &'static str,
    /// Versions that causeway supports, newest first.
    pub versions: &'static [&'static str],
    manifest: &'static str,
}

/// Owner of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The cluster has no such definition.
    Absent,
    /// This program or its manifests applied the definition.
    Managed,
    /// Karmada, another implementation of the API, or a user applied the definition. Holds the
    /// served version that causeway supports, if any.
    Foreign(Option<&'static str>),
}

/// Result of looking up a kind on a server.
pub(crate) struct Found {
    pub origin: Origin,
    /// Stored definition. An API that is served without a CustomResourceDefinition has none.
    pub stored: Option<DynamicObject>,
}

/// Definition to apply.
pub(crate) struct Chosen {
    kind: Kind,
    pub object: DynamicObject,
}

/// Decision about the definitions of a member.
#[derive(Default)]
pub(crate) struct Choice {
    /// Definitions that `join` applies: the member has none, or those of an earlier join.
    pub apply: Vec<Chosen>,
    /// One message for each kind of a member that has a foreign definition. `join` applies nothing
    /// there.
    pub left: Vec<String>,
}

/// Applies the definitions, and waits until the API server serves them. Without `force`, a field of
/// another manager is an error.
pub(crate) async fn apply(
    server: &ApiServer,
    chosen: &[Chosen],
    force: bool,
) -> Result<(), Failure> {
    for one in chosen {
        objects::apply_with(server, &one.object, Run::Real, force).await?;
    }
    for one in chosen {
        one.kind.established(server).await?;
    }
    Ok(())
}

/// Reads the definitions of a member and decides which to apply. Writes nothing.
pub(crate) async fn choose(member: &ApiServer) -> Result<Choice, Failure> {
    let mut found = Vec::new();
    for kind in [EXPORTS, IMPORTS] {
        found.push((kind, kind.find(member).await?.origin));
    }
    let mut origins = found.iter().map(|(_, origin)| origin);
    if origins.any(|origin| matches!(origin, Origin::Foreign(_))) {
        let messages = found.iter().map(|(kind, origin)| left(kind.name, *origin));
        return Ok(Choice {
            left: messages.collect(),
            ..Choice::default()
        });
    }
    let chosen = found.into_iter().map(|(kind, _)| kind.chosen());
    Ok(Choice {
        apply: chosen.collect::<Result<_, _>>()?,
        ..Choice::default()
    })
}

/// Prints the definitions of an earlier join that the member still has.
pub(crate) async fn report_left(member: &ApiServer) -> Result<(), Failure> {
    for kind in [EXPORTS, IMPORTS] {
        let title = objects::title(&kind.definition()?);
        if kind.find(member).await?.origin == Origin::Managed {
            output::result(format_args!(
                "member: {title} kept; deleting it would delete every {} there",
                kind.name
            ))?;
        }
    }
    Ok(())
}

impl Kind {
    /// Returns the definition from the embedded manifest.
    pub(crate) fn definition(&self) -> Result<DynamicObject, ObjectError> {
        objects::object(serde_saphyr::from_str(self.manifest)?)
    }

    /// Returns the definition as one to apply.
    pub(crate) fn chosen(self) -> Result<Chosen, ObjectError> {
        let object = self.definition()?;
        Ok(Chosen { kind: self, object })
    }

    /// Reads the definition of the kind and its owner from a server.
    pub(crate) async fn find(&self, server: &ApiServer) -> Result<Found, ObjectError> {
        let stored = objects::get(server, &self.definition()?).await?;
        let own = |stored: &DynamicObject| ownership::is_own_definition(&stored.metadata);
        let origin = if stored.as_ref().is_some_and(own) {
            Origin::Managed
        } else {
            match (&stored, self.served(server).await?) {
                (None, None) => Origin::Absent,
                (_, version) => Origin::Foreign(version),
            }
        };
        Ok(Found { origin, stored })
    }

    /// Returns the newest supported version in which the server serves the kind.
    async fn served(&self, server: &ApiServer) -> Result<Option<&'static str>, RequestError> {
        for version in self.versions {
            let group_version = format!("{}/{version}", self.group);
            if server.serves(&group_version, self.plural).await? {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Waits until the server serves the kind.
    async fn established(&self, server: &ApiServer) -> Result<(), NotEstablished> {
        let name = format!("{}.{}", self.plural, self.group);
        let deadline = Instant::now() + ESTABLISHED_WITHIN;
        let mut why = String::new();
        let found = wait::until(server.all(), &name, deadline, |definition| {
            let (is_established, problem) = state(definition?);
            why = problem;
            is_established.then_some(())
        });
        let found = found.await;
        found.map_err(|late| NotEstablished {
            side: server.side,
            name,
            seconds: ESTABLISHED_WITHIN.as_secs(),
            late,
            why,
        })
    }
}

/// Returns the message about a kind if the member has foreign definitions.
pub(crate) fn left(kind: &str, origin: Origin) -> String {
    match origin {
        Origin::Foreign(Some(version)) => {
            format!("{kind} {version} is already served, unchanged")
        }
        Origin::Foreign(None) => {
            format!("{kind} is defined, but served in no version that causeway supports; unchanged")
        }
        Origin::Managed => {
            format!("{kind} is managed by causeway, unchanged beside a foreign definition")
        }
        Origin::Absent => format!(
            "{kind} is not served; the member takes no part in the clusterset until whoever installed the other CRD installs this one too"
        ),
    }
}

/// Whether a definition is established, with the message of its failed conditions.
fn state(definition: &CustomResourceDefinition) -> (bool, String) {
    let status = definition.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    let is_established = conditions
        .iter()
        .any(|one| one.type_ == "Established" && one.status == "True");
    let problem = conditions.iter().filter(|one| one.status != "True");
    let problem = problem.filter_map(|one| one.message.as_deref());
    let problem: Vec<_> = problem.map(|message| format!(": {message}")).collect();
    (is_established, problem.concat())
}

#[cfg(test)]
mod tests {
    use causeway::api::crds;
    use causeway::api::multicluster::Version;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_definitions_are_those_that_are_generated_and_bear_causeways_label() {
        let generated = crds::member().into_iter().chain(crds::hub());
        let kinds = [EXPORTS, IMPORTS, SERVICES, CLUSTERS];
        assert_eq!(generated.clone().count(), kinds.len());
        for (kind, generated) in kinds.iter().zip(generated) {
            let built_in: CustomResourceDefinition =
                serde_saphyr::from_str(kind.manifest).expect(kind.name);
            assert_eq!(built_in, generated);
            let spec = built_in.spec;
            assert_eq!(
                (&*spec.names.kind, &*spec.names.plural, &*spec.group),
                (kind.name, kind.plural, kind.group)
            );
            let versions: Vec<_> = spec.versions.iter().map(|one| &*one.name).collect();
            assert_eq!(versions, kind.versions);
            assert!(objects::is_managed(&kind.definition().expect(kind.name)));
        }
        assert_eq!(Version::ALL.map(Version::as_str), EXPORTS.versions);
    }

    #[test]
    fn what_is_left_alone_is_said_with_its_version() {
        for (origin, said) in [
            (
                Origin::Foreign(Some("v1alpha1")),
                "ServiceExport v1alpha1 is already served, unchanged",
            ),
            (Origin::Foreign(None), "served in no version"),
            (Origin::Absent, "takes no part in the clusterset until"),
            (Origin::Managed, "unchanged beside a foreign definition"),
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
