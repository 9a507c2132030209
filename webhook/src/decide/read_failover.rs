//! Annotations of failover in a change, parsed and compared with the stored ones.

use std::collections::HashSet;

use causeway::api::labels::{PREFER, SHARE};
use causeway::domain::{ClusterName, Failover, FieldError, FieldErrors, Preference, Share, Tier};

use super::Metadata;

/// Parsed annotations of a change.
#[derive(Debug, Default)]
pub(super) struct ReadFailover {
    pub(super) failover: Failover,
    /// Errors of changed annotations.
    pub(super) wrong: FieldErrors,
    /// Whether the preference is invalid.
    pub(super) is_preference_wrong: bool,
    /// Whether the share is invalid.
    pub(super) is_share_wrong: bool,
    /// Clusters that the stored object prefers.
    pub(super) preferred_before: HashSet<ClusterName>,
    /// Clusters to which the stored object gives a share.
    pub(super) shared_before: HashSet<ClusterName>,
}

impl ReadFailover {
    /// Parses the annotations of an object; `stored` is what is replaced.
    pub(super) fn new(metadata: &Metadata, stored: Option<&Metadata>) -> Self {
        let [prefer, share] = [PREFER, SHARE].map(Failover::path);
        let changed = Failover::ANNOTATIONS.into_iter().filter(|name| {
            metadata.annotation(name) != stored.and_then(|stored| stored.annotation(name))
        });
        let changed: HashSet<_> = changed.map(Failover::path).collect();
        let mut wrong = FieldErrors::default();
        let (mut is_preference_wrong, mut is_share_wrong) = (false, false);
        let failover = read(metadata, &mut |error| {
            is_preference_wrong |= error.path == prefer;
            is_share_wrong |= error.path == share;
            if changed.contains(&error.path) {
                wrong.push(error);
            }
        });
        let before = stored.map(|stored| read(stored, &mut |_| ()));
        let before = before.unwrap_or_default();
        Self {
            failover,
            wrong,
            is_preference_wrong,
            is_share_wrong,
            preferred_before: named(before.preference.as_ref()).cloned().collect(),
            shared_before: shared(before.share.as_ref()).cloned().collect(),
        }
    }

    /// Returns the newly preferred clusters.
    pub(super) fn new_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        named(self.failover.preference.as_ref())
            .filter(|name| !self.preferred_before.contains(*name))
    }

    /// Returns the clusters that newly have a share.
    pub(super) fn new_shares(&self) -> impl Iterator<Item = &ClusterName> {
        shared(self.failover.share.as_ref()).filter(|name| !self.shared_before.contains(*name))
    }
}

fn read(metadata: &Metadata, report: &mut dyn FnMut(FieldError)) -> Failover {
    Failover::read(|name| metadata.annotation(name), report)
}

/// Returns the clusters of a preference.
pub(super) fn named(preference: Option<&Preference>) -> impl Iterator<Item = &ClusterName> {
    let tiers = preference.map(Preference::tiers).unwrap_or_default();
    tiers.iter().filter_map(|tier| match tier {
        Tier::Cluster(name) => Some(name),
        _ => None,
    })
}

/// Returns the clusters of a share.
pub(super) fn shared(share: Option<&Share>) -> impl Iterator<Item = &ClusterName> {
    share
        .into_iter()
        .flat_map(Share::clusters)
        .map(|(name, _)| name)
}
