//! Paths from a member to other clusters, as causeway-agent reports them there.

use std::collections::BTreeSet;

use causeway::domain::ClusterName;
use causeway::domain::path::{Path, PathLease, PathReport, REPORTS_MAX, VALID};

use crate::model::map::HashMap;
use crate::model::{Signal, TimePoint};

/// Reports of a member, by the cluster to which the path leads.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<ClusterName, PathLease>);

impl Paths {
    /// Returns the report on the path to a cluster; `None` where none holds, and the path is
    /// unknown.
    pub(crate) fn report(&self, source: &ClusterName, now: TimePoint) -> Option<&PathReport> {
        self.0.get(source)?.report_at(now.wall)
    }

    /// Returns the path to a cluster; `None` where it is unknown.
    pub(crate) fn get(&self, source: &ClusterName, now: TimePoint) -> Option<Path> {
        self.report(source, now).map(|report| report.path)
    }

    /// Returns the time at which the report on the path to a cluster ceases to hold.
    pub(crate) fn until(&self, source: &ClusterName, now: TimePoint) -> Option<TimePoint> {
        let probed = self.report(source, now)?.probed;
        let end = k8s_openapi::jiff::SignedDuration::try_from(VALID).ok()?;
        Some(now.at_wall(probed.saturating_add(end).ok()?))
    }

    /// Lists the reports of whose last change no controller has taken note.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = (&ClusterName, &PathReport)> {
        let unseen = self.0.values().filter(|lease| !lease.is_seen);
        unseen.filter_map(|lease| Some((&lease.source, lease.report.as_ref()?)))
    }

    /// Applies an event of the watch. Returns the clusters to which the path changed.
    pub(super) fn apply(
        &mut self,
        signal: Signal<Option<PathLease>>,
        now: TimePoint,
    ) -> BTreeSet<ClusterName> {
        let known = self.0.keys().cloned();
        let (leases, gone) = signal.split(known, |lease| Some(lease.as_ref()?.source.clone()));
        let mut changed = BTreeSet::new();
        for source in gone {
            let before = self.get(&source, now);
            self.0.remove(&source);
            changed.extend(before.map(|_| source));
        }
        for lease in leases.into_iter().flatten() {
            let source = lease.source.clone();
            let before = self.get(&source, now);
            if self.0.len() < usize::from(REPORTS_MAX) || self.0.contains_key(&source) {
                self.0.insert(source.clone(), lease);
            }
            if before != self.get(&source, now) {
                changed.insert(source);
            }
        }
        changed
    }
}
