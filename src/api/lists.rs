//! Lists that are decoded entry by entry: the caller bounds what it stores.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

/// Calls `take` with each entry of a list, as it is decoded; `null` is an empty list.
///
/// # Errors
/// The value is no list, or an entry cannot be read.
pub fn each_entry<'de, T, D>(input: D, take: impl FnMut(T)) -> Result<(), D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Each<T, F> {
        take: F,
        entry: PhantomData<fn(T)>,
    }

    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
        type Value = ();

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a sequence")
        }

        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(entry) = list.next_element()? {
                (self.take)(entry);
            }
            Ok(())
        }
    }

    input.deserialize_any(Each {
        take,
        entry: PhantomData::<fn(T)>,
    })
}

/// Returns the first `most` entries of a list; `null` is an empty list. The entries beyond them are
/// decoded and dropped.
///
/// # Errors
/// The value is no list, or an entry cannot be read.
pub fn first_entries<'de, T, D>(input: D, most: usize) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let mut first = Vec::new();
    each_entry(input, |entry| {
        if first.len() < most {
            first.push(entry);
        }
    })?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_up_to_the_first_that_cannot_be_read() {
        let cases: [(&str, bool, &[u8]); 6] = [
            ("null", true, &[]),
            ("[]", true, &[]),
            ("[1, 2]", true, &[1, 2]),
            (r#"[1, "2", 3]"#, false, &[1]),
            ("[1, 2", false, &[1, 2]),
            ("{}", false, &[]),
        ];
        for (text, is_read, expected) in cases {
            let mut taken = Vec::new();
            let mut input = serde_json::Deserializer::from_str(text);
            let read = each_entry(&mut input, |entry: u8| taken.push(entry));
            assert_eq!((read.is_ok(), &*taken), (is_read, expected), "{text}");
        }
    }

    #[test]
    fn list_beyond_its_bound_is_read_to_its_end() {
        for (text, expected) in [
            ("null", Some(&[][..])),
            ("[1]", Some(&[1])),
            ("[1, 2]", Some(&[1, 2])),
            ("[1, 2, 3]", Some(&[1, 2])),
            (r#"[1, 2, "3"]"#, None),
        ] {
            let mut input = serde_json::Deserializer::from_str(text);
            let first = first_entries::<u8, _>(&mut input, 2).ok();
            assert_eq!(first.as_deref(), expected, "{text}");
        }
    }
}
