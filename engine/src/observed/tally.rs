//! Numbers of services by label, as metrics show them.

use std::collections::BTreeMap;

use causeway::domain::ServiceKey;

use crate::model::map::HashMap;

/// Number of services under each label that any has.
#[derive(Debug)]
pub(crate) struct Tally<L>(BTreeMap<L, usize>);

impl<L> Default for Tally<L> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<L: Ord + Clone> Tally<L> {
    /// Replaces the labels of a service. Returns the counts that changed.
    pub(crate) fn replace(
        &mut self,
        before: impl IntoIterator<Item = L>,
        now: impl IntoIterator<Item = L>,
    ) -> Vec<(L, usize)> {
        let mut changes: BTreeMap<L, (usize, usize)> = BTreeMap::new();
        for label in before {
            changes.entry(label).or_default().0 += 1;
        }
        for label in now {
            changes.entry(label).or_default().1 += 1;
        }
        changes.retain(|_, (gone, come)| gone != come);
        let changes = changes.into_iter().map(|(label, (gone, come))| {
            let count = self.count(&label);
            let count = (count + come).saturating_sub(gone);
            match count {
                0 => self.0.remove(&label),
                _ => self.0.insert(label.clone(), count),
            };
            (label, count)
        });
        changes.collect()
    }

    /// Returns the number of services under a label.
    pub(crate) fn count(&self, label: &L) -> usize {
        self.0.get(label).copied().unwrap_or_default()
    }

    /// Returns the largest label that any service has.
    pub(crate) fn largest(&self) -> Option<&L> {
        self.0.last_key_value().map(|(label, _)| label)
    }

    /// Drops all counts. Returns those that changed: all to zero.
    pub(crate) fn clear(&mut self) -> Vec<(L, usize)> {
        let labels = std::mem::take(&mut self.0).into_keys();
        labels.map(|label| (label, 0)).collect()
    }
}

/// Labels of services, and the number of services under each label.
#[derive(Debug)]
pub(crate) struct LabelNotes<S, L> {
    /// Labels of each service that has any.
    services: HashMap<ServiceKey, S>,
    counts: Tally<L>,
}

impl<S, L> Default for LabelNotes<S, L> {
    fn default() -> Self {
        Self {
            services: HashMap::default(),
            counts: Tally::default(),
        }
    }
}

impl<S, L> LabelNotes<S, L>
where
    S: IntoIterator<Item = L> + Clone + Default + PartialEq,
    L: Ord + Clone,
{
    /// Notes the labels of a service. Returns the counts that changed.
    pub(crate) fn note(&mut self, key: &ServiceKey, labels: S) -> Vec<(L, usize)> {
        let before = match labels == S::default() {
            true => self.services.remove(key),
            false => self.services.insert(key.clone(), labels.clone()),
        };
        self.counts.replace(before.unwrap_or_default(), labels)
    }

    /// Drops all labels. Returns the counts that changed.
    pub(crate) fn clear(&mut self) -> Vec<(L, usize)> {
        std::mem::take(self).counts.clear()
    }
}
