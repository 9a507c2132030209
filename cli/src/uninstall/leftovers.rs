//! What causeway wrote into members that nobody cleans: looked for, and said where there is any.

use causeway::api::multicluster::ServiceImport;
use causeway::api::{Cluster, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::UninstallError;
use crate::ask::{ApiServer, AskError};
use crate::status::members::Wanted;
use crate::{hub, reach, say};

/// Says in which of these members something of this hub's causeway is left, and which could not be looked at.
pub(super) async fn say(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &Cluster>,
) -> Result<(), UninstallError> {
    let uid = hub.uid().await?;
    let own = &format!("{}={uid}", labels::HUB);
    let read = reach::each(hub, clusters, false, |member| has_any(member, own));
    let (mut left, mut unread) = (Vec::new(), Vec::new());
    for (member, answer) in read.await {
        match answer {
            Ok(true) => left.push(member),
            Ok(false) => {}
            Err(why) => unread.push(format!("{member} ({why})")),
        }
    }
    if !left.is_empty() {
        say::result(format_args!(
            "note: something that causeway wrote is left in {}; run there: {}",
            left.join(", "),
            hub::leftovers_command(hub).await
        ))?;
    }
    if !unread.is_empty() {
        say::result(format_args!(
            "note: whether anything of causeway's is left is not known of {}; to delete it, run there: {}",
            unread.join(", "),
            hub::leftovers_command(hub).await
        ))?;
    }
    Ok(())
}

async fn has_any(member: ApiServer, own: &str) -> Result<bool, AskError> {
    let one = &ListParams::default().labels(own).limit(1);
    let services: Api<Service> = Api::all(member.client.clone());
    let slices: Api<EndpointSlice> = Api::all(member.client.clone());
    let everywhere = Wanted {
        namespace: None,
        name: None,
        allow_insecure: false,
    };
    let (services, slices) = tokio::try_join!(
        member.ask(services.list_metadata(one)),
        member.ask(slices.list_metadata(one)),
    )?;
    if !services.items.is_empty() || !slices.items.is_empty() {
        return Ok(true);
    }
    let imports: Vec<ServiceImport> = everywhere.served(&member).await?;
    let is_own = |import: &ServiceImport| {
        let (name, uid) = own.split_once('=').unwrap_or_default();
        import.labels().get(name).is_some_and(|value| value == uid)
    };
    Ok(imports.iter().any(is_own))
}
