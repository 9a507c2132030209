//! The arguments of `verify`, and of the program in its pods.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::{duration, image};
use super::{ColorArgs, MembersArgs, OutputArgs};

pub(crate) const VERIFY_EXAMPLES: &str = "Examples:
  # Dial everything that Service shop/foo leads to, from each cluster that consumes it
  kubectl mcs verify foo -n shop

  # All services of all namespaces, from member1 only, from each of its nodes
  kubectl mcs verify -A --from member1 --nodes

  # The contexts of the members have other names, and are in another file
  kubectl mcs verify foo -n shop --member-kubeconfig ~/.kube/members --member member1=prod-eu --member member2=prod-us

  # Show the pods that would be started
  kubectl mcs verify foo -n shop --dry-run

  # A Job for member1 that does the same, for git
  kubectl mcs verify foo -n shop --from member1 --print-job > verify-foo.yaml

Starts a pod in each consumer, and one in each provider that answers, and deletes them at the end, after Ctrl-C, too. If the command is killed, the \
pods that have started end by themselves at the time limit, and the next run deletes ended pods in its members. A UDP port that does not answer is \
unknown; ports of SCTP are not tried. The result is kept in ConfigMap causeway-verify.NAME of the service's namespace on the hub, where \
kubectl mcs explain shows it.

Needs a context of each member in the kubeconfig, named as the member unless --member says otherwise, with the right to create, watch and delete pods \
and read their logs in the namespace of the pods, to get namespace kube-system and that of the service, and to read Services, EndpointSlices and \
ServiceImports.

Exit code: 0 everything works; 1 something does not; 2 wrong usage; 3 nothing is known to be wrong, and something could not be read or tried; \
130 interrupted, and the pods are deleted.";

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub what: WhatArgs,
    #[command(flatten)]
    pub pods: PodArgs,
    /// Print the pods that would be created, and create none
    #[arg(long)]
    pub dry_run: bool,
    /// Print a Job that dials from the member of --from, and create nothing
    #[arg(long, requires = "from", conflicts_with_all = ["dry_run", "nodes"])]
    pub print_job: bool,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The services of `verify`, and the pods that dial.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WhatArgs {
    /// Name of a MultiClusterService or ServiceImport [default: all of the namespace]
    pub name: Option<String>,
    /// Verify the services of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// Dial from this member only; repeatable
    #[arg(long, value_name = "MEMBER")]
    pub from: Vec<String>,
    /// Dial from each node of a consumer, not from one
    #[arg(long)]
    pub nodes: bool,
}

/// The pods of `verify`, and the access to the members.
#[derive(Args, Clone, Debug)]
pub(crate) struct PodArgs {
    /// Maximum time until the pods have started and dialled
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub members: MembersArgs,
    /// Namespace of the pods in each member
    #[arg(long, value_name = "NAMESPACE", default_value = "causeway-system")]
    pub probe_namespace: String,
    /// Image of the pods [default: kubectl-mcs of the registry that the hub's controller is from]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub image: Option<String>,
}

/// The program in the pods of `verify`.
#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    #[command(subcommand)]
    pub role: ProbeRole,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProbeRole {
    /// Dial paths and print an outcome for each
    Dial {
        /// Identity of the run, which servers of other runs do not have
        #[arg(long)]
        run: String,
        /// Paths of one service, as JSON; repeatable
        services: Vec<String>,
    },
    /// Answer with the name of the cluster and echo data
    Serve {
        #[arg(long)]
        run: String,
        #[arg(long)]
        cluster: String,
    },
}
