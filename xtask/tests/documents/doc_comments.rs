//! Doc comments name what they describe: they begin with a verb or a noun phrase, as those of the
//! Rust API guidelines do, and not with a question word. Comments wrap at 100 columns.

use causeway_tests::repository;

use crate::pages::files_below;

/// Crates, with the percentage of their doc comments that must not be reached.
const CRATES: [(&str, usize); 11] = [
    ("bench", 3),
    ("certs", 3),
    ("cli", 3),
    ("controller/src", 3),
    ("engine", 3),
    ("src", 3),
    ("tests", 3),
    ("tunnel", 3),
    ("webhook", 3),
    ("wire", 3),
    ("xtask", 3),
];
/// Maximum columns of a line with a comment.
const WIDTH: usize = 100;
const QUESTION_WORDS: [&str; 13] = [
    "What", "How", "Why", "Who", "Whom", "Whose", "Which", "Where", "When", "Since", "Until", "Of",
    "In",
];

/// First lines of the doc comments of a source file.
fn first_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let is_first = !std::mem::replace(&mut is_inside, comment.is_some());
        comment.filter(|_| is_first).map(str::trim_start)
    })
}

/// Returns the comments that are too long. A row of a table, and the target of a link, cannot wrap.
fn too_long(text: &str) -> impl Iterator<Item = &str> {
    let comments = text.lines().filter_map(|line| {
        let comment = line.trim_start().strip_prefix("//")?;
        (line.chars().count() > WIDTH).then(|| comment.trim_start_matches(['/', '!', ' ']))
    });
    comments.filter(|text| !text.starts_with('|') && !text.contains("]: http"))
}

fn begins_with_a_question(line: &str) -> bool {
    let word = line.split(|letter: char| !letter.is_alphabetic()).next();
    word.is_some_and(|word| QUESTION_WORDS.contains(&word))
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun_phrase_and_wrap() {
    for (directory, limit) in CRATES {
        let paths = files_below(&repository().join(directory), "rs");
        let texts = paths.iter().map(|path| {
            let path = repository().join(directory).join(path);
            std::fs::read_to_string(path).expect("a source file")
        });
        let (mut all, mut questions, mut long) = (0, Vec::new(), Vec::new());
        for text in texts {
            long.extend(too_long(&text).map(str::to_owned));
            for line in first_lines(&text) {
                all += 1;
                questions.extend(begins_with_a_question(line).then(|| line.to_owned()));
            }
        }
        let count = questions.len();
        println!("{directory}: {count} of {all} doc comments begin with a question word");
        assert!(all > 30, "{directory} has {all} doc comments");
        assert!(count * 100 < all * limit, "{directory}: {questions:#?}");
        assert!(long.is_empty(), "{directory}: {long:#?}");
    }
}

#[test]
fn question_words_are_found_in_first_lines_alone() {
    let text = "/// How long it is.\n/// What follows does not count.\nconst A: u8 = 0;\n//! Whether.\n\
                fn b() {}\n    /// Returns it. How is its own affair.\n/// Ofen is no question.\n";
    let lines: Vec<_> = first_lines(text).collect();
    assert_eq!(
        lines,
        [
            "How long it is.",
            "Whether.",
            "Returns it. How is its own affair."
        ]
    );
    let questions = lines.iter().map(|line| begins_with_a_question(line));
    assert_eq!(questions.collect::<Vec<_>>(), [true, false, false]);
    assert!(!begins_with_a_question("Ofen is no question."));
}

#[test]
fn comments_that_do_not_wrap_are_found() {
    let long = "word ".repeat(20);
    for (line, is_found) in [
        (format!("    // {long}"), true),
        (format!("/// {long}"), true),
        (format!("//! | {long} |"), false),
        (format!("//! [page]: https://example.com/{long}"), false),
        (format!("let text = \"{long}\";"), false),
        ("// word".to_owned(), false),
    ] {
        assert_eq!(too_long(&line).count(), usize::from(is_found), "{line}");
    }
}
