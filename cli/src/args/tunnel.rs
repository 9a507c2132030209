//! The arguments of `tunnel`.

use clap::Args;

use super::{AdminUrlArgs, ColorArgs, OutputArgs};

pub(super) const TUNNEL_EXAMPLES: &str = "Examples:
  # Show which members are connected to causeway-tunnel
  kubectl mcs tunnel

  # Replicas of causeway-tunnel that run beside the hub
  kubectl mcs tunnel --admin-url http://10.0.0.1:8081 --admin-url http://10.0.0.2:8081

  # The names of the members that are not connected
  kubectl mcs tunnel -o json | jq -r '.members[] | select(.connected == false) | .name'

CONNECTED is for how long the agent is connected, or is not. REPLICAS is to how many replicas of causeway-tunnel; an agent connects to each. RTT is \
the longest round trip of a PING, STREAMS the number of open connections to the member's API server, AGENT the version of the agent.

Required rights on the hub: list Clusters; in namespace causeway-system list pods and get pods/proxy. What you may not read is unknown.

Exit code: 0 every member of the tunnel is connected; 1 one is not, or the hub has no causeway-tunnel; 2 wrong usage; 3 the hub cannot be \
reached, or a part could not be read.";

#[derive(Args, Debug)]
pub(crate) struct TunnelArgs {
    #[command(flatten)]
    pub admin: AdminUrlArgs,
    #[command(flatten)]
    pub color: ColorArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
