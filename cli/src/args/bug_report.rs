//! The arguments of `bug-report`.

use std::path::PathBuf;

use clap::Args;

use super::{AdminUrlArgs, InsecureArgs, LeaseArgs, MembersArgs};

pub(super) const BUG_REPORT_EXAMPLES: &str = "Examples:
  # Gather what is needed to find out what is wrong, in the current directory
  kubectl mcs bug-report

  # Look through it before it is sent
  kubectl mcs bug-report -o report.tar.gz
  tar -xzf report.tar.gz

  # Where webhook and controller run beside the hub, their metrics, too
  kubectl mcs bug-report --admin-url http://10.0.0.1:8081 --admin-url http://10.0.0.2:8081

  # Only the services of one namespace
  kubectl mcs bug-report -n shop

Gathers versions, causeway's objects, conditions and Events of the hub and the members, the logs and metrics of the pods of causeway, the output \
of check and status, that of explain for what is not ready, and the last results of verify. Nothing is changed, and nothing is sent. Tokens, the \
data of Secrets and of other ConfigMaps, private keys and passwords are left out; names and addresses are not. What cannot be read is named in \
the archive and at the end.

Required rights on the hub: none; what you may not read is missing. As much as possible is gathered by who may list MultiClusterServices, Clusters, \
Services, EndpointSlices, Events, CRDs, webhook configurations and roles; in the namespace of causeway get pods/log and pods/proxy, list pods, \
Deployments, Leases and Secrets; get the Secrets of the members. Secrets are read for two reasons: to reach the members, and to leave their \
values out wherever they stand.

Exit code: 0 the archive is written; 1 it cannot be written; 2 wrong usage; 3 it is written, and something is not in it.";

#[derive(Args, Debug)]
pub(crate) struct BugReportArgs {
    /// Archive to write, which may not be there yet [default: causeway-bug-report-TIME.tar.gz]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// How many lines of each log are taken, the last ones
    #[arg(long, value_name = "LINES", default_value_t = 5000)]
    pub tail: u32,
    #[command(flatten)]
    pub admin: AdminUrlArgs,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
}
