//! The tables of the KEP's sentences and of causeway's own promises name tests that are there.

use std::collections::BTreeSet;
use std::path::Path;

use causeway_tests::repository;

/// `path::name` of each test in the third column of the table.
fn named(document: &str) -> Vec<(String, String)> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split(" | ").nth(2));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let tests = quoted.filter_map(|text| text.split_once("::"));
    tests
        .map(|(path, name)| (path.to_owned(), name.to_owned()))
        .collect()
}

/// The functions of a file that are run as tests: those under `#[test]` or `#[tokio::test]`,
/// whatever its flavor, and those that are listed for two and three clusters.
fn tests_of(source: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let rest = line.split("fn ").nth(1)?;
        rest.split('(').next().map(str::to_owned)
    };
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let marked = lines
        .windows(2)
        .filter(|two| two[0] == "#[test]" || two[0].starts_with("#[tokio::test"));
    let mut tests: BTreeSet<_> = marked.filter_map(|two| name(two[1])).collect();
    let listed = source.split("on_two_and_three_clusters!(").nth(1);
    let listed = listed.and_then(|rest| rest.split(");").next());
    let listed = listed.into_iter().flat_map(|list| list.split(','));
    tests.extend(listed.map(|name| name.trim().to_owned()));
    tests
}

/// The tables, and the least number of tests that each names.
const TABLES: [(&str, usize); 2] = [("tests/KEP-1645.md", 60), ("tests/PROMISES.md", 60)];

fn read(table: &str) -> String {
    let document = repository().join(table);
    std::fs::read_to_string(document).expect("a table")
}

#[test]
fn every_test_that_a_table_names_is_there() {
    for (table, least) in TABLES {
        let named = named(&read(table));
        assert!(named.len() > least, "{table}: {} tests", named.len());
        for (path, name) in named {
            let file: &Path = path.as_ref();
            let source = std::fs::read_to_string(repository().join(file))
                .unwrap_or_else(|e| panic!("{table} names {path}, which cannot be read: {e}"));
            let is_there = tests_of(&source).contains(&name);
            assert!(is_there, "{table}: {path} has no test {name}");
        }
    }
}

#[test]
fn every_row_of_a_table_has_a_test_or_a_reason() {
    for (table, _) in TABLES {
        let document = read(table);
        let mut sentences = BTreeSet::new();
        for row in document.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
            assert_eq!(cells.len(), 3, "{row}");
            assert!(cells.iter().all(|cell| !cell.trim().is_empty()), "{row}");
            let is_head = ["Promise", "Sentence"].contains(&cells[0].trim());
            let is_new = sentences.insert((cells[0], cells[1]));
            assert!(is_head || is_new, "twice in {table}: {row}");
        }
    }
}
