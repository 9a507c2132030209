//! Tables of flags say the defaults that the programs have.

use super::book::{self, Kind, Page};
use super::{none, product};

/// The flags of a row, each with the first word of its default; none where the row is of something
/// else.
fn reported(row: &str) -> Vec<(String, String)> {
    let mut cells = row.trim_matches('|').split(" | ");
    let (flags, defaults) = (
        cells.next().unwrap_or_default(),
        cells.next().unwrap_or_default(),
    );
    let spans: Vec<_> = flags.split('`').skip(1).step_by(2).collect();
    if !spans.iter().all(|span| span.starts_with("--")) {
        return Vec::new();
    }
    let defaults = match spans.len() {
        1 => vec![defaults],
        _ => defaults.split(", ").collect(),
    };
    let words = defaults.into_iter().map(first_word);
    let flags = spans.into_iter().map(product::bare);
    flags.zip(words).collect()
}

fn first_word(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.trim_matches('`').to_owned()
}

fn rows(page: &Page) -> impl Iterator<Item = &str> {
    let rows = page.lines.iter().filter(|line| line.kind == Kind::Table);
    rows.map(|line| line.text.as_str())
}

#[test]
fn the_defaults_in_tables_of_flags_are_those_of_the_programs() {
    let defaults: Vec<_> = product::PROGRAMS
        .into_iter()
        .flat_map(product::defaults)
        .collect();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for path in [
        "docs/reference.md",
        "docs/limits.md",
        "docs/certificates.md",
    ] {
        let page = book::page(path);
        for (flag, reported) in rows(&page).flat_map(reported) {
            for (_, default) in defaults.iter().filter(|(name, _)| *name == flag) {
                compared += 1;
                if reported != first_word(default) {
                    wrong.push(format!("{path}: {flag} is {default}, not {reported}"));
                }
            }
        }
    }
    assert!(compared > 25, "{compared} defaults were compared");
    none("defaults that are others", wrong);
}
