//! Counts of services that metrics show, as of the last plan of each service.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::since::Since;
use super::unready::not_ready;
use crate::model::map::HashMap;

/// Label under which a service is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Consumer that does not use all providers alike, and the kind of its farthest active tier.
    Tier(ClusterName, &'static str),
    /// Provider that consumers of other networks do not reach, and the reason.
    Unreached(ClusterName, &'static str),
    /// Reason why the MultiClusterService is not Ready.
    NotReady(&'static str),
    /// Worst result of the shares in all consumers.
    Shares(ShareResult),
    /// Largest deviation from a wanted share, in hundredths of a percent; 0 where shares are not
    /// applied. The last variant: the last label of all has the largest deviation.
    Deviation(u64),
}

/// Result of the shares of a service, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareResult {
    /// All shares are about as wanted.
    Met,
    /// A share deviates from the wanted one by so much that Ready reports it.
    Coarse,
    /// The data plane of a consumer uses no standby endpoints: all ready endpoints are ready there.
    NotApplied,
}

impl ShareResult {
    /// All results.
    pub const ALL: [Self; 3] = [Self::Met, Self::Coarse, Self::NotApplied];

    /// Returns its value of the label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Coarse => "coarse",
            Self::NotApplied => "not_applied",
        }
    }
}

/// Labels whose counts changed, and the number of services under each.
pub type CountChanges = Vec<(Counted, usize)>;

/// Labels of services, and the number of services under each label that any has.
#[derive(Debug, Default)]
pub(super) struct Counts {
    labels: HashMap<ServiceKey, Box<[Counted]>>,
    services: BTreeMap<Counted, usize>,
}

impl Index {
    /// Notes the labels under which a service is counted, and whether it is Ready. Returns the
    /// counts that changed.
    pub(crate) fn note_counts(
        &mut self,
        key: &ServiceKey,
        mut counted: BTreeSet<Counted>,
    ) -> CountChanges {
        let mcs = self.hub.multi_cluster_services.get(key);
        counted.extend(mcs.and_then(not_ready).map(Counted::NotReady));
        let Counts { labels, services } = &mut self.counts;
        let before: BTreeSet<_> = labels.remove(key).into_iter().flatten().collect();
        let changes = before.symmetric_difference(&counted).map(|label| {
            let count = services.get(label).copied().unwrap_or_default();
            let count = match counted.contains(label) {
                true => count + 1,
                false => count.saturating_sub(1),
            };
            match count {
                0 => services.remove(label),
                _ => services.insert(label.clone(), count),
            };
            (label.clone(), count)
        });
        let changes = changes.collect();
        if !counted.is_empty() {
            labels.insert(key.clone(), counted.into_iter().collect());
        }
        changes
    }

    /// Returns the largest deviation from a wanted share of all services, in hundredths of a
    /// percent.
    pub fn share_deviation(&self) -> u64 {
        match self.counts.services.last_key_value() {
            Some((Counted::Deviation(largest), _)) => *largest,
            _ => 0,
        }
    }

    /// Drops all counts, and the times since which changes are possible: a process that no longer
    /// writes has none. Returns the counts that changed, and those of all results of shares.
    pub fn drop_counts(&mut self) -> CountChanges {
        self.possible_changes = Since::default();
        let labels = std::mem::take(&mut self.counts).services.into_keys();
        let labels = labels.chain(ShareResult::ALL.map(Counted::Shares));
        labels.map(|label| (label, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::ShareResult::{Coarse, Met, NotApplied};
    use super::*;
    use crate::fixtures::{key, name};

    #[test]
    fn services_are_counted_under_each_of_their_labels() {
        let mut index = Index::default();
        let near = Counted::Tier(name("a"), "local");
        let far = Counted::Tier(name("a"), "any");
        let other = Counted::NotReady("NoProviders");
        for (service, labels, expected) in [
            ("foo", vec![], vec![]),
            ("foo", vec![&near, &other], vec![(&near, 1), (&other, 1)]),
            ("foo", vec![&near, &other], vec![]),
            ("bar", vec![&near, &other], vec![(&near, 2), (&other, 2)]),
            ("foo", vec![&far, &other], vec![(&far, 1), (&near, 1)]),
            ("foo", vec![], vec![(&far, 0), (&other, 1)]),
        ] {
            let now = labels.iter().copied().cloned().collect();
            let changes = index.note_counts(&key(service), now);
            let changes = changes.iter().map(|(label, count)| (label, *count));
            let changes: Vec<_> = changes.collect();
            assert_eq!(changes, expected, "{service} {labels:?}");
        }
        let results = ShareResult::ALL.map(Counted::Shares);
        let labels = [near, other].into_iter().chain(results);
        let zero: Vec<_> = labels.map(|label| (label, 0)).collect();
        assert_eq!(index.drop_counts(), zero);
        assert_eq!(index.drop_counts(), zero[2..]);
    }

    #[test]
    fn services_with_shares_are_counted_with_the_largest_deviation() {
        let mut index = Index::default();
        let mut counts: BTreeMap<Counted, usize> = BTreeMap::new();
        for (service, shares, expected) in [
            ("foo", None, ([0, 0, 0], 0)),
            ("foo", Some((Met, 100)), ([1, 0, 0], 100)),
            ("bar", Some((Coarse, 900)), ([1, 1, 0], 900)),
            ("baz", Some((NotApplied, 0)), ([1, 1, 1], 900)),
            ("baz", Some((Coarse, 900)), ([1, 2, 0], 900)),
            ("bar", Some((Met, 200)), ([2, 1, 0], 900)),
            ("baz", None, ([2, 0, 0], 200)),
            ("bar", None, ([1, 0, 0], 100)),
            ("bar", Some((Met, 200)), ([2, 0, 0], 200)),
        ] {
            let labels = shares.map(|(result, deviation)| {
                [Counted::Shares(result), Counted::Deviation(deviation)]
            });
            let now = labels.into_iter().flatten().collect();
            counts.extend(index.note_counts(&key(service), now));
            let count = |result| counts.get(&Counted::Shares(result)).copied();
            let found = ShareResult::ALL.map(|result| count(result).unwrap_or_default());
            let found = (found, index.share_deviation());
            assert_eq!(found, expected, "{service} {shares:?}");
        }
        index.drop_counts();
        assert_eq!(index.share_deviation(), 0);
    }
}
