//! `kubectl mcs unjoin`: ends the renewal of the agent's certificate, deletes the Cluster, waits
//! for the controller's cleanup, and deletes the credentials. The other credentials on the hub are
//! deleted last, because they identify an interrupted run.

use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::{self, ClusterName, enrolment};
use causeway::target::is_tunnelled;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use tokio::time::Instant;

use crate::args::UnjoinArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::cluster::definitions;
use crate::cluster::identity::{self, AnotherCluster};
use crate::cluster::lease::{self, Controller};
use crate::cluster::objects::{self, Run};
use crate::cluster::wait::{self, TimedOut};
use crate::commands::membership::hub::{self, HubError};
use crate::commands::membership::member;
use crate::commands::membership::{cleaning, is_kept, leftovers, surrender};
use crate::observe::once;
use crate::term::exit::{CommandError, Failure, PROBLEM};
use crate::term::output::{self, OutputError};

/// Failed removal of a cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnjoinError {
    #[error(
        "{0} is not joined; kubectl mcs status lists the members. Nothing was deleted. To delete \
         causeway's account from the cluster of --member-kubeconfig nevertheless, add --force"
    )]
    UnknownName(ClusterName),
    #[error(
        "the cluster of --member-kubeconfig is joined as {other}, which would lose its credentials. \
         Nothing was deleted. Give the kubeconfig of {name} or none, or run: kubectl mcs unjoin {other}"
    )]
    JoinedAs { name: ClusterName, other: String },
    #[error(
        "{why}. Nothing was deleted, because only the controller cleans up {name}. Start it ({remedy}), \
         name its --lease, or go on without it: --force",
        remedy = lease::REMEDY
    )]
    NoController { name: ClusterName, why: String },
    #[error(
        "Cluster {name} was made of ClusterProfile {namespace}/{name}, and would be made again. Nothing \
         was deleted. Remove the profile, and the Cluster goes with it; if the profile is gone, add \
         --force"
    )]
    OfProfile {
        name: ClusterName,
        namespace: String,
    },
    #[error(
        "the member's kubeconfig is of {0}; name the right one, or leave it out if the member was rebuilt"
    )]
    AnotherCluster(#[from] AnotherCluster),
    #[error(
        "the controller has not finished the cleanup of {name} within {seconds} s{late} (finalizers: {finalizers}); check that \
         causeway-controller is running and run this again, or remove its finalizer without a cleanup: \
         kubectl patch cluster {name} --type=merge -p '{patch}', and then run this again"
    )]
    NotCleaned {
        name: ClusterName,
        seconds: u64,
        finalizers: String,
        patch: String,
        late: TimedOut,
    },
    #[error(
        "Cluster {name} is not deleted within {seconds} s{late}: it has finalizers of other programs ({finalizers}); run this again \
         once they have removed them"
    )]
    Held {
        name: ClusterName,
        seconds: u64,
        finalizers: String,
        late: TimedOut,
    },
}

impl CommandError for UnjoinError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotCleaned { late, .. } | Self::Held { late, .. } => late.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Removes a cluster from the hub. Checks all conditions before the first deletion.
pub(crate) async fn run(hub: &HubArgs, args: &UnjoinArgs) -> Result<(), Failure> {
    let name = hub::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    match hub::check_cluster_api(&hub).await {
        // After an uninstall, only the account in the member remains.
        Err(HubError::Request(RequestError::NotServed { .. })) if args.force => {}
        checked => checked?,
    }
    let context = args.member.member_context.as_deref();
    let member = match args.member.member_kubeconfig.as_deref() {
        path @ Some(_) => Some(ApiServer::member(path, context).await?),
        None => None,
    };
    let clusters = once::clusters(&hub).await?.unwrap_or_default();
    let stored = clusters.iter().find(|one| one.name_any() == name.as_str());
    let secret = hub::credentials(&hub, &name).await?;
    let enrolments = hub::enrolments(&hub, &name).await?;
    if let Some(member) = &member {
        check_identity(&clusters, &name, &member.uid().await?, &member.url())?;
    }
    let renewal = enrolment::member_name(&name);
    let (renewal, others): (Vec<_>, Vec<_>) = enrolments
        .into_iter()
        .chain(secret)
        .partition(|secret| secret.name_any() == renewal);
    if stored.is_none() && renewal.is_empty() && others.is_empty() {
        match member {
            Some(_) if args.force => {}
            Some(_) => return Err(UnjoinError::UnknownName(name).into()),
            None => return Err(HubError::NotJoined(name).into()),
        }
    }
    if let Some(stored) = stored.filter(|_| !args.force) {
        check_removable(&hub, stored, &name, args).await?;
    }
    let hub_uid = hub.uid().await?;
    let mut cluster = hub::bare_cluster(&name)?;
    cluster.metadata.uid = stored.and_then(|stored| stored.uid());
    if args.dry_run.is_some() {
        let objects = renewal.iter().chain(stored.map(|_| &cluster));
        return preview(&hub, objects.chain(&others), member.as_ref(), &hub_uid).await;
    }
    for secret in &renewal {
        objects::remove(&hub, secret).await?;
    }
    match stored {
        Some(stored) if objects::delete(&hub, &cluster).await? => {
            let unready = gone(&hub, &name, args).await?;
            output::result(format_args!("hub: {} deleted", objects::title(&cluster)))?;
            report_uncleaned(&hub, stored, member.as_ref(), &unready).await?;
        }
        // An earlier run may have ended before the member was clean.
        _ => match &member {
            Some(member) => leftovers::report_in(&hub, name.as_str(), member).await?,
            None => leftovers::report_without_cluster(&hub, [name.to_string()].into()).await?,
        },
    }
    match &member {
        Some(member) => {
            member::revoke(member, &hub_uid, Run::Real).await?;
            definitions::report_left(member).await?;
        }
        None => print_left(&name, stored)?,
    }
    for secret in &others {
        objects::remove(&hub, secret).await?;
    }
    report_services(&hub, &name).await
}

/// Prints the objects that would be deleted.
async fn preview(
    hub: &ApiServer,
    objects: impl Iterator<Item = &DynamicObject>,
    member: Option<&ApiServer>,
    hub_uid: &str,
) -> Result<(), Failure> {
    for object in objects {
        objects::remove_with(hub, object, Run::Dry).await?;
    }
    match member {
        Some(member) => member::revoke(member, hub_uid, Run::Dry).await,
        None => Ok(()),
    }
}

/// Prints the objects that remain in a member that the command does not reach.
fn print_left(name: &ClusterName, stored: Option<&Cluster>) -> Result<(), OutputError> {
    output::result(format_args!(
        "member: causeway's account{agent} and its rights remain; to delete them, run \
         kubectl mcs unjoin {name} --member-kubeconfig FILE --force",
        agent = match stored.is_some_and(is_tunnelled) {
            true => ", its agent",
            false => "",
        }
    ))
}

/// Checks that the member belongs to this Cluster and to no other, because all names of a member
/// share one account. The endpoint identifies a Cluster without a recorded UID.
fn check_identity(
    clusters: &[Cluster],
    name: &ClusterName,
    uid: &str,
    url: &str,
) -> Result<(), UnjoinError> {
    for cluster in clusters {
        let id = cluster.spec.id.as_deref().filter(|id| !id.is_empty());
        let endpoint = cluster.spec.api_endpoint.as_deref().unwrap_or_default();
        let is_member = id.map_or(endpoint.trim_end_matches('/') == url, |id| id == uid);
        if cluster.name_any() == name.as_str() {
            identity::check_identity(name.as_str(), id, uid)?;
        } else if is_member {
            let (name, other) = (name.clone(), cluster.name_any());
            return Err(UnjoinError::JoinedAs { name, other });
        }
    }
    Ok(())
}

/// Checks that no ClusterProfile makes the Cluster again, and that a controller is the leader if
/// the Cluster has causeway's finalizer.
async fn check_removable(
    hub: &ApiServer,
    cluster: &Cluster,
    name: &ClusterName,
    args: &UnjoinArgs,
) -> Result<(), Failure> {
    if let Some(namespace) = cluster.profile_namespace() {
        let (name, namespace) = (name.clone(), namespace.to_owned());
        return Err(UnjoinError::OfProfile { name, namespace }.into());
    }
    if !is_kept(cluster) {
        return Ok(());
    }
    let controller = Controller::read(hub, &args.controller.lease).await?;
    if matches!(controller, Controller::Unknown) && args.controller.lease.0.is_some() {
        output::progress(
            "note: you may not read the controller's Lease, so it may not be running",
        )?;
    }
    match controller.problem(lease::now(hub).await) {
        Some(why) => Err(UnjoinError::NoController {
            name: name.clone(),
            why,
        }
        .into()),
        None => Ok(()),
    }
}

/// Waits until the controller has removed its finalizer and the Cluster is deleted. Returns the
/// last reason that the member was not ready for cleanup, or an empty string.
async fn gone(hub: &ApiServer, name: &ClusterName, args: &UnjoinArgs) -> Result<String, Failure> {
    let (mut unready, mut finalizers) = (String::new(), Vec::new());
    let deadline = Instant::now() + args.timeout;
    let (clusters, waiting) = (hub.all::<Cluster>(), format!("the cleanup of {name}"));
    let is_gone = wait::until_shown(clusters, name.as_str(), deadline, &waiting, |cluster| {
        let Some(cluster) = cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_some())
        else {
            return Ok(());
        };
        finalizers = cluster.finalizers().to_vec();
        unready = cleaning(cluster);
        Err(unready.clone())
    });
    match is_gone.await? {
        Ok(_) => Ok(unready),
        Err((late, _)) => Err(not_gone(name.clone(), args, &finalizers, late).into()),
    }
}

/// Returns the error of a Cluster that has these finalizers at the deadline.
fn not_gone(
    name: ClusterName,
    args: &UnjoinArgs,
    finalizers: &[String],
    late: TimedOut,
) -> UnjoinError {
    let (seconds, patch) = (args.timeout.as_secs(), surrender(finalizers));
    let is_ours = finalizers.iter().any(|one| one == labels::FINALIZER);
    let is_held = !finalizers.is_empty() && !is_ours;
    let finalizers = finalizers.join(", ");
    match is_held {
        true => UnjoinError::Held {
            name,
            seconds,
            finalizers,
            late,
        },
        false => UnjoinError::NotCleaned {
            name,
            seconds,
            finalizers,
            patch,
            late,
        },
    }
}

/// Prints whether objects remain in the member although its Cluster is deleted. The member is read,
/// with credentials that are about to be deleted: the status of a Cluster does not change while it
/// is deleted. `unready` is the last reason of a member that cannot be read.
async fn report_uncleaned(
    hub: &ApiServer,
    stored: &Cluster,
    member: Option<&ApiServer>,
    unready: &str,
) -> Result<(), Failure> {
    match member {
        Some(member) => leftovers::report_in(hub, &stored.name_any(), member).await,
        None => {
            let problem = is_kept(stored).then(|| (stored.name_any(), unready.to_owned()));
            let problems = problem.into_iter().collect();
            leftovers::report(hub, std::iter::once(stored), &problems).await
        }
    }
}

/// Prints the services that still name the cluster.
async fn report_services(hub: &ApiServer, name: &ClusterName) -> Result<(), Failure> {
    let Some(services) = allowed(once::all(hub).await)? else {
        return Ok(output::result(format_args!(
            "note: you may not list MultiClusterServices, so some may still name {name}"
        ))?);
    };
    let services: Vec<MultiClusterService> = services.unwrap_or_default();
    for service in services.iter().filter(|service| names(service, name)) {
        let (namespace, service) = (service.namespace().unwrap_or_default(), service.name_any());
        output::result(format_args!(
            "note: MultiClusterService {namespace}/{service} still names {name}"
        ))?;
    }
    Ok(())
}

fn names(service: &MultiClusterService, name: &ClusterName) -> bool {
    domain::MultiClusterService::try_from(service).is_ok_and(|desired| {
        desired
            .providers
            .named()
            .chain(desired.consumers.named())
            .any(|named| named == name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, id: &str, endpoint: &str) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": name },
            "spec": { "id": id, "apiEndpoint": endpoint },
        }))
        .expect("a Cluster")
    }

    #[test]
    fn unjoin_refuses_the_kubeconfig_of_any_other_cluster() {
        let clusters = [
            cluster("a", "uid-a", "https://a"),
            cluster("b", "uid-b", "https://b"),
            cluster("old", "", "https://old/"),
            cluster("twin", "uid-b", "https://twin"),
        ];
        for (name, uid, url, refusal) in [
            ("a", "uid-a", "https://elsewhere", None),
            ("old", "uid-old", "https://old", None),
            ("typo", "uid-new", "https://new", None),
            ("typo", "uid-a", "https://a", Some("joined as a")),
            ("typo", "uid-old", "https://old", Some("joined as old")),
            ("a", "uid-b", "https://b", Some("another cluster than a")),
            ("b", "uid-b", "https://b", Some("joined as twin")),
        ] {
            let name = ClusterName::try_from(name).expect("a name");
            let checked = check_identity(&clusters, &name, uid, url);
            let text = checked.err().map(|error| error.to_string());
            match refusal {
                None => assert_eq!(text, None, "{name} {uid}"),
                Some(words) => assert!(text.is_some_and(|text| text.contains(words)), "{words}"),
            }
        }
    }
}
