//! Rounds of a program and of its floor, in turns. Each is compared with its neighbour, so that it
//! does not matter if the machine becomes slower.

use std::time::Duration;

use crate::report::Row;

/// Neighbouring rounds: of the floor, and of the program.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<[f64; 2]>);

impl Pairs {
    /// Returns a figure of each round.
    pub(crate) fn of<T>(rounds: &[[T; 2]], figure: impl Fn(&T) -> f64) -> Self {
        let pairs = rounds.iter().map(|both| both.each_ref().map(&figure));
        Self(pairs.collect())
    }

    pub(crate) fn note(&mut self, floor: f64, value: f64) {
        self.0.push([floor, value]);
    }

    /// Returns the medians of both, and that of their ratio.
    pub(crate) fn row(&self, name: impl Into<String>, unit: &'static str) -> Row {
        let of = |value: fn(&[f64; 2]) -> f64| median(self.0.iter().map(value));
        let row = Row::new(name, of(|pair| pair[1]), unit).beside(of(|pair| pair[0]));
        let ratio = |pair: &[f64; 2]| pair[1] / pair[0];
        Row {
            ratio: Some(of(ratio)),
            interval: Some(interval(self.0.iter().map(ratio))),
            ..row
        }
    }

    /// Returns the median of the differences.
    pub(crate) fn more(&self, name: impl Into<String>, unit: &'static str) -> Row {
        row_of(self.0.iter().map(|pair| pair[1] - pair[0]), name, unit)
    }
}

/// Measures the floor (0) and the program (1) `rounds` times, in the other order each round.
pub(crate) async fn in_turns<T>(
    rounds: usize,
    mut measure: impl AsyncFnMut(usize) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<[T; 2]>> {
    let mut measured = Vec::new();
    for round in 0..rounds {
        let first = measure(round % 2).await?;
        let mut both = [first, measure(1 - round % 2).await?];
        both.rotate_left(round % 2);
        measured.push(both);
    }
    Ok(measured)
}

/// Returns the median of several rounds, with its interval.
pub(crate) fn row_of(
    rounds: impl Iterator<Item = f64> + Clone,
    name: impl Into<String>,
    unit: &'static str,
) -> Row {
    Row {
        interval: Some(interval(rounds.clone())),
        ..Row::new(name, median(rounds), unit)
    }
}

/// Returns the milliseconds within which that part of all happened. What is `lost` never did.
pub(crate) fn percentile<'a>(
    times: impl IntoIterator<Item = &'a Duration>,
    lost: usize,
    part: f64,
) -> f64 {
    let times = sorted(times.into_iter().map(Duration::as_secs_f64));
    let place = (part * (times.len() + lost) as f64).ceil() as usize;
    let time = times.get(place.saturating_sub(1));
    time.map_or(f64::INFINITY, |seconds| seconds * 1000.0)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns the median; of an even number of values the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let middle = [values.len().saturating_sub(1) / 2, values.len() / 2];
    let [low, high] = middle.map(|place| values.get(place).copied().unwrap_or(f64::NAN));
    low.midpoint(high)
}

/// Returns the interval of a median in 95 of 100 runs, by the binomial distribution of the ranks.
/// The interval of fewer than six values spans all of them.
fn interval(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = sorted(values);
    let count = values.len() as f64;
    let rank = ((count - 1.96 * count.sqrt()) / 2.0).max(0.0) as usize;
    let last = values.len().saturating_sub(1);
    let at = |rank: usize| values.get(rank).copied().unwrap_or(f64::NAN);
    (at(rank), at(last.saturating_sub(rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_compared() {
        // The machine becomes slower, by more than the difference.
        let speeds = (1..=20).map(|turn| 1000.0 / f64::from(turn));
        let pairs = speeds.map(|speed| [speed, speed * (0.91 - speed / 1e5)]);
        let row = Pairs(pairs.collect()).row("requests", "1/s");
        assert!((0.90..0.91).contains(&row.ratio.unwrap()), "{row:?}");
        assert!(row.interval.unwrap().1 < 0.92, "{row:?}");
        let pairs = (0..20).map(f64::from).map(|one| [one, 2.0 * one]);
        let more = Pairs(pairs.collect()).more("latency", "ms");
        assert_eq!((more.value, more.interval), (9.5, Some((5.0, 14.0))));
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn percentile_occurred_and_lost_changes_are_slower() {
        let times: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        let percentiles = [0.5, 0.99, 1.0].map(|part| percentile(&times, 0, part));
        assert_eq!(percentiles, [50.0, 99.0, 100.0]);
        assert_eq!(percentile(&times, 2, 0.99), f64::INFINITY);
    }
}
