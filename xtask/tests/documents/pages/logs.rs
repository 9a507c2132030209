//! Log lines: their keys are in the book, so that who reads them can rely on them.

use std::collections::BTreeMap;

use super::{book, none, product};

const PAGE: &str = "docs/tracing.md";

/// The arguments of a macro whose bracket has just been opened, as they are separated by commas.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    let mut arguments = vec![String::new()];
    for letter in text.chars() {
        match letter {
            _ if in_text => {
                in_text = escaped || letter != '"';
                escaped = letter == '\\' && !escaped;
            }
            '"' => in_text = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = arguments.last_mut() {
            last.push(letter);
        }
    }
    arguments.iter().map(|one| one.trim().to_owned()).collect()
}

/// The keys of the fields of all log lines in a source.
fn keys(source: &str) -> Vec<String> {
    let calls = ["error", "warn", "info", "debug", "trace"]
        .into_iter()
        .flat_map(|level| {
            let begin = format!("tracing::{level}!(");
            let ends = source
                .match_indices(&begin)
                .map(|(at, begin)| at + begin.len());
            ends.collect::<Vec<_>>()
        });
    let fields = calls.flat_map(|begin| arguments(&source[begin..]));
    let fields = fields.filter(|field| !field.is_empty() && !field.starts_with('"'));
    let keys = fields.map(|field| {
        let key = field.split('=').next().unwrap_or_default();
        key.trim().trim_start_matches(['%', '?']).to_owned()
    });
    keys.collect()
}

#[test]
fn every_key_of_a_log_line_is_in_the_book() {
    let named = book::page(PAGE).spans();
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let mut found = 0;
    for (path, source) in product::sources() {
        for key in keys(&source) {
            found += 1;
            if !named.contains(&key) {
                missing.insert(key, path.clone());
            }
        }
    }
    assert!(found > 100, "{found} fields were found");
    let missing = missing.iter().map(|(key, path)| format!("{path}: {key}"));
    none(
        "keys of log lines that the book does not name",
        missing.collect(),
    );
}

#[test]
fn keys_are_those_of_the_fields_and_not_of_the_words() {
    let source =
        r#"tracing::warn!(cluster = %of(a, b), %error, name, n = "x, y", "said: \", {z}", );"#;
    assert_eq!(keys(source), ["cluster", "error", "name", "n"]);
}
