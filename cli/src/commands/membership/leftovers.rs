//! Finds objects of causeway in members that no controller cleans up.

use std::collections::BTreeMap;

use causeway::api::multicluster::ServiceImport;
use causeway::api::{Cluster, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::commands::membership::hub;
use crate::observe::connect::{self, ConnectError, TOKEN_OF_AGENT};
use crate::observe::scope::Scope;
use crate::term::exit::Failure;
use crate::term::output;

/// Prints the members that still hold objects of this hub, and the members that could not be read.
pub(crate) async fn report(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &Cluster>,
) -> Result<(), Failure> {
    let clusters: Vec<_> = clusters.filter(|one| one.takes_part()).collect();
    if clusters.is_empty() {
        return Ok(());
    }
    let uid = match hub.uid().await {
        Ok(uid) => uid,
        Err(why) => {
            let unread = |one: &&Cluster| {
                let why = ConnectError::Failed(why.to_string());
                (one.name_any(), Err(why))
            };
            return print(hub, clusters.iter().map(unread).collect()).await;
        }
    };
    let uid = &uid;
    let read = connect::read_each(hub, clusters.into_iter(), false, |member| async move {
        has_any(&member, uid).await
    });
    print(hub, read.await).await
}

/// Prints whether one member still holds objects of this hub. A kubeconfig of the user reaches it.
pub(crate) async fn report_in(
    hub: &ApiServer,
    name: &str,
    member: &ApiServer,
) -> Result<(), Failure> {
    let found = match hub.uid().await {
        Ok(uid) => has_any(member, &uid).await.map_err(ConnectError::from),
        Err(why) => Err(ConnectError::Failed(why.to_string())),
    };
    print(hub, [(name.to_owned(), found)].into()).await
}

async fn print(
    hub: &ApiServer,
    read: BTreeMap<String, Result<bool, ConnectError>>,
) -> Result<(), Failure> {
    let (mut left, mut unread) = (Vec::new(), Vec::new());
    for (member, answer) in read {
        match answer {
            Ok(true) => left.push(member),
            Ok(false) => {}
            Err(why) => unread.push(format!("{member} ({})", without_flag(&why))),
        }
    }
    if left.is_empty() && unread.is_empty() {
        return Ok(());
    }
    let command = hub::leftovers_command(hub).await;
    if !left.is_empty() {
        output::result(format_args!(
            "note: objects of causeway remain in {}; to delete them, run there: {command}",
            left.join(", ")
        ))?;
    }
    if !unread.is_empty() {
        output::result(format_args!(
            "note: cannot read {}; to delete objects of causeway that may remain, run there: \
             {command}",
            unread.join(", ")
        ))?;
    }
    Ok(())
}

/// Returns the error of a read without the advice to repeat the command with a kubeconfig: the
/// member's Cluster may be deleted by then.
fn without_flag(why: &ConnectError) -> String {
    match why {
        ConnectError::OfAgent(_) => TOKEN_OF_AGENT.to_owned(),
        why => why.to_string(),
    }
}

async fn has_any(member: &ApiServer, hub_uid: &str) -> Result<bool, RequestError> {
    let own = format!("{}={hub_uid}", labels::HUB);
    let one = &ListParams::default().labels(&own).limit(1);
    let (services, slices) = tokio::try_join!(
        member.list_metadata::<Service>(member.all(), one),
        member.list_metadata::<EndpointSlice>(member.all(), one),
    )?;
    if !services.is_empty() || !slices.is_empty() {
        return Ok(true);
    }
    let imports: Vec<ServiceImport> = Scope::default().served(member).await?;
    let is_own = |import: &ServiceImport| {
        let hub = import.labels().get(labels::HUB);
        hub.is_some_and(|hub| hub == hub_uid)
    };
    Ok(imports.iter().any(is_own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::synced;

    #[tokio::test]
    async fn unreadable_uid_of_the_hub_does_not_stop_the_report() {
        let hub = kube::Config::new("https://127.0.0.1:1".parse().expect("a URL"));
        let hub = ApiServer::new(Side::Hub, hub).expect("a client");
        let none = report(&hub, std::iter::empty()).await;
        assert!(none.is_ok());
        let one = synced("a");
        assert!(report(&hub, std::iter::once(&one)).await.is_ok());
        assert!(report_in(&hub, "a", &hub).await.is_ok());
    }

    #[test]
    fn unread_member_of_an_agent_is_named_without_a_flag() {
        let why = ConnectError::OfAgent("edge".to_owned());
        assert!(why.to_string().contains("--member-kubeconfig edge=FILE"));
        let text = without_flag(&why);
        assert!(text.starts_with("its agent gives its token"), "{text}");
        assert!(!text.contains("--"), "{text}");
    }
}
