//! Decision whether a path works, from probes over time.

use std::time::Duration;

use causeway::domain::path::{Path, VALID};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::Now;

/// Number of rounds in a row that change the path.
const ROUNDS: u32 = 3;
/// Minimum time for which endpoints answer before a path that failed is good again.
const RECOVERY: Duration = Duration::from_secs(30);

/// Path to a cluster, as far as probes have shown it.
#[derive(Debug, Default)]
pub(super) struct PathState {
    path: Option<(Path, Timestamp)>,
    misses: u32,
    hits: u32,
    answering_since: Option<Instant>,
    /// Time of the last probe.
    noted: Option<Instant>,
}

impl PathState {
    /// Returns the path and the time since which it is so; `None` while it is unknown.
    pub(super) fn path(&self) -> Option<(Path, Timestamp)> {
        self.path
    }

    /// Whether the last probes failed and the path is not yet bad.
    pub(super) fn is_doubtful(&self) -> bool {
        self.misses > 0 && !matches!(self.path, Some((Path::Bad, _)))
    }

    /// Begins to count again, because a round did not probe the path. The path stays as long as the
    /// report of the last probe is valid.
    pub(super) fn interrupt(&mut self, now: Now) {
        let is_valid = |noted| now.instant.duration_since(noted) < VALID;
        *self = Self {
            path: self.path.filter(|_| self.noted.is_some_and(is_valid)),
            noted: self.noted,
            ..Self::default()
        };
    }

    /// Notes whether an endpoint answered in a round. Returns the path if it changed.
    pub(super) fn note(&mut self, answers: bool, now: Now) -> Option<Path> {
        self.noted = Some(now.instant);
        if answers {
            self.misses = 0;
            self.hits = self.hits.saturating_add(1);
            self.answering_since.get_or_insert(now.instant);
        } else {
            self.hits = 0;
            self.answering_since = None;
            self.misses = self.misses.saturating_add(1);
        }
        let answering = self
            .answering_since
            .map(|since| now.instant.duration_since(since));
        let has_recovered = self.hits >= ROUNDS && answering >= Some(RECOVERY);
        let path = match self.path {
            Some((Path::Bad, _)) if has_recovered => Path::Good,
            Some((Path::Good, _)) | None if self.misses >= ROUNDS => Path::Bad,
            None if answers => Path::Good,
            _ => return None,
        };
        self.path = Some((path, now.wall));
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays rounds, `+` for an answer, `-` for a miss and `.` for no probe, and returns the path
    /// after each: `g`, `b`, or `?`.
    fn play(rounds: &str, interval: Duration) -> String {
        let mut state = PathState::default();
        let mut paths = String::new();
        let mut now = Now {
            instant: Instant::now(),
            wall: Timestamp::now(),
        };
        for round in rounds.chars() {
            if round == '.' {
                state.interrupt(now);
            } else {
                state.note(round == '+', now);
            }
            paths.push(match state.path() {
                Some((Path::Good, _)) => 'g',
                Some((Path::Bad, _)) => 'b',
                None => '?',
            });
            now.instant += interval;
        }
        paths
    }

    #[test]
    fn three_misses_in_a_row_fail_and_three_hits_over_30_s_recover() {
        let ten = Duration::from_secs(10);
        for (rounds, expected) in [
            ("++", "gg"),
            ("---", "??b"),
            ("--+", "??g"),
            ("+--+--+", "ggggggg"),
            ("+---", "gggb"),
            ("+---+++", "gggbbbb"),
            ("+---++++", "gggbbbbg"),
            ("+---+++-++++", "gggbbbbbbbbg"),
            ("+---++++---", "gggbbbbgggb"),
            ("+--.--.---", "gggggggggb"),
            ("+---+.+.+++++", "gggbbbbbbbbgg"),
            ("+---.........+", "gggbbbbbbbbb?g"),
        ] {
            assert_eq!(play(rounds, ten), expected, "{rounds}");
        }
        let five = Duration::from_secs(5);
        assert_eq!(play("---+++++++", five), "??bbbbbbbg");
    }
}
