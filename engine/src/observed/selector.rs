//! Selector of the pods of a Service, in little memory: a `BTreeMap` takes half a kilobyte for one
//! label.

use std::collections::BTreeMap;

/// Labels and their values, in the order of the labels. Without a label no pod is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Box<[(Box<str>, Box<str>)]>);

impl Selector {
    /// Whether it has no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the labels and their values, in the order of the labels.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(label, value)| (&**label, &**value))
    }

    /// Returns the selector as the API represents it.
    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        let owned = |(label, value): (&str, &str)| (label.to_owned(), value.to_owned());
        self.iter().map(owned).collect()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Selector {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(labels: I) -> Self {
        let sorted: BTreeMap<_, _> = labels.into_iter().collect();
        let boxed = |(label, value): (&str, &str)| (label.into(), value.into());
        Self(sorted.into_iter().map(boxed).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_the_same_in_whatever_order_its_labels_come() {
        let labels = [("b", "1"), ("a", "2")];
        let selector = Selector::from_iter(labels);
        assert_eq!(selector, labels.into_iter().rev().collect());
        assert_eq!(
            selector.iter().collect::<Vec<_>>(),
            [("a", "2"), ("b", "1")]
        );
        let map = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
        assert_eq!(selector.to_map(), map.into());
        assert!(!selector.is_empty() && Selector::default().is_empty());
    }
}
