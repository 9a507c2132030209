//! Flags of both programs, and their configurations.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway::process::args::{AdminArgs, Checks, ConfigErrors, LogArgs, kube_access};
use causeway::process::kube_client::HubAccess;
use causeway::process::logging::LogConfig;
use causeway::process::supervise::with_causes;
use clap::Parser;
use hyper_util::client::proxy::matcher::Matcher;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::{ClientConfig, ServerConfig};

use crate::agent::Peers;
use crate::credentials::{Credentials, Side};
use crate::hello::{Hello, PROTOCOL};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::passwords::PasswordFile;
use crate::serving::Serving;
use crate::tunnel::AuthenticatedFront;

const API_HOST: &str = "KUBERNETES_SERVICE_HOST";
const API_PORT: &str = "KUBERNETES_SERVICE_PORT";
const MIB: usize = 1024 * 1024;

/// Gives clients on the hub connections to the API servers of members that cannot be dialled
#[derive(Debug, Parser)]
#[command(name = "causeway-tunnel", version, max_term_width = 100)]
pub struct TunnelArgs {
    #[command(flatten)]
    serving: TunnelServingArgs,
    #[command(flatten)]
    front: AuthFrontArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
struct TunnelServingArgs {
    /// Address for agents
    #[arg(
        long,
        env = "CAUSEWAY_AGENTS_BIND",
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:7443"
    )]
    agents_bind: String,
    /// Address for clients on the hub, which send CONNECT without TLS and credentials
    #[arg(
        long,
        env = "CAUSEWAY_FRONT_BIND",
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:7080"
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
    /// Address for clients.
    pub front: SocketAddr,
    /// Address and configuration of the authenticated front, if there is one.
    pub authenticated: Option<(SocketAddr, AuthenticatedFront)>,
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
        let front = checks.parse("--front-bind", &serving.front_bind);
        let credentials = credentials(&serving.tls_dir, &metrics, &mut checks);
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
                front: front?,
                authenticated,
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
    metrics: &Metrics,
    checks: &mut Checks,
) -> Option<Arc<Credentials<S>>> {
    let read = Credentials::read(directory, metrics);
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
    /// Directory of the agent's certificate, its key and the authorities of causeway-tunnel:
    /// tls.crt, tls.key and ca.crt, PEM. Changed files are loaded within seconds
    #[arg(long, env = "CAUSEWAY_TLS_DIR", value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Address of the API server, the only one that the hub reaches; by default that of the pod's
    /// cluster
    #[arg(long, env = "CAUSEWAY_API_SERVER", value_name = "HOST:PORT")]
    api_server: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Paths")]
struct AgentPathArgs {
    /// Report whether endpoints of other clusters answer in this one. While no hub takes note of
    /// the reports, endpoints that do not answer become standby endpoints
    #[arg(long, env = "CAUSEWAY_REPORT_PATHS")]
    report_paths: bool,
    /// Kubeconfig of this cluster, with its current context. Not needed in a pod of it
    #[arg(long, env = "CAUSEWAY_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Configuration of causeway-agent.
pub struct AgentConfig {
    /// Connection to causeway-tunnel, if there is one.
    pub tunnel: Option<AgentTunnel>,
    /// Access to the member for reports on paths, if they are made.
    pub paths: Option<HubAccess>,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Metrics.
    pub metrics: Metrics,
}

/// Configuration of the connection to causeway-tunnel.
pub struct AgentTunnel {
    /// Addresses of causeway-tunnel and the API server.
    pub peers: Peers,
    /// Certificate and authorities.
    pub credentials: Arc<Credentials<ClientConfig>>,
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
        let has_tunnel = self.tunnel.tunnel.is_some();
        if !has_tunnel && !self.paths.report_paths {
            let why = "needed, or --report-paths";
            checks.wrong("--tunnel", "is missing", why);
        }
        let tunnel = self.tunnel.check(&metrics, &mut checks);
        let kubeconfig = self.paths.kubeconfig.as_deref();
        let paths = (self.paths.report_paths).then(|| kube_access(kubeconfig, &mut checks));
        checks.finish(|| {
            let config = AgentConfig {
                tunnel,
                paths: paths.flatten(),
                admin: admin?,
                metrics,
            };
            Some((log?, config))
        })
    }
}

impl AgentTunnelArgs {
    /// Checks the flags of the connection to causeway-tunnel, if there is to be one.
    fn check(self, metrics: &Metrics, checks: &mut Checks) -> Option<AgentTunnel> {
        let tunnel = checks.parse("--tunnel", &self.tunnel?);
        let credentials = match &self.tls_dir {
            Some(directory) => credentials(directory, metrics, checks),
            None => {
                checks.wrong("--tls-dir", "is missing", "needed with --tunnel");
                None
            }
        };
        let api = self.api_server.or_else(api_of_pod);
        if api.is_none() {
            let why = format_args!("needed outside of a pod ({API_HOST} is not set)");
            checks.wrong("--api-server", "is missing", why);
        }
        Some(AgentTunnel {
            peers: Peers {
                tunnel: tunnel?,
                proxies: Matcher::from_env(),
                api: api?,
            },
            credentials: credentials?,
        })
    }
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
