//! What a person may type.

mod bug_report;
mod diff;
mod dns;
mod examples;
mod install;
mod join;
mod moving;
mod shift;
mod top;
mod tunnel;
mod ui;
mod values;
mod verify;

use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use http::Uri;

use self::bug_report::BUG_REPORT_EXAMPLES;
pub(crate) use self::bug_report::BugReportArgs;
use self::diff::DIFF_EXAMPLES;
pub(crate) use self::diff::DiffArgs;
use self::dns::DNS_EXAMPLES;
pub(crate) use self::dns::{DnsArgs, Multicluster};
use self::examples::{
    CHECK_EXAMPLES, COMPLETION_EXAMPLES, CONFIRM_DELETIONS_EXAMPLES, DRAIN_EXAMPLES,
    EXPLAIN_EXAMPLES, JOIN_EXAMPLES, STATUS_EXAMPLES, UNJOIN_EXAMPLES,
};
pub(crate) use self::install::{ClientDryRun, DryRun, InstallArgs, UninstallArgs};
use self::install::{INSTALL_EXAMPLES, UNINSTALL_EXAMPLES};
pub(crate) use self::join::{JoinArgs, MemberArgs, RequiredMemberArgs, TokenFrom, UnjoinArgs};
pub(crate) use self::moving::MoveArgs;
use self::moving::{ADOPT_EXAMPLES, HAND_OVER_EXAMPLES};
use self::shift::SHIFT_EXAMPLES;
pub(crate) use self::shift::ShiftArgs;
use self::top::TOP_EXAMPLES;
pub(crate) use self::top::{SortBy, TopArgs};
use self::tunnel::TUNNEL_EXAMPLES;
pub(crate) use self::tunnel::{TunnelAddArgs, TunnelArgs, TunnelChange, TunnelRemoveArgs};
use self::ui::UI_EXAMPLES;
pub(crate) use self::ui::UiArgs;
use self::values::{OptionalValue as _, admin_url, duration, lease};
use self::verify::VERIFY_EXAMPLES;
pub(crate) use self::verify::{PodArgs, ProbeArgs, ProbeRole, VerifyArgs, WhatArgs};
pub(crate) use crate::cluster::access::MembersArgs;
use crate::cluster::access::{HubArgs, object_name};
use crate::cluster::lease::{CONTROLLER_LEASE, LeaseName};
use crate::term::output::Format;
use crate::term::screen::Color;

/// The command line of `kubectl mcs`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-mcs",
    bin_name = "kubectl mcs",
    version,
    about = "Manage a causeway hub, its members and multi-cluster services",
    after_help = "Exit codes: 0 success; 1 a problem was found, or the command failed; 2 wrong usage; 3 unknown: \
                  something that the answer needs could not be read.",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub hub: HubArgs,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install or upgrade causeway on the hub
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(Box<InstallArgs>),
    /// Uninstall causeway from the hub
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(UninstallArgs),
    /// Join a cluster to the hub, or update it
    #[command(after_help = JOIN_EXAMPLES)]
    Join(JoinArgs),
    /// Remove a cluster from the hub
    #[command(after_help = UNJOIN_EXAMPLES)]
    Unjoin(UnjoinArgs),
    /// Show members, services and exports, and their problems
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Show which members and services change most, and how long changes take
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Show which members are connected to causeway-tunnel; add and remove members
    #[command(after_help = TUNNEL_EXAMPLES)]
    Tunnel(TunnelArgs),
    /// Explain where each endpoint of a service is, or why it is missing
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Dial what services lead to, from pods in the clusters that consume them
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Dial or answer, in a pod of verify
    #[command(hide = true)]
    Probe(ProbeArgs),
    /// Show clusters and services in the browser, live
    #[command(after_help = UI_EXAMPLES)]
    Ui(UiArgs),
    /// Show what applying a MultiClusterService would change
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Move services from Karmada's controllers to causeway
    #[command(after_help = ADOPT_EXAMPLES)]
    Adopt(MoveArgs),
    /// Move services from causeway to Karmada's controllers
    #[command(after_help = HAND_OVER_EXAMPLES)]
    HandOver(MoveArgs),
    /// Stop using the endpoints that a cluster provides
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(DrainArgs),
    /// Move traffic of a service to a cluster, step by step
    #[command(after_help = SHIFT_EXAMPLES)]
    Shift(ShiftArgs),
    /// Confirm the suspended deletions of a cluster
    #[command(after_help = CONFIRM_DELETIONS_EXAMPLES)]
    ConfirmDeletions(ConfirmDeletionsArgs),
    /// Check that causeway is installed correctly and running
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Gather what is needed to find out what is wrong, without secrets
    #[command(after_help = BUG_REPORT_EXAMPLES)]
    BugReport(BugReportArgs),
    /// Check or set up the DNS of a member for clusterset.local
    #[command(after_help = DNS_EXAMPLES)]
    Dns(DnsArgs),
    /// Print the versions of this program and of the hub
    Version(VersionArgs),
    /// Print a shell completion script
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion {
        /// The shell it is for
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Name of a MultiClusterService or ServiceExport
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Show every endpoint, not one line for those in the same state
    #[arg(long)]
    pub endpoints: bool,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub members: MembersArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| {
    wait.help("Wait until every other member was read, and none holds its endpoints")
        .conflicts_with_all(["undo", "dry_run"])
}))]
pub(crate) struct DrainArgs {
    /// Name of the member
    #[arg(value_name = "CLUSTER")]
    pub name: String,
    /// Use its endpoints again
    #[arg(long)]
    pub undo: bool,
    /// Only show what would change; the hub validates the request and stores nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| {
    wait.help("Wait until no deletions are suspended")
        .conflicts_with("dry_run")
}))]
pub(crate) struct ConfirmDeletionsArgs {
    /// Name of the member
    #[arg(value_name = "CLUSTER")]
    pub name: String,
    /// Only print what would be confirmed; the hub checks the change and does not store it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| {
    wait.help("Wait until everything shown is healthy")
        .conflicts_with("watch")
}))]
pub(crate) struct StatusArgs {
    /// Name of a MultiClusterService or ServiceExport [default: all of the namespace, and the
    /// members]
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
    /// Show all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// After showing all, watch for changes and show what changed
    #[arg(short = 'w', long)]
    pub watch: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
    /// What to wait for: that everything shown is healthy, or also that a consumer has a ready
    /// endpoint
    #[arg(
        long = "for",
        value_name = "WHAT",
        default_value = "ready",
        hide_possible_values = true,
        requires_ifs = [("endpoints", "wait"), ("endpoints", "name")]
    )]
    pub awaited: Awaited,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// Do not contact the API server
    #[arg(long)]
    pub client: bool,
}

/// How the controller is found.
#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    /// Lease of causeway-controller on the hub, which shows whether it is running; empty where it
    /// runs without one
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = CONTROLLER_LEASE, value_parser = lease)]
    pub lease: LeaseName,
}

/// Whether members are trusted without a certificate.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct InsecureArgs {
    /// Also read members whose certificate cannot be verified, as a controller with this flag does
    #[arg(long)]
    pub allow_insecure_members: bool,
}

/// Waiting on request. Each command says for what.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WaitArgs {
    #[arg(long)]
    pub wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
}

/// Waiting by default. Each command says for what.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DefaultWaitArgs {
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        optional_value = "true",
        default_value_t = true
    )]
    pub wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

/// What the result looks like.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Output format for programs; the names of fields are stable
    #[arg(short = 'o', long = "output", value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Whether the result is coloured.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ColorArgs {
    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}

/// How admin endpoints are reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminUrlArgs {
    /// Admin address (--admin-bind) of a process that runs elsewhere; repeatable [default: the pods
    /// in the namespace of the Lease]
    #[arg(long = "admin-url", value_name = "URL", value_parser = admin_url)]
    pub urls: Vec<Uri>,
}

/// Goal of `status --wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    Ready,
    Endpoints,
}

#[cfg(test)]
pub(crate) mod tests;
