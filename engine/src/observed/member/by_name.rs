//! Slices of one service, by name.

use std::sync::Arc;

use crate::model::memory::fitted;

/// Sorted map for the few entries that most services have, with little spare capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByName<T>(Vec<(Arc<str>, T)>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByName<T> {
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        let place = self.place(name).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let place = self.place(name).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, name: Arc<str>, value: T) {
        match self.place(&name) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => {
                if self.0.len() == self.0.capacity() {
                    self.0.reserve_exact((self.0.len() / 2).max(1));
                }
                self.0.insert(place, (name, value));
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<T> {
        let place = self.place(name).ok()?;
        Some(self.0.remove(place).1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &T)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    pub(super) fn shrink(&mut self) {
        self.0 = fitted(std::mem::take(&mut self.0));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_name_replaced_and_listed_in_order() {
        let mut map = ByName::default();
        for (name, value) in [("b", 1), ("a", 2), ("c", 3), ("b", 4)] {
            map.insert(name.into(), value);
        }
        let all = |map: &ByName<i32>| -> Vec<_> {
            map.iter()
                .map(|(name, value)| (name.to_string(), *value))
                .collect()
        };
        let entry = |name: &str, value| (name.to_owned(), value);
        assert_eq!(all(&map), [entry("a", 2), entry("b", 4), entry("c", 3)]);
        assert_eq!((map.get("b"), map.get("d")), (Some(&4), None));
        if let Some(value) = map.get_mut("c") {
            *value = 5;
        }
        assert_eq!((map.remove("a"), map.remove("a")), (Some(2), None));
        assert_eq!(all(&map), [entry("b", 4), entry("c", 5)]);
        assert!(!map.is_empty());
    }
}
