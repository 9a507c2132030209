//! Desired objects by member.

use std::collections::BTreeMap;

use causeway::domain::ClusterName;

/// Objects that the members should hold for one service.
#[derive(Clone, Debug)]
pub(crate) enum ByMember<T> {
    /// The objects that they hold now, whichever these are.
    Untouched,
    /// These objects; members that are not listed should hold none.
    Wanted(BTreeMap<ClusterName, T>),
}

impl<T> Default for ByMember<T> {
    fn default() -> Self {
        Self::Wanted(BTreeMap::new())
    }
}

impl<T> ByMember<T> {
    /// Whether the members hold the same as now.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self, Self::Untouched)
    }

    /// Returns the desired objects of a member.
    pub(crate) fn of(&self, name: &ClusterName) -> Option<&T> {
        match self {
            Self::Untouched => None,
            Self::Wanted(members) => members.get(name),
        }
    }

    /// Lists the desired objects by member; none where the members hold the same as now.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (&ClusterName, &T)> {
        let wanted = match self {
            Self::Untouched => None,
            Self::Wanted(members) => Some(members),
        };
        wanted.into_iter().flatten()
    }

    /// Lists the members that should hold something.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ClusterName> {
        self.wanted().map(|(name, _)| name)
    }
}
