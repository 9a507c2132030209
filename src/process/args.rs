//! Flags shared by several processes, and the checks that turn them into a configuration.
//!
//! Flags are parsed as text and checked together, so that one message reports every error.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use kube::config::Kubeconfig;
use tracing_subscriber::EnvFilter;

use super::kube_client::HubAccess;
use super::logging::{LogConfig, LogFormat};
use crate::domain::protected::{DEFAULT_NAMESPACE, Protection};
use crate::domain::{dns1123_label, parse_duration};

const IN_CLUSTER_HOST: &str = "KUBERNETES_SERVICE_HOST";
const IN_CLUSTER_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// Directive that `--log` replaces by naming `kube_client`. kube-client logs the whole text of an
/// answer that does not decode, which may be a Secret.
const KUBE_CLIENT_OFF: &str = "kube_client=off";

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(out, "error: {one}")?,
            several => {
                write!(out, "error: {} flags are wrong:", several.len())?;
                for error in several {
                    write!(out, "\n  {error}")?;
                }
            }
        }
        write!(out, "\n\nFor more information, try '--help'.")
    }
}

/// Gathers what is wrong while flags are checked.
///
/// ```
/// use causeway::process::args::Checks;
///
/// let mut checks = Checks::default();
/// let replicas = checks.parse::<u8>("--replicas", "many");
/// let limit = checks.parse::<u8>("--limit", "1000");
/// let errors = checks.finish(|| Some((replicas?, limit?))).unwrap_err();
/// assert!(errors.to_string().contains("--replicas") && errors.to_string().contains("--limit"));
/// ```
#[derive(Debug, Default)]
pub struct Checks(Vec<String>);

impl Checks {
    /// Notes what is wrong with a flag.
    pub fn wrong(&mut self, flag: &str, value: impl fmt::Display, why: impl fmt::Display) {
        self.0.push(format!("{flag} {value}: {why}"));
    }

    /// Reads the value of a flag; `None` where it is wrong, which is noted.
    pub fn parse<T>(&mut self, flag: &str, value: &str) -> Option<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        value
            .parse()
            .map_err(|error| self.wrong(flag, format_args!("{value:?}"), error))
            .ok()
    }

    /// Reads the value of a flag that obeys a rule, such as `must be more than 0`; `None` where it
    /// is wrong, which is noted.
    pub fn parse_where<T>(
        &mut self,
        flag: &str,
        value: &str,
        obeys: impl FnOnce(&T) -> bool,
        rule: impl fmt::Display,
    ) -> Option<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let parsed = self.parse(flag, value)?;
        let is_right = obeys(&parsed);
        if !is_right {
            self.wrong(flag, format_args!("{value:?}"), rule);
        }
        is_right.then_some(parsed)
    }

    /// Reads one of the words that a flag knows; `None` where it is another, which is noted.
    pub fn choose<T: Copy>(&mut self, flag: &str, value: &str, choices: &[(&str, T)]) -> Option<T> {
        let chosen = choices.iter().find(|(word, _)| *word == value);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong(
                flag,
                format_args!("{value:?}"),
                format_args!("must be {}", words.join(" or ")),
            );
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// Reads a duration such as `90s`, `10m` or `1h30m`. Records the error and returns `None` for
    /// any other form.
    pub fn duration(&mut self, flag: &str, value: &str) -> Option<Duration> {
        parse_duration(value)
            .map_err(|error| self.wrong(flag, format_args!("{value:?}"), error))
            .ok()
    }

    /// Ends the checks with the configuration, where nothing is wrong and `build` yields one.
    ///
    /// # Errors
    /// All that was noted.
    pub fn finish<C>(self, build: impl FnOnce() -> Option<C>) -> Result<C, ConfigErrors> {
        match build() {
            Some(config) if self.0.is_empty() => Ok(config),
            _ => Err(ConfigErrors(self.0)),
        }
    }
}

/// The flags of the logs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Format of log lines, which go to stderr
    #[arg(
        long,
        env = "CAUSEWAY_LOG_FORMAT",
        value_name = "text|json",
        default_value = "text"
    )]
    log_format: String,
    /// Log level (error, warn, info, debug, trace), or levels by module such as
    /// info,causeway_webhook=debug. kube_client is off unless a level is given for it
    #[arg(
        long,
        env = "CAUSEWAY_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=off"
    )]
    log: String,
}

impl LogArgs {
    /// Checks the flags.
    pub fn check(&self, checks: &mut Checks) -> Option<LogConfig> {
        let format = checks.choose(
            "--log-format",
            &self.log_format,
            &[("text", LogFormat::Text), ("json", LogFormat::Json)],
        );
        // The last directive of a module counts.
        let filter = EnvFilter::builder()
            .parse(format!("{KUBE_CLIENT_OFF},{}", self.log))
            .map_err(|error| checks.wrong("--log", format_args!("{:?}", self.log), error))
            .ok();
        Some(LogConfig {
            format: format?,
            filter: filter?,
        })
    }
}

/// The flags that say where the hub is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Hub")]
pub struct KubeArgs {
    /// Kubeconfig of the hub, with its current context. Not needed in a pod of the hub
    #[arg(long, env = "CAUSEWAY_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl KubeArgs {
    /// Checks the flags, and reads the kubeconfig.
    pub fn check(&self, checks: &mut Checks) -> Option<HubAccess> {
        kube_access(self.kubeconfig.as_deref(), checks)
    }
}

/// Reads the kubeconfig of `--kubeconfig`; without one, the access is that of the pod.
pub fn kube_access(kubeconfig: Option<&Path>, checks: &mut Checks) -> Option<HubAccess> {
    match kubeconfig {
        Some(path) => read_kubeconfig(path, checks),
        None if std::env::var_os(IN_CLUSTER_HOST).is_some() => Some(HubAccess::InCluster),
        None => {
            checks.wrong(
                "--kubeconfig",
                "is missing",
                format_args!("needed outside of a pod ({IN_CLUSTER_HOST} is not set)"),
            );
            None
        }
    }
}

fn read_kubeconfig(path: &Path, checks: &mut Checks) -> Option<HubAccess> {
    match Kubeconfig::read_from(path) {
        Ok(kubeconfig) => Some(HubAccess::Kubeconfig(Box::new(kubeconfig))),
        Err(error) => {
            checks.wrong(
                "--kubeconfig",
                path.display(),
                super::supervise::with_causes(&error),
            );
            None
        }
    }
}

/// The flags of the admin server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Admin server")]
pub struct AdminArgs {
    /// Address of /livez, /readyz and /metrics, over plain HTTP
    #[arg(
        long,
        env = "CAUSEWAY_ADMIN_BIND",
        value_name = "ADDRESS:PORT",
        default_value = "[::]:8081"
    )]
    admin_bind: String,
}

impl AdminArgs {
    /// Checks the flags.
    pub fn check(&self, checks: &mut Checks) -> Option<SocketAddr> {
        checks.parse("--admin-bind", &self.admin_bind)
    }
}

/// The flags that lift the protection of namespaces.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rules")]
pub struct ProtectionArgs {
    /// Protected namespace whose services may be exposed nevertheless; repeatable. Protected are
    /// kube-*, karmada-*, openshift-* and similar ones, and causeway's own
    #[arg(
        long,
        env = "CAUSEWAY_ALLOW_NAMESPACE",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    allow_namespace: Vec<String>,
}

impl ProtectionArgs {
    /// Checks the flags; causeway's own namespace is that of the pod, else [`DEFAULT_NAMESPACE`].
    pub fn check(&self, checks: &mut Checks) -> Option<Protection> {
        self.check_beside(None, checks)
    }

    /// Checks the flags; causeway's own namespace is that of the pod, else `otherwise`, which
    /// another flag says, else [`DEFAULT_NAMESPACE`].
    pub fn check_beside(&self, otherwise: Option<&str>, checks: &mut Checks) -> Option<Protection> {
        let mut allowed = BTreeSet::new();
        let before = checks.0.len();
        for namespace in &self.allow_namespace {
            match dns1123_label(namespace) {
                Ok(()) => {
                    allowed.insert(namespace.clone());
                }
                Err(error) => {
                    checks.wrong("--allow-namespace", format_args!("{namespace:?}"), error);
                }
            }
        }
        let own = || {
            pod_namespace()
                .or_else(|| otherwise.map(str::to_owned))
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
        };
        (checks.0.len() == before).then(|| Protection::new(own(), allowed))
    }
}

/// The namespace that the process runs in: `POD_NAMESPACE`, else the service account's, else
/// [`DEFAULT_NAMESPACE`].
pub fn own_namespace() -> String {
    pod_namespace().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

fn pod_namespace() -> Option<String> {
    let given = std::env::var(POD_NAMESPACE).ok();
    let mounted = || std::fs::read_to_string(IN_CLUSTER_NAMESPACE).ok();
    given
        .or_else(mounted)
        .map(|namespace| namespace.trim().to_owned())
        .filter(|namespace| !namespace.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct All {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        kube: KubeArgs,
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        protection: ProtectionArgs,
    }

    fn errors(args: &[&str]) -> String {
        let all = All::try_parse_from([&["process"], args].concat()).expect("the flags are known");
        let mut checks = Checks::default();
        let log = all.log.check(&mut checks);
        let admin = all.admin.check(&mut checks);
        let hub = all.kube.check(&mut checks);
        let protection = all.protection.check(&mut checks);
        checks
            .finish(|| {
                log?;
                admin?;
                hub?;
                protection
            })
            .expect_err("something is wrong")
            .to_string()
    }

    #[test]
    fn all_configuration_errors_come_in_one_message() {
        let text = errors(&[
            "--log-format=xml",
            "--log=info,x=loud",
            "--admin-bind=nowhere",
            "--kubeconfig=/no/such/file",
            "--allow-namespace=Shop",
        ]);
        assert!(text.starts_with("error: 5 flags are wrong:\n"), "{text}");
        for part in [
            "--log-format \"xml\": must be text or json",
            "--log \"info,x=loud\": ",
            "--admin-bind \"nowhere\": ",
            "--kubeconfig /no/such/file: ",
            "--allow-namespace \"Shop\": a lowercase RFC 1123 label",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn kube_client_is_off_unless_the_filter_names_it() {
        for (log, expected) in [
            ("info,kube_client=off", Some("off")),
            ("info", Some("off")),
            ("", Some("off")),
            ("kube=trace,causeway_webhook=debug", Some("off")),
            ("info,kube_client::client=debug", Some("off")),
            ("info,kube_client=warn", Some("warn")),
            ("kube_client=debug,info", Some("debug")),
        ] {
            let args = LogArgs {
                log_format: "text".to_owned(),
                log: log.to_owned(),
            };
            let config = args.check(&mut Checks::default()).expect("a filter");
            let filter = config.filter.to_string();
            let mut directives = filter.split(',');
            let level = directives.find_map(|one| one.strip_prefix("kube_client="));
            assert_eq!(level, expected, "{log:?}: {filter}");
        }
    }

    #[test]
    fn a_single_error_stands_on_one_line() {
        let text = errors(&["--log-format=xml", "--kubeconfig=/dev/null"]);
        assert!(
            text.starts_with("error: --log-format \"xml\": must be text or json\n"),
            "{text}"
        );
    }

    #[test]
    fn own_namespace_falls_back_to_another_flag() {
        let all = All::try_parse_from(["process"]).expect("no flags are needed");
        for (otherwise, own) in [(None, DEFAULT_NAMESPACE), (Some("elsewhere"), "elsewhere")] {
            let own = pod_namespace().unwrap_or_else(|| own.to_owned());
            let mut checks = Checks::default();
            let protection = all.protection.check_beside(otherwise, &mut checks);
            let protection = protection.expect("nothing is wrong");
            assert!(protection.check(&own, "foo").is_err(), "{own}");
            assert!(protection.check("another", "foo").is_ok());
        }
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_its_name() {
        use clap::CommandFactory;
        let command = All::command();
        for argument in command.get_arguments().filter(|a| a.get_id() != "help") {
            let flag = argument.get_long().expect("a long flag");
            let variable = format!("CAUSEWAY_{}", flag.replace('-', "_").to_uppercase());
            assert_eq!(
                argument.get_env().and_then(|name| name.to_str()),
                Some(variable.as_str()),
                "--{flag}"
            );
            assert!(argument.get_help_heading().is_some(), "--{flag}");
        }
    }
}
