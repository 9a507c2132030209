//! Finds the rights that causeway's accounts lack on the hub by reviewing every rule of the
//! manifests.

use std::collections::BTreeSet;
use std::fmt;

use causeway::api::Cluster;
use causeway::domain::protected::{DEFAULT_NAMESPACE as NAMESPACE, MEMBERS_NAMESPACE};
use futures::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::bundle;
use crate::cluster::credentials::CONTROLLER;

const AT_ONCE: usize = 8;
const WEBHOOK: &str = "causeway-webhook";

/// ServiceAccount of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Verbs that an account lacks on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingRight {
    /// Plural of the resource with its subresource, for example `clusters/status`.
    pub resource: String,
    /// Namespace, or `None` for a cluster-wide right.
    pub namespace: Option<String>,
    pub verbs: Vec<String>,
}

impl fmt::Display for MissingRight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verbs.join(" and "), self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(out, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Required verbs on one resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Needed {
    pub what: ResourceAttributes,
    pub verbs: Vec<String>,
}

/// Returns the rights that an account of the manifests lacks. Returns `None` if the hub has no such
/// account because the program runs under another.
///
/// # Errors
/// [`RequestError`] where the hub does not answer. A user who may not review the rights of others
/// gets [`RequestError::NotAllowed`].
pub(crate) async fn missing_rights(
    hub: &ApiServer,
    name: &str,
    needed: Vec<Needed>,
) -> Result<Option<Vec<MissingRight>>, RequestError> {
    let accounts = hub.within::<ServiceAccount>(NAMESPACE);
    if hub.get(accounts, name).await?.is_none() {
        return Ok(None);
    }
    let account = Account {
        namespace: NAMESPACE,
        name,
    };
    let answers = needed
        .into_iter()
        .map(|needed| lacking(hub, account, needed));
    let answers: Vec<_> = futures::stream::iter(answers)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Some(answers.into_iter().flatten().collect()))
}

/// Facts of a hub that decide the rights its accounts need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs<'a> {
    pub clusters: &'a [Cluster],
    /// Whether the webhook manages its own certificates.
    pub manages_certificates: bool,
    /// Whether the hub serves Karmada's Works.
    pub serves_works: bool,
    /// Namespaces with ClusterProfiles that become Clusters.
    pub profile_namespaces: BTreeSet<String>,
}

/// Returns the rights that the manifests grant an account.
///
/// A right in the namespace of the members' Secrets is required in each namespace that the Clusters
/// name. Rights on certificates are required only by a webhook that manages its own. Rights on
/// Works are required only if the hub serves Works.
pub(crate) fn needed(account: &str, needs: &Needs<'_>) -> Vec<Needed> {
    let named = needs
        .clusters
        .iter()
        .filter_map(|one| one.spec.secret_ref.as_ref());
    let mut namespaces: BTreeSet<_> = named.map(|secret| &*secret.namespace).collect();
    if namespaces.is_empty() {
        namespaces.insert(MEMBERS_NAMESPACE);
    }
    // A test parses the embedded manifests, and parsing cannot fail here.
    let mut objects = bundle::rights().unwrap_or_default();
    objects.retain(|one| match bundle::is_of_certificates(one) {
        true => needs.manages_certificates && account == WEBHOOK,
        false => one.metadata.name.as_deref() == Some(account),
    });
    if needs.serves_works && account == CONTROLLER {
        objects.extend(bundle::karmada_role().unwrap_or_default());
    }
    let profiles = &needs.profile_namespaces;
    if !profiles.is_empty() && account == CONTROLLER {
        objects.extend(bundle::profile_roles().unwrap_or_default());
    }
    let mut all = Vec::new();
    for role in &objects {
        let rules = role.data.get("rules").cloned().unwrap_or_default();
        let rules: Vec<PolicyRule> = serde_json::from_value(rules).unwrap_or_default();
        let places: Vec<Option<&str>> = match role.metadata.namespace.as_deref() {
            Some(MEMBERS_NAMESPACE) => namespaces.iter().copied().map(Some).collect(),
            Some(bundle::PROFILE_NAMESPACE) => profiles.iter().map(|one| Some(&**one)).collect(),
            namespace => vec![namespace],
        };
        for place in places {
            all.extend(rules.iter().flat_map(|rule| of_rule(rule, place)));
        }
    }
    all
}

/// Returns one [`Needed`] for each combination of API group, resource and resource name in a rule.
fn of_rule(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Needed> {
    let names = rule.resource_names.iter().flatten().map(Some);
    let names: Vec<_> = names.collect();
    let names = if names.is_empty() { vec![None] } else { names };
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (plural, subresource) = match resource.split_once('/') {
                Some((plural, subresource)) => (plural, Some(subresource.to_owned())),
                None => (&**resource, None),
            };
            all.extend(names.iter().map(|name| Needed {
                what: ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(plural.to_owned()),
                    subresource: subresource.clone(),
                    namespace: namespace.map(ToOwned::to_owned),
                    name: name.cloned(),
                    ..ResourceAttributes::default()
                },
                verbs: rule.verbs.clone(),
            }));
        }
    }
    all
}

/// Returns the verbs of `needed` that an account lacks.
///
/// # Errors
/// [`RequestError`] where the API server does not answer.
pub(crate) async fn lacking(
    server: &ApiServer,
    account: Account<'_>,
    needed: Needed,
) -> Result<Option<MissingRight>, RequestError> {
    let Account { namespace, name } = account;
    let Needed { what, verbs } = needed;
    let mut missing = Vec::new();
    for verb in verbs {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.clone()),
                    ..what.clone()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews = server.all::<SubjectAccessReview>();
        let answer = server
            .request(reviews.create(&PostParams::default(), &review))
            .await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            missing.push(verb);
        }
    }
    let resource = [what.resource, what.subresource].into_iter().flatten();
    Ok((!missing.is_empty()).then(|| MissingRight {
        resource: resource.collect::<Vec<_>>().join("/"),
        namespace: what.namespace,
        verbs: missing,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_manifests_is_needed() {
        let member: Cluster = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "member1" },
            "spec": { "secretRef": { "namespace": "elsewhere", "name": "member1" } },
        }))
        .expect("a Cluster");
        let rights = |account: &str, has: bool| -> Vec<String> {
            let needs = Needs {
                clusters: std::slice::from_ref(&member),
                manages_certificates: has,
                serves_works: has,
                profile_namespaces: has.then(|| "fleet".to_owned()).into_iter().collect(),
            };
            let needed = needed(account, &needs).into_iter();
            let rights = needed.map(|Needed { what, verbs }| {
                let resource = [what.resource, what.subresource].into_iter().flatten();
                let missing = MissingRight {
                    resource: resource.collect::<Vec<_>>().join("/"),
                    namespace: what.namespace,
                    verbs,
                };
                format!("{missing} {}", what.name.unwrap_or_default())
            });
            rights.collect()
        };
        let controller = rights(CONTROLLER, true);
        for right in [
            "get and list and watch and patch clusters ",
            "patch multiclusterservices/status ",
            "create and patch events ",
            "create leases in namespace causeway-system ",
            "get and update secrets in namespace causeway-system causeway-export-seal",
            "list and watch secrets in namespace elsewhere ",
        ] {
            assert!(
                controller.contains(&right.to_owned()),
                "{right}: {controller:#?}"
            );
        }
        assert!(
            !controller
                .iter()
                .any(|one| one.contains("causeway-members"))
        );
        let patch = "get and list and watch and patch mutatingwebhookconfigurations causeway";
        let works = "get and list and watch works ";
        let profiles = "list and watch clusterprofiles in namespace fleet ";
        let clusters = "create and delete clusters ";
        for (account, right) in [
            (WEBHOOK, patch),
            (CONTROLLER, works),
            (CONTROLLER, profiles),
            (CONTROLLER, clusters),
        ] {
            for has in [true, false] {
                let all = rights(account, has);
                assert_eq!(all.contains(&right.to_owned()), has, "{all:#?}");
            }
        }
    }
}
