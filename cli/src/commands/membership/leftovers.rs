//! Finds objects of causeway in members that are removed, or that no controller cleans up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, condition, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, ObjectMeta};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::conditions::Conditions as _;
use crate::commands::membership::{hub, report_left};
use crate::observe::connect::{self, ConnectError, TOKEN_OF_AGENT};
use crate::observe::pace::ClustersetKind;
use crate::observe::scope::Scope;
use crate::term::exit::Failure;
use crate::term::output;

/// Maximum number of objects of one list.
const PAGE: u32 = 500;

/// Last observed problem of each Cluster with causeway's finalizer, by name: the reason that the
/// controller could not clean up the member, or an empty string.
pub(crate) type Problems = BTreeMap<String, String>;

/// Members that hold objects of this hub, or may hold some.
#[derive(Debug, Default, PartialEq)]
struct Leftovers {
    left: Vec<String>,
    /// Members that could not be read, with the errors.
    unread: Vec<String>,
    /// Members that the controller could not clean up, with their last problems.
    uncleaned: Vec<(String, String)>,
}

/// Prints the members that still hold objects of this hub, and the members that could not be read,
/// with their last problems.
pub(crate) async fn report(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &Cluster>,
    problems: &Problems,
) -> Result<(), Failure> {
    let clusters: Vec<_> = clusters.collect();
    if clusters.is_empty() {
        return Ok(());
    }
    let read = match hub.uid().await {
        Ok(uid) => {
            let (members, uid) = (clusters.iter().copied(), &uid);
            connect::read_each(hub, members, false, |member| async move {
                has_any(&member, uid).await
            })
            .await
        }
        Err(why) => {
            let members = clusters.iter().filter(|one| one.takes_part());
            let why = ConnectError::Failed(why.to_string());
            members
                .map(|one| (one.name_any(), Err(why.clone())))
                .collect()
        }
    };
    Leftovers::of(&clusters, read, problems).print(hub).await
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
    let mut all = Leftovers::default();
    match found {
        Ok(true) => all.left.push(name.to_owned()),
        Ok(false) => {}
        Err(why) => all.unread.push(unread(name, &why)),
    }
    all.print(hub).await
}

/// Prints that members without a Cluster cannot be read, and the command that deletes objects that
/// may remain there.
pub(crate) async fn report_without_cluster(
    hub: &ApiServer,
    names: BTreeSet<String>,
) -> Result<(), Failure> {
    let unread = names.into_iter();
    let all = Leftovers {
        unread: unread
            .map(|name| format!("{name} (it has no Cluster)"))
            .collect(),
        ..Leftovers::default()
    };
    all.print(hub).await
}

impl Leftovers {
    /// Sorts members by the results of their reads. A member in Pull mode without credentials has
    /// none.
    fn of(
        clusters: &[&Cluster],
        mut read: BTreeMap<String, Result<bool, ConnectError>>,
        problems: &Problems,
    ) -> Self {
        let mut all = Self::default();
        for cluster in clusters {
            let name = cluster.name_any();
            let is_ready = condition::is_true(cluster.conditions(), condition::READY);
            match (read.remove(&name), problems.get(&name).map(String::as_str)) {
                (Some(Ok(true)), _) => all.left.push(name),
                (Some(Ok(false)), _) | (None, None | Some("")) => {}
                // Only the controller has the credentials of such a member, and it cleaned it up.
                (
                    Some(Err(ConnectError::OfAgent(_) | ConnectError::OfProfile { .. })),
                    Some(""),
                ) if is_ready => {}
                (Some(Err(why)), None | Some("")) => all.unread.push(unread(&name, &why)),
                (Some(Err(_)) | None, Some(problem)) => {
                    all.uncleaned.push((name, problem.to_owned()));
                }
            }
        }
        all
    }

    async fn print(self, hub: &ApiServer) -> Result<(), Failure> {
        for (member, problem) in &self.uncleaned {
            report_left(hub, member, problem).await?;
        }
        if self.left.is_empty() && self.unread.is_empty() {
            return Ok(());
        }
        let command = hub::leftovers_command(hub).await;
        if !self.left.is_empty() {
            output::result(format_args!(
                "note: objects of causeway remain in {}; to delete them, run there: {command}",
                self.left.join(", ")
            ))?;
        }
        if !self.unread.is_empty() {
            output::result(format_args!(
                "note: cannot read {}; to delete objects of causeway that may remain, run there: \
                 {command}",
                self.unread.join(", ")
            ))?;
        }
        Ok(())
    }
}

/// Returns a member with the error of its read.
fn unread(member: &str, why: &ConnectError) -> String {
    format!("{member} ({})", without_flag(why))
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
    if any_remains::<Service>(member, &own).await?
        || any_remains::<EndpointSlice>(member, &copies).await?
    {
        return Ok(true);
    }
    Ok(any_of_clusterset::<ServiceImport>(member, hub_uid).await?
        || any_of_clusterset::<ServiceExport>(member, hub_uid).await?)
}

/// Whether an object of a kind of the Multi-Cluster Services API, if the member serves it, remains.
async fn any_of_clusterset<K>(member: &ApiServer, hub_uid: &str) -> Result<bool, RequestError>
where
    K: ClustersetKind,
{
    let all: Vec<K> = Scope::default().served(member).await?;
    let is_own = |object: &K| {
        let hub = object.labels().get(labels::HUB);
        hub.is_some_and(|hub| hub == hub_uid) && remains(object.meta())
    };
    Ok(all.iter().any(is_own))
}

/// Whether an object of a kind with these labels remains. Reads pages until one does.
async fn any_remains<K>(member: &ApiServer, labels: &str) -> Result<bool, RequestError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut page = ListParams::default().labels(labels).limit(PAGE);
    loop {
        let list = member.all::<K>();
        let list = member.request(list.list_metadata(&page)).await?;
        if list.items.iter().any(|one| remains(&one.metadata)) {
            return Ok(true);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(false),
        }
    }
}

/// Whether nothing deletes an object yet.
fn remains(object: &ObjectMeta) -> bool {
    object.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{answering, cluster, ready, synced, unreachable};

    #[tokio::test]
    async fn unreadable_uid_of_the_hub_does_not_stop_the_report() {
        let hub = unreachable(Side::Hub);
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
        const DELETED: Option<&str> = Some("2026-11-28T12:00:00Z");
        const LISTS: [(&[Option<&str>], bool); 4] = [
            (&[None], true),
            (&[DELETED], false),
            (&[DELETED, None], true),
            (&[DELETED, DELETED], false),
        ];
        for (pages, remains) in LISTS {
            let member = answering(Side::Member, move |request| {
                let query = request.uri().query().unwrap_or_default();
                let number = usize::from(query.contains("continue=1"));
                let service = json!({
                    "apiVersion": "meta.k8s.io/v1",
                    "kind": "PartialObjectMetadata",
                    "metadata": {"name": "foo", "deletionTimestamp": pages[number]},
                });
                let more = (number + 1 < pages.len()).then_some("1");
                let (code, items, more) = match request.uri().path() {
                    "/api/v1/services" if query.contains("limit=500") => {
                        (200, json!([service]), more)
                    }
                    "/apis/discovery.k8s.io/v1/endpointslices" => (200, json!([]), None),
                    _ => (404, json!([]), None),
                };
                let body = json!({
                    "apiVersion": "meta.k8s.io/v1",
                    "kind": "PartialObjectMetadataList",
                    "metadata": {"continue": more},
                    "items": items,
                    "code": code,
                });
                (code, body)
            });
            let found = has_any(&member, "uid").await.expect("it is read");
            assert_eq!(found, remains, "{pages:?}");
        }
    }

    #[test]
    fn member_that_may_not_be_clean_is_reported() {
        const PROBLEM: &str = ": PullWithoutCredentials (no Secret)";
        let of_agent = || Some(Err(ConnectError::OfAgent("a".to_owned())));
        let late = || Some(Err(ConnectError::Timeout(5)));
        let (synced, invalid) = (
            synced("a"),
            cluster("a", json!([ready("False", "InvalidConfiguration", "none")])),
        );
        let nothing = Leftovers::default;
        let left = || Leftovers {
            left: vec!["a".to_owned()],
            ..nothing()
        };
        let unread = |why: &str| Leftovers {
            unread: vec![format!("a ({why})")],
            ..nothing()
        };
        let uncleaned = || Leftovers {
            uncleaned: vec![("a".to_owned(), PROBLEM.to_owned())],
            ..nothing()
        };
        for (cluster, read, problem, expected) in [
            (&synced, Some(Ok(true)), Some(""), left()),
            (&synced, Some(Ok(false)), Some(PROBLEM), nothing()),
            (&synced, of_agent(), Some(""), nothing()),
            (&synced, of_agent(), None, unread(TOKEN_OF_AGENT)),
            (&invalid, of_agent(), Some(""), unread(TOKEN_OF_AGENT)),
            (&synced, late(), Some(""), unread("no answer within 5 s")),
            (&synced, late(), Some(PROBLEM), uncleaned()),
            (&invalid, None, Some(PROBLEM), uncleaned()),
            (&invalid, None, Some(""), nothing()),
            (&invalid, None, None, nothing()),
        ] {
            let read = read.map(|read| ("a".to_owned(), read));
            let problems = problem.map(|problem| ("a".to_owned(), problem.to_owned()));
            let (read, problems) = (read.into_iter().collect(), problems.into_iter().collect());
            assert_eq!(Leftovers::of(&[cluster], read, &problems), expected);
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
