//! The arguments of `adopt` and `hand-over`.

use std::time::Duration;

use clap::Args;

use super::values::duration;
use super::{DefaultWaitArgs, InsecureArgs, LeaseArgs, MembersArgs, OutputArgs};
use crate::cluster::access::object_name;

pub(crate) const ADOPT_EXAMPLES: &str = "Examples:
  # Show the writes that would move Service shop/foo from Karmada's controllers to causeway
  kubectl mcs adopt foo -n shop --dry-run

  # Move it, and wait until nothing of Karmada's remains
  kubectl mcs adopt foo -n shop

  # Move every service that Karmada manages or managed
  kubectl mcs adopt --all --timeout 5m

First start karmada-controller-manager with --feature-gates=MultiClusterService=false. The command verifies that with an annotation on the \
MultiClusterService, mcs.causeway.dev/probe, to which Karmada's controllers would react. Then it removes, in this order: Karmada's EndpointSlices in former \
consumers, whose Works are in deletion until then; the finalizers of every other Work of \
the service, so that Karmada deletes nothing in a member; the Works; Karmada's EndpointSlices in the consumers, each once causeway's copies hold every \
ready endpoint of its source; Karmada's finalizer on the MultiClusterService. What is not replaced stays, and is listed. The command can be interrupted \
at any point and run again. If the MultiClusterService is being deleted, removing what remains of Karmada completes the deletion. Karmada continues to \
propagate the Service itself.

Each write is printed as the equivalent kubectl command. Required rights on the hub: list MultiClusterServices, list and watch \
Works, patch and delete Works, patch MultiClusterServices, get Services, list Clusters, get the Secrets of the members and namespace kube-system, get Leases in \
causeway-system and karmada-system, which show whether the controllers run. Optional: get ResourceBindings.

Exit code: 0 adopted, or nothing to do; 1 refused, or incomplete; 2 wrong usage; 3 the hub cannot be reached, a Lease cannot be read, or a dry run could not read a member.";

pub(crate) const HAND_OVER_EXAMPLES: &str = "Examples:
  # Move Service shop/foo to Karmada's controllers, and wait until nothing of causeway's remains
  kubectl mcs hand-over foo -n shop

  # Show what blocks the move
  kubectl mcs hand-over foo -n shop --wait=false

  # Move all services to Karmada, before causeway is uninstalled
  kubectl mcs hand-over --all --timeout 10m

First start karmada-controller-manager with --feature-gates=MultiClusterService=true. Then Karmada collects and dispatches EndpointSlices, and \
causeway's controller withdraws each of its copies once Karmada's slice of the same source is in the consumer. The command waits for that, and \
removes causeway's finalizer from the MultiClusterService at the end. causeway's controller must run until then.

Required rights on the hub: list and patch MultiClusterServices, list Works, get Services, list Clusters, get the Secrets of the members and \
namespace kube-system, get Leases in causeway-system and karmada-system, which show whether the controllers run. Optional: get ResourceBindings.

Exit code: 0 nothing of causeway's remains in any member that takes part; 1 refused, or incomplete; 2 wrong usage; 3 the hub cannot be reached, a Lease cannot be read, or a dry run could not read a member.";

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| wait.help("Wait until the move is complete; with false, do only what is possible now")))]
#[command(mut_arg("timeout", |timeout| timeout.help("How long to wait, for each service").default_value("2m")))]
#[command(mut_arg("allow_insecure_members", |allow| {
    allow.help("Also read and write members whose certificate cannot be verified, as a controller with this flag does")
}))]
pub(crate) struct MoveArgs {
    /// Name of the MultiClusterService
    #[arg(required_unless_present = "all", value_parser = object_name)]
    pub name: Option<String>,
    /// Move all services, in every namespace unless --namespace is given
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    /// Only show the writes; change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: DefaultWaitArgs,
    /// How long to observe whether Karmada's controllers write
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub observe: Duration,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
    #[command(flatten)]
    pub members: MembersArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
