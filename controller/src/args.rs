//! Flags of the controller and the configuration built from them.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway::domain::protected::{MEMBERS_NAMESPACE, Protection};
use causeway::domain::{MalformedAnswer, Unreachable};
use causeway::process::args::{
    AdminArgs, Checks, ConfigErrors, KubeArgs, LogArgs, ProtectionArgs, own_namespace,
};
use causeway::process::kube_client::HubAccess;
use causeway::process::logging::LogConfig;
use causeway::process::traces::{TraceArgs, TraceConfig};
use causeway_engine::observed::quota::Quota;
use clap::Parser;

use crate::cluster_profiles::providers::{self, Providers};
use crate::fleet::Credentials;
use crate::watch::Limits;

/// Reconciles every cluster with the MultiClusterServices of the hub
#[derive(Debug, Parser)]
#[command(name = "causeway-controller", version, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    kube: KubeArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    members: MemberArgs,
    #[command(flatten)]
    rules: ProtectionArgs,
    #[command(flatten)]
    services: ServiceArgs,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
struct ElectionArgs {
    /// Write only while holding the Lease; false for a single controller
    #[arg(
        long,
        env = "CAUSEWAY_LEADER_ELECT",
        value_name = "true|false",
        default_value = "true"
    )]
    leader_elect: String,
    /// Lease on the hub for leader election [default: causeway-controller in the controller's
    /// namespace]
    #[arg(long, env = "CAUSEWAY_LEASE", value_name = "NAMESPACE/NAME")]
    lease: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Members")]
struct MemberArgs {
    /// Maximum average rate of writes into one member, per second
    #[arg(
        long,
        env = "CAUSEWAY_MEMBER_QPS",
        value_name = "NUMBER",
        default_value = "500"
    )]
    member_qps: String,
    /// Deadline of a write
    #[arg(
        long,
        env = "CAUSEWAY_MEMBER_TIMEOUT",
        value_name = "DURATION",
        default_value = "10s"
    )]
    member_timeout: String,
    /// Namespaces on the hub that may hold the Secrets of Clusters [default: causeway-members]
    #[arg(
        long,
        env = "CAUSEWAY_SECRET_NAMESPACE",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    secret_namespace: Vec<String>,
    /// Namespaces on the hub whose ClusterProfiles (KEP-4322) become Clusters. None if not set
    #[arg(
        long,
        env = "CAUSEWAY_CLUSTER_PROFILES",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    cluster_profiles: Vec<String>,
    /// File with the providers of credentials for ClusterProfiles, as KEP-4322 defines it [default:
    /// the built-in providers secretreader and open-cluster-management]
    #[arg(
        long,
        env = "CAUSEWAY_CLUSTERPROFILE_PROVIDER_FILE",
        value_name = "FILE"
    )]
    clusterprofile_provider_file: Option<PathBuf>,
    /// Address of causeway-tunnel for members whose Clusters have the annotation
    /// mcs.causeway.dev/tunnel, such as http://causeway-tunnel:7080
    #[arg(long, env = "CAUSEWAY_TUNNEL_FRONT", value_name = "URL")]
    tunnel_front: Option<String>,
    /// Directory of the controller's certificate for causeway-agent, its key and the authorities of
    /// agents: tls.crt, tls.key and ca.crt, PEM. Read at each use. By it the controller receives
    /// the tokens of members whose Clusters have the annotation mcs.causeway.dev/credentials
    #[arg(long, env = "CAUSEWAY_TUNNEL_TLS_DIR", value_name = "DIR")]
    tunnel_tls_dir: Option<PathBuf>,
    /// Maximum number of objects of one kind in a member. A longer list is rejected, and the last
    /// accepted one is retained
    #[arg(
        long,
        env = "CAUSEWAY_MAX_MEMBER_OBJECTS",
        value_name = "NUMBER",
        default_value = "250000"
    )]
    max_member_objects: String,
    /// Maximum size of all objects of one kind in a member, in MiB of JSON
    #[arg(
        long,
        env = "CAUSEWAY_MAX_MEMBER_MIB",
        value_name = "MIB",
        default_value = "1024"
    )]
    max_member_mib: String,
    /// Maximum size of one object in a member, in MiB of JSON
    #[arg(
        long,
        env = "CAUSEWAY_MAX_MEMBER_OBJECT_MIB",
        value_name = "MIB",
        default_value = "8"
    )]
    max_member_object_mib: String,
    /// First pause before an object is written again that another writer keeps reverting. It
    /// doubles with each conflict, up to an hour
    #[arg(
        long,
        env = "CAUSEWAY_WRITE_CONFLICT_PAUSE",
        value_name = "DURATION",
        default_value = "5m"
    )]
    write_conflict_pause: String,
    /// Connect to members without verifying their certificates if their Cluster requests it
    #[arg(long, env = "CAUSEWAY_ALLOW_INSECURE_MEMBERS")]
    allow_insecure_members: bool,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Services")]
struct ServiceArgs {
    /// Time for which the last state is retained after the Service on the hub, or an exposed port
    /// of it, is deleted
    #[arg(
        long,
        env = "CAUSEWAY_SERVICE_GRACE",
        value_name = "DURATION",
        default_value = "5m"
    )]
    service_grace: String,
    /// Time after which the endpoints of an unreachable member are withdrawn from the others. Never
    /// if not set: pods outlive an outage of their API server
    #[arg(long, env = "CAUSEWAY_PROVIDER_TTL", value_name = "DURATION")]
    provider_ttl: Option<String>,
    /// Treatment of the endpoints of an unreachable member, unless a service sets it by annotation:
    /// keep, standby (after about a minute they are used only if no other is ready) or
    /// withdraw-after=DURATION
    #[arg(
        long,
        env = "CAUSEWAY_UNREACHABLE",
        value_name = "ANSWER",
        default_value = "keep"
    )]
    unreachable: String,
    /// Publish MultiClusterServices to tools of the Multi-Cluster Services API: a ServiceExport in
    /// each provider, a ServiceImport in each consumer
    #[arg(long, env = "CAUSEWAY_PUBLISH_EXPORTS")]
    publish_exports: bool,
    /// Maximum number of services that one member may export. The oldest exports count first, and
    /// existing imports remain
    #[arg(
        long,
        env = "CAUSEWAY_MAX_MEMBER_EXPORTS",
        value_name = "NUMBER",
        default_value = "1000"
    )]
    max_member_exports: String,
    /// Maximum size of what imports copy of the exports of one member, in MiB: labels, annotations
    /// and selectors
    #[arg(
        long,
        env = "CAUSEWAY_MAX_MEMBER_EXPORTED_MIB",
        value_name = "NUMBER",
        default_value = "4"
    )]
    max_member_exported_mib: String,
}

/// The checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Address of the hub and credentials for it.
    pub hub: HubAccess,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Destination of traces.
    pub traces: TraceConfig,
    /// Namespace and name of the Lease; `None` without election.
    pub lease: Option<(String, String)>,
    /// Writes a second into one member.
    pub member_qps: f64,
    /// Maximum time of a write.
    pub member_timeout: Duration,
    /// First pause after a write conflict.
    pub conflict_pause: Duration,
    /// Maximum that is read of a member.
    pub member_limits: Limits,
    /// Way in which the credentials of members are found.
    pub credentials: Credentials,
    /// Time for which the last state is held after the hub lost an object.
    pub service_grace: Duration,
    /// Time after which the endpoints of an unreachable provider are withdrawn; `None` for never.
    pub provider_ttl: Option<Duration>,
    /// Treatment of the endpoints of unreachable providers, for services that request none.
    pub unreachable: Unreachable,
    /// Whether exports and imports are made of MultiClusterServices.
    pub publish_exports: bool,
    /// Maximum that one member exports.
    pub quota: Quota,
    /// Namespaces and services that causeway leaves alone.
    pub protection: Protection,
}

const LEASE_NAME: &str = "causeway-controller";

impl Args {
    /// Checks the flags.
    ///
    /// # Errors
    /// All that is wrong with them, at once.
    pub fn check(self) -> Result<(LogConfig, Config), ConfigErrors> {
        let mut checks = Checks::default();
        let log = self.log.check(&mut checks);
        let hub = self.kube.check(&mut checks);
        let admin = self.admin.check(&mut checks);
        let traces = self.traces.check(&mut checks);
        let lease = self.election.check(&mut checks);
        let member_qps = qps(&mut checks, &self.members.member_qps);
        let member_timeout = checks.duration("--member-timeout", &self.members.member_timeout);
        let conflict_pause = &self.members.write_conflict_pause;
        let conflict_pause = checks.duration("--write-conflict-pause", conflict_pause);
        let member_limits = self.members.limits(&mut checks);
        let service_grace = checks.duration("--service-grace", &self.services.service_grace);
        let provider_ttl = self.services.provider_ttl.as_deref();
        let provider_ttl = provider_ttl.map(|text| provider_ttl_of(&mut checks, text));
        let unreachable = self.services.unreachable(&mut checks);
        let quota = self.services.quota(&mut checks);
        let protection = self.rules.check(&mut checks);
        let providers = self.members.providers(&mut checks);
        let front = self.members.tunnel_front.as_deref();
        let front = front.map(|url| checks.parse("--tunnel-front", url));
        let mut secret_namespaces = self.members.secret_namespace;
        if secret_namespaces.is_empty() {
            secret_namespaces.push(MEMBERS_NAMESPACE.to_owned());
        }
        checks.finish(|| {
            let config = Config {
                hub: hub?,
                admin: admin?,
                traces: traces?,
                lease: lease?,
                member_qps: member_qps?,
                member_timeout: member_timeout?,
                conflict_pause: conflict_pause?,
                member_limits: member_limits?,
                credentials: Credentials {
                    allow_insecure: self.members.allow_insecure_members,
                    tunnel_front: match front {
                        Some(front) => Some(front?),
                        None => None,
                    },
                    tunnel_tls_dir: self.members.tunnel_tls_dir,
                    secret_namespaces,
                    profile_namespaces: self.members.cluster_profiles,
                    providers: providers?,
                },
                service_grace: service_grace?,
                provider_ttl: match provider_ttl {
                    Some(ttl) => Some(ttl?),
                    None => None,
                },
                unreachable: unreachable?,
                publish_exports: self.services.publish_exports,
                quota: quota?,
                protection: protection?,
            };
            Some((log?, config))
        })
    }
}

impl MemberArgs {
    /// Reads the file of providers, at most [`providers::FILE_SIZE`] bytes.
    fn providers(&self, checks: &mut Checks) -> Option<Providers> {
        let flag = "--clusterprofile-provider-file";
        let Some(path) = &self.clusterprofile_provider_file else {
            return Some(Providers::default());
        };
        let value = path.display();
        if self.cluster_profiles.is_empty() {
            checks.wrong(flag, value, "needs --cluster-profiles");
            return None;
        }
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| {
            let mut bounded = file.take(providers::FILE_SIZE + 1);
            bounded.read_to_end(&mut text)
        });
        match read {
            Err(error) => checks.wrong(flag, value, error),
            Ok(read) if read as u64 > providers::FILE_SIZE => {
                checks.wrong(flag, value, "has more than 1 MiB");
            }
            Ok(_) => match Providers::read(&text) {
                Ok(providers) => return Some(providers),
                Err(error) => checks.wrong(flag, value, error),
            },
        }
        None
    }

    fn limits(&self, checks: &mut Checks) -> Option<Limits> {
        let objects = at_least_one(checks, "--max-member-objects", &self.max_member_objects);
        let bytes = at_least_one(checks, "--max-member-mib", &self.max_member_mib);
        let of_object = &self.max_member_object_mib;
        let object_bytes = at_least_one(checks, "--max-member-object-mib", of_object);
        Some(Limits {
            objects: objects?,
            bytes: bytes?.saturating_mul(MIB),
            object_bytes: object_bytes?.saturating_mul(MIB),
        })
    }
}

impl ServiceArgs {
    fn unreachable(&self, checks: &mut Checks) -> Option<Unreachable> {
        let flag = "--unreachable";
        let value = format_args!("{:?}", self.unreachable);
        let answer = Unreachable::read(&self.unreachable)
            .map_err(|error| checks.wrong(flag, value, error))
            .ok();
        if self.provider_ttl.is_some() && answer.is_some_and(|answer| answer != Unreachable::Keep) {
            checks.wrong(flag, value, "contradicts --provider-ttl; give one of them");
        }
        answer
    }

    fn quota(&self, checks: &mut Checks) -> Option<Quota> {
        let exports = at_least_one(checks, "--max-member-exports", &self.max_member_exports);
        let of_metadata = &self.max_member_exported_mib;
        let metadata = at_least_one(checks, "--max-member-exported-mib", of_metadata);
        Some(Quota {
            exports: exports?,
            metadata: metadata?.saturating_mul(MIB),
        })
    }
}

/// Reads `--provider-ttl`, which withdraws endpoints as `--unreachable=withdraw-after` does.
fn provider_ttl_of(checks: &mut Checks, text: &str) -> Option<Duration> {
    let flag = "--provider-ttl";
    let ttl = checks.duration(flag, text)?;
    if ttl >= Unreachable::WITHDRAW_AFTER_MIN {
        return Some(ttl);
    }
    checks.wrong(flag, format_args!("{text:?}"), MalformedAnswer::TooShort);
    None
}

const MIB: usize = 1024 * 1024;

fn at_least_one(checks: &mut Checks, flag: &'static str, text: &str) -> Option<usize> {
    checks.parse_where(flag, text, |number| *number > 0, "must be more than 0")
}

impl ElectionArgs {
    #[allow(
        clippy::option_option,
        reason = "the outer is whether the flags are right, the inner whether there is an election"
    )]
    fn check(&self, checks: &mut Checks) -> Option<Option<(String, String)>> {
        let elect = checks.choose(
            "--leader-elect",
            &self.leader_elect,
            &[("true", true), ("false", false)],
        )?;
        if !elect {
            return Some(None);
        }
        let Some(lease) = &self.lease else {
            return Some(Some((own_namespace(), LEASE_NAME.to_owned())));
        };
        match lease.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Some(Some((namespace.to_owned(), name.to_owned())))
            }
            _ => {
                checks.wrong(
                    "--lease",
                    format_args!("{lease:?}"),
                    "must be NAMESPACE/NAME",
                );
                None
            }
        }
    }
}

/// Minimum of `--member-qps`: one write in 100 seconds.
const LEAST_QPS: f64 = 0.01;

fn qps(checks: &mut Checks, text: &str) -> Option<f64> {
    let is_rate = |qps: &f64| qps.is_finite() && *qps >= LEAST_QPS;
    checks.parse_where(
        "--member-qps",
        text,
        is_rate,
        format_args!("must be a number of at least {LEAST_QPS}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_in_the_one_message() {
        let args = Args::try_parse_from([
            "causeway-controller",
            "--admin-bind=nowhere",
            "--lease=x",
            "--member-qps=0",
            "--max-member-objects=0",
            "--max-member-mib=1Gi",
            "--max-member-object-mib=-1",
            "--write-conflict-pause=never",
            "--service-grace=soon",
            "--provider-ttl=never",
            "--unreachable=drop",
            "--max-member-exports=0",
            "--max-member-exported-mib=much",
            "--leader-elect=true",
        ])
        .expect("the flags parse");
        let message = args.check().expect_err("they are wrong").to_string();
        for flag in [
            "--admin-bind",
            "--lease",
            "--member-qps",
            "--max-member-objects",
            "--max-member-mib",
            "--max-member-object-mib",
            "--write-conflict-pause",
            "--service-grace",
            "--provider-ttl",
            "--unreachable",
            "--max-member-exports",
            "--max-member-exported-mib",
        ] {
            assert!(message.contains(flag), "{flag} is missing in: {message}");
        }
    }

    #[test]
    fn write_rate_is_at_least_one_in_100_seconds() {
        for rate in ["0.01", "0.5", "500"] {
            assert!(qps(&mut Checks::default(), rate).is_some(), "{rate}");
        }
        for rate in ["0", "-1", "0.0099", "1e-300", "NaN", "inf"] {
            let rate = format!("--member-qps={rate}");
            let args = ["causeway-controller", "--leader-elect=true", &rate];
            let args = Args::try_parse_from(args).expect("the flags parse");
            let message = args.check().expect_err("too low").to_string();
            let expected = "must be a number of at least 0.01";
            assert!(message.contains(expected), "{rate}: {message}");
        }
    }

    #[test]
    fn early_withdrawal_is_refused_with_its_reason() {
        for flag in ["--unreachable=withdraw-after=59s", "--provider-ttl=0s"] {
            let args = ["causeway-controller", "--leader-elect=true", flag];
            let args = Args::try_parse_from(args).expect("the flags parse");
            let message = args.check().expect_err("too early").to_string();
            let expected = "must be at least 60s: an API server that restarts is unreachable for a \
                            while, and its pods serve on";
            assert!(message.contains(expected), "{message}");
        }
    }
}
