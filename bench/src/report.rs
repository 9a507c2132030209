//! Figures, as a table for people and as JSON for programs.

use std::path::Path;

use anyhow::Context as _;
use causeway_tests::repository;
use serde::Serialize;

/// Maximum percentage of all cores that others may take.
const MOST_TAKEN: f64 = 5.0;

/// One figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Value of the floor, in the same run.
    pub(crate) floor: Option<f64>,
    /// Value divided by the floor.
    pub(crate) ratio: Option<f64>,
    /// Interval that holds the ratio in 95 of 100 runs; the value, if there is no floor.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) goal: Option<String>,
    /// Whether the goal is met; `None` also if the interval straddles it.
    pub(crate) met: Option<bool>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            ..Self::default()
        }
    }

    pub(crate) fn beside(mut self, floor: f64) -> Self {
        self.floor = Some(floor);
        self.ratio = (floor > 0.0).then(|| self.value / floor);
        self
    }

    /// Adds a goal of the ratio or of the value, which must hold at both ends of its interval.
    fn with_goal(mut self, goal: String, of_ratio: bool, holds: impl Fn(f64) -> bool) -> Self {
        let only = [Some(self.value), self.ratio][usize::from(of_ratio)];
        let interval = self.interval.filter(|_| of_ratio == self.ratio.is_some());
        let ends = interval.or(only.map(|only| (only, only)));
        let met = ends.map(|(least, most)| [least, most].map(holds));
        self.met = met.and_then(|[least, most]| (least == most).then_some(least));
        self.goal = Some(goal.trim_end().to_owned());
        self
    }

    pub(crate) fn at_most(self, most: f64) -> Self {
        let goal = format!("<= {most} {}", self.unit);
        self.with_goal(goal, false, |value| value <= most)
    }

    pub(crate) fn at_least(self, least: f64) -> Self {
        let goal = format!(">= {least} {}", self.unit);
        self.with_goal(goal, false, |value| value >= least)
    }

    pub(crate) fn ratio_at_least(self, least: f64) -> Self {
        self.with_goal(format!("ratio >= {least}"), true, |ratio| ratio >= least)
    }

    pub(crate) fn ratio_at_most(self, most: f64) -> Self {
        self.with_goal(format!("ratio <= {most}"), true, |ratio| ratio <= most)
    }

    fn cells(&self) -> [String; 7] {
        let met = match self.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None if self.goal.is_some() => "?",
            None => "",
        };
        let interval = self.interval.map_or(String::new(), |(least, most)| {
            format!(" ({} to {})", number(least), number(most))
        });
        let (value, ratio) = match self.ratio {
            Some(ratio) => (number(self.value), format!("{ratio:.2}{interval}")),
            None => (number(self.value) + &interval, String::new()),
        };
        let floor = self.floor.map_or(String::new(), number);
        let (name, goal) = (self.name.clone(), self.goal.clone().unwrap_or_default());
        let (unit, met) = (self.unit.to_owned(), met.to_owned());
        [name, value, unit, floor, ratio, goal, met]
    }
}

/// Returns a number with about three significant digits.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Returns the rows as a Markdown table with aligned columns.
pub(crate) fn table(rows: &[Row]) -> String {
    let headings = ["", "value", "unit", "floor", "ratio", "goal", "met"].map(str::to_owned);
    let mut lines = vec![headings];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| lines.iter().map(|cells| cells[column].len()).max();
    let widths: [_; 7] = std::array::from_fn(|column| width(column).unwrap_or_default().max(3));
    lines.insert(1, widths.map(|width| "-".repeat(width)));
    let line = |cells: &[String; 7]| {
        let padded = cells.iter().zip(widths);
        let padded = padded.map(|(cell, width)| format!("{cell:<width$} | "));
        format!("| {}\n", padded.collect::<String>().trim_end())
    };
    lines.iter().map(line).collect()
}

/// Prints the table of a part and writes its JSON, to target/bench of the repository by default. No
/// goal is evaluated if others `took` more than that percentage of the machine.
pub(crate) fn finish(
    part: &str,
    mut rows: Vec<Row>,
    took: f64,
    directory: Option<&Path>,
) -> anyhow::Result<()> {
    let quietness = format!("others took {took:.1} % of the cores, {MOST_TAKEN} % at most");
    let result = match took <= MOST_TAKEN {
        true => "The machine was quiet",
        false => {
            rows.iter_mut().for_each(|row| row.met = None);
            "No goal is evaluated, for the machine was not quiet"
        }
    };
    println!("{}\n{result}: {quietness}.", table(&rows));
    let default = repository().join("target/bench");
    let directory = directory.unwrap_or(&default);
    let file = directory.join(format!("{part}.json"));
    let text = serde_json::to_string_pretty(&rows)? + "\n";
    let made = std::fs::create_dir_all(directory);
    made.and_then(|()| std::fs::write(&file, text))
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_in_the_whole_interval() {
        let intervals = [(0.9, 1.4), (1.4, 1.6), (1.6, 1.7)];
        for (interval, met) in intervals.into_iter().zip([Some(true), None, Some(false)]) {
            let mut row = Row::new("x", 1.5, "ms");
            row.interval = Some(interval);
            assert_eq!(row.clone().at_most(1.5).met, met, "{interval:?}");
            assert_eq!(row.beside(1.0).ratio_at_most(1.5).met, met, "{interval:?}");
        }
    }
}
