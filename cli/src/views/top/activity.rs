//! Counts changes of EndpointSlices in the members, by service and member. Pure: callers pass
//! events with their times.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use causeway::api::labels;
use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

use crate::observe::service::{is_copy, is_source};

/// Counted events of one service in one member, or a sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Number of changes of the slices that the member provides.
    pub changes: usize,
    /// Number of copies that causeway wrote or deleted in the member.
    pub writes: usize,
    /// Number of endpoints in the written copies.
    pub endpoints: usize,
    /// Longest time from a change of a source until its copy was observed in the member.
    pub lag: Option<Duration>,
}

impl Counts {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.changes += other.changes;
        self.writes += other.writes;
        self.endpoints += other.endpoints;
        self.lag = self.lag.max(other.lag);
    }
}

/// Resource version of a source, and the time at which it was observed.
type Version = (u64, Instant);

/// Events observed in all members.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Counts by member and service.
    counts: BTreeMap<(String, ServiceKey), Counts>,
    /// Observed versions of each source slice by its UID, oldest first.
    sources: HashMap<String, Vec<Version>>,
    /// Newest version that each consumer holds of each source, by consumer and UID of the source.
    copied: HashMap<(String, String), u64>,
}

impl Activity {
    /// Records a slice that was created, changed or deleted in a member at a time. `hub` is the UID
    /// of the hub whose copies count.
    pub(crate) fn see(&mut self, hub: &str, member: &str, slice: &EndpointSlice, at: Instant) {
        let Some(key) = service_of(slice) else {
            return;
        };
        if is_copy(slice) && slice.labels().get(labels::HUB).map(String::as_str) == Some(hub) {
            let lag = self.copied(member, slice, at);
            let counts = self.counts.entry((member.to_owned(), key)).or_default();
            counts.writes += 1;
            counts.endpoints += slice.endpoints.len();
            counts.lag = counts.lag.max(lag);
        } else if is_source(slice) {
            self.changed(slice, at);
            let counts = self.counts.entry((member.to_owned(), key)).or_default();
            counts.changes += 1;
        }
    }

    /// Records the time at which a version of a source was observed.
    fn changed(&mut self, slice: &EndpointSlice, at: Instant) {
        let version = slice
            .resource_version()
            .and_then(|version| version.parse().ok());
        if let (Some(uid), Some(version)) = (slice.uid(), version) {
            self.sources.entry(uid).or_default().push((version, at));
        }
    }

    /// Returns the time since the first change that a copy brings to its consumer, or `None` if
    /// that change was not observed.
    fn copied(&mut self, member: &str, copy: &EndpointSlice, at: Instant) -> Option<Duration> {
        let source = copy.annotations().get(labels::SOURCE)?;
        let (uid, version) = source.split_once('/')?;
        let version: u64 = version.parse().ok()?;
        let newest = self.copied.entry((member.to_owned(), uid.to_owned()));
        let newest = newest.or_default();
        let known = std::mem::replace(newest, version.max(*newest));
        let changes = self.sources.get(uid)?.iter();
        let mut brought = changes.filter(|(change, _)| *change > known && *change <= version);
        let (_, first) = brought.next()?;
        Some(at.saturating_duration_since(*first))
    }

    /// Returns the counts by member and service.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, &ServiceKey, &Counts)> {
        let counts = self.counts.iter();
        counts.map(|((member, key), counts)| (member.as_str(), key, counts))
    }
}

/// Returns the service of a slice. A clusterset copy belongs to the exported service.
fn service_of(slice: &EndpointSlice) -> Option<ServiceKey> {
    let labels = slice.labels();
    let exported = labels.get(labels::MULTICLUSTER_SERVICE_NAME);
    let name = exported.or_else(|| labels.get(labels::SERVICE_NAME))?;
    let namespace = slice.namespace()?;
    Some(ServiceKey::new(namespace.as_str(), name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HUB: &str = "hub-uid";

    fn source(version: u64) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {
                "namespace": "shop", "name": "foo-1", "uid": "u", "resourceVersion": version.to_string(),
                "labels": {"kubernetes.io/service-name": "foo"},
            },
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
        }))
        .expect("a slice")
    }

    fn copy(hub: &str, of: u64, endpoints: usize) -> EndpointSlice {
        let endpoints: Vec<_> = (0..endpoints)
            .map(|_| json!({"addresses": ["10.0.0.1"]}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {
                "namespace": "shop", "name": "imported-foo-1",
                "labels": {
                    "kubernetes.io/service-name": "foo",
                    "mcs.causeway.dev/hub": hub,
                    "endpointslice.kubernetes.io/managed-by": labels::SLICE_DISPATCHER,
                },
                "annotations": {"mcs.causeway.dev/source": format!("u/{of}")},
            },
            "addressType": "IPv4", "endpoints": endpoints,
        }))
        .expect("a slice")
    }

    fn of(activity: &Activity, member: &str) -> Counts {
        let mut counts = activity.counts();
        let found = counts.find(|(name, ..)| *name == member);
        found.map(|(_, _, counts)| *counts).unwrap_or_default()
    }

    #[test]
    fn lag_is_from_the_first_change_that_a_copy_brings_to_each_consumer() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut activity = Activity::default();
        activity.see(HUB, "a", &source(5), after(0));
        activity.see(HUB, "a", &source(6), after(10));
        activity.see(HUB, "b", &copy(HUB, 6, 2), after(50));
        activity.see(HUB, "c", &copy(HUB, 5, 1), after(20));
        activity.see(HUB, "c", &copy(HUB, 6, 1), after(40));
        // A version that was copied before brings no change.
        activity.see(HUB, "c", &copy(HUB, 6, 1), after(900));
        let lag = |millis| Some(Duration::from_millis(millis));
        assert_eq!(
            (of(&activity, "a").changes, of(&activity, "a").writes),
            (2, 0)
        );
        let b = of(&activity, "b");
        assert_eq!((b.writes, b.endpoints, b.lag), (1, 2, lag(50)));
        let c = of(&activity, "c");
        assert_eq!((c.writes, c.endpoints, c.lag), (3, 3, lag(30)));
    }

    #[test]
    fn copies_of_other_hubs_and_of_changes_before_have_no_lag_and_no_part() {
        let at = Instant::now();
        let mut activity = Activity::default();
        activity.see(HUB, "b", &copy("another", 5, 1), at);
        assert_eq!(activity.counts().count(), 0);
        activity.see(HUB, "b", &copy(HUB, 5, 1), at);
        assert_eq!(of(&activity, "b").lag, None);
    }
}
