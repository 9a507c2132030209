//! Arguments that select the parts of an installation and its images.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use http::Uri;

use crate::cluster::tunnel::address::TunnelAddress;

/// Parts of an installation.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Parts")]
pub(crate) struct PartArgs {
    /// Apply only the CRDs of MultiClusterService and Cluster
    #[arg(long)]
    pub crds_only: bool,
    /// Apply everything but the CRDs
    #[arg(long, conflicts_with = "crds_only")]
    pub skip_crds: bool,
    /// Webhook and controller run outside the hub, as on a hub without nodes: create long-lived
    /// tokens, and no Deployments
    #[arg(long, conflicts_with = "crds_only")]
    pub external: bool,
    /// URL at which the hub reaches that webhook [default: it is not registered]
    #[arg(long, value_name = "URL", requires = "external", value_parser = https)]
    pub webhook_url: Option<String>,
    /// CA of that webhook's certificate, in PEM [default: the webhook publishes its own]
    #[arg(long, value_name = "FILE", requires = "webhook_url")]
    pub webhook_ca: Option<PathBuf>,
    /// Let cert-manager manage the certificate of the webhook
    #[arg(long, conflicts_with_all = ["crds_only", "external"])]
    pub cert_manager: bool,
    /// The hub is a Karmada control plane: grant the controller the members' Secrets in namespace
    /// karmada-cluster
    #[arg(long, conflicts_with = "crds_only")]
    pub karmada: bool,
    /// How the webhook handles a MultiClusterService whose Service or port does not exist: deny
    /// rejects it; warn accepts it with a warning and exposes nothing until the Service exists, so
    /// that objects may be applied in any order [default: deny]
    #[arg(long, value_name = "deny|warn", conflicts_with_all = ["crds_only", "external"])]
    pub missing_service: Option<MissingService>,
    /// Run causeway-tunnel for members that the hub cannot dial, whose agents reach it at this
    /// address; the first time, create its CA [default port: 443]
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "crds_only")]
    pub tunnel: Option<TunnelAddress>,
    /// Create or renew only the two Secrets of --tunnel, as on a hub where Helm installs causeway
    #[arg(
        long,
        requires = "tunnel",
        conflicts_with_all = ["external", "cert_manager", "karmada", "missing_service"]
    )]
    pub secrets_only: bool,
    /// Let agents that reach nothing but the hub's API server come by its Service proxy, and create
    /// the account for that [default: as it is]
    #[arg(long, requires = "tunnel", conflicts_with_all = ["crds_only", "external", "karmada"])]
    pub through_api_server: bool,
    /// Let causeway-tunnel give agents their certificates, for members that join by a file (join -o
    /// yaml); the first time, create the authority for that [default: as it is]
    #[arg(long, requires = "tunnel")]
    pub enrolment: bool,
}

/// Treatment of a MultiClusterService whose Service does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingService {
    Deny,
    Warn,
}

/// Source of the images.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Images")]
pub(crate) struct ImageArgs {
    /// Registry and path of causeway's images, such as registry.example/team [default: the one that
    /// is deployed, else causeway]
    #[arg(long, value_name = "REGISTRY", value_parser = registry)]
    pub registry: Option<String>,
    /// Tag of the images [default: the version of this program]
    #[arg(long, value_name = "TAG", value_parser = tag)]
    pub image_tag: Option<String>,
}

/// Whether a text is a URL with `https://` and a host.
pub(crate) fn is_https(text: &str) -> bool {
    let has_host = |url: Uri| url.scheme_str() == Some("https") && url.host().is_some();
    text.parse().is_ok_and(has_host)
}

fn https(text: &str) -> Result<String, &'static str> {
    if !is_https(text) || text.contains(['?', '#']) {
        return Err("write it as https://webhook.example:9443");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn registry(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/[]".contains(c);
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty()
        || !trimmed.chars().all(is_plain)
        || trimmed.starts_with('/')
        || trimmed.contains("//")
    {
        return Err("write it as registry.example/team, without https://");
    }
    Ok(trimmed.to_owned())
}

fn tag(text: &str) -> Result<String, &'static str> {
    const LONGEST: usize = 128;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty()
        || text.len() > LONGEST
        || text.starts_with(['.', '-'])
        || !text.chars().all(is_plain)
    {
        return Err("a tag is of letters, digits, dots, dashes and underscores");
    }
    Ok(text.to_owned())
}
