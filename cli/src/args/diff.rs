//! The arguments of `diff`.

use std::path::PathBuf;

use clap::Args;

use super::{InsecureArgs, MembersArgs, OutputArgs};

pub(crate) const DIFF_EXAMPLES: &str = "Examples:
  # Show what applying mcs.yaml would change, in the hub and in every member
  kubectl mcs diff -f mcs.yaml

  # Compare a directory; Services in it count as the hub's
  kubectl mcs diff -f shop/

  # Compare the output of kustomize
  kustomize build . | kubectl mcs diff -f -

  # Show only the addresses that clients would lose
  kubectl mcs diff -f mcs.yaml -o json | jq '.[].clusters[] | {cluster, lost}'

The hub's API server computes in a dry run what it would store, with refusals, warnings and conversions. What the controller would then write into \
the members is computed here, for a controller with default flags, and for the MultiClusterService alone: ServiceExports stay as they are. Nothing is changed. \
Required rights on the hub: create and patch MultiClusterServices, get Services and their Namespaces, list Clusters and Works, get the Secrets of the members and namespace \
kube-system; for names in DNS list dnsendpoints.externaldns.k8s.io and MultiClusterServices in all namespaces.

Exit code: 0 no change; 1 changes; 2 wrong usage, or the hub would refuse it; 3 the hub cannot be reached, or a member or a name in DNS not be compared.";

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// File or directory with MultiClusterServices; - for standard input
    #[arg(short, long, required = true, value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
