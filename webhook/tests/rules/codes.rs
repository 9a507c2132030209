//! The codes of the rules, which the reference explains.

use std::collections::BTreeSet;
use std::path::Path;

/// Codes in a text: M or V, and a number.
fn codes(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_code = |word: &&str| {
        let number = word.strip_prefix(['M', 'V']).unwrap_or_default();
        !number.is_empty() && number.len() <= 2 && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    words.filter(is_code).map(str::to_owned).collect()
}

fn codes_below(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let codes = entries.flat_map(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => codes_below(&path),
            false => codes(&std::fs::read_to_string(&path).expect("a source")),
        }
    });
    codes.collect()
}

#[test]
fn every_code_of_a_rule_has_its_row_in_the_reference() {
    let webhook = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reference = webhook.join("../docs/reference.md");
    let reference = std::fs::read_to_string(reference).expect("the reference");
    let cells = reference.lines().filter_map(|line| line.strip_prefix("| "));
    let rows: BTreeSet<_> = cells
        .filter_map(|line| line.split(" |").next())
        .flat_map(codes)
        .collect();
    for kind in ["M", "V"] {
        let of_kind = rows.iter().filter(|row| row.starts_with(kind)).count();
        let mut numbered = (1..=of_kind).map(|number| format!("{kind}{number}"));
        assert!(numbered.all(|code| rows.contains(&code)), "a gap: {rows:?}");
    }
    let sources = ["src", "tests", "../src/domain"];
    let sources = sources.map(|directory| codes_below(&webhook.join(directory)));
    let used: BTreeSet<_> = sources.into_iter().flatten().collect();
    let unknown: Vec<_> = used.difference(&rows).collect();
    assert!(unknown.is_empty(), "{unknown:?} have no row");
}
