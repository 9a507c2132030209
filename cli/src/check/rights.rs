//! Whether the controller's account may watch on the hub what it rests on.

use std::collections::BTreeSet;

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::protected::{DEFAULT_NAMESPACE as NAMESPACE, MEMBERS_NAMESPACE};
use futures::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Resource};

use crate::api_server::{ApiServer, RequestError};

/// The account of the manifests.
pub(super) const ACCOUNT: &str = "causeway-controller";
const VERBS: [&str; 2] = ["list", "watch"];
const AT_ONCE: usize = 8;

/// An account of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

/// What an account lacks of what it has to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingRight {
    /// A plural: `secrets`.
    pub resource: String,
    /// Where, if not everywhere.
    pub namespace: Option<String>,
}

/// What the account lacks; `None` where there is no such account, and the controller runs with another.
///
/// # Errors
/// [`RequestError`] where the hub does not say; who may not review others' rights gets [`RequestError::NotAllowed`].
pub(super) async fn missing_rights(
    hub: &ApiServer,
    clusters: &[Cluster],
) -> Result<Option<Vec<MissingRight>>, RequestError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), NAMESPACE);
    if hub.request(accounts.get_opt(ACCOUNT)).await?.is_none() {
        return Ok(None);
    }
    let named = clusters
        .iter()
        .filter_map(|one| one.spec.secret_ref.as_ref());
    let named: BTreeSet<_> = named.map(|secret| secret.namespace.as_str()).collect();
    let namespaces = if named.is_empty() {
        BTreeSet::from([MEMBERS_NAMESPACE])
    } else {
        named
    };
    let everywhere = [
        attributes::<MultiClusterService>(None),
        attributes::<Service>(None),
        attributes::<Cluster>(None),
    ];
    let secrets = namespaces
        .into_iter()
        .map(|namespace| attributes::<Secret>(Some(namespace)));
    let needed = everywhere.into_iter().chain(secrets);
    let account = Account {
        namespace: NAMESPACE,
        name: ACCOUNT,
    };
    let answers: Vec<_> = futures::stream::iter(needed.map(|what| lacking(hub, account, what)))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Some(answers.into_iter().flatten().collect()))
}

fn attributes<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> ResourceAttributes {
    ResourceAttributes {
        group: Some(K::group(&()).into_owned()),
        resource: Some(K::plural(&()).into_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        ..ResourceAttributes::default()
    }
}

/// What of it an account may not list or watch.
///
/// # Errors
/// [`RequestError`] where the API server does not say.
pub(crate) async fn lacking(
    server: &ApiServer,
    account: Account<'_>,
    what: ResourceAttributes,
) -> Result<Option<MissingRight>, RequestError> {
    let reviews: Api<SubjectAccessReview> = Api::all(server.client.clone());
    let Account { namespace, name } = account;
    for verb in VERBS {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    ..what.clone()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = server
            .request(reviews.create(&PostParams::default(), &review))
            .await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            return Ok(Some(MissingRight {
                resource: what.resource.unwrap_or_default(),
                namespace: what.namespace,
            }));
        }
    }
    Ok(None)
}
