//! M2: conversion of the deprecated cluster lists into their successors.

use super::deprecated::{ClusterField, same_clusters};
use super::name::ClusterName;
use crate::api::{ClusterSelector, MultiClusterServiceSpec};

/// Conversion of one deprecated field, which is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The deprecated field.
    pub field: ClusterField,
    kind: ConversionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConversionKind {
    /// Empty, like its successor; or a range without a list.
    Dropped,
    /// Empty, unlike its successor.
    Ineffective,
    /// Valid for another type only.
    Ignored,
    /// The same clusters as its successor.
    Redundant,
    /// The successor was empty and has taken over the clusters.
    Converted,
    /// The successor named other clusters and has taken over these.
    Replaced,
}

impl Conversion {
    /// Whether the successor has taken over the clusters of the field.
    pub fn changed_successor(&self) -> bool {
        matches!(
            self.kind,
            ConversionKind::Converted | ConversionKind::Replaced
        )
    }

    /// Returns the warning about the conversion. An empty field without a filled successor needs
    /// none, nor does a range without a list.
    pub fn warning(&self) -> Option<String> {
        let (old, new) = (self.field.path(), self.field.successor().path());
        let done = match self.kind {
            ConversionKind::Dropped => return None,
            ConversionKind::Ineffective => {
                return Some(format!(
                    "{old} is deprecated and empty, which changes nothing: {new} still names \
                     clusters; edit {new} instead"
                ));
            }
            ConversionKind::Ignored => {
                return Some(format!(
                    "{old} is deprecated and was removed: it is valid for type CrossCluster only \
                     and has no effect here; name entry clusters in {new}"
                ));
            }
            ConversionKind::Redundant => format!("was removed, for {new} names the same clusters"),
            ConversionKind::Converted => format!("was converted to {new}"),
            ConversionKind::Replaced => {
                format!("has, being newer, replaced {new}, whoever set that")
            }
        };
        Some(format!(
            "{old} is deprecated and {done}; write {new} instead: when {old} goes from the \
             manifest, {new} stays as it is"
        ))
    }
}

/// Converts the deprecated fields of a spec in place. A spec that equals the `stored` one stays, as
/// does a field that disagrees with another one undecidably, or that holds an invalid cluster name.
/// A range for type LoadBalancer has no effect, and is removed.
pub fn convert_deprecated(
    spec: &mut MultiClusterServiceSpec,
    stored: Option<&MultiClusterServiceSpec>,
) -> Vec<Conversion> {
    let mut deprecated = ClusterField::DEPRECATED.into_iter();
    if !deprecated.any(|field| field.is_present(spec)) || stored == Some(&*spec) {
        return Vec::new();
    }
    let mut conversions = Vec::new();
    for successor in [ClusterField::Consumers, ClusterField::Providers] {
        convert_into(successor, spec, stored, &mut conversions);
    }
    conversions
}

fn convert_into(
    successor: ClusterField,
    spec: &mut MultiClusterServiceSpec,
    stored: Option<&MultiClusterServiceSpec>,
    conversions: &mut Vec<Conversion>,
) {
    let (filled, empty): (Vec<_>, Vec<_>) = ClusterField::DEPRECATED
        .into_iter()
        .filter(|field| field.successor() == successor && field.is_present(spec))
        .partition(|field| !field.names(spec).is_empty());
    let conversion = |kind| move |field| Conversion { field, kind };
    let is_successor_empty = successor.names(spec).is_empty();
    conversions.extend(empty.iter().map(|field| Conversion {
        field: *field,
        kind: match field.is_ignored(spec) {
            true => ConversionKind::Ignored,
            false if is_successor_empty || field.is_bare(spec) => ConversionKind::Dropped,
            false => ConversionKind::Ineffective,
        },
    }));
    if let Some(kind) = conversion_kind(successor, &filled, spec, stored) {
        if kind != ConversionKind::Redundant {
            let names = filled[0].names(spec).into_iter().map(str::to_owned);
            let clusters = names.map(|name| ClusterSelector { name }).collect();
            *successor.selectors_mut(spec) = clusters;
        }
        conversions.extend(filled.iter().copied().map(conversion(kind)));
        filled.into_iter().for_each(|field| field.clear(spec));
    }
    empty.into_iter().for_each(|field| field.clear(spec));
}

/// Returns the treatment of the filled deprecated fields of one successor; `None` without any, or
/// if the conversion must not decide.
fn conversion_kind(
    successor: ClusterField,
    filled: &[ClusterField],
    spec: &MultiClusterServiceSpec,
    stored: Option<&MultiClusterServiceSpec>,
) -> Option<ConversionKind> {
    let (first, others) = filled.split_first()?;
    let names = first.names(spec);
    if others
        .iter()
        .any(|other| !same_clusters(&names, &other.names(spec)))
    {
        return None;
    }
    let current = successor.names(spec);
    if same_clusters(&current, &names) {
        return Some(ConversionKind::Redundant);
    }
    // An invalid name is refused in the field that holds it.
    if names.iter().any(|name| ClusterName::check(name).is_err()) {
        return None;
    }
    if current.is_empty() {
        return Some(ConversionKind::Converted);
    }
    let stored = stored?;
    let successor_is_as_stored = same_clusters(&current, &successor.names(stored));
    let deprecated_is_newer = filled
        .iter()
        .any(|field| !same_clusters(&names, &field.names(stored)));
    (successor_is_as_stored && deprecated_is_newer).then_some(ConversionKind::Replaced)
}
