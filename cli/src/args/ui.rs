//! The arguments of `ui`.

use clap::Args;

use super::{InsecureArgs, LeaseArgs, PodArgs};

pub(crate) const UI_EXAMPLES: &str = "Examples:
  # Show clusters and services in the browser
  kubectl mcs ui

  # Show one namespace, where you may not list all
  kubectl mcs ui -n shop

  # Let the page start kubectl mcs verify of a service
  kubectl mcs ui --verify

  # On a machine without a browser: print the address, to be reached through ssh -L 8001:127.0.0.1:8001
  kubectl mcs ui --no-browser --port 8001

Serves a page on 127.0.0.1 until Ctrl-C. Its address holds a random token: whoever has it sees what you may see. Nothing is installed in a \
cluster, and nothing is changed. Reads the hub with your rights, and the members with the credentials that the hub stores for each.

With --verify the page starts kubectl mcs verify of a service, one at a time, with your rights: it creates pods in the members, deletes them at the \
end and after Ctrl-C, and keeps the result on the hub. Whoever has the address may start it.

Required rights on the hub: list and watch MultiClusterServices, Services and Clusters. Without the right to list and watch Namespaces, annotations \
that these may give services are unknown. To see what members hold, get their Secrets; members of which you may not are said to be disconnected. Optional: get namespace kube-system and the Lease of the controller; for names in DNS list and watch dnsendpoints.externaldns.k8s.io and MultiClusterServices \
in all namespaces; on Karmada list and watch Works and get ResourceBindings.

Exit code: 0 ended by Ctrl-C; 1 the port is taken, or the command failed; 2 wrong usage; 3 the hub cannot be reached, or a right is missing.";

#[derive(Args, Debug)]
pub(crate) struct UiArgs {
    /// Port to serve on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Only print the address
    #[arg(long)]
    pub no_browser: bool,
    /// Let the page start kubectl mcs verify, which creates pods in the members
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub pods: PodArgs,
    #[command(flatten)]
    pub controller: LeaseArgs,
    #[command(flatten)]
    pub insecure: InsecureArgs,
}
