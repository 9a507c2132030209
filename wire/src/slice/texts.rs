//! Labels and annotations of a slice.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::endpoint::Text;
use crate::protobuf::Malformed;

/// Maximum number of labels, and of annotations, of a slice. By default etcd stores objects of at
/// most 1.5 MiB, which hold fewer than 200,000 of them: what a tenant can store is readable.
const TEXTS_MAX: usize = 262_144;

/// Labels or annotations. More of them than [`TEXTS_MAX`] are an error: without one of them the
/// slice might have another role.
#[derive(Debug, Default)]
pub(super) struct Texts<'a>(BTreeMap<Text<'a>, Text<'a>>);

impl<'a> Texts<'a> {
    /// Returns the value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Text::as_str)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// There are [`TEXTS_MAX`] entries already.
    pub(super) fn add(&mut self, name: Text<'a>, value: Text<'a>) -> Result<(), Malformed> {
        if self.0.len() == TEXTS_MAX {
            return Err(Malformed::Entries);
        }
        self.0.insert(name, value);
        Ok(())
    }
}

impl<'a> From<&'a Option<BTreeMap<String, String>>> for Texts<'a> {
    fn from(texts: &'a Option<BTreeMap<String, String>>) -> Self {
        let texts = texts.iter().flatten();
        let texts = texts.map(|(name, value)| (name.into(), value.into()));
        Self(texts.collect())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Texts<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map")
            }

            fn visit_unit<E>(self) -> Result<Texts<'de>, E> {
                Ok(Texts::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts<'de>, A::Error> {
                let mut texts = Texts::default();
                while let Some((name, value)) = map.next_entry()? {
                    texts.add(name, value).map_err(A::Error::custom)?;
                }
                Ok(texts)
            }
        }

        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Object;
    use crate::protobuf::Message as _;
    use crate::slice::RawSlice;

    fn json(labels: usize) -> String {
        let labels: Vec<_> = (0..labels).map(|at| format!(r#""{at}":"""#)).collect();
        let labels = labels.join(",");
        format!(r#"{{"metadata":{{"uid":"u","labels":{{{labels}}},"annotations":null}}}}"#)
    }

    fn protobuf(annotations: usize) -> Vec<u8> {
        let mut message = Vec::new();
        message.message(1, |meta| {
            for at in 0..annotations {
                meta.message(12, |entry| entry.bytes(1, at.to_string().as_bytes()));
            }
        });
        message
    }

    #[test]
    fn slice_of_too_many_labels_or_annotations_is_an_error() {
        let last = (TEXTS_MAX - 1).to_string();
        let texts = |slice: &RawSlice<'_>| {
            [slice.label(&last), slice.annotation(&last)].map(|text| text.is_some())
        };
        let (labelled, annotated) = (json(TEXTS_MAX), protobuf(TEXTS_MAX));
        let slice = RawSlice::decode(Object::Json(&labelled)).expect("a slice of JSON");
        assert_eq!(texts(&slice), [true, false]);
        let slice = RawSlice::decode(Object::Protobuf(&annotated)).expect("a slice of protobuf");
        assert_eq!(texts(&slice), [false, true]);
        let (labelled, annotated) = (json(TEXTS_MAX + 1), protobuf(TEXTS_MAX + 1));
        for object in [Object::Json(&labelled), Object::Protobuf(&annotated)] {
            let error = RawSlice::decode(object).expect_err("too many").to_string();
            assert!(error.starts_with("a map has too many entries"), "{error}");
        }
    }
}
