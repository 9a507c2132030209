//! Limits of one member's exports, and the exports that exceed them.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterSelector, ServiceKey};
use k8s_openapi::jiff::Timestamp;

use super::clusterset::{EXPORTED_MAX, ExportView, recorded_size};
use crate::model::map::HashMap;
use crate::model::slice::Exposure;

/// Maximum that one member may export. Each export takes an address of the service range in every
/// other cluster, and space in their stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Number of exports.
    pub exports: usize,
    /// Bytes of the labels, annotations and selectors that imports copy, of all exports together.
    pub metadata: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            exports: 1000,
            metadata: 4 * 1024 * 1024,
        }
    }
}

/// Limit of a quota that an export exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondQuota {
    /// Maximum number of exports. At least as many are older.
    Exports(usize),
    /// Maximum number of bytes. The labels, annotations and selectors of the export and of all
    /// older ones have more.
    Metadata(usize),
}

/// Place of an export in the order of age.
type Place = (Timestamp, ServiceKey);

/// Exports of a member by age, the oldest first; those of the same age by key. An export without a
/// creation time is the youngest.
#[derive(Debug, Default)]
pub(super) struct ByAge {
    sizes: BTreeMap<Place, usize>,
    created: HashMap<ServiceKey, Timestamp>,
    /// Sum of all sizes.
    bytes: usize,
    /// Namespaces from which the hub lets the member export; `None` for all.
    permitted: Option<BTreeSet<Box<str>>>,
    /// Oldest export beyond the quota at the last [`ByAge::apply_quota`], and the limit that it
    /// exceeded.
    beyond_from: Option<(Place, BeyondQuota)>,
    /// Whether an export was noted since.
    is_changed: bool,
}

impl ByAge {
    /// Stores the namespaces from which the hub lets the member export, `None` for all. Returns
    /// true if they changed, and all exports must be noted again.
    pub(super) fn permit(&mut self, namespaces: Option<&BTreeSet<Box<str>>>) -> bool {
        let is_new = self.permitted.as_ref() != namespaces;
        if is_new {
            self.permitted = namespaces.cloned();
        }
        is_new
    }

    /// Adds, updates or removes an export. Exports on behalf of a MultiClusterService are the hub's
    /// own and do not count, nor do those from namespaces that the hub forbids.
    pub(super) fn note(&mut self, key: &ServiceKey, export: Option<&ExportView>) {
        self.is_changed = true;
        if let Some(created) = self.created.remove(key) {
            let size = self.sizes.remove(&(created, key.clone()));
            self.bytes -= size.unwrap_or_default();
        }
        let of_hub = |export: &&ExportView| {
            let hub = export.hub.as_deref();
            hub.is_some_and(|hub| export.exposure(hub) == Some(Exposure::Native))
        };
        let permitted = self.permitted.as_ref();
        let is_permitted = permitted.is_none_or(|names| names.contains(&*key.namespace));
        let export = export.filter(|export| is_permitted && !export.deleting && !of_hub(export));
        if let Some(export) = export {
            let created = export.created.unwrap_or(Timestamp::MAX);
            let place = (created, key.clone());
            let size = size(export);
            self.bytes += size;
            self.sizes.insert(place, size);
            self.created.insert(key.clone(), created);
        }
    }

    /// Whether an export changed since the last [`ByAge::apply_quota`].
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns the exports that were beyond the quota at the last call and do not exceed the same
    /// limit now.
    pub(super) fn apply_quota(&mut self, quota: &Quota) -> Vec<ServiceKey> {
        if !std::mem::take(&mut self.is_changed) {
            return Vec::new();
        }
        let first = self.first_beyond(quota);
        let first = first.map(|(first, beyond)| (first.clone(), beyond));
        let Some((before, limit)) = std::mem::replace(&mut self.beyond_from, first) else {
            return Vec::new();
        };
        let first = self.beyond_from.as_ref();
        let same = first.filter(|(_, beyond)| *beyond == limit);
        let younger = self.sizes.range(before..).map(|(place, _)| place);
        let changed = younger.take_while(|place| same.is_none_or(|(first, _)| *place < first));
        changed.map(|(_, key)| key.clone()).collect()
    }

    /// Returns the limit that the export exceeds, if it exceeds one.
    pub(super) fn beyond(&self, key: &ServiceKey, quota: &Quota) -> Option<BeyondQuota> {
        let (first, beyond) = self.first_beyond(quota)?;
        let own = (*self.created.get(key)?, key.clone());
        (*first <= own).then_some(beyond)
    }

    /// Returns the oldest export beyond the quota, and the limit that it exceeds. All younger
    /// exports are beyond the quota too. Reads no export if all of them are within the quota, else
    /// at most one more than the quota allows.
    fn first_beyond(&self, quota: &Quota) -> Option<(&Place, BeyondQuota)> {
        if self.sizes.len() <= quota.exports && self.bytes <= quota.metadata {
            return None;
        }
        let mut bytes = 0;
        for (older, (place, size)) in self.sizes.iter().enumerate() {
            bytes += size;
            if older >= quota.exports {
                return Some((place, BeyondQuota::Exports(quota.exports)));
            }
            if bytes > quota.metadata {
                return Some((place, BeyondQuota::Metadata(quota.metadata)));
            }
        }
        None
    }
}

/// Returns the most bytes that an import copies from an export: of labels and annotations no more
/// than an import holds.
fn size(export: &ExportView) -> usize {
    let all = [
        &export.spec.exported_labels,
        &export.spec.exported_annotations,
    ];
    let all = all.into_iter().flatten();
    let exported: usize = all.map(|(name, value)| name.len() + value.len()).sum();
    let annotated = exported + recorded_size(&export.failover, &export.consumers);
    annotated.min(EXPORTED_MAX) + size_of_selectors(export)
}

/// Returns the bytes of the selectors that an import copies.
fn size_of_selectors(export: &ExportView) -> usize {
    match ClusterSelector::copied(&export.spec.cluster_selectors) {
        [] => 0,
        copied => serde_json::to_string(copied).map_or(0, |text| text.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn key(number: u8) -> ServiceKey {
        ServiceKey::new("shop", format!("foo-{number}"))
    }

    fn export(number: u8, second: u8, bytes: usize) -> ExportView {
        let object = json!({
            "metadata": {
                "name": &*key(number).name, "namespace": "shop", "uid": "u", "resourceVersion": "1",
                "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            },
            "spec": {"exportedAnnotations": {"": "x".repeat(bytes)}},
        });
        let object = serde_json::from_value(object).expect("an export");
        ExportView::read(&object, None).expect("its identity")
    }

    /// The rule, as the sum over all older exports.
    fn summed(by_age: &ByAge, key: &ServiceKey, quota: &Quota) -> bool {
        let up_to = by_age
            .sizes
            .iter()
            .take_while(|((_, other), _)| other != key);
        let own = by_age.sizes.iter().find(|((_, other), _)| other == key);
        let sizes: Vec<_> = up_to.chain(own).map(|(_, size)| size).collect();
        let bytes: usize = sizes.iter().copied().sum();
        own.is_some() && (sizes.len() > quota.exports || bytes > quota.metadata)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_totals_follow_what_comes_changes_and_goes(
            notes in prop::collection::vec((0..6u8, 0..4u8, 0..20usize, any::<bool>()), 1..30),
            exports in 0..6usize, metadata in 0..60usize,
        ) {
            let mut by_age = ByAge::default();
            let quota = Quota { exports, metadata };
            let mut were_beyond: BTreeMap<ServiceKey, BeyondQuota> = BTreeMap::new();
            for (number, second, bytes, there) in notes {
                let view = export(number, second, bytes);
                by_age.note(&key(number), there.then_some(&view));
                prop_assert_eq!(by_age.bytes, by_age.sizes.values().sum::<usize>());
                for key in (0..6).map(key) {
                    prop_assert_eq!(by_age.beyond(&key, &quota).is_some(), summed(&by_age, &key, &quota));
                }
                let changed = by_age.apply_quota(&quota);
                for other in (0..6).map(key).filter(|other| *other != key(number)) {
                    let before = were_beyond.get(&other).copied();
                    let is_changed = before.is_some() && before != by_age.beyond(&other, &quota);
                    prop_assert_eq!(changed.contains(&other), is_changed);
                }
                let beyond = |key: ServiceKey| {
                    let beyond = by_age.beyond(&key, &quota)?;
                    Some((key, beyond))
                };
                were_beyond = (0..6).map(key).filter_map(beyond).collect();
            }
        }
    }

    #[test]
    fn within_the_quota_no_export_is_looked_at() {
        let mut by_age = ByAge::default();
        for number in 0..10 {
            by_age.note(&key(number), Some(&export(number, number, 6)));
        }
        // Whoever added these up would overflow.
        by_age
            .sizes
            .values_mut()
            .for_each(|size| *size = usize::MAX);
        let [fits, exports, metadata] =
            [(10, 60), (9, 60), (10, 59)].map(|(exports, metadata)| Quota { exports, metadata });
        assert_eq!(by_age.beyond(&key(9), &fits), None);
        for quota in [exports, metadata] {
            assert_eq!(
                by_age.beyond(&key(0), &quota),
                Some(BeyondQuota::Metadata(quota.metadata))
            );
        }
    }
}
