//! Map whose entries each belong to an item.

use std::collections::BTreeSet;
use std::hash::Hash;

use crate::model::Item;
use crate::model::map::HashMap;

/// Map whose entries each belong to an item. Access to the entries of one item visits no others.
#[derive(Debug)]
pub(crate) struct ByItem<K, V> {
    values: HashMap<K, (Item, V)>,
    keys: HashMap<Item, BTreeSet<K>>,
}

impl<K, V> Default for ByItem<K, V> {
    fn default() -> Self {
        Self {
            values: HashMap::default(),
            keys: HashMap::default(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord, V> ByItem<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether the item has an entry.
    pub(crate) fn has(&self, item: &Item) -> bool {
        self.keys.contains_key(item)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    /// Inserts a value. The key may have belonged to another item. Returns the value before it.
    pub(crate) fn insert(&mut self, item: &Item, key: K, value: V) -> Option<V> {
        let before = self.remove(&key);
        let keys = self.keys.entry(item.clone()).or_default();
        keys.insert(key.clone());
        self.values.insert(key, (item.clone(), value));
        before
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (item, value) = self.values.remove(key)?;
        if let Some(keys) = self.keys.get_mut(&item) {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(&item);
            }
        }
        Some(value)
    }

    /// Returns the entries of an item, with their keys.
    pub(crate) fn of(&self, item: &Item) -> impl Iterator<Item = (&K, &V)> {
        let keys = self.keys.get(item).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.get(key)?)))
    }

    /// Retains, of the entries of an item, those whose keys are `wanted`.
    pub(crate) fn retain_of(&mut self, item: &Item, wanted: impl Fn(&K) -> bool) {
        let keys = self.keys.get(item).into_iter().flatten();
        let unwanted: Vec<_> = keys.filter(|key| !wanted(key)).cloned().collect();
        for key in &unwanted {
            self.remove(key);
        }
    }

    /// Retains the entries that are `wanted`. Visits all of them.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&K, &V) -> bool) {
        let entries = self.values.iter();
        let unwanted = entries.filter(|(key, (_, value))| !wanted(key, value));
        let unwanted: Vec<_> = unwanted.map(|(key, _)| key.clone()).collect();
        for key in &unwanted {
            self.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::key;

    #[test]
    fn entries_are_found_by_key_and_by_item() {
        let item = |name: &str| Item::Service(key(name));
        let of = |all: &ByItem<u32, u32>, name: &str| -> Vec<_> {
            all.of(&item(name))
                .map(|(key, value)| (*key, *value))
                .collect()
        };
        let mut all = ByItem::default();
        for (name, key, value) in [("foo", 2, 20), ("bar", 3, 30), ("foo", 1, 10)] {
            assert_eq!(all.insert(&item(name), key, value), None);
        }
        assert_eq!(of(&all, "foo"), [(1, 10), (2, 20)]);
        assert_eq!(all.insert(&item("bar"), 2, 21), Some(20), "of another item");
        assert_eq!(
            (of(&all, "foo"), of(&all, "bar")),
            (vec![(1, 10)], vec![(2, 21), (3, 30)])
        );
        all.retain_of(&item("bar"), |key| *key == 3);
        all.retain_of(&item("foo"), |_| true);
        assert_eq!(
            (all.get(&1), all.get(&2), all.get(&3)),
            (Some(&10), None, Some(&30))
        );
        all.retain(|_, value| *value == 30);
        assert!(!all.has(&item("foo")) && all.has(&item("bar")));
        assert_eq!(all.remove(&3), Some(30));
        assert!(all.is_empty() && all.keys.is_empty());
    }
}
