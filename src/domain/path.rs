//! Reports of causeway-agent on the paths from its member to the endpoints of other clusters: one
//! Lease for each cluster, in namespace [`NAMESPACE`] of the member.
//!
//! The Lease is that of an endpoint TTL (KEP-1645): its `renewTime` moves while an endpoint of the
//! cluster answers. An annotation has the result, because a Lease that is not renewed does not tell
//! a path that failed from an agent that stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ClusterName;
use crate::api::labels;

/// Namespace of the Leases in a member, which is that of the agent.
pub const NAMESPACE: &str = "causeway-system";
/// Value of [`labels::MANAGED_BY`] of the Leases.
pub const REPORTER: &str = "causeway-agent";
/// Time after which a report says nothing any more.
pub const VALID: Duration = Duration::from_secs(90);
/// Maximum number of reports that are read in a member.
pub const REPORTS_MAX: u16 = 4096;
/// Interval of reports while nothing changes.
pub const RENEWED: Duration = Duration::from_secs(30);

const PREFIX: &str = "causeway-path-";
/// Maximum length of the annotation that is read, in bytes.
const LONGEST: usize = 1024;

/// Path from a member to the endpoints of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// Endpoints answer.
    Good,
    /// No endpoint has answered several times in a row, and others do.
    Bad,
}

/// Report on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// The path.
    pub path: Path,
    /// Time since which it is so.
    pub since: Timestamp,
    /// Time of the report.
    pub probed: Timestamp,
    /// Number of probed endpoints that answered.
    pub answered: u32,
    /// Number of probed endpoints.
    pub tried: u32,
}

/// Lease of a report, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathLease {
    /// Cluster to which the path leads.
    pub source: ClusterName,
    /// The report; `None` where it cannot be read, which says nothing about the path.
    pub report: Option<PathReport>,
    /// Whether the controller of a hub has taken note of the path since its last change.
    pub is_seen: bool,
}

impl PathReport {
    /// Whether the report holds at that time. One of the future does not: the clocks differ.
    pub fn holds(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.probed);
        let valid = SignedDuration::try_from(VALID).unwrap_or(SignedDuration::MAX);
        -valid < age && age < valid
    }

    /// Returns the Lease of the report in the name of `holder`. Its `renewTime` is `answered_at`,
    /// the time at which an endpoint last answered.
    pub fn lease(
        &self,
        source: &ClusterName,
        holder: &str,
        answered_at: Option<Timestamp>,
    ) -> Lease {
        let text = serde_json::to_string(self).unwrap_or_default();
        Lease {
            metadata: ObjectMeta {
                name: Some(lease_name(source)),
                namespace: Some(NAMESPACE.to_owned()),
                labels: Some(BTreeMap::from([(
                    labels::MANAGED_BY.to_owned(),
                    REPORTER.to_owned(),
                )])),
                annotations: Some(BTreeMap::from([(labels::PATH.to_owned(), text)])),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: i32::try_from(VALID.as_secs()).ok(),
                acquire_time: Some(MicroTime(self.since)),
                renew_time: answered_at.map(MicroTime),
                ..LeaseSpec::default()
            }),
        }
    }
}

impl PathLease {
    /// Returns the report if it holds at that time. Without one the path is unknown.
    pub fn report_at(&self, now: Timestamp) -> Option<&PathReport> {
        self.report.as_ref().filter(|report| report.holds(now))
    }

    /// Reads a Lease; `None` where it is no report on the path to a cluster.
    pub fn read(lease: &Lease) -> Option<Self> {
        let name = lease.metadata.name.as_deref()?.strip_prefix(PREFIX)?;
        let annotation = |key: &str| lease.metadata.annotations.as_ref()?.get(key);
        let text = annotation(labels::PATH).filter(|text| text.len() <= LONGEST);
        let report = text.and_then(|text| serde_json::from_str::<PathReport>(text).ok());
        let seen = annotation(labels::PATH_SEEN);
        let is_seen = report
            .as_ref()
            .is_some_and(|report| seen == Some(&report.since.to_string()));
        Some(Self {
            source: ClusterName::try_from(name).ok()?,
            report,
            is_seen,
        })
    }
}

/// Returns the name of the Lease about the path to a cluster.
pub fn lease_name(source: &ClusterName) -> String {
    format!("{PREFIX}{source}")
}

/// Writes `0 of 3 endpoints since 2026-11-27T09:12:40Z`.
impl fmt::Display for PathReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            answered,
            tried,
            since,
            ..
        } = self;
        write!(out, "{answered} of {tried} endpoints since {since:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).expect("a time")
    }

    fn report(path: Path) -> PathReport {
        PathReport {
            path,
            since: at(-40),
            probed: at(0),
            answered: 0,
            tried: 3,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let source = ClusterName::try_from("edge1").expect("a name");
        for path in [Path::Good, Path::Bad] {
            let mut lease = report(path).lease(&source, "agent", Some(at(-5)));
            let read = PathLease::read(&lease).expect("a report");
            assert_eq!((&read.source, read.is_seen), (&source, false));
            assert_eq!(read.report, Some(report(path)));
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::PATH_SEEN.to_owned(), at(-40).to_string());
            assert!(PathLease::read(&lease).expect("a report").is_seen);
        }
    }

    #[test]
    fn reports_hold_for_a_time_and_never_from_the_future() {
        let report = report(Path::Bad);
        for (seconds, holds) in [
            (0, true),
            (89, true),
            (91, false),
            (-89, true),
            (-91, false),
        ] {
            assert_eq!(report.holds(at(seconds)), holds, "{seconds}");
        }
    }

    #[test]
    fn other_leases_and_broken_reports_say_nothing() {
        let lease = |name: &str, text: &str| {
            let annotations = [(labels::PATH.to_owned(), text.to_owned())];
            Lease {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    annotations: Some(annotations.into()),
                    ..ObjectMeta::default()
                },
                spec: None,
            }
        };
        assert_eq!(PathLease::read(&lease("kube-scheduler", "{}")), None);
        assert_eq!(PathLease::read(&lease("causeway-path-UPPER", "{}")), None);
        let long = format!("{{\"path\":\"{}\"}}", "x".repeat(2000));
        for text in ["", "{}", "bad", &long] {
            let read = PathLease::read(&lease("causeway-path-edge1", text));
            assert_eq!(read.expect("a path").report, None, "{text}");
        }
    }
}
