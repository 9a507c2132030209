//! Labels and annotations of a slice.

use std::collections::BTreeMap;

use crate::protobuf::Malformed;

/// Maximum number of labels, and of annotations, of a slice. By default etcd stores objects of at
/// most 1.5 MiB, which hold fewer than 200,000 of them: what a tenant can store is readable. All
/// of a slice of JSON are in memory before they are counted.
const TEXTS_MAX: usize = 262_144;

/// Labels or annotations. More of them than [`TEXTS_MAX`] are an error: without one of them the
/// slice might have another role.
#[derive(Debug, Default)]
pub(super) struct Texts<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Texts<'a> {
    /// Returns the value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).copied()
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// There are [`TEXTS_MAX`] entries already.
    pub(super) fn add(&mut self, (name, value): (&'a str, &'a str)) -> Result<(), Malformed> {
        if self.0.len() == TEXTS_MAX {
            return Err(Malformed::Entries);
        }
        self.0.insert(name, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Object;
    use crate::protobuf::Message as _;
    use crate::slice::{RawSlice, message};

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
        for (object, expected) in [
            (Object::Json(&labelled), [true, false]),
            (Object::Protobuf(&annotated), [false, true]),
        ] {
            let message = message(object).expect("a message");
            let slice = RawSlice::decode(&message).expect("a slice");
            assert_eq!(texts(&slice), expected);
        }
        let (labelled, annotated) = (json(TEXTS_MAX + 1), protobuf(TEXTS_MAX + 1));
        for object in [Object::Json(&labelled), Object::Protobuf(&annotated)] {
            let message = message(object).expect("a message");
            let error = RawSlice::decode(&message).expect_err("too many");
            assert_eq!(error.to_string(), "a map has too many entries");
        }
    }
}
