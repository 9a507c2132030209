//! Where a JSON string ends, found with vector instructions: 64 bytes at a time, whatever is in them.
//!
//! An end is found only in what serde_json takes for a string too: control characters and escapes that JSON does not have
//! lead to none.

use wide::u8x16;

const BLOCK: usize = 64;

/// Every other bit, from the second on.
const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Of 64 bytes what matters, a bit for each, the first one the lowest.
#[derive(Default)]
struct Marks {
    quotes: u64,
    backslashes: u64,
    /// What a string must not hold as it is.
    controls: u64,
}

impl Marks {
    /// `None` where nothing in the block matters.
    fn of(block: &[u8; BLOCK]) -> Option<Self> {
        let (quote, backslash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
        let last_control = u8x16::splat(0x1f);
        let parts = parts(block);
        let quotes = parts.map(|part| part.simd_eq(quote));
        let backslashes = parts.map(|part| part.simd_eq(backslash));
        let controls = parts.map(|part| part.min(last_control).simd_eq(part));
        let all = [quotes, backslashes, controls].map(|[a, b, c, d]| a | b | c | d);
        let [a, b, c] = all;
        ((a | b | c).to_bitmask() != 0).then(|| Self {
            quotes: bits(quotes),
            backslashes: bits(backslashes),
            controls: bits(controls),
        })
    }

    /// The bytes that a backslash stands before, itself not escaped. `first`: 1 where one stands before the block, which
    /// becomes 1 where one stands before the next.
    ///
    /// From every run of backslashes that begins at an even bit the addition of its begin carries to the bit after it, so
    /// the parity of that bit says whether the run's length is even (Langdale and Lemire, "Parsing gigabytes of JSON per
    /// second", section 3.1.1).
    fn escaped(&self, first: &mut u64) -> u64 {
        if self.backslashes | *first == 0 {
            return 0;
        }
        let begins = self.backslashes & !*first;
        let turns = ((begins << 1) | ODD).wrapping_sub(begins) ^ ODD;
        let escaped = turns ^ (self.backslashes | *first);
        *first = (turns & self.backslashes) >> 63;
        escaped
    }
}

fn parts(block: &[u8; BLOCK]) -> [u8x16; 4] {
    let (parts, _) = block.as_chunks();
    let part = |number: usize| u8x16::new(parts.get(number).copied().unwrap_or_default());
    [part(0), part(1), part(2), part(3)]
}

/// The highest bit of each byte.
fn bits(parts: [u8x16; 4]) -> u64 {
    let [a, b, c, d] = parts.map(|part| u64::from(part.to_bitmask()));
    a | b << 16 | c << 32 | d << 48
}

/// The index after the quote that ends the string whose first byte, after its opening quote, is at `begin`; `None` where
/// it does not end, or is no string of JSON. Whether it is UTF-8 is not looked at.
pub(super) fn string_end(bytes: &[u8], begin: usize) -> Option<usize> {
    let (mut begin, mut first) = (begin, 0);
    loop {
        let rest = bytes.get(begin..).filter(|rest| !rest.is_empty())?;
        let marks = match rest.first_chunk() {
            Some(block) => Marks::of(block),
            None => {
                let mut last = [b' '; BLOCK];
                last.get_mut(..rest.len())?.copy_from_slice(rest);
                Marks::of(&last)
            }
        };
        let Some(marks) = marks.or_else(|| (first != 0).then(Marks::default)) else {
            begin += BLOCK;
            continue;
        };
        let escaped = marks.escaped(&mut first);
        let ends = marks.quotes & !escaped;
        let within = ends.trailing_zeros();
        let before = 1_u64.checked_shl(within).map_or(u64::MAX, |end| end - 1);
        if marks.controls & before != 0 {
            return None;
        }
        let others = escaped & before & !(marks.quotes | marks.backslashes);
        if others != 0 && !are_escapes(rest, others) {
            return None;
        }
        if ends != 0 {
            return Some(begin + within as usize + 1);
        }
        begin += BLOCK;
    }
}

/// Whether JSON has the escapes whose second characters are at these bits.
fn are_escapes(rest: &[u8], mut bits: u64) -> bool {
    while bits != 0 {
        let (_, from) = rest
            .split_at_checked(bits.trailing_zeros() as usize)
            .unwrap_or_default();
        let is_escape = match from {
            [b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => true,
            [b'u', a, b, c, d, ..] => [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit),
            _ => false,
        };
        if !is_escape {
            return false;
        }
        bits &= bits - 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As serde_json finds it.
    fn expected(text: &str, begin: usize) -> Option<usize> {
        let mut values = serde_json::Deserializer::from_str(&text[begin - 1..])
            .into_iter::<serde::de::IgnoredAny>();
        values.next()?.ok()?;
        Some(begin - 1 + values.byte_offset())
    }

    #[track_caller]
    fn same(text: &str) {
        assert_eq!(
            string_end(text.as_bytes(), 1),
            expected(text, 1),
            "{text:?}"
        );
    }

    const PARTS: [&str; 14] = [
        "\"", "\\", "\\\\", "\\\"", "\\n", "\\u00e9", "\\ud800", "\\u12", "\\x", "u", "\n",
        "\u{1f}", "\u{7f}", "ä",
    ];

    #[test]
    fn it_ends_where_serde_json_says_at_every_place_of_a_block() {
        for before in (0..5).chain(56..70).chain(120..130) {
            for one in PARTS {
                for two in PARTS {
                    for after in [0, 1, 3, 62, 63, 64, 65] {
                        let (before, after) = ("a".repeat(before), " ".repeat(after));
                        same(&format!("\"{before}{one}{two}\"{after}"));
                        same(&format!("\"{before}{one}{after}{two}\""));
                        same(&format!("\"{before}{one}{two}{after}"));
                    }
                }
            }
        }
    }

    #[test]
    fn runs_of_backslashes_of_any_length_escape_every_other_byte() {
        for before in 0..66 {
            for backslashes in 0..140 {
                let (before, run) = ("a".repeat(before), "\\".repeat(backslashes));
                same(&format!("\"{before}{run}\"\"{run}\""));
                same(&format!("\"{before}{run}n{run}\"\""));
            }
        }
    }

    #[test]
    fn what_breaks_off_has_no_end() {
        let text = format!("\"{}\\u00e9{}\"", "\\\"ab".repeat(20), "c".repeat(50));
        for length in 1..text.len() {
            assert_eq!(string_end(&text.as_bytes()[..length], 1), None, "{length}");
        }
        assert_eq!(string_end(text.as_bytes(), 1), Some(text.len()));
        assert_eq!(string_end(b"", 1), None);
    }
}
