//! Maximum length of texts that an API server stores, field by field, and functions that shorten a
//! text to it.
//!
//! All in bytes: of texts that are not ASCII some definitions count characters, which are never
//! more.

/// `reason` of an Event (events.k8s.io/v1, `reasonLengthLimit`).
pub const EVENT_REASON: usize = 128;
/// `reportingInstance` of an Event (`reportingInstanceLengthLimit`).
pub const EVENT_REPORTER: usize = 128;
/// `note` of an Event (`noteLengthLimit`).
pub const EVENT_NOTE: usize = 1024;
/// `reason` of a condition (meta/v1 Condition, as definitions repeat it).
pub const CONDITION_REASON: usize = 1024;
/// `message` of a condition (meta/v1 Condition, as definitions repeat it).
pub const CONDITION_MESSAGE: usize = 32_768;
/// A label, as a name may be in DNS; also the name part of the key of a label or annotation, and
/// the value of a label.
pub const LABEL: usize = 63;
/// A subdomain, as in the key of a label or annotation before the slash.
pub const SUBDOMAIN: usize = 253;
/// `metadata.uid`, which API servers make of 36 bytes.
pub const UID: usize = 128;
/// All keys and values of an object's annotations together.
pub const ANNOTATIONS: usize = 256 * 1024;

/// A text of an export that an annotation of each of its imports records: `prefer`, `share` or
/// `consumers`. Annotations have room for all three, and for causeway's own ([`ANNOTATIONS`]).
pub const RECORDED_TEXT: usize = 64 * 1024;

/// A text of another program that a status, an Event or the log repeats: a refusal, a version.
pub const FOREIGN_TEXT: usize = 512;

const ELLIPSIS: &str = "...";

/// At most so many bytes of a text, which ends in `...` where something was cut off.
pub fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}

/// Returns one line of at most [`FOREIGN_TEXT`] bytes. Escapes control characters and those that
/// change the direction of text; white space becomes a blank. Reads no more of the text than it
/// returns.
pub fn foreign(text: &str) -> String {
    let mut line = String::new();
    for letter in text.trim().chars() {
        if line.len() > FOREIGN_TEXT {
            break;
        }
        match letter {
            _ if letter.is_whitespace() => line.push(' '),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(letter.escape_unicode());
            }
            _ if letter.is_control() => line.extend(letter.escape_unicode()),
            _ => line.push(letter),
        }
    }
    cut(line, FOREIGN_TEXT)
}

/// At most so many bytes of a list of reasons that commas join: only whole ones, unless the first
/// alone is longer.
pub fn cut_reasons(mut reasons: String, most: usize) -> String {
    if reasons.len() > most {
        let room = reasons.floor_char_boundary(most + 1);
        let whole = reasons.get(..room).and_then(|kept| kept.rfind(','));
        reasons.truncate(whole.unwrap_or_else(|| reasons.floor_char_boundary(most)));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        for (text, most, cut_) in [
            ("", 0, ""),
            ("short", 5, "short"),
            ("longer", 5, "lo..."),
            ("€€€", 9, "€€€"),
            ("€€€", 8, "€..."),
            ("longer", 3, "..."),
        ] {
            assert_eq!(cut(text.to_owned(), most), cut_, "{text} {most}");
        }
    }

    #[test]
    fn foreign_text_is_one_short_line_without_control_characters() {
        let long = "x".repeat(1024 * 1024);
        let kept = "x".repeat(FOREIGN_TEXT - 3) + "...";
        for (text, line) in [
            ("forbidden", "forbidden"),
            (" two\nlines\t", "two lines"),
            ("\u{1b}[2J\u{9b}31m", r"\u{1b}[2J\u{9b}31m"),
            ("abc\u{202e}", r"abc\u{202e}"),
            (&long, &kept),
        ] {
            assert_eq!(foreign(text), line);
        }
        assert!(foreign(&"\u{1}".repeat(1024)).len() <= FOREIGN_TEXT);
    }

    #[test]
    fn of_several_reasons_whole_ones_are_kept() {
        for (reasons, most, kept) in [
            ("PortConflict", 12, "PortConflict"),
            ("A,B,C", 5, "A,B,C"),
            ("A,B,C", 4, "A,B"),
            ("A,B,C", 3, "A,B"),
            ("A,B,C", 2, "A"),
            ("TypeConflict", 4, "Type"),
            ("€€", 4, "€"),
        ] {
            assert_eq!(
                cut_reasons(reasons.to_owned(), most),
                kept,
                "{reasons} {most}"
            );
        }
    }
}
