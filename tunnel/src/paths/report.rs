//! Leases by which paths are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::domain::ClusterName;
use causeway::domain::path::{self, PathLease, PathReport, RENEWED};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use super::{Now, REQUEST};

/// Time for which no controller notes a path before no hub is there.
const SILENCE: Duration = Duration::from_secs(20);

/// Reports on paths, as they were last stored.
pub(super) struct Reports {
    leases: Api<Lease>,
    holder: String,
    /// `None` until Leases of an earlier process are known.
    stored: Option<BTreeMap<ClusterName, Stored>>,
}

#[derive(Clone, Debug)]
struct Stored {
    /// UID of the Lease.
    uid: Option<String>,
    report: PathReport,
    is_seen: bool,
    answered_at: Option<Timestamp>,
    written: Instant,
    /// Time at which this process first reported the path.
    first: Instant,
}

impl Reports {
    pub(super) fn new(client: Client, holder: String) -> Self {
        Self {
            leases: Api::namespaced(client, path::NAMESPACE),
            holder,
            stored: None,
        }
    }

    /// Reports a path if it changed, if the last report is old, or if no controller has noted it.
    pub(super) async fn tell(&mut self, source: &ClusterName, report: PathReport, now: Now) {
        let before = self
            .stored
            .as_ref()
            .and_then(|all| all.get(source))
            .cloned();
        let is_same = before.as_ref().is_some_and(|before| {
            (before.report.path, before.report.since) == (report.path, report.since)
        });
        let is_recent = before.as_ref().is_some_and(|before| {
            before.is_seen && now.instant.duration_since(before.written) < RENEWED
        });
        if is_same && is_recent {
            return;
        }
        let answered_at = match report.answered {
            0 => before.as_ref().and_then(|before| before.answered_at),
            _ => Some(now.wall),
        };
        let lease = report.lease(source, &self.holder, answered_at);
        let params = PatchParams::apply(path::REPORTER).force();
        let (name, patch) = (path::lease_name(source), Patch::Apply(&lease));
        let written = self.leases.patch(&name, &params, &patch);
        let lease = match timeout(REQUEST, written).await {
            Ok(Ok(lease)) => lease,
            Ok(Err(error)) => {
                tracing::warn!(cluster = %source, %error, "path not reported");
                return;
            }
            Err(_) => {
                tracing::warn!(cluster = %source, "path not reported in time");
                return;
            }
        };
        let first = before
            .filter(|_| is_same)
            .map_or(now.instant, |before| before.first);
        let stored = Stored {
            is_seen: PathLease::read(&lease).is_some_and(|lease| lease.is_seen),
            uid: lease.metadata.uid,
            report,
            answered_at,
            written: now.instant,
            first,
        };
        self.stored
            .get_or_insert_default()
            .insert(source.clone(), stored);
    }

    /// Returns the UID of the Lease about a cluster, if it is stored.
    pub(super) fn uid(&self, source: &ClusterName) -> Option<String> {
        self.stored.as_ref()?.get(source)?.uid.clone()
    }

    /// Whether no hub is there: no controller has noted the path for a while.
    pub(super) fn is_alone(&self, source: &ClusterName, now: Now) -> bool {
        let stored = self.stored.as_ref().and_then(|all| all.get(source));
        stored.is_some_and(|stored| {
            !stored.is_seen && now.instant.duration_since(stored.first) >= SILENCE
        })
    }

    /// Deletes the Leases of all other clusters, those of earlier processes too. One that cannot be
    /// deleted expires.
    pub(super) async fn forget(&mut self, present: &BTreeSet<ClusterName>) {
        let known: Vec<_> = match &self.stored {
            Some(stored) => stored.keys().cloned().collect(),
            None => {
                let Some(earlier) = self.earlier().await else {
                    return;
                };
                self.stored = Some(BTreeMap::new());
                earlier
            }
        };
        for source in known.into_iter().filter(|one| !present.contains(one)) {
            let (name, params) = (path::lease_name(&source), DeleteParams::default());
            let deleted = self.leases.delete(&name, &params);
            match timeout(REQUEST, deleted).await {
                Ok(Err(error)) if !matches!(&error, kube::Error::Api(status) if status.code == 404) =>
                {
                    tracing::warn!(cluster = %source, %error, "Lease not deleted");
                }
                Ok(_) => {}
                Err(_) => tracing::warn!(cluster = %source, "Lease not deleted in time"),
            }
            if let Some(stored) = &mut self.stored {
                stored.remove(&source);
            }
        }
    }

    async fn earlier(&self) -> Option<Vec<ClusterName>> {
        let own = format!("{}={}", causeway::api::labels::MANAGED_BY, path::REPORTER);
        let own = ListParams::default().labels(&own);
        let own = own.limit(path::REPORTS_MAX.into());
        let leases = timeout(REQUEST, self.leases.list(&own)).await.ok()?.ok()?;
        let sources = leases
            .iter()
            .filter_map(|lease| Some(PathLease::read(lease)?.source));
        Some(sources.collect())
    }
}
