//! `kubectl mcs join`: creates an account in the member, stores its credentials and the Cluster on
//! the hub, and waits for the controller.

mod agent;
mod checks;
mod dry_run;
mod enrolment;
mod joining;
mod paths;
mod waiting;

use std::collections::BTreeMap;

use causeway::api::{Cluster, labels};
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::domain::{ClusterName, Reach};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use self::agent::Agent;
use self::checks::{check_proxy, check_version};
use self::joining::Joining;
use self::paths::Paths;
use self::waiting::synced;
use crate::args::JoinArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::definitions::{self, Choice};
use crate::cluster::identity::AnotherCluster;
use crate::cluster::lease;
use crate::cluster::objects::{self, Run, preview};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::UPGRADE;
use crate::cluster::wait::TimedOut;
use crate::commands::membership::hub;
use crate::commands::membership::member::{self, Credentials, Granted, NewToken, OptionalRights};
use crate::observe::networking::Networking;
use crate::term::exit::{CommandError, Failure, PROBLEM, USAGE};
use crate::term::output;

/// Name of the secrets of a join for [`ApiServer::check_verified`].
const TOKENS: &str = "the tokens of join";

/// Failed join of a cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(
        "-o prints the objects of --dry-run; add that, or leave one of -o and --member-kubeconfig out"
    )]
    OutputAlone,
    #[error(
        "give --member-kubeconfig; or, for a member that is not reached from here, --pull --tunnel HOST[:PORT] -o yaml"
    )]
    NoMember,
    #[error(
        "proxy-url of the member's kubeconfig holds a user, and everybody who may list Clusters would \
         see it; use a proxy without a password"
    )]
    ProxyUser,
    #[error(
        "this cluster is already a member, named {0}; to rename it, run first: kubectl mcs unjoin {0}"
    )]
    JoinedAs(String),
    #[error(
        "this is {why}; choose another name or, if the cluster was rebuilt, remove the old one first: \
         kubectl mcs unjoin {name}"
    )]
    AnotherCluster {
        name: ClusterName,
        why: AnotherCluster,
    },
    #[error(
        "Cluster {name} was made of ClusterProfile {namespace}/{name}, which says how the cluster is \
         reached; choose another name, or remove the profile first"
    )]
    OfProfile {
        name: ClusterName,
        namespace: String,
    },
    #[error(
        "the hub reaches {0} through causeway-tunnel; give --pull --tunnel HOST[:PORT] again or, to have it dialled from now on, run \
         first: kubectl mcs unjoin {0}"
    )]
    Tunnelled(ClusterName),
    #[error(
        "the hub dials {0}; to have it reached through causeway-tunnel by a file, run first: kubectl mcs unjoin {0}"
    )]
    Dialled(ClusterName),
    #[error(
        "causeway-tunnel gives agents no certificates on this hub; run first: kubectl mcs install --tunnel {0} --enrolment"
    )]
    NoEnrolment(TunnelAddress),
    #[error("no token can be made: this machine gives no random numbers")]
    NoRandom,
    #[error(
        "the hub has no account for agents that come through its API server (token of Secret {DEFAULT_NAMESPACE}/{UPGRADE}); run \
         first: kubectl mcs install --tunnel HOST[:PORT] --through-api-server"
    )]
    NoAccount,
    #[error(
        "an agent gives tokens of one hour; leave --token-lifetime out, or give --token-from=secret"
    )]
    LifetimeOfAgent,
    #[error(
        "{name} is applied; the controller is not running, so that its Ready condition may be \
         older than this run ({why}). Earlier tokens were kept. Start the controller ({remedy}), or \
         delete that Lease if the controller uses another, then run this again",
        remedy = lease::REMEDY
    )]
    NoController { name: ClusterName, why: String },
    #[error("{name} is joined but not synced within {seconds} s{late}: {state}; {remedy}")]
    NotSynced {
        name: ClusterName,
        seconds: u64,
        state: String,
        remedy: String,
        late: TimedOut,
    },
}

impl CommandError for JoinError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::ProxyUser | Self::OutputAlone | Self::NoMember | Self::LifetimeOfAgent => USAGE,
            Self::NotSynced { late, .. } => late.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Joins a cluster, or updates a joined one.
pub(crate) async fn run(hub: &HubArgs, args: &JoinArgs) -> Result<(), Failure> {
    let name = hub::cluster_name(&args.name)?;
    let Some(kubeconfig) = &args.member.member_kubeconfig else {
        return enrolment::run(hub, &name, args).await;
    };
    if args.output.format.is_some() && args.dry_run.is_none() {
        return Err(JoinError::OutputAlone.into());
    }
    let hub = ApiServer::hub(hub).await?;
    let member = ApiServer::member(Some(kubeconfig), args.member.member_context.as_deref()).await?;
    hub.check_verified(TOKENS)?;
    member.check_verified(TOKENS)?;
    if !args.pull {
        check_proxy(member.proxy_url.as_deref())?;
    }
    check_version(&hub, args).await?;
    match args.dry_run {
        Some(_) => dry_run::print(&hub, &member, &name, args).await,
        None => join(&hub, &member, &name, args).await,
    }
}

/// Joins a member that is reached from here.
async fn join(
    hub: &ApiServer,
    member: &ApiServer,
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<(), Failure> {
    let given_proxy_ca = member::certificates("--proxy-ca", args.proxy_ca.as_deref())?;
    hub::check_cluster_api(hub).await?;
    hub::check_namespace(hub).await?;
    let joining = Joining::read(hub, member, name, args).await?;
    let of_agent = joining.gives_credentials();
    if of_agent && args.token_lifetime.is_some() {
        return Err(JoinError::LifetimeOfAgent.into());
    }
    let (agent, paths, definitions) = prepare(&joining).await?;
    let (version, url) = (&joining.identity.version, member.url());
    output::result(format_args!("member: Kubernetes {version} at {url}"))?;
    joining.note_kept()?;
    let located = joining.location().await?;
    let by_nodes = &located.by_nodes;
    if !by_nodes.is_empty() {
        output::result(format_args!(
            "member: {by_nodes}, by the labels of its nodes"
        ))?;
    }
    let stored = match of_agent {
        true => {
            let rights = optional_rights(args);
            member::grant_rights(member, &joining.hub_uid, rights, args.force_conflicts).await?;
            None
        }
        false => Some(grant(&joining, given_proxy_ca).await?),
    };
    for message in &definitions.left {
        output::result(format_args!("member: {message}"))?;
    }
    definitions::apply(member, &definitions.apply, args.force_conflicts).await?;
    if let Some(agent) = &agent {
        agent.apply(&joining).await?;
    }
    paths.apply(&joining).await?;
    let cluster = joining.cluster(&located.location)?;
    let declared = Networking::recorded(&cluster).to_string();
    if !declared.is_empty() {
        output::result(format_args!("hub: {declared} of {name}"))?;
    }
    // The Secret comes before the Cluster that names it.
    let (granted, secret) = stored.unzip();
    for object in secret.iter().chain([&cluster]) {
        objects::apply(hub, object, Run::Real).await?;
    }
    synced(hub, name, &joining.endpoint, args).await?;
    // The controller uses the new token, or reads it again once the API server rejects the old one.
    match granted {
        Some(granted) => granted.end_old_token(member).await,
        None => agent::end_stored_tokens(&joining).await,
    }
}

/// Makes the objects of the agents and chooses the definitions, and checks that applying them
/// conflicts with no other field manager. Changes nothing.
async fn prepare(joining: &Joining<'_>) -> Result<(Option<Agent>, Paths, Choice), Failure> {
    let (member, args) = (joining.member, joining.args);
    let agent = Agent::prepare(joining).await?;
    let paths = Paths::prepare(joining).await?;
    let definitions = match args.skip_crds {
        true => Choice::default(),
        false => definitions::choose(member).await?,
    };
    if let Some(agent) = &agent {
        agent.check(joining).await?;
    }
    paths.check(joining).await?;
    let chosen = definitions.apply.iter().map(|one| &one.object);
    preview::check(member, chosen, args.force_conflicts).await?;
    Ok((agent, paths, definitions))
}

/// Creates the account in the member and a token. Returns it with the Secret of the hub that stores
/// it.
async fn grant(
    joining: &Joining<'_>,
    given_proxy_ca: Option<String>,
) -> Result<(Granted, DynamicObject), Failure> {
    let (member, name, args) = (joining.member, joining.name, joining.args);
    let rights = optional_rights(args);
    let stored = hub::stored(joining.hub, name).await?;
    let token = NewToken {
        used: stored.token.as_deref(),
        lifetime: args.token_lifetime,
    };
    let force = args.force_conflicts;
    let granted = member::grant(member, &joining.hub_uid, rights, token, force).await?;
    let Credentials { token, ca_bundle } = &granted.credentials;
    let proxy_ca = given_proxy_ca.or(stored.proxy_ca);
    let secret = hub::secret(name, Some(token), ca_bundle, proxy_ca.as_deref())?;
    let has_another_url = !joining::is_address_of(&joining.endpoint, &member.url());
    member::verify(member, &secret, has_another_url).await?;
    Ok((granted, secret))
}

/// Returns the Cluster of a member.
fn recorded<'a>(known: &'a [Cluster], name: &ClusterName) -> Option<&'a Cluster> {
    known.iter().find(|one| one.name_any() == name.as_str())
}

/// Returns the rights in the member that the flags grant or withdraw.
fn optional_rights(args: &JoinArgs) -> OptionalRights {
    OptionalRights {
        namespace_creation: args.allow_namespace_creation,
        nodes: args.reach.map(Reach::is_by_node_ports),
    }
}

/// Returns the annotations of the Cluster that the flags set. The stored Cluster provides those
/// that the flags omit.
fn annotations(recorded: Option<&Cluster>, args: &JoinArgs) -> BTreeMap<String, String> {
    let reach = args.reach.map(|reach| reach.to_string());
    let reports_paths = args.report_paths.map(|reports| reports.to_string());
    let given = [
        (labels::NETWORK, args.network.clone()),
        (labels::REACH, reach),
        (labels::PATH_REPORTS, reports_paths),
    ];
    let all = given.into_iter().filter_map(|(name, given)| {
        let stored = || recorded?.annotations().get(name).cloned();
        Some((name.to_owned(), given.or_else(stored)?))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use causeway::api::ClusterSpec;
    use clap::Parser as _;

    use super::*;
    use crate::args::{Command, CommandLine};

    #[test]
    fn given_annotations_count_before_those_of_the_cluster() {
        let map = |all: &[(&str, &str)]| -> BTreeMap<_, _> {
            let all = all.iter().copied();
            all.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        let stored = [
            (labels::NETWORK, "edge"),
            (labels::REACH, "cluster-ip"),
            (labels::PATH_REPORTS, "true"),
        ];
        let mut cluster = Cluster::new("a", ClusterSpec::default());
        *cluster.annotations_mut() = map(&[&stored[..], &[(labels::TUNNEL, "true")]].concat());
        let given = "--network= --reach load-balancer --report-paths=false";
        for (recorded, flags, expected) in [
            (None, "", vec![]),
            (Some(&cluster), "", stored.to_vec()),
            (
                Some(&cluster),
                given,
                vec![
                    (labels::NETWORK, ""),
                    (labels::REACH, "load-balancer"),
                    (labels::PATH_REPORTS, "false"),
                ],
            ),
        ] {
            let line = format!("kubectl-mcs join a --member-kubeconfig f {flags}");
            let line = CommandLine::try_parse_from(line.split_whitespace());
            let Command::Join(args) = line.expect(flags).command else {
                panic!("{flags}: no join");
            };
            assert_eq!(annotations(recorded, &args), map(&expected), "{flags}");
        }
    }
}
