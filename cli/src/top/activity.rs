//! What happens to EndpointSlices in the members, counted by service and member. Pure: events go in, with their times.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use causeway::api::labels;
use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

use crate::observe::service::{is_copy, is_source};

/// What happened to the slices of one service in one member, or to several of these together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Changes of the slices that it provides.
    pub changes: usize,
    /// Copies that causeway wrote or deleted there.
    pub writes: usize,
    /// The endpoints in these.
    pub endpoints: usize,
    /// The longest time from a change of a source until its copy was seen there.
    pub lag: Option<Duration>,
}

impl Counts {
    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.changes += other.changes;
        self.writes += other.writes;
        self.endpoints += other.endpoints;
        self.lag = self.lag.max(other.lag);
    }
}

/// A change of a source: its version, and when it was seen.
type Version = (u64, Instant);

/// What was seen in all members.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// By member and service.
    counts: BTreeMap<(String, ServiceKey), Counts>,
    /// The changes of each source slice, by its UID, the oldest first.
    sources: HashMap<String, Vec<Version>>,
    /// The newest version of a source, by its UID, that each consumer has.
    copied: HashMap<(String, String), u64>,
}

impl Activity {
    /// A slice came, changed or went in that member at that time; `hub` is the UID of the hub whose copies count.
    pub(super) fn see(&mut self, hub: &str, member: &str, slice: &EndpointSlice, at: Instant) {
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

    /// Remembers when a source became what it is.
    fn changed(&mut self, slice: &EndpointSlice, at: Instant) {
        let version = slice
            .resource_version()
            .and_then(|version| version.parse().ok());
        if let (Some(uid), Some(version)) = (slice.uid(), version) {
            self.sources.entry(uid).or_default().push((version, at));
        }
    }

    /// How long it took from the first change that this copy brings to its consumer; `None` where that was not seen.
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

    /// What was counted, by member and service.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, &ServiceKey, &Counts)> {
        let counts = self.counts.iter();
        counts.map(|((member, key), counts)| (member.as_str(), key, counts))
    }
}

/// The service that a slice is of; a copy for the clusterset is of the service that was exported.
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
        // What was copied already brings nothing new.
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
