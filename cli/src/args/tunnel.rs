//! The arguments of `tunnel`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::values::{OptionalValue as _, duration, image};
use super::{AdminUrlArgs, ClientDryRun, ColorArgs, DryRun, InsecureArgs, MemberArgs, OutputArgs};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::term::output::Format;

pub(super) const TUNNEL_EXAMPLES: &str = "Examples:
  # Show which members are connected to causeway-tunnel
  kubectl mcs tunnel

  # Replicas of causeway-tunnel that run beside the hub
  kubectl mcs tunnel --admin-url http://10.0.0.1:8081 --admin-url http://10.0.0.2:8081

  # The names of the members that are not connected
  kubectl mcs tunnel -o json | jq -r '.members[] | select(.connected == false) | .name'

  # Reach a member of Karmada's Pull mode through causeway-tunnel
  kubectl mcs tunnel add edge1 --tunnel tunnel.example --member-kubeconfig ~/.kube/edge1

CONNECTED is for how long the agent is connected, or is not. REPLICAS is to how many replicas of causeway-tunnel; an agent connects to each. RTT is \
the longest round trip of a PING, STREAMS the number of open connections to the member's API server, AGENT the version of the agent.

Required rights on the hub: list Clusters; in namespace causeway-system list pods and get pods/proxy. What you may not read is unknown.

Exit code: 0 every member of the tunnel is connected; 1 one is not, or the hub has no causeway-tunnel; 2 wrong usage; 3 the hub cannot be \
reached, or a part could not be read.";

const ADD_EXAMPLES: &str = "Examples:
  # Bring the agent to the member, and wait until it is connected
  kubectl mcs tunnel add edge1 --tunnel tunnel.example --member-kubeconfig ~/.kube/edge1

  # Print the objects of the member; the Secret among them has the private key of the agent
  kubectl mcs tunnel add edge1 --tunnel tunnel.example -o yaml | kubectl --kubeconfig ~/.kube/edge1 apply -f -

  # Show what would change
  kubectl mcs tunnel add edge1 --tunnel tunnel.example --member-kubeconfig ~/.kube/edge1 --dry-run=server

For members that karmada-agent registered; kubectl mcs join --pull --tunnel joins all others. The member gets causeway-agent, and nothing else. The \
Cluster gets the annotation mcs.causeway.dev/tunnel; its spec, and the Secret that karmada-agent reported, stay as they are. The host of \
spec.apiEndpoint has to be in the certificate of the member's API server. Give the command again to renew the certificate of the agent: with \
--member-kubeconfig it is kept until its last third, with -o each run issues a new one.

Required rights on the hub: get and patch Clusters, get the Secret of the Cluster and Secret causeway-tunnel-ca in causeway-system, and, to wait, \
those of the other commands that read members.

Exit code: 0 connected, or printed; 1 not connected, or refused; 2 wrong usage; 3 the hub or the member cannot be reached, or whether \
the agent is connected is unknown.";

const REMOVE_EXAMPLES: &str = "Examples:
  # Show what would be removed
  kubectl mcs tunnel remove edge1 --member-kubeconfig ~/.kube/edge1 --dry-run=client

  # Remove the annotation of the Cluster, and the agent
  kubectl mcs tunnel remove edge1 --member-kubeconfig ~/.kube/edge1

From then on the hub reaches the member at spec.apiEndpoint of its Cluster, or does not. Only the agent of this hub is deleted.

Refuses members of kubectl mcs join: kubectl mcs unjoin removes those. Required rights on the hub: list, get and patch Clusters, and get the \
Secrets of join for the member: NAME in causeway-members, bootstrap-NAME and member-NAME in causeway-enrolment.

Exit code: 0 removed; 1 refused; 2 wrong usage; 3 the hub or the member cannot be reached.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct TunnelArgs {
    #[command(subcommand)]
    pub change: Option<TunnelChange>,
    #[command(flatten)]
    pub admin: AdminUrlArgs,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TunnelChange {
    /// Reach a member of Karmada's Pull mode through causeway-tunnel, by an agent in the member
    #[command(after_help = ADD_EXAMPLES)]
    Add(Box<TunnelAddArgs>),
    /// Stop reaching such a member through causeway-tunnel
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(TunnelRemoveArgs),
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("way").required(true).args(["format", "member_kubeconfig"])))]
pub(crate) struct TunnelAddArgs {
    /// Name of the member
    pub name: String,
    /// Address at which the agent reaches causeway-tunnel of the hub [default port: 443]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub tunnel: TunnelAddress,
    /// Print the objects of the member, for kubectl apply; the Secret among them has a private key
    #[arg(short = 'o', long = "output", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// client only shows what would change, and prints no private key; server also lets both
    /// clusters validate it
    #[arg(long, value_name = "WHERE", optional_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Image of causeway-agent [default: that of this version, from the registry of the hub's own
    /// images]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub agent_image: Option<String>,
    /// Take over fields of the agent that another field manager changed
    #[arg(long, conflicts_with = "format")]
    pub force_conflicts: bool,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub member: MemberArgs,
    /// How long to wait until the agent is connected
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "60s",
        value_parser = duration,
        conflicts_with = "format"
    )]
    pub timeout: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct TunnelRemoveArgs {
    /// Name of the member
    pub name: String,
    /// Print what would be removed; change neither the hub nor the member
    #[arg(long, value_name = "WHERE", optional_value = "client")]
    pub dry_run: Option<ClientDryRun>,
    #[command(flatten)]
    pub member: MemberArgs,
}
