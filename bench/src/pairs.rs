//! Rounds of one thing and of another, in turns: each is compared with its neighbour, so that a machine that becomes slower does
//! not count.

use crate::report::Row;

/// The same number of neighbouring rounds: of what is compared with, and of what is measured.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    pub(crate) fn note(&mut self, floor: f64, value: f64) {
        self.0.push((floor, value));
    }

    /// The number beside that of its neighbours, and between what their ratio is in 95 of 100 runs.
    pub(crate) fn row(&self, name: impl Into<String>, unit: &'static str) -> Row {
        let of = |value: fn(&(f64, f64)) -> f64| median(self.0.iter().map(value));
        let row = Row::new(name, of(|pair| pair.1), unit).beside(of(|pair| pair.0));
        let ratio = |pair: &(f64, f64)| pair.1 / pair.0;
        row.with_ratio(of(ratio), self.interval(ratio))
    }

    /// By how much the number is more than that of its neighbours, and between what that is in 95 of 100 runs.
    pub(crate) fn more(&self, name: impl Into<String>, unit: &'static str) -> Row {
        let more = |pair: &(f64, f64)| pair.1 - pair.0;
        Row::new(name, median(self.0.iter().map(more)), unit).between(self.interval(more))
    }

    fn interval(&self, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
        interval(self.0.iter().map(of))
    }
}

/// The median of several rounds, and between what it is in 95 of 100 runs; of less than six rounds, between what they are.
pub(crate) fn row_of(
    rounds: impl Iterator<Item = f64> + Clone,
    name: impl Into<String>,
    unit: &'static str,
) -> Row {
    Row::new(name, median(rounds.clone()), unit).between(interval(rounds))
}

/// Returns the median; of an even number of values the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = [values.len().saturating_sub(1) / 2, values.len() / 2];
    let [low, high] = middle.map(|place| values.get(place).copied().unwrap_or(f64::NAN));
    low.midpoint(high)
}

/// The interval of a median, by the binomial distribution of the ranks.
fn interval(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    let rank = ((count - 1.96 * count.sqrt()) / 2.0).max(0.0) as usize;
    let last = values.len().saturating_sub(1);
    let at = |rank: usize| values.get(rank).copied().unwrap_or(f64::NAN);
    (at(rank), at(last.saturating_sub(rank)))
}

impl FromIterator<(f64, f64)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (f64, f64)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_compared_and_the_interval_holds_their_median() {
        let mut pairs = Pairs::default();
        // The machine becomes slower, by more than what is measured.
        for turn in 1..=20 {
            let speed = 1000.0 / f64::from(turn);
            pairs.note(speed, speed * (0.9 + f64::from(turn) / 1000.0));
        }
        let row = pairs.row("requests", "1/s").ratio_at_least(0.95);
        let (ratio, (least, most)) = (row.ratio.unwrap(), row.interval.unwrap());
        assert!((0.905..0.915).contains(&ratio) && row.met == Some(false));
        assert!(least < ratio && ratio < most && most < 0.92, "{row:?}");
    }

    #[test]
    fn a_goal_that_the_interval_of_a_difference_straddles_is_neither_met_nor_missed() {
        let pairs: Pairs = (0..20)
            .map(|turn| (f64::from(turn), f64::from(2 * turn)))
            .collect();
        for (limit, met) in [(1.0, Some(false)), (9.5, None), (19.5, Some(true))] {
            let row = pairs.more("latency", "ms").below(limit);
            assert_eq!((row.value, row.interval), (9.5, Some((5.0, 14.0))));
            assert_eq!(row.met, met, "{limit}");
        }
    }

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 3.0, 1.0, 2.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }
}
