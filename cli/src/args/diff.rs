//! What `diff` may be told.

use std::path::PathBuf;

use clap::Args;

use super::Format;

pub(crate) const DIFF_EXAMPLES: &str = "Examples:
  # See what would change, in the hub and in every member, if mcs.yaml were applied
  kubectl mcs diff -f mcs.yaml

  # The same of what a pipeline makes
  kustomize build . | kubectl mcs diff -f -

  # Only the addresses that clients would lose
  kubectl mcs diff -f mcs.yaml -o json | jq '.[].clusters[] | {cluster, lost}'

The hub's API server says in a dry run what it would store, with its refusals, warnings and conversions: that takes the right to create and patch \
MultiClusterServices. What the controller would then write into the members is worked out here, from lists that are read with your own rights: get \
Services, list Clusters and Works, get the Secrets of the members, by which these are reached, and namespace kube-system. It is worked out for a \
controller that is started without flags, and for the MultiClusterService alone: what ServiceExports ask for stays. Nothing is changed.

Exit code: 0 nothing would change; 1 something would; 2 wrong usage, or the hub would refuse it; 3 the hub could not be asked.";

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// File with MultiClusterServices; - for standard input
    #[arg(
        short,
        long,
        required = true,
        value_name = "FILE",
        env = "CAUSEWAY_FILENAME",
        hide_env = true
    )]
    pub filename: Vec<PathBuf>,
    /// Read members whose certificate cannot be verified too, as a controller does that has this flag
    #[arg(long, env = "CAUSEWAY_ALLOW_INSECURE_MEMBERS", hide_env = true)]
    pub allow_insecure_members: bool,
    /// For programs: field names that stay as they are
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        env = "CAUSEWAY_OUTPUT",
        hide_env = true
    )]
    pub output: Option<Format>,
}
