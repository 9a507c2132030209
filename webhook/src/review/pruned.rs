//! Removal of long strings that no rule reads from a review. Most of a review may be one annotation
//! of a tool.
//!
//! **A rule that reads a new string field must add its name to [`READ`].** Without that, the rule
//! sees an empty string wherever the value has [`LONG`] bytes or more. The property in
//! `fuzz/properties/src/pruning.rs` finds such a rule if a seed in `fuzz/seeds/admission` sets the
//! field.
//!
//! `pruned` replaces the value by an empty string, and serde_json reads the remaining kilobytes.
//! `pruned` accepts nothing that serde_json would refuse: it replaces only complete JSON strings,
//! and keeps every other byte. The caller reads a review that it refuses again in full, so that
//! positions in errors are those of the original.

use memchr::memchr;

use super::string_end::string_end;

/// Minimum length, in bytes, of a string that is blanked.
const LONG: usize = 32;

/// Names of all fields whose strings a rule or the envelope reads. Their values stay at every depth.
const READ: [&[u8]; 15] = [
    b"name",
    b"apiVersion",
    b"kind",
    b"uid",
    b"group",
    b"version",
    b"subResource",
    b"namespace",
    b"operation",
    b"generateName",
    b"deletionTimestamp",
    b"multiclusterservice.karmada.io/permanent-id",
    b"mcs.causeway.dev/prefer",
    b"mcs.causeway.dev/min-ready",
    b"mcs.causeway.dev/unreachable",
];

/// The review with empty texts in place of the long ones that are not read. `None` where it is found to be no JSON; where
/// it is returned it may be none all the same.
pub fn pruned(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut pruned = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(quote) = bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
        let begin = at + quote + 1;
        at = string_end(bytes, begin)?;
        let Some(value) = text_after(bytes, at) else {
            continue;
        };
        if is_read(bytes.get(begin..at - 1)?) {
            continue;
        }
        at = string_end(bytes, value)?;
        let last = at - 1;
        if last - value >= LONG {
            pruned.push_str(text.get(copied..value)?);
            copied = last;
        }
    }
    pruned.push_str(text.get(copied..)?);
    Some(pruned)
}

/// Where the text of a field begins, after its opening quote; `None` where what ends at `end` is no name of a field, or
/// that of another value.
fn text_after(bytes: &[u8], end: usize) -> Option<usize> {
    let colon = after_space(bytes, end);
    if bytes.get(colon) != Some(&b':') {
        return None;
    }
    let value = after_space(bytes, colon + 1);
    (bytes.get(value) == Some(&b'"')).then_some(value + 1)
}

fn after_space(bytes: &[u8], begin: usize) -> usize {
    let rest = bytes.get(begin..).unwrap_or_default();
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    begin + rest.iter().take_while(|byte| is_space(byte)).count()
}

/// Whether a text of that field is read. It may be where the name is spelt with escapes.
fn is_read(name: &[u8]) -> bool {
    READ.contains(&name) || memchr(b'\\', name).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TEXT: &str = "a text of more than thirty-two bytes";

    #[test]
    fn only_long_texts_of_fields_that_are_not_read_are_left_out() {
        let review = |notes: &str| {
            let fields =
                json!({"name": TEXT, "notes": notes, "short": "x", "list": [TEXT], "number": 1});
            json!({"request": {"uid": TEXT, "object": {"metadata": fields.clone()}}, "none": null, "all": fields})
        };
        for notes in [TEXT, &"\"\\\n\u{e9}".repeat(100)] {
            let text = review(notes).to_string();
            assert_eq!(pruned(&text), Some(review("").to_string()));
            let spaced = serde_json::to_string_pretty(&review(notes)).expect("it is written");
            let pruned = pruned(&spaced).expect("JSON");
            assert_eq!(
                serde_json::from_str::<Value>(&pruned).ok(),
                Some(review(""))
            );
        }
    }

    #[test]
    fn a_field_whose_name_is_spelt_with_escapes_stays() {
        let text = format!(r#"{{"n\u0061me":"{TEXT}","notes":"{TEXT}"}}"#);
        let expected = format!(r#"{{"n\u0061me":"{TEXT}","notes":""}}"#);
        assert_eq!(pruned(&text), Some(expected));
    }

    #[test]
    fn what_is_no_json_does_not_become_json() {
        let long = "x".repeat(100);
        for text in [
            format!("{{\"a\":\"{long}"),
            format!("{{\"a\":\"{long}\\x\"}}"),
            format!("{{\"a\":\"{long}\n\"}}"),
            format!("{{\"a\":\"{long}\"b\"{long}\"}}"),
            format!("{{\"a\":1\"{long}\"}}"),
            format!("{{\"a\":\"{long}\"1}}"),
            format!("{{\"a\" \"{long}\"}}"),
            format!("{{\"a\"::\"{long}\"}}"),
            format!("{{\"a\":\"{long}\",}}"),
            format!("[\"a\":\"{long}\"]"),
            format!("\"a\":\"{long}\""),
        ] {
            let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
            assert!(
                !is_json(&text) && !pruned(&text).is_some_and(|pruned| is_json(&pruned)),
                "{text}"
            );
        }
    }
}
