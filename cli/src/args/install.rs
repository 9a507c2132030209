//! What `install` and `uninstall` may be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{DefaultWaitArgs, Malformed, duration};

pub(crate) const INSTALL_EXAMPLES: &str = "Examples:
  # Install causeway, or upgrade it to the version of this program, and wait until it is ready
  kubectl mcs install --registry registry.example/team

  # See what an upgrade would change
  kubectl mcs install --dry-run=server

  # Keep what is applied in git
  kubectl mcs install --registry registry.example/team --dry-run=client > causeway.yaml

  # A hub without nodes: the accounts, and the address of a webhook that runs elsewhere
  kubectl mcs install --external --webhook-url https://webhook.example:9443

  # A Karmada control plane
  kubectl mcs install --karmada --external

It applies the manifests of this version, built into this program, server-side: first the definitions of MultiClusterService and Cluster, then \
the rest. Definitions of somebody else's, such as Karmada's, are left as they are. Nothing is written that is there already. Flags are not \
remembered, but for the registry: give them again at the next time.

Exit code: 0 it is installed, and ready unless --wait=false; 1 it is not; 2 wrong usage; 3 the hub could not be asked.";

pub(crate) const UNINSTALL_EXAMPLES: &str = "Examples:
  # See what would go
  kubectl mcs uninstall --dry-run=client

  # Have the controller clean the members first, then remove causeway from the hub, without asking
  kubectl mcs uninstall --cascade --yes

  # Remove causeway and leave the services working as they are, with nobody who keeps them up
  kubectl mcs uninstall --keep-services

  # The definitions too, and with them every MultiClusterService and Cluster
  kubectl mcs uninstall --cascade --crds

What causeway wrote into the members goes while the controller runs. So this refuses while there are MultiClusterServices that causeway serves, \
or Clusters that were joined with kubectl mcs join; --cascade deletes them and waits until the controller is done. What Karmada carries is never \
deleted; what causeway has there too goes with kubectl mcs hand-over. --keep-services leaves all services, and the Clusters with their credentials, as they are; a \
later kubectl mcs install takes them up again. The webhook configurations go \
first, so that nothing waits for a webhook that is gone. Definitions that are not causeway's stay in any case, and so does the namespace.

Exit code: 0 nothing is left but what was to stay; 1 it was refused, or not done in time; 2 wrong usage; 3 the hub could not be asked.";

#[derive(Args, Debug)]
#[command(mut_arg("wait", |wait| wait.help("Wait until the webhook and the controller are ready")))]
pub(crate) struct InstallArgs {
    /// Only show it: client prints what would be applied as YAML and asks nobody, server has the hub check it and carries nothing out
    #[arg(
        long,
        value_name = "WHERE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "client",
        env = "CAUSEWAY_DRY_RUN",
        hide_env = true
    )]
    pub dry_run: Option<DryRun>,
    #[command(flatten)]
    pub waiting: DefaultWaitArgs,
    #[command(flatten)]
    pub parts: PartArgs,
    #[command(flatten)]
    pub images: ImageArgs,
}

/// What is installed.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Parts")]
pub(crate) struct PartArgs {
    /// Only the definitions of MultiClusterService and Cluster
    #[arg(long, env = "CAUSEWAY_CRDS_ONLY", hide_env = true)]
    pub crds_only: bool,
    /// All but the definitions
    #[arg(
        long,
        conflicts_with = "crds_only",
        env = "CAUSEWAY_SKIP_CRDS",
        hide_env = true
    )]
    pub skip_crds: bool,
    /// The webhook and the controller run elsewhere, as on a hub without nodes: lasting tokens of their accounts, and no Deployments
    #[arg(
        long,
        conflicts_with = "crds_only",
        env = "CAUSEWAY_EXTERNAL",
        hide_env = true
    )]
    pub external: bool,
    /// Where the hub reaches that webhook [default: it is not registered]
    #[arg(long, value_name = "URL", requires = "external", value_parser = https, env = "CAUSEWAY_WEBHOOK_URL", hide_env = true)]
    pub webhook_url: Option<String>,
    /// The authority of that webhook's certificate, in PEM [default: the webhook publishes it by itself]
    #[arg(
        long,
        value_name = "FILE",
        requires = "webhook_url",
        env = "CAUSEWAY_WEBHOOK_CA",
        hide_env = true
    )]
    pub webhook_ca: Option<PathBuf>,
    /// cert-manager keeps the certificate of the webhook
    #[arg(long, conflicts_with_all = ["crds_only", "external"], env = "CAUSEWAY_CERT_MANAGER", hide_env = true)]
    pub cert_manager: bool,
    /// The hub is a Karmada control plane: let the controller read the members' credentials in namespace karmada-cluster
    #[arg(
        long,
        conflicts_with = "crds_only",
        env = "CAUSEWAY_KARMADA",
        hide_env = true
    )]
    pub karmada: bool,
    /// What the webhook does with a MultiClusterService whose Service, or a port of it, does not exist: deny refuses it; warn accepts
    /// it with a warning, and nothing is exposed until the Service is there, so objects may come in any order (a backup that is
    /// restored, a directory that is applied) [default: deny]
    #[arg(long, value_name = "deny|warn", conflicts_with_all = ["crds_only", "external"], env = "CAUSEWAY_MISSING_SERVICE", hide_env = true)]
    pub missing_service: Option<MissingService>,
}

/// What becomes of a MultiClusterService whose Service does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingService {
    Deny,
    Warn,
}

/// Where the images come from.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Images")]
pub(crate) struct ImageArgs {
    /// Registry and path of causeway-webhook and causeway-controller, such as registry.example/team [default: the one that is deployed, else causeway]
    #[arg(long, value_name = "REGISTRY", value_parser = registry, env = "CAUSEWAY_REGISTRY", hide_env = true)]
    pub registry: Option<String>,
    /// Their tag [default: the version of this program]
    #[arg(long, value_name = "TAG", value_parser = tag, env = "CAUSEWAY_IMAGE_TAG", hide_env = true)]
    pub image_tag: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct UninstallArgs {
    /// First delete the MultiClusterServices that causeway serves and the Clusters that were joined, and wait until the controller has cleaned the members
    #[arg(long, env = "CAUSEWAY_CASCADE", hide_env = true)]
    pub cascade: bool,
    /// Leave the MultiClusterServices and what causeway wrote into the members as they are, working, though nobody keeps them up: causeway's finalizers go off, so that nothing hangs
    #[arg(long, conflicts_with_all = ["cascade", "crds"], env = "CAUSEWAY_KEEP_SERVICES", hide_env = true)]
    pub keep_services: bool,
    /// Delete the definitions too, and with them every MultiClusterService and Cluster
    #[arg(long, env = "CAUSEWAY_CRDS", hide_env = true)]
    pub crds: bool,
    /// Do not ask
    #[arg(short, long, env = "CAUSEWAY_YES", hide_env = true)]
    pub yes: bool,
    /// Only say what would be removed; client is the only place
    #[arg(
        long,
        value_name = "WHERE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "client",
        env = "CAUSEWAY_DRY_RUN",
        hide_env = true
    )]
    pub dry_run: Option<ClientDryRun>,
    /// How long to wait for the controller, and for the definitions to go
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, env = "CAUSEWAY_TIMEOUT", hide_env = true)]
    pub timeout: Duration,
}

/// Who looks at what is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    Client,
    Server,
}

/// Nobody but this program can look at what is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientDryRun {
    Client,
}

fn https(text: &str) -> Result<String, Malformed> {
    let config = kube::Config::new(text.parse().map_err(|_| Malformed::Url)?);
    let url = &config.cluster_url;
    if url.scheme_str() != Some("https") || url.host().is_none() || text.contains(['?', '#']) {
        return Err(Malformed::Url);
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn registry(text: &str) -> Result<String, Malformed> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/[]".contains(c);
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty()
        || !trimmed.chars().all(is_plain)
        || trimmed.starts_with('/')
        || trimmed.contains("//")
    {
        return Err(Malformed::Registry);
    }
    Ok(trimmed.to_owned())
}

fn tag(text: &str) -> Result<String, Malformed> {
    const LONGEST: usize = 128;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty()
        || text.len() > LONGEST
        || text.starts_with(['.', '-'])
        || !text.chars().all(is_plain)
    {
        return Err(Malformed::Tag);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use clap::error::ErrorKind;

    use super::*;
    use crate::args::{Command, CommandLine};

    fn install(line: &str) -> Result<InstallArgs, clap::Error> {
        let words = "kubectl-mcs install"
            .split(' ')
            .chain(line.split_whitespace());
        match CommandLine::try_parse_from(words)?.command {
            Command::Install(args) => Ok(*args),
            other => panic!("not install: {other:?}"),
        }
    }

    #[test]
    fn install_waits_five_minutes_unless_told_otherwise() {
        let plain = install("").expect("a command");
        assert!(plain.waiting.wait && plain.dry_run.is_none());
        assert_eq!(plain.waiting.timeout, Duration::from_secs(300));
        for (line, wait) in [
            ("--wait=false", false),
            ("--wait", true),
            ("--wait=true", true),
        ] {
            assert_eq!(install(line).expect(line).waiting.wait, wait, "{line}");
        }
    }

    #[test]
    fn a_dry_run_is_the_clients_unless_the_server_is_asked_for() {
        for (line, place) in [
            ("--dry-run", DryRun::Client),
            ("--dry-run=client", DryRun::Client),
            ("--dry-run=server", DryRun::Server),
        ] {
            assert_eq!(install(line).expect(line).dry_run, Some(place), "{line}");
        }
    }

    #[test]
    fn what_makes_no_sense_together_or_by_itself_is_refused() {
        for (line, kind) in [
            ("--crds-only --skip-crds", ErrorKind::ArgumentConflict),
            ("--crds-only --external", ErrorKind::ArgumentConflict),
            ("--cert-manager --external", ErrorKind::ArgumentConflict),
            (
                "--missing-service=warn --external",
                ErrorKind::ArgumentConflict,
            ),
            ("--missing-service=maybe", ErrorKind::InvalidValue),
            (
                "--webhook-url https://a:1",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "--external --webhook-ca f",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "--external --webhook-url http://a",
                ErrorKind::ValueValidation,
            ),
            ("--external --webhook-url a:1", ErrorKind::ValueValidation),
            ("--registry https://a", ErrorKind::ValueValidation),
            ("--registry /", ErrorKind::ValueValidation),
            ("--image-tag a:b", ErrorKind::ValueValidation),
            ("--dry-run=none", ErrorKind::InvalidValue),
            ("--wait=soon", ErrorKind::InvalidValue),
        ] {
            let error = install(line).expect_err(line);
            assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line}");
        }
        for line in ["--keep-services --cascade", "--keep-services --crds"] {
            let words = "kubectl-mcs uninstall".split(' ').chain(line.split(' '));
            let error = CommandLine::try_parse_from(words).expect_err(line);
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{line}");
        }
        let words = "kubectl-mcs uninstall --dry-run=server".split(' ');
        let error = CommandLine::try_parse_from(words).expect_err("only the client's");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }

    #[test]
    fn a_registry_and_a_url_are_kept_without_their_last_slash() {
        let line = "--registry localhost:5000/team/ --external --webhook-url https://[::1]:9443/";
        let args = install(line).expect(line);
        assert_eq!(args.images.registry.as_deref(), Some("localhost:5000/team"));
        assert_eq!(
            args.parts.webhook_url.as_deref(),
            Some("https://[::1]:9443")
        );
    }
}
