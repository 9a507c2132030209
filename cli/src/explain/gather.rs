//! Reads what an explanation rests on, from the hub and from the members.

use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;

use super::ExplainError;
use super::scene::{Held, Scene};
use crate::args::Lease;
use crate::ask::{ApiServer, AskError};
use crate::karmada::{self, binding};
use crate::lease::Controller;
use crate::reach;
use crate::status::members::Wanted;

/// What is asked about, and how.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    pub key: ServiceKey,
    /// The Lease of causeway's controller.
    pub lease: &'a Lease,
    /// Whether members may be reached without verifying who answers.
    pub allow_insecure: bool,
}

/// Reads all at once; a member that cannot be read is noted.
pub(crate) async fn scene(hub: &ApiServer, question: &Question<'_>) -> Result<Scene, ExplainError> {
    let key = question.key.clone();
    let services: Api<Service> = Api::namespaced(hub.client.clone(), &key.namespace);
    let (wish, clusters, service, controller, works, unapplied) = tokio::try_join!(
        wish(hub, &key),
        clusters(hub),
        async { Ok(hub.ask(services.get_opt(&key.name)).await?) },
        async { Ok(Controller::read(hub, question.lease).await?) },
        async { Ok(karmada::works(hub, Some(&key)).await?) },
        async { Ok(binding::unapplied(hub, &key).await?) },
    )?;
    // Without the hub's identity what another hub wrote cannot be told apart, and no more.
    let hub_uid = hub.uid().await.ok();
    let members = reach::each(hub, clusters.iter(), question.allow_insecure, |member| {
        held(member, &key)
    });
    let members = members.await;
    Ok(Scene {
        now: Timestamp::now(),
        hub_uid,
        wish,
        service,
        clusters,
        controller,
        works,
        unapplied,
        members,
        key,
    })
}

/// The MultiClusterService of the service, if there is one.
pub(crate) async fn wish(
    hub: &ApiServer,
    key: &ServiceKey,
) -> Result<Option<MultiClusterService>, ExplainError> {
    let api: Api<MultiClusterService> = Api::namespaced(hub.client.clone(), &key.namespace);
    match hub.ask(api.list(&named(&key.name))).await {
        Ok(list) => Ok(list.items.into_iter().next()),
        Err(AskError::NotFound { .. }) => Err(ExplainError::NoApi("MultiClusterService")),
        Err(error) => Err(error.into()),
    }
}

/// Every Cluster of the hub.
pub(crate) async fn clusters(hub: &ApiServer) -> Result<Vec<Cluster>, ExplainError> {
    let api: Api<Cluster> = Api::all(hub.client.clone());
    match hub.ask(api.list(&ListParams::default())).await {
        Ok(list) => Ok(list.items),
        Err(AskError::NotFound { .. }) => Err(ExplainError::NoApi("Cluster")),
        Err(error) => Err(error.into()),
    }
}

/// What a member holds, with no other rights than the controller has there.
pub(crate) async fn held(member: ApiServer, key: &ServiceKey) -> Result<Held, AskError> {
    let derived = key.derived();
    let namespaces: Api<Namespace> = Api::all(member.client.clone());
    let services: Api<Service> = Api::namespaced(member.client.clone(), &key.namespace);
    let slices: Api<EndpointSlice> = Api::namespaced(member.client.clone(), &key.namespace);
    let of_both = format!(
        "{} in ({},{})",
        labels::SERVICE_NAME,
        key.name,
        derived.name
    );
    let of_both = ListParams::default().labels(&of_both);
    let (by_name, by_derived) = (named(&key.name), named(&derived.name));
    let wanted = Wanted {
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        allow_insecure: false,
    };
    let (namespace, own, derived, slices, exports, imports) = tokio::try_join!(
        member.ask(namespaces.get_opt(&key.namespace)),
        member.ask(services.list(&by_name)),
        member.ask(services.list(&by_derived)),
        member.ask(slices.list(&of_both)),
        async { allowed(wanted.served(&member).await) },
        async { allowed(wanted.served(&member).await) },
    )?;
    Ok(Held {
        namespace,
        services: own.items.into_iter().chain(derived.items).collect(),
        slices: slices.items,
        exports,
        imports,
    })
}

/// A member that was joined without the rights on the clusterset's kinds takes no part in it.
fn allowed<K>(answer: Result<Vec<K>, AskError>) -> Result<Vec<K>, AskError> {
    match answer {
        Err(AskError::NotAllowed { .. }) => Ok(Vec::new()),
        other => other,
    }
}

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}
