//! Time for which a cluster has not answered while no hub was there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::domain::ClusterName;
use tokio::time::Instant;

/// Beginnings of the silence of clusters. A restart of this process begins all of them again, and
/// so does a round that says nothing about them: only time that was observed counts.
#[derive(Debug)]
pub(super) struct Silence {
    /// Time to live of a silent provider, if it has one.
    ttl: Option<Duration>,
    since: BTreeMap<ClusterName, Instant>,
}

impl Silence {
    pub(super) fn new(ttl: Option<Duration>) -> Self {
        Self {
            ttl,
            since: BTreeMap::new(),
        }
    }

    /// Notes whether a cluster is silent, and no hub there. Returns whether that lasts for the time
    /// to live.
    pub(super) fn note(&mut self, source: &ClusterName, is_silent: bool, now: Instant) -> bool {
        let Some(ttl) = self.ttl.filter(|_| is_silent) else {
            self.since.remove(source);
            return false;
        };
        let since = self.since.entry(source.clone()).or_insert(now);
        now.duration_since(*since) >= ttl
    }

    /// Forgets all other clusters.
    pub(super) fn retain(&mut self, present: &BTreeSet<ClusterName>) {
        self.since.retain(|source, _| present.contains(source));
    }

    /// Begins again, because a round said nothing.
    pub(super) fn clear(&mut self) {
        self.since.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    /// Plays rounds 20 s apart: `-` for silence, `+` for an answer or a hub, `?` for a round that
    /// says nothing. Returns the numbers of the rounds in which the time is over.
    fn over(ttl: Option<Duration>, rounds: &str) -> Vec<usize> {
        let mut silence = Silence::new(ttl);
        let source = ClusterName::try_from("a").expect("a name");
        let mut now = Instant::now();
        let mut over = Vec::new();
        for (number, round) in rounds.chars().enumerate() {
            match round {
                '?' => silence.clear(),
                round if silence.note(&source, round == '-', now) => over.push(number),
                _ => {}
            }
            now += Duration::from_secs(20);
        }
        over
    }

    #[test]
    fn silence_counts_without_a_gap_and_only_with_a_time_to_live() {
        for (ttl, rounds, expected) in [
            (Some(TTL), "-----", &[3, 4][..]),
            (Some(TTL), "--+-----", &[6, 7]),
            (Some(TTL), "--?----+", &[6]),
            (Some(TTL), "+++++", &[]),
            (None, "----------", &[]),
        ] {
            assert_eq!(over(ttl, rounds), expected, "{rounds}");
        }
    }

    #[test]
    fn each_cluster_has_its_own_time() {
        let mut silence = Silence::new(Some(TTL));
        let [one, two] = ["one", "two"].map(|name| ClusterName::try_from(name).expect("a name"));
        let begin = Instant::now();
        assert!(!silence.note(&one, true, begin));
        assert!(!silence.note(&two, true, begin + TTL / 2));
        assert!(silence.note(&one, true, begin + TTL));
        assert!(!silence.note(&two, true, begin + TTL));
    }
}
