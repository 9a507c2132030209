//! Flags of `causeway-webhook`, and its configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use causeway::process::args::{AdminArgs, Checks, ConfigErrors, KubeArgs, LogArgs, ProtectionArgs};
use causeway::process::certificate::{Certificate, Files};
use causeway::process::kube_client::HubAccess;
use causeway::process::logging::LogConfig;
use causeway::process::traces::{TraceArgs, TraceConfig};
use clap::Parser;

use crate::callers::{CallerArgs, Callers};
use crate::certificates::{CertificateArgs, SelfManaged};
use crate::decide::{Policy, Strictness};
use crate::limits::{LimitArgs, Limits};

const STRICTNESS: &[(&str, Strictness)] = &[("deny", Strictness::Deny), ("warn", Strictness::Warn)];

/// Validates and defaults the MultiClusterServices of a hub
#[derive(Debug, Parser)]
#[command(name = "causeway-webhook", version, about, long_about = None)]
pub struct Args {
    #[command(flatten)]
    kube: KubeArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    callers: CallerArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    protection: ProtectionArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
struct ServingArgs {
    /// Address of the HTTPS server, with the paths /mutate and /validate
    #[arg(
        long,
        env = "CAUSEWAY_BIND",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:9443"
    )]
    bind: String,
    /// Directory of the serving certificate: tls.crt and tls.key, PEM. Changed files are loaded
    /// within seconds
    #[arg(long, env = "CAUSEWAY_TLS_DIR", value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    #[command(flatten)]
    certificates: CertificateArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
struct RuleArgs {
    /// Treatment of a MultiClusterService whose Service, or a port of it, does not exist. With
    /// warn, objects can be created in any order
    #[arg(
        long,
        env = "CAUSEWAY_MISSING_SERVICE",
        value_name = "deny|warn",
        default_value = "deny"
    )]
    missing_service: String,
    /// Treatment of a cluster name without a Cluster
    #[arg(
        long,
        env = "CAUSEWAY_UNKNOWN_CLUSTER",
        value_name = "warn|deny",
        default_value = "warn"
    )]
    unknown_cluster: String,
}

/// Configuration of `causeway-webhook`.
#[derive(Debug)]
pub struct Config {
    /// Address of the hub and credentials for it.
    pub hub: HubAccess,
    /// Address of the webhook.
    pub bind: SocketAddr,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Destination of traces.
    pub traces: TraceConfig,
    /// Source of the serving certificate.
    pub certificate: CertificateSource,
    /// Permitted callers; `None` permits anybody.
    pub callers: Option<Arc<Callers>>,
    /// Limits of connections, requests and bodies.
    pub limits: Limits,
    /// Options of the rules.
    pub policy: Policy,
}

/// Source of the serving certificate.
#[derive(Debug)]
pub enum CertificateSource {
    /// A directory whose files something else renews, such as cert-manager.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its files at the start.
        files: Files,
        /// The certificate in these files.
        first: Certificate,
    },
    /// The webhook issues and renews it.
    SelfManaged(SelfManaged),
}

impl CertificateSource {
    /// Returns causeway's own namespace, if the flags name it.
    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Directory { .. } => None,
            Self::SelfManaged(certificates) => Some(&certificates.namespace),
        }
    }
}

impl Args {
    /// Checks the flags, and reads the kubeconfig and the certificate.
    ///
    /// # Errors
    /// All invalid flags at once.
    pub fn check(self) -> Result<(LogConfig, Config), ConfigErrors> {
        let mut checks = Checks::default();
        let log = self.log.check(&mut checks);
        let hub = self.kube.check(&mut checks);
        let bind = checks.parse("--bind", &self.serving.bind);
        let admin = self.admin.check(&mut checks);
        let traces = self.traces.check(&mut checks);
        let certificate = self.serving.check_certificate(&mut checks);
        let own = certificate.as_ref().and_then(CertificateSource::namespace);
        let callers = self.callers.check(&mut checks);
        let limits = self.limits.check(&mut checks);
        let policy = self.rules.check(&self.protection, own, &mut checks);
        checks.finish(|| {
            let config = Config {
                hub: hub?,
                bind: bind?,
                admin: admin?,
                traces: traces?,
                certificate: certificate?,
                callers: callers?,
                limits: limits?,
                policy: policy?,
            };
            Some((log?, config))
        })
    }
}

impl ServingArgs {
    fn check_certificate(&self, checks: &mut Checks) -> Option<CertificateSource> {
        if let Some(secret) = &self.certificates.self_managed_certs {
            let certificates = self.certificates.check(secret, checks)?;
            return Some(CertificateSource::SelfManaged(certificates));
        }
        let Some(path) = &self.tls_dir else {
            checks.wrong(
                "--self-managed-certs or --tls-dir",
                "is missing",
                "name the Secret in which the webhook is to keep its certificates, NAMESPACE/NAME, \
                 or the directory that holds tls.crt and tls.key",
            );
            return None;
        };
        let read = Files::read(path).and_then(|files| Ok((files.parse()?, files)));
        match read {
            Ok((first, files)) => Some(CertificateSource::Directory {
                path: path.clone(),
                files,
                first,
            }),
            Err(error) => {
                checks.wrong("--tls-dir", path.display(), error);
                None
            }
        }
    }
}

impl RuleArgs {
    fn check(
        &self,
        protection: &ProtectionArgs,
        own_namespace: Option<&str>,
        checks: &mut Checks,
    ) -> Option<Policy> {
        let missing_service = checks.choose("--missing-service", &self.missing_service, STRICTNESS);
        let unknown_cluster = checks.choose("--unknown-cluster", &self.unknown_cluster, STRICTNESS);
        let protection = protection.check_beside(own_namespace, checks);
        Some(Policy {
            missing_service: missing_service?,
            unknown_cluster: unknown_cluster?,
            protection: protection?,
        })
    }
}
