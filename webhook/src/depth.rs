//! How deep a JSON text is nested, found out in a fraction of the time that parsing it takes.
//!
//! serde_json stops at 128 levels only in what it decodes. What nobody asks for (unknown fields, raw values) it skips at any depth, and
//! that is most of an object.
//!
//! Blocks of 64 bytes are looked at as bit masks, as simdjson does it (Langdale and Lemire, "Parsing Gigabytes of JSON per
//! Second", 3.1): where the quotes are that no backslash escapes, hence what is within strings, hence which brackets count. The
//! loops over a block have no branches, so the compiler makes vector instructions of them.

const BLOCK: usize = 64;

/// Whether more than `most` brackets outside of strings are open at one place.
pub(crate) fn is_deeper(json: &[u8], most: usize) -> bool {
    if openings(json) <= most {
        return false;
    }
    let (blocks, rest) = json.as_chunks::<BLOCK>();
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    let mut strings = Strings::default();
    let mut depth = 0_usize;
    for block in blocks.iter().chain([&last]) {
        let outside = !strings.within(block);
        let opening = mask(block, is_opening) & outside;
        let closing = mask(block, is_closing) & outside;
        let opened = opening.count_ones() as usize;
        let closed = closing.count_ones() as usize;
        if depth + opened <= most && closed <= depth {
            depth = depth + opened - closed;
            continue;
        }
        let mut brackets = opening | closing;
        while brackets != 0 {
            let first = brackets & brackets.wrapping_neg();
            brackets ^= first;
            if opening & first == 0 {
                depth = depth.saturating_sub(1);
            } else if depth < most {
                depth += 1;
            } else {
                return true;
            }
        }
    }
    false
}

/// How many opening brackets there are, within strings too.
fn openings(json: &[u8]) -> usize {
    /// As many as a byte can count.
    const SUMMED: usize = 192;
    let sums = json.chunks(SUMMED).map(|chunk| {
        let sum: u8 = chunk.iter().map(|byte| u8::from(is_opening(*byte))).sum();
        usize::from(sum)
    });
    sums.sum()
}

/// '[' and '{' differ in one bit, and so do ']' and '}'.
fn is_opening(byte: u8) -> bool {
    byte | 0x20 == b'{'
}

fn is_closing(byte: u8) -> bool {
    byte | 0x20 == b'}'
}

/// What is known at the end of a block: all bits or none, and the first bit or none.
#[derive(Default)]
struct Strings {
    in_string: u64,
    escaped: u64,
}

impl Strings {
    /// Which bytes of the next block are within strings, opening quotes included and closing ones not.
    fn within(&mut self, block: &[u8; BLOCK]) -> u64 {
        let quotes = mask(block, |byte| byte == b'"') & !self.escaped(block);
        // Each bit becomes the parity of the quotes up to it.
        let mut within = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            within ^= within << shift;
        }
        within ^= self.in_string;
        self.in_string = (within >> (BLOCK - 1)).wrapping_neg();
        within
    }

    /// Which bytes follow a backslash that escapes them: those after an odd number of backslashes.
    fn escaped(&mut self, block: &[u8; BLOCK]) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslashes = mask(block, |byte| byte == b'\\') & !self.escaped;
        let follows = backslashes << 1 | self.escaped;
        let odd_starts = backslashes & !EVEN & !follows;
        let (ends, overflows) = odd_starts.overflowing_add(backslashes);
        self.escaped = u64::from(overflows);
        (EVEN ^ ends << 1) & follows
    }
}

/// One bit for each byte, the first byte's the lowest.
fn mask(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    /// Moves the lowest bit of each byte into the highest byte, in order.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let bytes = block.map(|byte| u8::from(is(byte)));
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, word| {
        mask << 8 | u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 128;

    /// The same, byte by byte.
    fn is_deeper_plainly(json: &[u8], most: usize) -> bool {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for byte in json {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => {
                    depth += 1;
                    if depth > most {
                        return true;
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        false
    }

    #[test]
    fn serde_json_bounds_what_it_decodes_and_not_what_it_skips() {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct Decoded {
            asked_for: serde_json::Value,
        }
        let nested = format!("{}{}", "[".repeat(MOST + 1), "]".repeat(MOST + 1));
        for (field, reads) in [("asked_for", false), ("unknown", true)] {
            let text = format!(r#"{{"{field}": {nested}}}"#);
            let read = serde_json::from_str::<Decoded>(&text);
            assert_eq!(read.is_ok(), reads, "{field}: {read:?}");
            assert!(is_deeper(text.as_bytes(), MOST), "{field}");
        }
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings_only() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(!is_deeper(&nested(MOST), MOST));
        assert!(is_deeper(&nested(MOST + 1), MOST));
        let text = format!(r#"{{"a": "{}\"{}"}}"#, "[".repeat(200), "{".repeat(200));
        assert!(!is_deeper(text.as_bytes(), MOST));
        let wide = "[],".repeat(1000);
        assert!(!is_deeper(wide.as_bytes(), MOST));
    }

    #[test]
    fn blocks_say_what_bytes_say_of_every_text() {
        // Pieces in many orders, with strings whose quotes and backslashes lie at every place of a block.
        let pieces = [
            "{",
            "[",
            "]",
            "}",
            ",",
            r#""""#,
            r#""\\""#,
            r#""\"[{""#,
            r#""\\\"]}""#,
            r#""a b c""#,
        ];
        let mut seed = 1_u64;
        for length in 0..3000 {
            let mut text = " ".repeat(length % BLOCK);
            for _ in 0..length % 97 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            for most in [0, 1, 2, 5, 9] {
                let plainly = is_deeper_plainly(text.as_bytes(), most);
                assert_eq!(is_deeper(text.as_bytes(), most), plainly, "{most} {text}");
            }
        }
    }
}
