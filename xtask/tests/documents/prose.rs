//! Decisions are values: sentences are in engine/src/messages, and in no other room of the engine
//! that decides, explains, compares or reports.

use causeway_tests::repository;
use proc_macro2::{TokenStream, TokenTree};

use crate::pages::files_below;

/// Modules that decide, explain, compare or report.
const ROOMS: [&str; 9] = [
    "diff",
    "explain",
    "lists",
    "plan",
    "preview",
    "reconcile",
    "removal",
    "status",
    "write_conflict",
];

/// Returns the literals that hold two words in a row. Comments and attributes do not count.
fn prose(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_attribute = false;
    for token in tokens {
        match &token {
            TokenTree::Group(group) if !is_attribute => found.extend(prose(group.stream())),
            TokenTree::Literal(literal) => found.extend(with_words(&literal.to_string())),
            _ => {}
        }
        is_attribute = match &token {
            TokenTree::Punct(mark) => {
                mark.as_char() == '#' || (is_attribute && mark.as_char() == '!')
            }
            _ => false,
        };
    }
    found
}

fn with_words(literal: &str) -> Option<String> {
    let words: Vec<_> = literal.split_whitespace().collect();
    let has_letters = |word: &&str| word.chars().any(char::is_alphabetic);
    let is_prose = words.windows(2).any(|pair| pair.iter().all(has_letters));
    is_prose.then(|| literal.to_owned())
}

#[test]
fn rooms_that_decide_form_no_sentence() {
    let root = repository().join("engine/src");
    for path in files_below(&root, "rs") {
        let modules: Vec<_> = path.trim_end_matches(".rs").split('/').collect();
        if !ROOMS.contains(&modules[0]) || modules.contains(&"tests") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path)).expect("a source file");
        let found = prose(text.parse().expect("Rust"));
        assert!(
            found.is_empty(),
            "engine/src/{path}: words of messages: {found:?}"
        );
    }
}

#[test]
fn sentence_in_a_macro_is_found() {
    let found = |text: &str| prose(text.parse().expect("Rust"));
    let macros = r#"fn f() { g(format!("{name} is not joined")); h("owner/uid"); }"#;
    assert_eq!(found(macros), [r#""{name} is not joined""#]);
    let attributes = r#"//! Some words.
        #[allow(lint, reason = "for some reason")] /// More words.
        fn f() -> String { format!("{kind}/{name}") }"#;
    assert_eq!(found(attributes), [""; 0]);
}
