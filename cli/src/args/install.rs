//! The arguments of `install` and `uninstall`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::{OptionalValue as _, duration};
use super::{DefaultWaitArgs, MembersArgs};
use crate::cluster::bundle::parts::{ImageArgs, PartArgs};

pub(crate) const INSTALL_EXAMPLES: &str = "Examples:
  # Install causeway, or upgrade it to the version of this program
  kubectl mcs install --registry registry.example/team

  # Show what an upgrade would change, as a diff
  kubectl mcs install --dry-run=server

  # Write the manifests to a file
  kubectl mcs install --registry registry.example/team --dry-run=client > causeway.yaml

  # Run causeway-tunnel too, for members that the hub cannot dial; their agents reach it at this name
  kubectl mcs install --tunnel tunnel.example

  # Make the Secrets of the tunnel alone, where Helm installs causeway
  kubectl mcs install --secrets-only --tunnel tunnel.example

  # Prepare a hub without nodes for a webhook and a controller that run elsewhere
  kubectl mcs install --external --webhook-url https://webhook.example:9443

  # Prepare a Karmada control plane
  kubectl mcs install --karmada --external

Applies the manifests that are built into this program, server-side: first the CRDs of MultiClusterService and Cluster, then the rest. CRDs that \
causeway does not manage, such as Karmada's, stay as they are. Flags are not remembered: give them again when you upgrade, except for \
the registry and, with --tunnel, --enrolment and --through-api-server. \
Fields that somebody else changed are conflicts: they are listed, and nothing is applied without --force-conflicts. To go back to an older version, \
use its program with --skip-crds.

Exit code: 0 installed, and ready unless --wait=false; 1 not ready, or failed; 2 wrong usage; 3 the hub cannot be reached.";

pub(crate) const UNINSTALL_EXAMPLES: &str = "Examples:
  # Show what would be removed
  kubectl mcs uninstall --dry-run=client

  # Let the controller clean up the members, then remove causeway from the hub, without confirmation
  kubectl mcs uninstall --cascade --yes

  # Remove causeway and leave the services working as they are now, without updates
  kubectl mcs uninstall --keep-services

  # Also delete the CRDs, and with them every MultiClusterService and Cluster
  kubectl mcs uninstall --cascade --crds

Only the running controller cleans up the members. So the command refuses while there are MultiClusterServices that causeway serves, or Clusters \
that were joined with kubectl mcs join; --cascade deletes them and waits until the controller is done. Services that Karmada manages are never deleted; \
kubectl mcs hand-over removes what causeway has of them. --keep-services leaves all services, and the Clusters with their credentials, as they are; a \
later kubectl mcs install manages them again. The webhook configurations are removed first, so that nothing waits for a missing webhook. CRDs that causeway \
does not manage stay, and so do the namespaces.

Exit code: 0 removed; 1 refused, or not complete in time; 2 wrong usage; 3 the hub cannot be reached.";

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| wait.help(
    "Wait until the webhook and the controller are ready, and the API server calls the webhook"
)))]
pub(crate) struct InstallArgs {
    /// client prints the manifests as YAML and contacts no server; server lets the hub validate
    /// them and stores nothing
    #[arg(long, value_name = "WHERE", optional_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Take over fields that another field manager changed, such as replicas or arguments
    #[arg(long)]
    pub force_conflicts: bool,
    #[command(flatten)]
    pub waiting: DefaultWaitArgs,
    #[command(flatten)]
    pub parts: PartArgs,
    #[command(flatten)]
    pub images: ImageArgs,
}

#[derive(Args, Debug)]
pub(crate) struct UninstallArgs {
    /// First delete the MultiClusterServices and the joined Clusters, and wait until the controller
    /// has cleaned up the members
    #[arg(long)]
    pub cascade: bool,
    /// Leave services working as they are now, without updates: only causeway's finalizers are
    /// removed
    #[arg(long, conflicts_with_all = ["cascade", "crds"])]
    pub keep_services: bool,
    /// Also delete the CRDs, and with them every MultiClusterService and Cluster
    #[arg(long)]
    pub crds: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Only show what would be removed
    #[arg(long, value_name = "WHERE", optional_value = "client")]
    pub dry_run: Option<ClientDryRun>,
    /// How long to wait for the controller, and for the deletion of the CRDs
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub members: MembersArgs,
}

/// Who validates what is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    Client,
    Server,
}

/// Only this program can say what would be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientDryRun {
    Client,
}
