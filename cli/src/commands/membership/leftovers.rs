//! Finds objects of causeway in members that are removed, or that no controller cleans up.

use std::collections::BTreeMap;

use causeway::api::multicluster::ServiceImport;
use causeway::api::{Cluster, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{ListParams, ObjectMeta};

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::commands::membership::{hub, report_left};
use crate::observe::connect::{self, ConnectError, TOKEN_OF_AGENT};
use crate::observe::scope::Scope;
use crate::term::exit::Failure;
use crate::term::output;

/// Last observed problem of each Cluster with causeway's finalizer, by name: the reason that the
/// controller could not clean up the member, or an empty string.
pub(crate) type Problems = BTreeMap<String, String>;

/// Prints the members that still hold objects of this hub, and the members that could not be read,
/// with their last problems.
pub(crate) async fn report(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &Cluster>,
    problems: &Problems,
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
            return print(hub, clusters.iter().map(unread).collect(), problems).await;
        }
    };
    let uid = &uid;
    let read = connect::read_each(hub, clusters.into_iter(), false, |member| async move {
        has_any(&member, uid).await
    });
    print(hub, read.await, problems).await
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
    print(hub, [(name.to_owned(), found)].into(), &Problems::new()).await
}

async fn print(
    hub: &ApiServer,
    read: BTreeMap<String, Result<bool, ConnectError>>,
    problems: &Problems,
) -> Result<(), Failure> {
    let (mut left, mut unread) = (Vec::new(), Vec::new());
    for (member, answer) in read {
        match (answer, problems.get(&member).map(String::as_str)) {
            (Ok(true), _) => left.push(member),
            // Only the controller has the credentials of such a member, and it reported no problem.
            (Ok(false), _)
            | (Err(ConnectError::OfAgent(_) | ConnectError::OfProfile { .. }), Some("")) => {}
            (Err(why), None | Some("")) => {
                unread.push(format!("{member} ({})", without_flag(&why)));
            }
            (Err(_), Some(problem)) => report_left(hub, &member, problem).await?,
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
    // Kubernetes copies the labels of a Service to its slices, and deletes them after the Service.
    let (managed_by, kubernetes) = (labels::SLICE_MANAGED_BY, labels::SLICE_CONTROLLER);
    let copies = format!("{own},{managed_by}!={kubernetes}");
    let all = |selector: &str| ListParams::default().labels(selector);
    let (own, copies) = (&all(&own), &all(&copies));
    let (services, slices) = tokio::try_join!(
        member.list_metadata::<Service>(member.all(), own),
        member.list_metadata::<EndpointSlice>(member.all(), copies),
    )?;
    let services = services.iter().map(|service| &service.metadata);
    let mut objects = services.chain(slices.iter().map(|slice| &slice.metadata));
    if objects.any(remains) {
        return Ok(true);
    }
    let imports: Vec<ServiceImport> = Scope::default().served(member).await?;
    let is_own = |import: &ServiceImport| {
        let hub = import.labels().get(labels::HUB);
        hub.is_some_and(|hub| hub == hub_uid) && remains(&import.metadata)
    };
    Ok(imports.iter().any(is_own))
}

/// Whether nothing deletes an object yet.
fn remains(object: &ObjectMeta) -> bool {
    object.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::synced;

    #[tokio::test]
    async fn unreadable_uid_of_the_hub_does_not_stop_the_report() {
        let hub = kube::Config::new("https://127.0.0.1:1".parse().expect("a URL"));
        let hub = ApiServer::new(Side::Hub, hub).expect("a client");
        let problems = Problems::new();
        let none = report(&hub, std::iter::empty(), &problems).await;
        assert!(none.is_ok());
        let one = synced("a");
        let one = report(&hub, std::iter::once(&one), &problems).await;
        assert!(one.is_ok());
        assert!(report_in(&hub, "a", &hub).await.is_ok());
    }

    #[tokio::test]
    async fn objects_that_are_being_deleted_do_not_remain() {
        for (deleted, remains) in [(None, true), (Some("2026-11-28T12:00:00Z"), false)] {
            let answer = service_fn(
                move |request: http::Request<kube::client::Body>| async move {
                    let service = json!({
                        "apiVersion": "meta.k8s.io/v1",
                        "kind": "PartialObjectMetadata",
                        "metadata": {"name": "foo", "deletionTimestamp": deleted},
                    });
                    let (code, items) = match request.uri().path() {
                        "/api/v1/services" => (200_u16, json!([service])),
                        "/apis/discovery.k8s.io/v1/endpointslices" => (200, json!([])),
                        _ => (404, json!([])),
                    };
                    let body = json!({
                        "apiVersion": "meta.k8s.io/v1",
                        "kind": "PartialObjectMetadataList",
                        "metadata": {},
                        "items": items,
                        "code": code,
                    });
                    let body = Full::new(Bytes::from(body.to_string()));
                    Ok::<_, BoxError>(http::Response::builder().status(code).body(body)?)
                },
            );
            let member = kube::Config::new("https://127.0.0.1:1".parse().expect("a URL"));
            let member = ApiServer::new(Side::Member, member).expect("a client");
            let client = kube::Client::new(answer, "default");
            let member = ApiServer { client, ..member };
            let found = has_any(&member, "uid").await.expect("it is read");
            assert_eq!(found, remains, "{deleted:?}");
        }
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
