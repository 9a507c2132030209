//! Places in use, by member: a member leaves the others theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::domain::ClusterName;
use parking_lot::Mutex;

/// Number of places in use, by member. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<Mutex<BTreeMap<ClusterName, u32>>>);

/// A place in use, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Shares,
    member: ClusterName,
}

impl Shares {
    /// Takes a place; `None` if `most` are in use.
    pub(super) fn take(&self, member: &ClusterName, most: u32) -> Option<Share> {
        let mut used = self.0.lock();
        let count = used.get(member).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        used.insert(member.clone(), count.saturating_add(1));
        drop(used);
        Some(Share {
            shares: self.clone(),
            member: member.clone(),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.shares.0.lock();
        match used.get_mut(&self.member) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                used.remove(&self.member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_shares_of_their_own() {
        let shares = Shares::default();
        let [one, other] = ["edge1", "edge2"].map(|name| ClusterName::try_from(name).unwrap());
        let first = shares.take(&one, 2).expect("a stream");
        let second = shares.take(&one, 2).expect("a stream");
        assert!(shares.take(&one, 2).is_none());
        let third = shares.take(&other, 2).expect("a stream");
        drop(first);
        let fourth = shares.take(&one, 2).expect("a stream");
        drop((second, third, fourth));
        assert!(shares.0.lock().is_empty());
    }
}
