//! The tables of the KEP's sentences and of causeway's own promises name tests that exist.

use std::collections::BTreeSet;

use causeway_tests::repository;

/// The code spans in the third column of a table.
fn held_by(document: &str) -> Vec<String> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split(" | ").nth(2));
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

/// What is wrong with a code span that is to name a test as `path::name`: no such file, or no such
/// test. A span that names something else is right, unless it reads like a test without its file.
fn fault(span: &str) -> Option<String> {
    let Some((path, name)) = span.split_once("::") else {
        let is_test = span.matches('_').count() > 1;
        return is_test.then(|| format!("{span} has no file before it"));
    };
    match std::fs::read_to_string(repository().join(path)) {
        Ok(source) if tests_of(&source).contains(name) => None,
        Ok(_) => Some(format!("{path} has no test {name}")),
        Err(error) => Some(format!("{path} cannot be read: {error}")),
    }
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
fn every_test_that_a_table_names_exists() {
    for (table, least) in TABLES {
        let spans = held_by(&read(table));
        let tests = spans.iter().filter(|span| span.contains("::")).count();
        assert!(tests > least, "{table}: {tests} tests");
        let faults: Vec<_> = spans.iter().filter_map(|span| fault(span)).collect();
        assert_eq!(faults, Vec::<String>::new(), "{table}");
    }
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let here = "xtask/tests/documents/tables.rs";
    let row = format!("| Promise | Section | `{here}::a_test_that_does_not_exist_is_found` |");
    assert_eq!(fault(&held_by(&row)[0]), None);
    assert_eq!(fault("cluster.local"), None);
    for wrong in [
        format!("{here}::held_by"),
        "xtask/tests/none.rs::held_by".to_owned(),
        "a_test_that_does_not_exist_is_found".to_owned(),
    ] {
        assert!(fault(&wrong).is_some(), "{wrong}");
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
