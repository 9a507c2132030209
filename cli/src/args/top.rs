//! The arguments of `top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::duration;
use super::{AdminUrlArgs, ColorArgs, InsecureArgs, LeaseArgs, MembersArgs, OutputArgs};

pub(super) const TOP_EXAMPLES: &str = "Examples:
  # Members, and the services of every namespace that change most
  kubectl mcs top -A

  # What takes longest to reach its consumers, over half a minute
  kubectl mcs top -A --interval 30s --sort-by lag

  # A controller that runs beside the hub
  kubectl mcs top -A --admin-url http://10.0.0.1:8081

CHANGES/S are the EndpointSlices of providers that changed, a second; WRITES/S the copies of them that were written, ENDPOINTS/S the endpoints in \
these. LAG is the longest time from a change in its provider until a copy of it in a consumer, both as this command saw them. These come from \
watches of the members that last as long as --interval. How many writes failed, and what waits, comes from the metrics of the controller that \
leads, read at the beginning and the end through the hub's API server. A service without a change is not shown.

Required rights on the hub: list Clusters. For the watches, get the Secrets of the members, get namespace kube-system and list \
MultiClusterServices; for the metrics, list pods and get pods/proxy in the namespace of the controller. What you may not read is missing, with a \
note.

Exit code: 0 success; 1 failure; 2 wrong usage; 3 the hub cannot be reached, or a part or all of it could not be read.";

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    Changes,
    Writes,
    Endpoints,
    Lag,
    Name,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Show the services of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = interval)]
    pub interval: Duration,
    /// What to sort by, the most first
    #[arg(long, value_name = "COLUMN", default_value = "changes")]
    pub sort_by: SortBy,
    #[command(flatten)]
    pub admin: AdminUrlArgs,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// At least a second: rates of less mean nothing.
fn interval(text: &str) -> Result<Duration, &'static str> {
    match duration(text) {
        Ok(interval) if interval >= Duration::from_secs(1) => Ok(interval),
        _ => Err("write it as 5s or 1m; at least a second"),
    }
}
