//! The arguments of `shift`.

use std::time::Duration;

use clap::Args;

use super::values::{duration, percentage};
use crate::cluster::access::object_name;

pub(super) const SHIFT_EXAMPLES: &str = "Examples:
  # Show the steps
  kubectl mcs shift foo -n shop --to new --step 10% --every 5m --dry-run

  # Give member new 10% of the traffic, and 10% more every five minutes, up to half
  kubectl mcs shift foo -n shop --to new --step 10% --every 5m --until 50%

Writes the annotation mcs.causeway.dev/share of the MultiClusterService. Refuses a member that the service does not name as a provider, that is not joined \
or that is drained, and a controller that is older than shares. Stops where the service is not ready, where the controller is not running, where \
kubectl mcs verify found in the last 24 hours that pods of the member do not answer, and where somebody else changes the annotation. Then, and \
after Ctrl-C, the share of the last step stays; a second run continues from there. Required rights on the hub: get and \
patch MultiClusterServices in the namespace. Optional: get Clusters, ConfigMaps in the namespace, for results of verify, and \
Lease and Deployment causeway-system/causeway-controller.";

#[derive(Args, Debug)]
pub(crate) struct ShiftArgs {
    /// Name of a MultiClusterService
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Member that gets the traffic
    #[arg(long, value_name = "CLUSTER")]
    pub to: String,
    /// Percentage that each step adds
    #[arg(long, value_name = "PERCENTAGE", value_parser = percentage)]
    pub step: u8,
    /// Time between two steps
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub every: Duration,
    /// Percentage of the last step
    #[arg(long, value_name = "PERCENTAGE", default_value = "100%", value_parser = percentage)]
    pub until: u8,
    /// Only print the steps
    #[arg(long)]
    pub dry_run: bool,
}
