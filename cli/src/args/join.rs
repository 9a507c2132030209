//! What joins a cluster to the hub, and removes it.

use std::path::PathBuf;
use std::time::Duration;

use causeway::domain::Reach;
use clap::{ArgGroup, Args, ValueEnum};

use super::values::{
    OptionalValue as _, api_endpoint, duration, enrolment_time, image, network, place, reach,
    token_lifetime,
};
use super::{ClientDryRun, LeaseArgs, OutputArgs};
use crate::cluster::access::Side;
use crate::cluster::tunnel::address::TunnelAddress;

#[derive(Args, Debug)]
#[command(mut_arg("format", |format| {
    format.help("Output format of --dry-run [default: yaml], or of the file by which a member enrols")
}))]
#[command(mut_arg("member_kubeconfig", |kubeconfig| {
    kubeconfig.required_unless_present("format").help(
        "Kubeconfig of the member, with the rights of an administrator. Without it, --pull --tunnel \
         HOST -o yaml prints a file by which the member enrols, to be applied there",
    )
}))]
#[command(group(ArgGroup::new("agents").multiple(true)))]
pub(crate) struct JoinArgs {
    /// Name of the member: a DNS label of at most 48 characters
    pub name: String,
    /// Print the objects that would be applied, except the token; change neither the hub nor the
    /// member
    #[arg(long, value_name = "WHERE", optional_value = "client")]
    pub dry_run: Option<ClientDryRun>,
    /// Print only what is applied to the hub, or to the member
    #[arg(long, value_name = "hub|member", requires = "dry_run")]
    pub only: Option<Side>,
    #[command(flatten)]
    pub member: MemberArgs,
    #[command(flatten)]
    pub enrolment: EnrolmentArgs,
    /// Address at which the hub reaches the member's API server [default: as it is, else the one in
    /// the kubeconfig; with --pull that of Service default/kubernetes]
    #[arg(long, value_name = "URL", value_parser = api_endpoint)]
    pub api_endpoint: Option<String>,
    /// The hub cannot dial the member: run causeway-agent there, which connects to --tunnel
    #[arg(long, requires = "tunnel")]
    pub pull: bool,
    /// Address at which the agent reaches causeway-tunnel of the hub [default port: 443]
    #[arg(long, value_name = "HOST[:PORT]", requires = "pull", group = "agents")]
    pub tunnel: Option<TunnelAddress>,
    /// The agent reaches nothing but the hub's API server, at the address in your kubeconfig of the
    /// hub: it comes to causeway-tunnel by its Service proxy [default: as it is]
    #[arg(long, requires = "tunnel")]
    pub through_api_server: bool,
    /// Where the controller finds its token: in a Secret of the hub, or at the agent, so that the
    /// hub stores none. Commands read such a member by --member-kubeconfig only [default: as it is,
    /// else secret]
    #[arg(long, value_name = "secret|agent", requires = "tunnel")]
    pub token_from: Option<TokenFrom>,
    /// Image of causeway-agent [default: that of this version, from the registry of the hub's own
    /// images]
    #[arg(long, value_name = "IMAGE", requires = "agents", value_parser = image)]
    pub agent_image: Option<String>,
    /// Certificates in PEM by which an https:// proxy of the member's kubeconfig is verified
    /// [default: as it is, else those of the controller's system]
    #[arg(long, value_name = "FILE", requires = "member_kubeconfig")]
    pub proxy_ca: Option<PathBuf>,
    /// Time for which the hub's token is valid, at least 10m; join again before it ends [default:
    /// until it is replaced]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = token_lifetime,
        conflicts_with = "dry_run",
        requires = "member_kubeconfig"
    )]
    pub token_lifetime: Option<Duration>,
    /// Region of the member [default: that of its nodes, if all say the same]
    #[arg(long, value_name = "NAME", value_parser = place)]
    pub region: Option<String>,
    /// Zone of the member; repeatable, or joined by commas [default: those of its nodes, if each
    /// has one]
    #[arg(
        long = "zone",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = place
    )]
    pub zones: Vec<String>,
    /// Network of the member's pods: only clusters of one network reach each other's pods [default:
    /// as it is]
    #[arg(long, value_name = "NAME", value_parser = network)]
    pub network: Option<String>,
    /// How clusters of other networks reach the member; node-ports lets causeway read its nodes
    /// [default: as it is]
    #[arg(long, value_name = "WAY", value_parser = reach())]
    pub reach: Option<Reach>,
    /// Let causeway create the namespace of a service where the member has none; false takes the
    /// right of this hub away [default: as it is]
    #[arg(long, value_name = "BOOL", optional_value = "true")]
    pub allow_namespace_creation: Option<bool>,
    /// Run an agent in the member that reports which clusters answer there; false removes it
    /// [default: as it is]
    #[arg(
        long,
        value_name = "BOOL",
        optional_value = "true",
        group = "agents",
        requires = "member_kubeconfig"
    )]
    pub report_paths: Option<bool>,
    /// Take over rights and CRDs in the member that another field manager changed
    #[arg(long)]
    pub force_conflicts: bool,
    /// Do not install the CRDs of ServiceExport and ServiceImport; go on although the hub runs a
    /// newer version
    #[arg(long)]
    pub skip_crds: bool,
    /// How long to wait until the member is synced
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How the member is reached from here, if it is.
#[derive(Args, Debug)]
#[command(next_help_heading = "Member")]
pub(crate) struct MemberArgs {
    /// Kubeconfig of the member, with the rights of an administrator
    #[arg(long, value_name = "FILE")]
    pub member_kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "member_kubeconfig")]
    pub member_context: Option<String>,
}

/// The file by which a member enrols.
#[derive(Args, Debug)]
#[command(next_help_heading = "Enrolment")]
pub(crate) struct EnrolmentArgs {
    /// UID of the member's namespace kube-system; without it, the cluster that uses the file first
    /// is the member
    #[arg(long, value_name = "UID", conflicts_with = "member_kubeconfig")]
    pub id: Option<String>,
    /// Time within which the file is good, for one cluster; at most 24h [default: 10m]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = enrolment_time,
        conflicts_with = "member_kubeconfig"
    )]
    pub enrol_within: Option<Duration>,
}

/// Place of the token with which the controller uses a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenFrom {
    Secret,
    Agent,
}

/// How the member is reached from here.
#[derive(Args, Debug)]
#[command(next_help_heading = "Member")]
pub(crate) struct RequiredMemberArgs {
    /// Kubeconfig of the member, with the rights of an administrator
    #[arg(long, value_name = "FILE")]
    pub member_kubeconfig: PathBuf,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub member_context: Option<String>,
}

#[derive(Args, Debug)]
#[command(mut_arg("member_kubeconfig", |kubeconfig| {
    kubeconfig.help("Kubeconfig of the member; also removes causeway's account from it")
}))]
pub(crate) struct UnjoinArgs {
    /// Name of the member
    pub name: String,
    /// Print the objects that would be deleted; change neither the hub nor the member
    #[arg(long, value_name = "WHERE", optional_value = "client")]
    pub dry_run: Option<ClientDryRun>,
    /// Go on although the name is not joined, or no controller runs to clean up the member
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub controller: LeaseArgs,
    /// How long to wait until the controller has cleaned the member
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub member: MemberArgs,
}
