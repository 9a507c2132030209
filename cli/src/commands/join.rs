//! `kubectl mcs join`: creates an account in the member, stores its credentials and the Cluster on
//! the hub, and waits for the controller.

mod agent;
mod dry_run;
mod enrolment;
mod paths;

use std::path::{Path, PathBuf};

use causeway::api::{Cluster, condition};
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::domain::{ClusterName, Reach};
use causeway_engine::reasons::Reason;
use kube::Api;
use kube::api::DynamicObject;
use tokio::time::Instant;

use self::agent::{Agent, gives_credentials};
use self::paths::Paths;
use crate::args::JoinArgs;
use crate::cluster::access::{HubArgs, Side};
use crate::cluster::api_server::ApiServer;
use crate::cluster::definitions;
use crate::cluster::identity::{self, AnotherCluster};
use crate::cluster::objects::{self, Run};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::UPGRADE;
use crate::cluster::wait::{self, TimedOut};
use crate::commands::membership::MembershipError;
use crate::commands::membership::hub::{self, Known};
use crate::commands::membership::location::{Located, Location};
use crate::commands::membership::member::{self, Credentials, Granted, NewToken, OptionalRights};
use crate::observe::networking::Networking;
use crate::term::exit::{CommandError, PROBLEM, USAGE};
use crate::term::output;

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
    #[error("--api-endpoint {0:?} is no URL such as https://10.0.0.2:6443")]
    Endpoint(String),
    #[error(
        "the kubeconfig of the {side} {what}, so anybody could answer for it and take the tokens of \
         join; add certificate-authority-data and an https:// server to it"
    )]
    Insecure { side: Side, what: &'static str },
    #[error(
        "proxy-url of the member's kubeconfig holds a user, and everybody who may list Clusters would \
         see it; use a proxy without a password"
    )]
    ProxyUser,
    #[error("--proxy-ca {}: {why}", file.display())]
    ProxyCa { file: PathBuf, why: String },
    #[error(transparent)]
    Membership(MembershipError),
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
            Self::Endpoint(_)
            | Self::Insecure { .. }
            | Self::ProxyUser
            | Self::ProxyCa { .. }
            | Self::OutputAlone
            | Self::NoMember
            | Self::LifetimeOfAgent => USAGE,
            Self::Membership(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

impl<E: Into<MembershipError>> From<E> for JoinError {
    fn from(error: E) -> Self {
        Self::Membership(error.into())
    }
}

/// Joins a cluster, or updates a joined one.
pub(crate) async fn run(hub: &HubArgs, args: &JoinArgs) -> Result<(), JoinError> {
    let name = hub::cluster_name(&args.name)?;
    let endpoint = args
        .api_endpoint
        .as_deref()
        .map(checked_endpoint)
        .transpose()?;
    let Some(kubeconfig) = &args.member.member_kubeconfig else {
        return enrolment::run(hub, &name, endpoint, args).await;
    };
    if args.output.format.is_some() && args.dry_run.is_none() {
        return Err(JoinError::OutputAlone);
    }
    let hub = ApiServer::hub(hub).await?;
    let member = ApiServer::member(kubeconfig, args.member.member_context.as_deref()).await?;
    check_verified(&hub)?;
    check_verified(&member)?;
    if !args.pull {
        check_proxy(member.proxy_url.as_deref())?;
    }
    if args.dry_run.is_some() {
        return dry_run::print(&hub, &member, &name, endpoint, args).await;
    }
    let given_proxy_ca = args.proxy_ca.as_deref().map(certificates).transpose()?;
    hub::check_cluster_api(&hub).await?;
    hub::check_namespace(&hub).await?;
    let identity = member::identify(&member).await?;
    let known = hub::known(&hub).await?;
    check_identity(&known, &name, &identity.uid)?;
    check_tunnelled(&known, &name, args)?;
    let hub_uid = hub.uid().await?;
    let record = recorded(&known, &name);
    let of_agent = gives_credentials(record, args);
    if of_agent && args.token_lifetime.is_some() {
        return Err(JoinError::LifetimeOfAgent);
    }
    let agent = Agent::prepare(&hub, &member, &hub_uid, (&name, record), args).await?;
    let paths = Paths::prepare(&hub, &member, &hub_uid, record, args).await?;
    output::result(format_args!(
        "member: Kubernetes {} at {}",
        identity.version,
        member.url()
    ))?;
    let located = location(&member, &known, &name, args).await?;
    if !located.by_nodes.is_empty() {
        output::result(format_args!(
            "member: {}, by the labels of its nodes",
            located.by_nodes
        ))?;
    }

    let stored = match of_agent {
        true => {
            let rights = optional_rights(args);
            member::grant_rights(&member, &hub_uid, rights, args.force_conflicts).await?;
            None
        }
        false => Some(grant(&hub, &member, (&name, &hub_uid), given_proxy_ca, args).await?),
    };
    if !args.skip_crds {
        definitions::install(&member).await?;
    }
    if let Some(agent) = &agent {
        agent.apply(&member, args.force_conflicts).await?;
    }
    paths.apply(&member, args.force_conflicts).await?;
    let endpoint = reached_at(&member, endpoint, agent.as_ref());
    let networking = networking(&known, &name, args);
    let declared = networking.to_string();
    if !declared.is_empty() {
        output::result(format_args!("hub: {declared} of {name}"))?;
    }
    let fields = hub::MemberFields {
        id: Some(&identity.uid),
        endpoint: Some(&endpoint),
        proxy: member.proxy_url.as_deref().filter(|_| agent.is_none()),
        location: &located.location,
        networking: &networking,
        is_tunnelled: agent.is_some(),
        has_agent_credentials: of_agent,
        reports_paths: paths.are_read,
    };
    let cluster = hub::cluster(&name, &fields)?;
    let secret = stored.as_ref().map(|(_, secret)| secret);
    for object in secret.into_iter().chain([&cluster]) {
        objects::apply(&hub, object, Run::Real).await?;
    }
    synced(&hub, &name, &endpoint, args).await?;
    match stored {
        // The controller uses the new token, or reads it again once the API server rejects the old
        // one.
        Some((granted, _)) => Ok(granted.end_old_token(&member).await?),
        None => agent::end_stored_tokens(&hub, &member, (&name, &hub_uid)).await,
    }
}

/// Creates the account in the member and a token. Returns it with the Secret of the hub that stores
/// it.
async fn grant(
    hub: &ApiServer,
    member: &ApiServer,
    (name, hub_uid): (&ClusterName, &str),
    given_proxy_ca: Option<String>,
    args: &JoinArgs,
) -> Result<(Granted, DynamicObject), JoinError> {
    let rights = optional_rights(args);
    let stored = hub::stored(hub, name).await?;
    let token = NewToken {
        used: stored.token.as_deref(),
        lifetime: args.token_lifetime,
    };
    let granted = member::grant(member, hub_uid, rights, token, args.force_conflicts).await?;
    let Credentials { token, ca_bundle } = &granted.credentials;
    let proxy_ca = given_proxy_ca.or(stored.proxy_ca);
    let secret = hub::secret(name, Some(token), ca_bundle, proxy_ca.as_deref())?;
    member::verify(member, &secret).await?;
    Ok((granted, secret))
}

/// Returns the URL at which the hub reaches the member's API server.
fn reached_at(member: &ApiServer, given: Option<String>, agent: Option<&Agent>) -> String {
    let through_tunnel = agent.map(|agent| agent.endpoint.clone());
    let given = given.or(through_tunnel);
    given.unwrap_or_else(|| member.url())
}

/// Returns the record of a member.
fn recorded<'a>(known: &'a [Known], name: &ClusterName) -> Option<&'a Known> {
    known.iter().find(|one| one.name == name.as_str())
}

/// Checks that a member of the tunnel stays one: the hub could not dial it.
fn check_tunnelled(known: &[Known], name: &ClusterName, args: &JoinArgs) -> Result<(), JoinError> {
    let is_tunnelled = recorded(known, name).is_some_and(|one| one.is_tunnelled);
    match is_tunnelled && !args.pull {
        true => Err(JoinError::Tunnelled(name.clone())),
        false => Ok(()),
    }
}

/// Reads a file of PEM certificates.
fn certificates(file: &Path) -> Result<String, JoinError> {
    let wrong = |why: String| JoinError::ProxyCa {
        file: file.to_owned(),
        why,
    };
    member::certificates(file).map_err(wrong)
}

/// Rejects a server whose identity is not verified.
fn check_verified(server: &ApiServer) -> Result<(), JoinError> {
    let side = server.side;
    match server.unverified() {
        Some(what) => Err(JoinError::Insecure { side, what }),
        None => Ok(()),
    }
}

/// Rejects a proxy URL with user info, because `spec.proxyURL` is not secret.
fn check_proxy(url: Option<&str>) -> Result<(), JoinError> {
    let authority = url.and_then(|url| url.split("://").last()?.split('/').next());
    match authority {
        Some(authority) if authority.contains('@') => Err(JoinError::ProxyUser),
        _ => Ok(()),
    }
}

fn checked_endpoint(text: &str) -> Result<String, JoinError> {
    let wrong = || JoinError::Endpoint(text.to_owned());
    let config = kube::Config::new(text.parse().map_err(|_| wrong())?);
    let url = &config.cluster_url;
    if url.scheme_str() != Some("https") || url.host().is_none() {
        return Err(wrong());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Finds the region and zones of the member. Prints a note for each value that it cannot find.
async fn location(
    member: &ApiServer,
    known: &[Known],
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<Located, JoinError> {
    let given = Location::new(args.region.clone(), args.zones.clone());
    let recorded = recorded(known, name).map(|cluster| cluster.location.clone());
    let located = Located::find(member, given, recorded.unwrap_or_default()).await?;
    for note in &located.notes {
        output::progress(format_args!("note: {note}"))?;
    }
    Ok(located)
}

/// Returns the rights in the member that the flags grant or withdraw.
fn optional_rights(args: &JoinArgs) -> OptionalRights {
    OptionalRights {
        namespace_creation: args.allow_namespace_creation,
        nodes: args.reach.map(Reach::is_by_node_ports),
    }
}

/// Returns the network and the type of entry that the flags set. The stored Cluster provides values
/// that the flags omit.
fn networking(known: &[Known], name: &ClusterName, args: &JoinArgs) -> Networking {
    let given = Networking::new(args.network.clone(), args.reach);
    given.or(recorded(known, name).map_or_else(Networking::default, |one| one.networking.clone()))
}

/// Checks that the name belongs to no other cluster, that the cluster has no other name, and that
/// no ClusterProfile owns the Cluster.
fn check_identity(known: &[Known], name: &ClusterName, uid: &str) -> Result<(), JoinError> {
    for cluster in known {
        let same_name = cluster.name == name.as_str();
        if let Some(namespace) = cluster.profile.clone().filter(|_| same_name) {
            let name = name.clone();
            return Err(JoinError::OfProfile { name, namespace });
        }
        let known = cluster.id.as_deref();
        if same_name {
            let checked = identity::check_identity(&cluster.name, known, uid);
            checked.map_err(|why| JoinError::AnotherCluster {
                name: name.clone(),
                why,
            })?;
        } else if known == Some(uid) {
            return Err(JoinError::JoinedAs(cluster.name.clone()));
        }
    }
    Ok(())
}

/// Waits until the controller reports that it watches the member.
async fn synced(
    hub: &ApiServer,
    name: &ClusterName,
    endpoint: &str,
    args: &JoinArgs,
) -> Result<(), JoinError> {
    let mut last = None;
    let mut shown = Ok(());
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let deadline = Instant::now() + args.timeout;
    let found = wait::until(clusters, name.as_str(), deadline, |cluster| {
        let now = waiting(cluster);
        if now == Waiting::Done {
            return cluster.and_then(|cluster| cluster.status.clone());
        }
        if last.as_ref() != Some(&now) && shown.is_ok() {
            shown = output::progress(format_args!("waiting for {name}: {}", now.text()));
        }
        last = Some(now);
        None
    });
    let found = found.await;
    shown?;
    let last = last.unwrap_or(Waiting::Unseen);
    match found {
        Ok(status) => {
            let version = status.kubernetes_version.unwrap_or_default();
            let through = match &args.tunnel {
                Some(address) => format!(" through causeway-tunnel at {address}"),
                None => String::new(),
            };
            Ok(output::result(format_args!(
                "{name} is synced, Kubernetes {version} at {endpoint}{through}"
            ))?)
        }
        Err(late) => Err(JoinError::NotSynced {
            name: name.clone(),
            seconds: args.timeout.as_secs(),
            state: last.text(),
            remedy: last.remedy(name, endpoint, args.tunnel.as_ref()),
            late,
        }),
    }
}

/// Progress of the controller with a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Waiting {
    Done,
    /// The controller has not reported on the current generation of the Cluster.
    Unseen,
    Gone,
    Not {
        reason: String,
        message: String,
    },
}

fn waiting(cluster: Option<&Cluster>) -> Waiting {
    let Some(cluster) = cluster else {
        return Waiting::Gone;
    };
    let conditions = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    match condition::find(conditions, condition::READY) {
        Some(ready) if ready.observed_generation < cluster.metadata.generation => Waiting::Unseen,
        Some(ready) if ready.status == condition::TRUE => Waiting::Done,
        Some(ready) => Waiting::Not {
            reason: ready.reason.clone(),
            message: ready.message.clone(),
        },
        None => Waiting::Unseen,
    }
}

impl Waiting {
    fn text(&self) -> String {
        match self {
            Self::Done => "synced".to_owned(),
            Self::Unseen => "not processed by the controller yet".to_owned(),
            Self::Gone => "its Cluster object was deleted".to_owned(),
            Self::Not { reason, message } => format!("{reason} ({message})"),
        }
    }

    fn remedy(&self, name: &ClusterName, endpoint: &str, tunnel: Option<&TunnelAddress>) -> String {
        let is_unreachable = |reason: &String| *reason == Reason::Unreachable;
        match (self, tunnel) {
            (Self::Unseen, _) => "check that causeway-controller is running for this hub, e.g. kubectl -n causeway-system get pods".to_owned(),
            (Self::Not { reason, .. }, Some(address)) if is_unreachable(reason) => format!(
                "causeway-agent must reach {address} from the member: see kubectl mcs tunnel; in the member: kubectl -n \
                 causeway-system logs deployment/causeway-agent"
            ),
            (Self::Not { reason, .. }, None) if is_unreachable(reason) => format!(
                "the controller must reach {endpoint} from where it runs; if it needs another address, join again with --api-endpoint"
            ),
            (Self::Done | Self::Gone | Self::Not { .. }, _) => format!("see kubectl get cluster {name} -o wide"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn known(name: &str, id: Option<&str>) -> Known {
        Known {
            name: name.to_owned(),
            id: id.map(ToOwned::to_owned),
            endpoint: None,
            location: Location::default(),
            networking: Networking::default(),
            profile: None,
            is_tunnelled: false,
            has_agent_credentials: false,
            reports_paths: None,
        }
    }

    fn cluster(generation: i64, conditions: Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": "a", "generation": generation },
            "spec": {},
            "status": { "conditions": conditions },
        }))
        .expect("a Cluster")
    }

    fn ready(status: &str, reason: &str, generation: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": reason, "message": "why",
            "observedGeneration": generation, "lastTransitionTime": "2026-11-21T00:00:00Z",
        }])
    }

    #[test]
    fn one_cluster_has_one_name_and_one_name_stands_for_one_cluster() {
        let name = ClusterName::try_from("a").expect("a name");
        let check =
            |known: &[Known]| check_identity(known, &name, "uid-a").map_err(|e| e.to_string());
        let others = [known("b", Some("uid-b")), known("c", None)];
        assert_eq!(check(&others), Ok(()));
        assert_eq!(check(&[known("a", Some("uid-a"))]), Ok(()));
        assert_eq!(check(&[known("a", None)]), Ok(()));
        for (cluster, words) in [
            (
                known("b", Some("uid-a")),
                ["named b", "kubectl mcs unjoin b"],
            ),
            (
                known("a", Some("other")),
                ["another cluster", "kubectl mcs unjoin a"],
            ),
        ] {
            let error = check(&[cluster]).expect_err("refused");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn only_what_the_controller_said_of_this_generation_counts() {
        let not = |reason: &str| Waiting::Not {
            reason: reason.to_owned(),
            message: "why".to_owned(),
        };
        for (cluster, expected) in [
            (None, Waiting::Gone),
            (Some(cluster(1, json!([]))), Waiting::Unseen),
            (
                Some(cluster(2, ready("True", "Synced", 1))),
                Waiting::Unseen,
            ),
            (Some(cluster(2, ready("True", "Synced", 2))), Waiting::Done),
            (
                Some(cluster(1, ready("False", "Unreachable", 1))),
                not("Unreachable"),
            ),
        ] {
            assert_eq!(waiting(cluster.as_ref()), expected);
        }
    }

    #[test]
    fn proxy_with_a_user_is_refused() {
        for url in [
            "http://me:secret@proxy:1",
            "http://me@proxy",
            "me:secret@proxy:1/",
        ] {
            let error = check_proxy(Some(url)).expect_err(url).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for url in [None, Some("http://proxy:1"), Some("http://proxy/a@b")] {
            assert!(check_proxy(url).is_ok(), "{url:?}");
        }
    }

    #[tokio::test]
    async fn unverified_servers_are_refused() {
        let check = |url: &str, accept_invalid_certs| {
            let mut config = kube::Config::new(url.parse().expect("a URL"));
            config.accept_invalid_certs = accept_invalid_certs;
            let server = ApiServer::new(Side::Member, config).expect("a client");
            check_verified(&server).map_err(|error| error.to_string())
        };
        assert_eq!(check("https://a", false), Ok(()));
        for (url, insecure) in [("https://a", true), ("http://a", false)] {
            let error = check(url, insecure).expect_err(url);
            assert!(error.contains("of the member"), "{error}");
        }
    }

    #[test]
    fn an_endpoint_is_an_https_url() {
        assert_eq!(
            checked_endpoint("https://10.0.0.2:6443/").expect("a URL"),
            "https://10.0.0.2:6443"
        );
        for wrong in [
            "",
            "10.0.0.2:6443",
            "http://10.0.0.2",
            "https://",
            "nonsense",
        ] {
            assert!(checked_endpoint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_says_what_to_do() {
        let name = ClusterName::try_from("a").expect("a name");
        let text = |waiting: Waiting| waiting.remedy(&name, "https://a:1", None);
        assert!(text(Waiting::Unseen).contains("causeway-controller"));
        let unreachable = Waiting::Not {
            reason: "Unreachable".to_owned(),
            message: String::new(),
        };
        assert!(text(unreachable.clone()).contains("--api-endpoint"));
        let address = "tunnel.example".parse().expect("an address");
        let text = unreachable.remedy(&name, "https://a:1", Some(&address));
        assert!(
            text.contains("tunnel.example:443") && text.contains("kubectl mcs tunnel"),
            "{text}"
        );
    }
}
