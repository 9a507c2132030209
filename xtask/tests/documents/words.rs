//! The words that are not to come back: `clippy.toml` keeps them from variables, this test from all
//! else that is committed. docs/decisions/0024 names what stands in their place.

use std::collections::{BTreeMap, BTreeSet};

use causeway_tests::repository;

use crate::pages::files_below;

/// Pages that have to name the old words.
const NAMES_THEM: [&str; 3] = [
    "CHANGELOG.md",
    "docs/decisions/0024-the-fields-words.md",
    "xtask/tests/documents/words.rs",
];

/// The words of `disallowed-names` in clippy.toml, but for those that clippy has itself.
fn disallowed() -> BTreeSet<String> {
    let settings = std::fs::read_to_string(repository().join("clippy.toml")).expect("clippy.toml");
    let (_, list) = settings
        .split_once("disallowed-names = [")
        .expect("disallowed-names");
    let (list, _) = list.split_once(']').expect("the end of the list");
    let words = list.split('"').skip(1).step_by(2);
    words
        .filter(|word| *word != "..")
        .map(str::to_owned)
        .collect()
}

/// The words of a text, in lower case: those of prose, of `snake_case` and of `CamelCase`.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in line.chars() {
        let begins = !letter.is_ascii_alphabetic() || (letter.is_ascii_uppercase() && was_lower);
        was_lower = letter.is_ascii_lowercase();
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphabetic()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn words_of_our_own_do_not_come_back() {
    let disallowed = disallowed();
    assert!(!disallowed.is_empty(), "clippy.toml names no word");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for extension in ["rs", "md", "yaml"] {
        for path in files_below(&repository(), extension) {
            if NAMES_THEM.contains(&path.as_str()) {
                continue;
            }
            let text = std::fs::read_to_string(repository().join(&path)).expect("a text");
            for (number, line) in text.lines().enumerate() {
                for word in words(line) {
                    if disallowed.contains(&word) {
                        let places = found.entry(word).or_default();
                        places.push(format!("{path}:{}", number + 1));
                    }
                }
            }
        }
    }
    let texts = found.iter().map(|(word, places)| {
        let first: Vec<_> = places.iter().take(5).map(String::as_str).collect();
        format!("{word} ({} times: {} ...)", places.len(), first.join(", "))
    });
    let texts: Vec<_> = texts.collect();
    assert!(
        texts.is_empty(),
        "the field has other words for these (docs/decisions/0024-the-fields-words.md):\n  {}",
        texts.join("\n  ")
    );
}

#[test]
fn the_words_of_names_are_read_one_by_one() {
    assert_eq!(
        words("let MemberWish = told_once(&HTTPServer2);"),
        ["let", "member", "wish", "told", "once", "httpserver"]
    );
}
