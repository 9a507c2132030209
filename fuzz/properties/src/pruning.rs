//! What nothing reads is left out of a review before it is read: any bytes, with and without it, are the same request, or
//! are refused either way. The input is the body of a request.
//!
//! Texts of an input are short, so each is also tried with one of them made long, in ways that JSON allows and in ways that
//! it does not, and broken off.

use causeway_webhook::review::{Request, Subject, pruned::pruned, read_in_full, read_pruned};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Long enough to be left out, and for several of the blocks in which the end of a text is looked for.
const LONG: usize = 150;

/// What texts are made longer with, again and again; not all of it is JSON.
const FILLINGS: [&str; 12] = [
    "x",
    "\\\"",
    "\\\\",
    "{\\\"a\\\":1},",
    "\\n",
    "\\u00e9",
    "\\ud800",
    "ä",
    "\\x",
    "\n",
    "\\u12x",
    "\"",
];

/// Panics where a review says something else without what is left out.
pub(crate) fn holds(body: &[u8]) {
    let Ok(text) = std::str::from_utf8(body) else {
        return;
    };
    is_the_same(text);
    let places: Vec<_> = text.match_indices(":\"").map(|(at, _)| at + 2).collect();
    let Some(at) = text.len().checked_rem(places.len()) else {
        return;
    };
    let (before, after) = text.split_at(places[at]);
    for filling in FILLINGS {
        // Every other filling begins at another place of a block.
        let filling = filling.repeat(LONG / filling.len() + text.len() % 64);
        let longer = format!("{before}{filling}{after}");
        is_the_same(&longer);
        let end = longer.floor_char_boundary(before.len() + filling.len() / 2);
        is_the_same(&longer[..end]);
    }
}

fn is_the_same(text: &str) {
    let pruned = pruned(text);
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    assert_eq!(
        is_json(text),
        pruned.as_deref().is_some_and(is_json),
        "one is JSON: {text}, and {pruned:?}"
    );
    let Some(pruned) = pruned else {
        return;
    };
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    if let (Some(full), Some(rest)) = (parsed(text), parsed(&pruned)) {
        assert!(is_rest(&full, &rest), "more is missing: {full}, and {rest}");
    }
    if let Some(request) = read_pruned(&pruned) {
        let full = read_in_full(text).expect("what is read without some texts is read with them");
        assert_eq!(format!("{request:?}"), format!("{full:?}"));
    } else if let Ok(full) = read_in_full(text) {
        let request = read_in_full(&pruned).expect("what is read with some texts is read without");
        assert_eq!(request.uid, full.uid);
        assert_eq!(is_unreadable(&request), is_unreadable(&full));
    }
}

fn is_unreadable(request: &Request<'_>) -> bool {
    matches!(request.subject, Subject::Unreadable(_))
}

/// Whether nothing but texts is missing.
fn is_rest(full: &Value, rest: &Value) -> bool {
    match (full, rest) {
        (Value::String(_), Value::String(rest)) if rest.is_empty() => true,
        (Value::Array(full), Value::Array(rest)) => {
            full.len() == rest.len()
                && full
                    .iter()
                    .zip(rest)
                    .all(|(full, rest)| is_rest(full, rest))
        }
        (Value::Object(full), Value::Object(rest)) => {
            full.len() == rest.len()
                && full
                    .iter()
                    .all(|(name, full)| rest.get(name).is_some_and(|rest| is_rest(full, rest)))
        }
        (full, rest) => full == rest,
    }
}
