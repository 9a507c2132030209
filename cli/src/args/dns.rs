//! The arguments of `dns`.

use clap::{Args, ValueEnum};

use super::{OutputArgs, RequiredMemberArgs};

pub(crate) const DNS_EXAMPLES: &str = "Examples:
  # Check whether the CoreDNS of member1 answers for clusterset.local
  kubectl mcs dns member1 --member-kubeconfig ~/.kube/member1

  # Show what is missing
  kubectl mcs dns member1 --member-kubeconfig ~/.kube/member1 --fix --dry-run

  # Grant the rights, and add the zone or show its place, after a question
  kubectl mcs dns member1 --member-kubeconfig ~/.kube/member1 --fix

  # The image is built by yourself, with the plugin coredns/multicluster
  kubectl mcs dns member1 --member-kubeconfig ~/.kube/member1 --fix --image-has=plugin

CoreDNS 1.12.2 and later serve the zone, with the option multicluster of the kubernetes plugin. An earlier one does not start with it, so --fix \
refuses unless the tag of the image shows a version that has it, or you say so. --fix grants CoreDNS to list and watch ServiceImports, with \
ClusterRole and ClusterRoleBinding coredns-serviceimports. Then it appends a server block for the zone to the Corefile, if that is one key of one \
ConfigMap without imports, of the only CoreDNS, which nobody else keeps. Otherwise it prints the block and where it belongs, such as ConfigMap \
coredns-custom of k3s and AKS, and exits with 1. It changes neither what the Corefile has nor the image, and restarts nothing.

Reads Deployments, ConfigMaps and pods in kube-system of the member and reviews the rights of CoreDNS there; on the hub it lists Clusters, to know the \
member again. What you may not read is Unknown.

Exit code: 0 no problem is known; 1 a check is Unhealthy, or --fix left a change to you or refused; 2 wrong usage; 3 the hub or the member cannot be reached, or a check is Unknown.";

#[derive(Args, Debug)]
#[command(mut_arg("format", |format| format.conflicts_with("fix")))]
pub(crate) struct DnsArgs {
    /// Name of the member
    #[arg(value_name = "MEMBER")]
    pub name: String,
    /// Grant the missing rights of CoreDNS, and add the server block of the zone or show its place
    #[arg(long)]
    pub fix: bool,
    /// Only show what --fix would change; the member validates the requests and stores nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// What the image of CoreDNS has, where its tag does not show it
    #[arg(long, value_name = "option|plugin")]
    pub image_has: Option<Multicluster>,
    #[command(flatten)]
    pub member: RequiredMemberArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How CoreDNS serves names of a clusterset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Multicluster {
    /// Option multicluster of the kubernetes plugin, in CoreDNS 1.12.2 and later
    Option,
    /// The plugin coredns/multicluster, in images that are built with it
    Plugin,
}
