//! What was measured, as a table for people and as JSON for programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_tests::repository;
use serde::Serialize;

use crate::quiet::Quietness;

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: String,
    /// The number.
    pub(crate) value: f64,
    /// What it counts.
    pub(crate) unit: &'static str,
    /// The same of the floor.
    pub(crate) floor: Option<f64>,
    /// The value divided by the floor.
    pub(crate) ratio: Option<f64>,
    /// Between what the ratio is in 95 of 100 runs; the value, where there is no floor.
    pub(crate) interval: Option<(f64, f64)>,
    /// What the number should be.
    pub(crate) goal: Option<String>,
    /// Whether it is; `None` also where the interval straddles the goal.
    pub(crate) met: Option<bool>,
}

impl Row {
    /// A number without a floor.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            floor: None,
            ratio: None,
            interval: None,
            goal: None,
            met: None,
        }
    }

    /// With the floor of the same run.
    pub(crate) fn beside(mut self, floor: f64) -> Self {
        self.floor = Some(floor);
        self.ratio = (floor > 0.0).then(|| self.value / floor);
        self
    }

    /// Whose ratio is the median of several, with its interval.
    pub(crate) fn with_ratio(mut self, ratio: f64, interval: (f64, f64)) -> Self {
        self.ratio = Some(ratio);
        self.interval = Some(interval);
        self
    }

    /// That is the median of several, with its interval.
    pub(crate) fn between(mut self, interval: (f64, f64)) -> Self {
        self.interval = Some(interval);
        self
    }

    /// Whether a goal holds for the ratio, wherever in its interval it may be.
    fn holds(&self, goal: impl Fn(f64) -> bool) -> Option<bool> {
        let only = self.ratio.map(|ratio| (ratio, ratio));
        let (least, most) = self.interval.or(only)?;
        (goal(least) == goal(most)).then(|| goal(least))
    }

    /// The same for the value.
    fn value_holds(&self, goal: impl Fn(f64) -> bool) -> Option<bool> {
        let (least, most) = self.value_interval().unwrap_or((self.value, self.value));
        (goal(least) == goal(most)).then(|| goal(least))
    }

    fn value_interval(&self) -> Option<(f64, f64)> {
        self.interval.filter(|_| self.ratio.is_none())
    }

    /// That is to be below a limit.
    pub(crate) fn below(mut self, limit: f64) -> Self {
        self.goal = Some(format!("< {limit} {}", self.unit));
        self.met = self.value_holds(|value| value < limit);
        self
    }

    /// That is to be this or less.
    pub(crate) fn at_most(mut self, most: f64) -> Self {
        self.goal = Some(format!("<= {most} {}", self.unit).trim_end().to_owned());
        self.met = self.value_holds(|value| value <= most);
        self
    }

    /// Whose ratio to the floor is to be so much at least.
    pub(crate) fn ratio_at_least(mut self, least: f64) -> Self {
        self.goal = Some(format!("ratio >= {least}"));
        self.met = self.holds(|ratio| ratio >= least);
        self
    }

    /// Whose ratio to the floor is to be so much at most.
    pub(crate) fn ratio_at_most(mut self, most: f64) -> Self {
        self.goal = Some(format!("ratio <= {most}"));
        self.met = self.holds(|ratio| ratio <= most);
        self
    }

    fn ratio_cell(&self) -> String {
        match (self.ratio, self.interval) {
            (Some(ratio), Some((least, most))) => format!("{ratio:.2} ({least:.2} to {most:.2})"),
            (Some(ratio), None) => format!("{ratio:.2}"),
            (None, _) => String::new(),
        }
    }

    fn value_cell(&self) -> String {
        let value = number(self.value);
        self.value_interval()
            .map_or(value.clone(), |(least, most)| {
                format!("{value} ({} to {})", number(least), number(most))
            })
    }

    fn cells(&self) -> [String; 7] {
        let met = match (self.met, &self.goal) {
            (Some(true), _) => "yes",
            (Some(false), _) => "NO",
            (None, Some(_)) => "?",
            (None, None) => "",
        };
        [
            self.name.clone(),
            self.value_cell(),
            self.unit.to_owned(),
            self.floor.map(number).unwrap_or_default(),
            self.ratio_cell(),
            self.goal.clone().unwrap_or_default(),
            met.to_owned(),
        ]
    }
}

/// Three digits that count, and no more where the number is small.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

const HEADINGS: [&str; 7] = ["", "value", "unit", "floor", "ratio", "goal", "met"];

/// The rows as a Markdown table that can be read as it is.
pub(crate) fn table(rows: &[Row]) -> String {
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    let headings = HEADINGS.map(str::to_owned);
    let mut widths = [3; 7];
    for row in cells.iter().chain([&headings]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    write_line(&mut text, &headings, &widths);
    write_line(&mut text, &widths.map(|width| "-".repeat(width)), &widths);
    for row in &cells {
        write_line(&mut text, row, &widths);
    }
    text
}

fn write_line(text: &mut String, cells: &[String; 7], widths: &[usize; 7]) {
    let padded = cells.iter().zip(widths);
    let padded: Vec<_> = padded
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    writeln!(text, "| {} |", padded.join(" | ")).expect("a String takes all");
}

/// Prints the table of a part and writes its JSON, into target/bench of the repository if no other directory is given. No
/// goal is evaluated where the machine was not quiet.
pub(crate) fn finish(
    part: &str,
    mut rows: Vec<Row>,
    quietness: Quietness,
    directory: Option<&Path>,
) -> anyhow::Result<()> {
    if !quietness.is_enough() {
        rows.iter_mut().for_each(|row| row.met = None);
    }
    println!("{}", table(&rows));
    match quietness.is_enough() {
        true => println!("The machine was quiet: {quietness}."),
        false => println!("No goal is evaluated, for the machine was not quiet: {quietness}."),
    }
    let default = repository().join("target/bench");
    let file = write_json(directory.unwrap_or(&default), part, &rows)?;
    println!("{}", file.display());
    Ok(())
}

/// Writes `<part>.json` into the directory; returns where it is.
fn write_json(directory: &Path, part: &str, rows: &[Row]) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let file = directory.join(format!("{part}.json"));
    let mut text = serde_json::to_string_pretty(rows)?;
    text.push('\n');
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_by_the_value_or_by_its_ratio_to_the_floor() {
        let row = |value| Row::new("x", value, "ms");
        assert_eq!(row(0.9).below(1.0).met, Some(true));
        assert_eq!(row(1.0).below(1.0).met, Some(false));
        for (ratio, fast, slow) in [(0.4, false, true), (0.5, true, true), (2.1, true, false)] {
            let row = row(ratio * 10.0).beside(10.0);
            assert_eq!(row.clone().ratio_at_least(0.5).met, Some(fast), "{ratio}");
            assert_eq!(row.ratio_at_most(2.0).met, Some(slow), "{ratio}");
        }
        for (interval, met) in [
            ((0.9, 1.4), Some(true)),
            ((1.4, 1.6), None),
            ((1.6, 1.7), Some(false)),
        ] {
            let row = row(15.0).beside(10.0).with_ratio(1.5, interval);
            assert_eq!(row.ratio_at_most(1.5).met, met, "{interval:?}");
        }
    }

    #[test]
    fn the_table_is_markdown_whose_columns_stand_below_each_other() {
        let rows = [
            Row::new("requests", 41_234.4, "1/s")
                .beside(60_000.0)
                .ratio_at_least(0.5),
            Row::new("p99", 0.123_4, "ms"),
        ];
        let expected = "\
|          | value | unit | floor | ratio | goal         | met |
| -------- | ----- | ---- | ----- | ----- | ------------ | --- |
| requests | 41234 | 1/s  | 60000 | 0.69  | ratio >= 0.5 | yes |
| p99      | 0.123 | ms   |       |       |              |     |
";
        assert_eq!(table(&rows), expected);
    }
}
