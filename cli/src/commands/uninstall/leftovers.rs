//! Finds objects of causeway in members that no controller cleans up.

use causeway::api::multicluster::ServiceImport;
use causeway::api::{Cluster, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::commands::membership::hub;
use crate::observe::connect;
use crate::observe::scope::Scope;
use crate::term::exit::Failure;
use crate::term::output;

/// Prints the members that still hold objects of this hub, and the members that could not be read.
pub(super) async fn report(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &Cluster>,
) -> Result<(), Failure> {
    let uid = &hub.uid().await?;
    let read = connect::read_each(hub, clusters, false, |member| has_any(member, uid));
    let (mut left, mut unread) = (Vec::new(), Vec::new());
    for (member, answer) in read.await {
        match answer {
            Ok(true) => left.push(member),
            Ok(false) => {}
            Err(why) => unread.push(format!("{member} ({why})")),
        }
    }
    if !left.is_empty() {
        output::result(format_args!(
            "note: objects of causeway remain in {}; to delete them, run there: {}",
            left.join(", "),
            hub::leftovers_command(hub).await
        ))?;
    }
    if !unread.is_empty() {
        output::result(format_args!(
            "note: cannot read {}; to delete objects of causeway that may remain, run there: {}",
            unread.join(", "),
            hub::leftovers_command(hub).await
        ))?;
    }
    Ok(())
}

async fn has_any(member: ApiServer, hub_uid: &str) -> Result<bool, RequestError> {
    let own = format!("{}={hub_uid}", labels::HUB);
    let one = &ListParams::default().labels(&own).limit(1);
    let (services, slices) = tokio::try_join!(
        member.list_metadata::<Service>(member.all(), one),
        member.list_metadata::<EndpointSlice>(member.all(), one),
    )?;
    if !services.is_empty() || !slices.is_empty() {
        return Ok(true);
    }
    let imports: Vec<ServiceImport> = Scope::default().served(&member).await?;
    let is_own = |import: &ServiceImport| {
        let hub = import.labels().get(labels::HUB);
        hub.is_some_and(|hub| hub == hub_uid)
    };
    Ok(imports.iter().any(is_own))
}
