//! Decision whether a path works, from probes over time.

use std::time::Duration;

use causeway::domain::path::Path;
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

    /// Notes whether an endpoint answered in a round. Returns the path if it changed.
    pub(super) fn note(&mut self, answers: bool, now: Now) -> Option<Path> {
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

    /// Plays rounds, `+` for an answer and `-` for a miss, and returns the path after each: `g`,
    /// `b`, or `?`.
    fn play(rounds: &str, interval: Duration) -> String {
        let mut state = PathState::default();
        let mut paths = String::new();
        let mut now = Now {
            instant: Instant::now(),
            wall: Timestamp::now(),
        };
        for round in rounds.chars() {
            state.note(round == '+', now);
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
        ] {
            assert_eq!(play(rounds, ten), expected, "{rounds}");
        }
        let five = Duration::from_secs(5);
        assert_eq!(play("---+++++++", five), "??bbbbbbbg");
    }
}
