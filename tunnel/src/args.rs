//! Flags of both programs, and their configurations.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use causeway::process::args::{AdminArgs, Checks, ConfigErrors, LogArgs, kube_access};
use causeway::process::kube_client::HubAccess;
use causeway::process::logging::LogConfig;
use causeway::process::supervise::with_causes;
use clap::Parser;
use hyper_util::client::proxy::matcher::Matcher;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::{ClientConfig, ServerConfig};

use crate::agent::{ApiServer, Peers, Route};
use crate::credentials::{Credentials, Side};
use crate::hello::{Hello, PROTOCOL};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::passwords::PasswordFile;
use crate::serving::Serving;
use crate::tokens::{Account, Issuer};
use crate::tunnel::{AuthenticatedFront, Signer};
use crate::verifier::Enrolled;

const API_HOST: &str = "KUBERNETES_SERVICE_HOST";
const API_PORT: &str = "KUBERNETES_SERVICE_PORT";
const MIB: usize = 1024 * 1024;
const PROVIDER_TTL_MIN: Duration = Duration::from_secs(5 * 60);

/// Gives clients on the hub connections to the API servers of members that cannot be dialled
#[derive(Debug, Parser)]
#[command(name = "causeway-tunnel", version, max_term_width = 100)]
pub struct TunnelArgs {
    #[command(flatten)]
    serving: TunnelServingArgs,
    #[command(flatten)]
    front: AuthFrontArgs,
    #[command(flatten)]
    enrolment: TunnelEnrolmentArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Enrolment")]
struct TunnelEnrolmentArgs {
    /// Directory of the authority by which agents get certificates of seven days: ca.crt and
    /// ca.key, PEM, read at the start. By default agents get none. The hub is that of --kubeconfig
    #[arg(long, env = "CAUSEWAY_ENROLMENT_DIR", value_name = "DIR")]
    enrolment_dir: Option<PathBuf>,
    /// Kubeconfig of the hub, with its current context, for --enrolment-dir. Not needed in a pod of
    /// the hub
    #[arg(
        long,
        env = "CAUSEWAY_KUBECONFIG",
        value_name = "FILE",
        requires = "enrolment_dir"
    )]
    kubeconfig: Option<PathBuf>,
}

impl TunnelEnrolmentArgs {
    /// Checks the flags, and reads the authority, if agents are to enrol.
    fn check(&self, checks: &mut Checks) -> Option<(Signer, HubAccess)> {
        let directory = self.enrolment_dir.as_deref()?;
        let access = kube_access(self.kubeconfig.as_deref(), checks);
        let signer = Signer::read(directory).map_err(|error| {
            checks.wrong("--enrolment-dir", directory.display(), with_causes(&error));
        });
        Some((signer.ok()?, access?))
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
struct TunnelServingArgs {
    /// Address for agents
    #[arg(
        long,
        env = "CAUSEWAY_AGENTS_BIND",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:7443"
    )]
    agents_bind: String,
    /// Address for agents that come through the hub's API server, by its Service proxy; by default
    /// there is none
    #[arg(
        long,
        env = "CAUSEWAY_AGENTS_UPGRADE_BIND",
        value_name = "ADDRESS:PORT"
    )]
    agents_upgrade_bind: Option<String>,
    /// Address for clients on the hub, which send CONNECT without TLS and credentials
    #[arg(
        long,
        env = "CAUSEWAY_FRONT_BIND",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:7080"
    )]
    front_bind: String,
    /// Directory of the certificate for agents, its key and the authorities of agents: tls.crt,
    /// tls.key and ca.crt, PEM. Changed files are loaded within seconds
    #[arg(long, env = "CAUSEWAY_TLS_DIR", value_name = "DIR")]
    tls_dir: PathBuf,
    /// Number of replicas, to each of which an agent connects
    #[arg(
        long,
        env = "CAUSEWAY_REPLICAS",
        value_name = "NUMBER",
        default_value = "1"
    )]
    replicas: String,
    /// Maximum size of all bytes in memory that receivers do not take, in MiB, without the first
    /// 64 KiB of each stream
    #[arg(
        long,
        env = "CAUSEWAY_MAX_HELD_MIB",
        value_name = "MIB",
        default_value = "128"
    )]
    max_held_mib: String,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Authenticated front")]
struct AuthFrontArgs {
    /// Address for clients that give a password, such as Karmada's aggregated API server; by
    /// default there is none
    #[arg(
        long,
        env = "CAUSEWAY_AUTH_FRONT_BIND",
        value_name = "ADDRESS:PORT",
        requires = "auth_front_passwords"
    )]
    auth_front_bind: Option<String>,
    /// File of the passwords: one a line, as MEMBER[,MEMBER...] sha256:HEX, or * for all members. A
    /// changed file is loaded within seconds, and ends streams of passwords that are gone
    #[arg(
        long,
        env = "CAUSEWAY_AUTH_FRONT_PASSWORDS",
        value_name = "FILE",
        requires = "auth_front_bind"
    )]
    auth_front_passwords: Option<PathBuf>,
    /// Directory of the certificate for these clients: tls.crt and tls.key, PEM; by default
    /// --tls-dir. Changed files are loaded within seconds
    #[arg(
        long,
        env = "CAUSEWAY_AUTH_FRONT_TLS_DIR",
        value_name = "DIR",
        requires = "auth_front_bind",
        conflicts_with = "auth_front_without_tls"
    )]
    auth_front_tls_dir: Option<PathBuf>,
    /// Serve these clients without TLS: whoever sees their packets learns the passwords
    #[arg(
        long,
        env = "CAUSEWAY_AUTH_FRONT_WITHOUT_TLS",
        requires = "auth_front_bind"
    )]
    auth_front_without_tls: bool,
}

impl AuthFrontArgs {
    /// Checks the flags, and reads the files, if there is to be such a front.
    fn check(
        self,
        tls_dir: &Path,
        metrics: &Metrics,
        checks: &mut Checks,
    ) -> Option<(SocketAddr, AuthenticatedFront)> {
        let address = checks.parse("--auth-front-bind", &self.auth_front_bind?);
        let path = self.auth_front_passwords?;
        let passwords = PasswordFile::read(&path).map_err(|error| {
            let why = with_causes(&error);
            checks.wrong("--auth-front-passwords", path.display(), why);
        });
        let certificate = (!self.auth_front_without_tls).then(|| {
            let directory = self.auth_front_tls_dir.as_deref().unwrap_or(tls_dir);
            Serving::read(directory, metrics).map_err(|error| {
                let why = with_causes(&error);
                checks.wrong("--auth-front-tls-dir", directory.display(), why);
            })
        });
        let front = AuthenticatedFront {
            passwords: passwords.ok()?,
            certificate: certificate.transpose().ok()?,
        };
        Some((address?, front))
    }
}

/// Configuration of causeway-tunnel.
pub struct TunnelConfig {
    /// Address for agents.
    pub agents: SocketAddr,
    /// Address for agents that come through the hub's API server, if there is one.
    pub upgraded_agents: Option<SocketAddr>,
    /// Address for clients.
    pub front: SocketAddr,
    /// Address and configuration of the authenticated front, if there is one.
    pub authenticated: Option<(SocketAddr, AuthenticatedFront)>,
    /// Authority of enrolled agents, and access to the hub, if agents may enrol.
    pub enrolment: Option<(Signer, HubAccess)>,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Introduction to agents.
    pub hello: Hello,
    /// Certificate and authorities.
    pub credentials: Arc<Credentials<ServerConfig>>,
    /// Limits.
    pub limits: Limits,
    /// Metrics.
    pub metrics: Metrics,
}

impl TunnelArgs {
    /// Checks the flags, and reads the certificate.
    ///
    /// # Errors
    /// All invalid flags at once.
    pub fn check(self) -> Result<(LogConfig, TunnelConfig), ConfigErrors> {
        let mut checks = Checks::default();
        let metrics = Metrics::default();
        let serving = &self.serving;
        let log = self.log.check(&mut checks);
        let admin = self.admin.check(&mut checks);
        let agents = checks.parse("--agents-bind", &serving.agents_bind);
        let upgraded = serving.agents_upgrade_bind.as_deref();
        let upgraded = upgraded.map(|bind| checks.parse("--agents-upgrade-bind", bind));
        let front = checks.parse("--front-bind", &serving.front_bind);
        let enrolment = self.enrolment.check(&mut checks);
        let life = Limits::default().certificate;
        let enrolled = enrolment.as_ref().map(|(signer, _)| signer.enrolled(life));
        let credentials = credentials(&serving.tls_dir, enrolled, &metrics, &mut checks);
        let authenticated = self.front.check(&serving.tls_dir, &metrics, &mut checks);
        let mut between = |flag, value, most: u32| {
            let rule = format_args!("must be between 1 and {most}");
            checks.parse_where(flag, value, |number| (1..=most).contains(number), rule)
        };
        let replicas = between("--replicas", &serving.replicas, 8);
        let held = between("--max-held-mib", &serving.max_held_mib, 65_536);
        checks.finish(|| {
            let config = TunnelConfig {
                agents: agents?,
                upgraded_agents: match upgraded {
                    Some(address) => Some(address?),
                    None => None,
                },
                front: front?,
                authenticated,
                enrolment,
                admin: admin?,
                hello: Hello {
                    server: own_name(),
                    replicas: replicas?,
                    protocol: PROTOCOL,
                },
                credentials: credentials?,
                limits: Limits {
                    held: usize::try_from(held?).ok()?.saturating_mul(MIB),
                    ..Limits::default()
                },
                metrics,
            };
            Some((log?, config))
        })
    }
}

fn credentials<S: Side>(
    directory: &Path,
    enrolled: Option<Enrolled>,
    metrics: &Metrics,
    checks: &mut Checks,
) -> Option<Arc<Credentials<S>>> {
    let read = Credentials::read_trusting(directory, enrolled, metrics);
    let read = read.map_err(|error| {
        checks.wrong("--tls-dir", directory.display(), with_causes(&error));
    });
    read.ok()
}

/// Returns a name that differs from that of every other process, also of an earlier one in the same
/// pod.
pub fn own_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let host: String = host
        .chars()
        .filter(char::is_ascii_graphic)
        .take(64)
        .collect();
    let mut random = [0; 8];
    let random = match SystemRandom::new().fill(&mut random) {
        Ok(()) => u64::from_ne_bytes(random),
        Err(_) => u64::from(std::process::id()),
    };
    format!("{host}/{random:016x}")
}

/// Connects a member that cannot be dialled to causeway-tunnel on the hub, and reports whether
/// endpoints of other clusters answer in the member
#[derive(Debug, Parser)]
#[command(name = "causeway-agent", version, max_term_width = 100)]
pub struct AgentArgs {
    #[command(flatten)]
    tunnel: AgentTunnelArgs,
    #[command(flatten)]
    paths: AgentPathArgs,
    #[command(flatten)]
    member: AgentMemberArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tunnel")]
struct AgentTunnelArgs {
    /// Address of causeway-tunnel. A proxy that HTTPS_PROXY names is used, unless NO_PROXY excludes
    /// the host
    #[arg(long, env = "CAUSEWAY_TUNNEL", value_name = "HOST:PORT")]
    tunnel: Option<String>,
    /// Kubeconfig of the hub, by whose API server causeway-tunnel is reached where no address of it
    /// is. It is read for each connection; HTTPS_PROXY is used as for --tunnel
    #[arg(
        long,
        env = "CAUSEWAY_THROUGH_API_SERVER",
        value_name = "KUBECONFIG",
        conflicts_with = "tunnel"
    )]
    through_api_server: Option<PathBuf>,
    /// Directory of the agent's certificate, its key and the authorities of causeway-tunnel:
    /// tls.crt, tls.key and ca.crt, PEM. Changed files are loaded within seconds
    #[arg(long, env = "CAUSEWAY_TLS_DIR", value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Secret of this cluster with a token instead, by which the agent enrols. Its key and
    /// certificate are stored there, and the certificate is renewed at half of its life
    #[arg(
        long,
        env = "CAUSEWAY_ENROL_SECRET",
        value_name = "NAMESPACE/NAME",
        conflicts_with = "tls_dir",
        requires = "tunnel"
    )]
    enrol_secret: Option<String>,
    /// Address of the API server, the only one that the hub reaches; by default that of the pod's
    /// cluster
    #[arg(long, env = "CAUSEWAY_API_SERVER", value_name = "HOST:PORT")]
    api_server: Option<String>,
    /// Service account of this cluster of which the controller on the hub receives tokens of an
    /// hour, past causeway-tunnel. The hub then stores no token. By default it receives none
    #[arg(long, env = "CAUSEWAY_TOKEN_ACCOUNT", value_name = "NAMESPACE/NAME")]
    token_account: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Paths")]
struct AgentPathArgs {
    /// Report whether endpoints of other clusters answer in this one. While no hub takes note of
    /// the reports, endpoints that do not answer become standby endpoints
    #[arg(long, env = "CAUSEWAY_REPORT_PATHS")]
    report_paths: bool,
    /// Time after which copies that the agent made standby are deleted, if their provider still
    /// does not answer and no hub takes note; at least 5m. The last endpoints of a service stay.
    /// Never if not set
    #[arg(
        long,
        env = "CAUSEWAY_PROVIDER_TTL",
        value_name = "DURATION",
        requires = "report_paths"
    )]
    provider_ttl: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Member")]
struct AgentMemberArgs {
    /// Kubeconfig of this cluster, with its current context, also for --token-account. Not needed
    /// in a pod of it
    #[arg(long, env = "CAUSEWAY_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Configuration of causeway-agent.
pub struct AgentConfig {
    /// Connection to causeway-tunnel, if there is one.
    pub tunnel: Option<AgentTunnel>,
    /// Access to the member for reports on paths, if they are made.
    pub paths: Option<HubAccess>,
    /// Time after which copies are deleted that no hub keeps up, if they are.
    pub provider_ttl: Option<Duration>,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Metrics.
    pub metrics: Metrics,
}

/// Configuration of the connection to causeway-tunnel.
pub struct AgentTunnel {
    /// Addresses of causeway-tunnel and the API server.
    pub peers: Peers,
    /// Source of the certificate.
    pub certificate: AgentCertificate,
}

/// Source of an agent's certificate.
pub enum AgentCertificate {
    /// Files.
    Files(Arc<Credentials<ClientConfig>>),
    /// Enrolment by a Secret of the member.
    Enrolment {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        secret: String,
        /// Access to the member.
        access: HubAccess,
    },
}

impl AgentArgs {
    /// Checks the flags, and reads the certificate.
    ///
    /// # Errors
    /// All invalid flags at once.
    pub fn check(self) -> Result<(LogConfig, AgentConfig), ConfigErrors> {
        let mut checks = Checks::default();
        let metrics = Metrics::default();
        let log = self.log.check(&mut checks);
        let admin = self.admin.check(&mut checks);
        let tunnel = &self.tunnel;
        let has_tunnel = tunnel.tunnel.is_some() || tunnel.through_api_server.is_some();
        if !has_tunnel && !self.paths.report_paths {
            let why = "needed, or --through-api-server, or --report-paths";
            checks.wrong("--tunnel", "is missing", why);
        }
        let kubeconfig = self.member.kubeconfig.as_deref();
        let needs_access = self.paths.report_paths
            || self.tunnel.token_account.is_some()
            || self.tunnel.enrol_secret.is_some();
        let access = needs_access.then(|| kube_access(kubeconfig, &mut checks));
        let access = access.flatten();
        let tunnel = self.tunnel.check(access.clone(), &metrics, &mut checks);
        let ttl = self.paths.provider_ttl.as_deref();
        let ttl = ttl.map(|text| provider_ttl(text, &mut checks));
        checks.finish(|| {
            let config = AgentConfig {
                tunnel,
                paths: access.filter(|_| self.paths.report_paths),
                provider_ttl: match ttl {
                    Some(ttl) => Some(ttl?),
                    None => None,
                },
                admin: admin?,
                metrics,
            };
            Some((log?, config))
        })
    }
}

impl AgentTunnelArgs {
    /// Checks the flags of the connection to causeway-tunnel, if there is to be one.
    fn check(
        self,
        access: Option<HubAccess>,
        metrics: &Metrics,
        checks: &mut Checks,
    ) -> Option<AgentTunnel> {
        if self.tunnel.is_none() && self.through_api_server.is_none() {
            return None;
        }
        let route = self.route(checks);
        let certificate = match (&self.tls_dir, &self.enrol_secret) {
            (Some(directory), _) => {
                let read = credentials(directory, None, metrics, checks);
                read.map(AgentCertificate::Files)
            }
            (None, Some(secret)) => enrolment(secret, access.clone(), checks),
            (None, None) => {
                let why = "needed for the tunnel, or --enrol-secret";
                checks.wrong("--tls-dir", "is missing", why);
                None
            }
        };
        let api = self.api_server.or_else(api_of_pod);
        if api.is_none() {
            let why = format_args!("needed outside of a pod ({API_HOST} is not set)");
            checks.wrong("--api-server", "is missing", why);
        }
        let account = self.token_account.as_deref();
        let account = account.map(|text| checks.parse::<Account>("--token-account", text));
        let api = api?;
        let tokens = match account {
            Some(account) => Some(Issuer::new(access?, account?, &api)),
            None => None,
        };
        Some(AgentTunnel {
            peers: Peers {
                route: route?,
                proxies: Matcher::from_env(),
                api,
                tokens,
            },
            certificate: certificate?,
        })
    }

    /// Returns the route to causeway-tunnel that a flag gives.
    fn route(&self, checks: &mut Checks) -> Option<Route> {
        let Some(path) = &self.through_api_server else {
            let address = checks.parse("--tunnel", self.tunnel.as_deref()?);
            return address.map(Route::Dialled);
        };
        let read = ApiServer::new(path.clone());
        let read = read.map_err(|error| {
            checks.wrong("--through-api-server", path.display(), with_causes(&error));
        });
        read.ok().map(Route::ApiServer)
    }
}

/// Reads `--provider-ttl`. A shorter time would take a passing fault for a lasting one.
fn provider_ttl(text: &str, checks: &mut Checks) -> Option<Duration> {
    let flag = "--provider-ttl";
    let ttl = checks.duration(flag, text)?;
    let is_right = ttl >= PROVIDER_TTL_MIN;
    if !is_right {
        checks.wrong(flag, format_args!("{text:?}"), "must be at least 5m");
    }
    is_right.then_some(ttl)
}

fn enrolment(
    text: &str,
    access: Option<HubAccess>,
    checks: &mut Checks,
) -> Option<AgentCertificate> {
    let parts = text.split_once('/');
    let Some((namespace, secret)) =
        parts.filter(|(one, other)| !one.is_empty() && !other.is_empty() && !other.contains('/'))
    else {
        checks.wrong(
            "--enrol-secret",
            format_args!("{text:?}"),
            "it is not NAMESPACE/NAME",
        );
        return None;
    };
    Some(AgentCertificate::Enrolment {
        namespace: namespace.to_owned(),
        secret: secret.to_owned(),
        access: access?,
    })
}

fn api_of_pod() -> Option<String> {
    let host = std::env::var(API_HOST).ok()?;
    let port = std::env::var(API_PORT).ok()?;
    Some(match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_have_environment_variables_of_their_names() {
        for command in [TunnelArgs::command(), AgentArgs::command()] {
            let own = ["help", "version"];
            let flags = command.get_arguments();
            for argument in flags.filter(|flag| !own.contains(&flag.get_id().as_str())) {
                let flag = argument.get_long().expect("a long flag");
                let variable = format!("CAUSEWAY_{}", flag.replace('-', "_").to_uppercase());
                let named = argument.get_env().and_then(|name| name.to_str());
                assert_eq!(named, Some(variable.as_str()), "--{flag}");
                assert!(argument.get_help_heading().is_some(), "--{flag}");
            }
        }
    }

    #[test]
    fn all_wrong_flags_are_reported_at_once() {
        let args = TunnelArgs::try_parse_from([
            "causeway-tunnel",
            "--tls-dir=/no/such/directory",
            "--agents-bind=nowhere",
            "--agents-upgrade-bind=nowhere",
            "--replicas=9",
            "--max-held-mib=0",
            "--auth-front-bind=nowhere",
            "--auth-front-passwords=/no/such/file",
        ]);
        let errors = args.expect("known flags").check().err().expect("errors");
        let text = errors.to_string();
        for flag in [
            "--tls-dir",
            "--agents-bind",
            "--agents-upgrade-bind",
            "--replicas",
            "--max-held-mib",
            "--auth-front-bind",
            "--auth-front-passwords",
            "--auth-front-tls-dir",
        ] {
            assert!(text.contains(flag), "{flag} is not in {text}");
        }
    }

    #[test]
    fn time_to_live_of_a_provider_is_five_minutes_or_more() {
        for (text, expected) in [
            ("5m", Some(300)),
            ("1h", Some(3600)),
            ("4m59s", None),
            ("soon", None),
        ] {
            let mut checks = Checks::default();
            let ttl = provider_ttl(text, &mut checks);
            assert_eq!(ttl, expected.map(Duration::from_secs), "{text}");
            assert_eq!(checks.finish(|| Some(())).is_ok(), ttl.is_some(), "{text}");
        }
    }

    #[test]
    fn authenticated_front_needs_passwords() {
        for flags in [
            &["--auth-front-bind=127.0.0.1:0"][..],
            &["--auth-front-passwords=file"],
            &["--auth-front-without-tls"],
            &["--auth-front-tls-dir=directory"],
        ] {
            let flags = ["causeway-tunnel", "--tls-dir=a"].iter().chain(flags);
            let args = TunnelArgs::try_parse_from(flags);
            let error = args.expect_err("they are not enough");
            assert_eq!(
                error.kind(),
                clap::error::ErrorKind::MissingRequiredArgument
            );
        }
    }
}
