//! What a person may type.

mod admin_url;
mod bug_report;
mod color;
mod diff;
mod dns;
mod examples;
mod install;
mod moving;
mod top;
mod ui;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use k8s_openapi::jiff::SignedDuration;

pub(crate) use self::admin_url::AdminUrlArgs;
use self::bug_report::BUG_REPORT_EXAMPLES;
pub(crate) use self::bug_report::BugReportArgs;
pub(crate) use self::color::{Color, ColorArgs};
use self::diff::DIFF_EXAMPLES;
pub(crate) use self::diff::DiffArgs;
use self::dns::DNS_EXAMPLES;
pub(crate) use self::dns::{DnsArgs, Multicluster};
use self::examples::{
    CHECK_EXAMPLES, COMPLETION_EXAMPLES, CONFIRM_DELETIONS_EXAMPLES, DRAIN_EXAMPLES,
    EXPLAIN_EXAMPLES, JOIN_EXAMPLES, STATUS_EXAMPLES, UNJOIN_EXAMPLES,
};
pub(crate) use self::install::{
    ClientDryRun, DryRun, ImageArgs, InstallArgs, MissingService, PartArgs, UninstallArgs,
};
use self::install::{INSTALL_EXAMPLES, UNINSTALL_EXAMPLES};
pub(crate) use self::moving::MoveArgs;
use self::moving::{ADOPT_EXAMPLES, HAND_OVER_EXAMPLES};
use self::top::TOP_EXAMPLES;
pub(crate) use self::top::{SortBy, TopArgs};
use self::ui::UI_EXAMPLES;
pub(crate) use self::ui::UiArgs;

/// The command line of `kubectl mcs`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-mcs",
    bin_name = "kubectl mcs",
    version,
    about = "Manage a causeway hub, its members and multi-cluster services",
    after_help = "Exit codes: 0 success; 1 a problem was found, or the command failed; 2 wrong usage; 3 the API server cannot be reached.",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub hub: HubArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Which hub is spoken to, as kubectl has it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubArgs {
    /// Kubeconfig of the hub [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CAUSEWAY_KUBECONFIG",
        hide_env = true
    )]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "CAUSEWAY_CONTEXT",
        hide_env = true
    )]
    pub context: Option<String>,
    /// Namespace [default: that of the context, else default]
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAMESPACE",
        env = "CAUSEWAY_NAMESPACE",
        hide_env = true
    )]
    pub namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install or upgrade causeway on the hub
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(Box<InstallArgs>),
    /// Uninstall causeway from the hub
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(UninstallArgs),
    /// Join a cluster to the hub, or renew its credentials
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
    /// Explain where each endpoint of a service is, or why it is missing
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
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

/// Where the manifests have the controller keep its Lease.
pub(crate) const CONTROLLER_LEASE: &str = "causeway-system/causeway-controller";

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Name of a MultiClusterService or ServiceExport
    pub name: String,
    /// Show every endpoint, not one line for those in the same state
    #[arg(long, env = "CAUSEWAY_ENDPOINTS", hide_env = true)]
    pub endpoints: bool,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| {
    wait.help("Wait until no reachable member holds its endpoints")
        .conflicts_with_all(["undo", "dry_run"])
}))]
pub(crate) struct DrainArgs {
    /// Name of the member
    #[arg(value_name = "CLUSTER")]
    pub name: String,
    /// Use its endpoints again
    #[arg(long, env = "CAUSEWAY_UNDO", hide_env = true)]
    pub undo: bool,
    /// Only show what would change; the hub validates the request and stores nothing
    #[arg(long, env = "CAUSEWAY_DRY_RUN", hide_env = true)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
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
    #[arg(long, env = "CAUSEWAY_DRY_RUN", hide_env = true)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("format", |format| {
    // Whoever sets the variable means other commands.
    format.requires("dry_run").env(None).help("Output format of --dry-run [default: yaml]")
}))]
pub(crate) struct JoinArgs {
    /// Name of the member: a DNS label of at most 48 characters
    pub name: String,
    /// Print the objects that would be applied, except the token; change neither the hub nor the member
    #[arg(
        long,
        value_name = "WHERE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "client",
        env = "CAUSEWAY_DRY_RUN",
        hide_env = true
    )]
    pub dry_run: Option<ClientDryRun>,
    /// Print only what is applied to the hub, or to the member
    #[arg(
        long,
        value_name = "hub|member",
        requires = "dry_run",
        env = "CAUSEWAY_ONLY",
        hide_env = true
    )]
    pub only: Option<Side>,
    #[command(flatten)]
    pub member: RequiredMemberArgs,
    /// Address at which the hub reaches the member's API server [default: the one in the kubeconfig]
    #[arg(
        long,
        value_name = "URL",
        env = "CAUSEWAY_API_ENDPOINT",
        hide_env = true
    )]
    pub api_endpoint: Option<String>,
    /// Region of the member [default: that of its nodes, if all say the same]
    #[arg(long, value_name = "NAME", value_parser = place, env = "CAUSEWAY_REGION", hide_env = true)]
    pub region: Option<String>,
    /// Zone of the member; repeatable, or joined by commas [default: those of its nodes, if each has one]
    #[arg(
        long = "zone",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = place,
        env = "CAUSEWAY_ZONE",
        hide_env = true
    )]
    pub zones: Vec<String>,
    /// Let causeway create the namespace of a service where the member has none
    #[arg(long, env = "CAUSEWAY_ALLOW_NAMESPACE_CREATION", hide_env = true)]
    pub allow_namespace_creation: bool,
    /// Do not install the CRDs of ServiceExport and ServiceImport
    #[arg(long, env = "CAUSEWAY_SKIP_CRDS", hide_env = true)]
    pub skip_crds: bool,
    /// How long to wait until the member is synced
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration, env = "CAUSEWAY_TIMEOUT", hide_env = true)]
    pub timeout: Duration,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which of the two clusters is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    Hub,
    Member,
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hub => "hub",
            Self::Member => "member",
        })
    }
}

/// How the member is reached from here.
#[derive(Args, Debug)]
#[command(next_help_heading = "Member")]
pub(crate) struct RequiredMemberArgs {
    /// Kubeconfig of the member, with the rights of an administrator
    #[arg(
        long,
        value_name = "FILE",
        env = "CAUSEWAY_MEMBER_KUBECONFIG",
        hide_env = true
    )]
    pub member_kubeconfig: PathBuf,
    /// Context of that kubeconfig [default: its current one]
    #[arg(
        long,
        value_name = "NAME",
        env = "CAUSEWAY_MEMBER_CONTEXT",
        hide_env = true
    )]
    pub member_context: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct UnjoinArgs {
    /// Name of the member
    pub name: String,
    /// Kubeconfig of the member; also removes causeway's account from it
    #[arg(
        long,
        value_name = "FILE",
        env = "CAUSEWAY_MEMBER_KUBECONFIG",
        hide_env = true,
        help_heading = "Member"
    )]
    pub member_kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(
        long,
        value_name = "NAME",
        requires = "member_kubeconfig",
        env = "CAUSEWAY_MEMBER_CONTEXT",
        hide_env = true,
        help_heading = "Member"
    )]
    pub member_context: Option<String>,
    /// How long to wait until the controller has cleaned the member
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration, env = "CAUSEWAY_TIMEOUT", hide_env = true)]
    pub timeout: Duration,
}

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| {
    wait.help("Wait until everything shown is healthy")
        .conflicts_with("watch")
}))]
pub(crate) struct StatusArgs {
    /// Name of a MultiClusterService or ServiceExport [default: all of the namespace, and the members]
    pub name: Option<String>,
    /// Show all namespaces
    #[arg(short = 'A', long, env = "CAUSEWAY_ALL_NAMESPACES", hide_env = true)]
    pub all_namespaces: bool,
    /// After showing all, watch for changes and show what changed
    #[arg(short = 'w', long, env = "CAUSEWAY_WATCH", hide_env = true)]
    pub watch: bool,
    #[command(flatten)]
    pub waiting: WaitArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// Do not contact the API server
    #[arg(long, env = "CAUSEWAY_CLIENT", hide_env = true)]
    pub client: bool,
}

/// How the controller is found.
#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    /// Lease of causeway-controller on the hub, which shows whether it is running; empty where it runs without one
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = CONTROLLER_LEASE, value_parser = lease, env = "CAUSEWAY_LEASE", hide_env = true)]
    pub lease: Lease,
}

/// The Lease of the controller, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease(pub Option<(String, String)>);

/// Whether members are trusted without a certificate.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct InsecureArgs {
    /// Also read members whose certificate cannot be verified, as a controller with this flag does
    #[arg(long, env = "CAUSEWAY_ALLOW_INSECURE_MEMBERS", hide_env = true)]
    pub allow_insecure_members: bool,
}

/// Waiting on request. Each command says for what.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WaitArgs {
    #[arg(long, env = "CAUSEWAY_WAIT", hide_env = true)]
    pub wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration, env = "CAUSEWAY_TIMEOUT", hide_env = true)]
    pub timeout: Duration,
}

/// Waiting by default. Each command says for what.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DefaultWaitArgs {
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        env = "CAUSEWAY_WAIT",
        hide_env = true
    )]
    pub wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, env = "CAUSEWAY_TIMEOUT", hide_env = true)]
    pub timeout: Duration,
}

/// What the result looks like.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Output format for programs; the names of fields are stable
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        env = "CAUSEWAY_OUTPUT",
        hide_env = true
    )]
    pub format: Option<Format>,
}

/// A form for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// What a value should look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Malformed {
    #[error("write it as 30s, 2m or 1h30m")]
    Duration,
    #[error("write it as NAMESPACE/NAME")]
    Lease,
    #[error("write it as https://webhook.example:9443")]
    Url,
    #[error("write it as registry.example/team, without https://")]
    Registry,
    #[error("a tag is of letters, digits, dots, dashes and underscores")]
    Tag,
    #[error(
        "write it as the nodes' labels have it: at most 63 letters, digits, dots, dashes and underscores"
    )]
    Place,
}

fn duration(text: &str) -> Result<Duration, Malformed> {
    let parsed: SignedDuration = text.parse().map_err(|_| Malformed::Duration)?;
    Duration::try_from(parsed).map_err(|_| Malformed::Duration)
}

/// A region or a zone: the value of a node's label (Kubernetes, "Labels and Selectors").
fn place(text: &str) -> Result<String, Malformed> {
    let outer = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| outer(c) || "-_.".contains(c);
    let is_place = text.len() <= 63
        && text.chars().all(inner)
        && text.starts_with(outer)
        && text.ends_with(outer);
    is_place.then(|| text.to_owned()).ok_or(Malformed::Place)
}

fn lease(text: &str) -> Result<Lease, Malformed> {
    match text.split_once('/') {
        _ if text.is_empty() => Ok(Lease(None)),
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(Lease(Some((namespace.to_owned(), name.to_owned()))))
        }
        _ => Err(Malformed::Lease),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<CommandLine, clap::Error> {
        CommandLine::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn the_flags_of_kubectl_stand_before_and_after_the_command() {
        for line in [
            "kubectl-mcs --kubeconfig f --context c -n shop status foo",
            "kubectl-mcs status foo --kubeconfig f --context c --namespace shop",
        ] {
            let hub = parse(line).expect(line).hub;
            assert_eq!(hub.kubeconfig.as_deref(), Some("f".as_ref()), "{line}");
            assert_eq!(
                (hub.context.as_deref(), hub.namespace.as_deref()),
                (Some("c"), Some("shop"))
            );
        }
    }

    #[test]
    fn wrong_usage_is_reported_apart_and_exits_with_2() {
        for (line, kind) in [
            (
                "kubectl-mcs",
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ),
            ("kubectl-mcs jion a", ErrorKind::InvalidSubcommand),
            ("kubectl-mcs join a", ErrorKind::MissingRequiredArgument),
            (
                "kubectl-mcs join --member-kubeconfig f",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "kubectl-mcs join a --member-kubeconfig f --only hub",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "kubectl-mcs join a --member-kubeconfig f -o yaml",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "kubectl-mcs join a --member-kubeconfig f --dry-run=server",
                ErrorKind::InvalidValue,
            ),
            (
                "kubectl-mcs join a --member-kubeconfig f --region=",
                ErrorKind::ValueValidation,
            ),
            (
                "kubectl-mcs join a --member-kubeconfig f --zone a,,b",
                ErrorKind::ValueValidation,
            ),
            ("kubectl-mcs status -o xml", ErrorKind::InvalidValue),
            ("kubectl-mcs status --color red", ErrorKind::InvalidValue),
            ("kubectl-mcs status -w --wait", ErrorKind::ArgumentConflict),
            ("kubectl-mcs top --sort-by age", ErrorKind::InvalidValue),
            ("kubectl-mcs top --interval 0s", ErrorKind::ValueValidation),
            (
                "kubectl-mcs top --admin-url http://",
                ErrorKind::ValueValidation,
            ),
            (
                "kubectl-mcs bug-report --tail -1",
                ErrorKind::UnknownArgument,
            ),
            (
                "kubectl-mcs status --timeout soon",
                ErrorKind::ValueValidation,
            ),
            (
                "kubectl-mcs status --timeout=-5s",
                ErrorKind::ValueValidation,
            ),
            ("kubectl-mcs ui --port http", ErrorKind::ValueValidation),
            ("kubectl-mcs drain", ErrorKind::MissingRequiredArgument),
            (
                "kubectl-mcs confirm-deletions",
                ErrorKind::MissingRequiredArgument,
            ),
            ("kubectl-mcs adopt", ErrorKind::MissingRequiredArgument),
            ("kubectl-mcs adopt foo --all", ErrorKind::ArgumentConflict),
            ("kubectl-mcs hand-over", ErrorKind::MissingRequiredArgument),
            (
                "kubectl-mcs hand-over foo --wait=soon",
                ErrorKind::InvalidValue,
            ),
            (
                "kubectl-mcs confirm-deletions a --wait --dry-run",
                ErrorKind::ArgumentConflict,
            ),
            (
                "kubectl-mcs drain a --undo --wait",
                ErrorKind::ArgumentConflict,
            ),
            ("kubectl-mcs explain", ErrorKind::MissingRequiredArgument),
            (
                "kubectl-mcs explain foo --lease x",
                ErrorKind::ValueValidation,
            ),
            ("kubectl-mcs dns a", ErrorKind::MissingRequiredArgument),
            (
                "kubectl-mcs dns a --member-kubeconfig f --fix -o json",
                ErrorKind::ArgumentConflict,
            ),
            (
                "kubectl-mcs dns a --member-kubeconfig f --image-has=both",
                ErrorKind::InvalidValue,
            ),
            (
                "kubectl-mcs unjoin a --member-context c",
                ErrorKind::MissingRequiredArgument,
            ),
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (text, seconds) in [("30s", 30), ("2m", 120), ("1h30m", 5400), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "30", "-1s", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_place_is_what_nodes_have_in_their_labels() {
        let longest = "z".repeat(63);
        for text in ["eu-west-1", "eu-west-1a", "Rack_7.B", "1", &longest] {
            assert_eq!(place(text), Ok(text.to_owned()));
        }
        let longer = "z".repeat(64);
        for text in ["", "-a", "a.", "eu west", "a/b", "ä", &longer] {
            assert_eq!(place(text), Err(Malformed::Place), "{text}");
        }
        for line in ["--zone a --zone b,c", "--zone a,b,c", "--zone=a,b --zone=c"] {
            let line = format!("kubectl-mcs join m --member-kubeconfig f {line}");
            let Command::Join(args) = parse(&line).expect(&line).command else {
                panic!("{line} is no join");
            };
            assert_eq!(args.zones, ["a", "b", "c"], "{line}");
        }
    }

    #[test]
    fn help_speaks_of_kubectl_mcs() {
        let error = parse("kubectl-mcs join --help").expect_err("help");
        assert!(
            error.to_string().contains("Usage: kubectl mcs join"),
            "{error}"
        );
    }
}
