//! `--keep-services`: removes causeway and leaves its copies in the members unchanged. Finalizers
//! are removed first, because without the controller they would block deletions.

use std::time::Duration;

use causeway::api::{MultiClusterService, labels};
use kube::api::DynamicObject;
use kube::{Api, Resource, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;

use super::UninstallError;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::bundle;
use crate::cluster::lease::{self, CONTROLLER_LEASE, Controller};
use crate::cluster::objects::{self, Run};
use crate::cluster::wait;
use crate::commands::membership::{hub, is_kept};
use crate::observe::once;
use crate::term::exit::Failure;
use crate::term::output;

/// Kinds that are deleted before the finalizers are removed. Without the webhook, its registration
/// would have the hub refuse every write of a MultiClusterService.
const FIRST: [&str; 3] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "Deployment",
];

/// Checks that no controller can add the finalizers again: `uninstall` deletes its Deployment, or
/// no controller holds the Lease.
pub(super) async fn check(hub: &ApiServer, objects: &[DynamicObject]) -> Result<(), Failure> {
    let goes = objects.iter().any(bundle::is_deployment);
    match holder(hub).await? {
        Some(holder) if !goes => Err(UninstallError::StillRuns {
            holder,
            lease: CONTROLLER_LEASE.to_owned(),
        }
        .into()),
        _ => Ok(()),
    }
}

async fn holder(hub: &ApiServer) -> Result<Option<String>, Failure> {
    let controller = Controller::of_manifests(hub).await?;
    if matches!(controller, Controller::Unknown) {
        return Err(UninstallError::LeaseForbidden(CONTROLLER_LEASE).into());
    }
    let now = lease::now(hub).await;
    Ok(controller.holder(now).map(ToOwned::to_owned))
}

/// Deletes the registration of the webhook and the Deployments, waits until the controller's Lease
/// has no holder, and removes causeway's finalizers. The objects are in order of deletion.
pub(super) async fn remove_finalizers(
    hub: &ApiServer,
    objects: &[DynamicObject],
    timeout: Duration,
) -> Result<(), Failure> {
    let is_first = |one: &&DynamicObject| FIRST.iter().any(|kind| objects::is_a(one, kind));
    for object in objects.iter().filter(is_first) {
        objects::remove(hub, object).await?;
    }
    until_none_left(timeout, async || match holder(hub).await? {
        Some(holder) => Ok(format!("{holder}, which holds Lease {CONTROLLER_LEASE}")),
        None => remove_all(hub).await,
    })
    .await
}

/// Removes the finalizers that a controller has added since then: one that took the Lease before
/// its rights were deleted.
pub(super) async fn remove_rest(hub: &ApiServer, timeout: Duration) -> Result<(), Failure> {
    until_none_left(timeout, async || remove_all(hub).await).await
}

async fn until_none_left(
    timeout: Duration,
    mut left: impl AsyncFnMut() -> Result<String, Failure>,
) -> Result<(), Failure> {
    let left = wait::none_left(Instant::now() + timeout, "", async || {
        let left = left().await?;
        Ok((!left.is_empty()).then_some(left))
    });
    match left.await? {
        None => Ok(()),
        Some(left) => {
            let seconds = timeout.as_secs();
            Err(UninstallError::FinalizersLeft { seconds, left }.into())
        }
    }
}

/// Removes the finalizers. Returns the names of objects that changed meanwhile and must be read
/// again.
async fn remove_all(hub: &ApiServer) -> Result<String, Failure> {
    let services: Vec<MultiClusterService> = once::all(hub).await?.unwrap_or_default();
    let clusters = once::clusters(hub).await?.unwrap_or_default();
    let mut again = Vec::new();
    for service in services.iter().filter(|one| is_kept(*one)) {
        let namespace = service.namespace().unwrap_or_default();
        let command = format!("kubectl -n {namespace} patch mcs {}", service.name_any());
        let api = hub.within(&namespace);
        if !remove_finalizer(hub, &api, service, &command).await? {
            again.push(format!("{namespace}/{}", service.name_any()));
        }
    }
    for cluster in clusters.iter().filter(|one| is_kept(*one)) {
        let command = format!("kubectl patch cluster {}", cluster.name_any());
        if !remove_finalizer(hub, &hub.all(), cluster, &command).await? {
            again.push(cluster.name_any());
        }
    }
    Ok(again.join(", "))
}

/// Removes causeway's finalizer from one version of an object, and prints the equivalent command.
/// Returns false if the object has another version now.
async fn remove_finalizer<K>(
    hub: &ApiServer,
    api: &Api<K>,
    object: &K,
    command: &str,
) -> Result<bool, Failure>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let others = object.finalizers().iter();
    let others: Vec<_> = others.filter(|one| *one != labels::FINALIZER).collect();
    let version = &object.meta().resource_version;
    let patch = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
    match objects::merge(hub, api, &object.name_any(), &patch, Run::Real).await {
        Ok(()) => {
            output::result(format_args!("{command} --type=merge -p '{patch}'"))?;
            Ok(true)
        }
        Err(RequestError::NotFound { .. }) => Ok(true),
        Err(RequestError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Prints the objects that remain and the command that deletes them.
pub(super) async fn report(hub: &ApiServer) -> Result<(), Failure> {
    Ok(output::result(format_args!(
        "note: nothing updates what causeway wrote into the members: endpoints stay in the consumers as they are now. kubectl mcs install manages it again; \
         to delete it, run in each member: {}",
        hub::leftovers_command(hub).await
    ))?)
}
