//! Compact form of identities.

use std::fmt;

use uuid::Uuid;

/// UID of an object. API servers assign UUIDs; another text is stored as it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Uuid([u8; 16]),
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).ok();
        let same =
            |uuid: &Uuid| *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        Self(match uuid.filter(same) {
            Some(uuid) => Form::Uuid(uuid.into_bytes()),
            None => Form::Other(text.into()),
        })
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(bytes) => Uuid::from_bytes(*bytes).hyphenated().fmt(out),
            Form::Other(text) => out.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Version of a source slice; versions of one UID are ordered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceVersion {
    /// UID of the slice.
    pub uid: Uid,
    /// Its resourceVersion; these are comparable as numbers (KEP-5504).
    pub resource_version: u64,
}

impl SourceVersion {
    /// Whether this is a later version of the same object.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version > other.resource_version
    }

    /// Parses the text that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (uid, version) = text.split_once('/')?;
        Some(Self {
            uid: uid.into(),
            resource_version: version.parse().ok()?,
        })
    }
}

impl fmt::Display for SourceVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.uid, self.resource_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_is_returned_as_it_was_received() {
        for text in [
            "0b8d3c1e-53f5-4f0c-a6ce-5c1b0a7d9e11",
            "0B8D3C1E-53F5-4F0C-A6CE-5C1B0A7D9E11",
            "0b8d3c1e53f54f0ca6ce5c1b0a7d9e11",
            "u",
            "",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(size_of::<Uid>() <= 24);
    }

    #[test]
    fn versions_of_different_objects_are_not_ordered() {
        let version = |uid: &str, resource_version| SourceVersion {
            uid: uid.into(),
            resource_version,
        };
        assert!(version("a", 9).is_newer_than(&version("a", 8)));
        assert!(!version("a", 8).is_newer_than(&version("a", 8)));
        assert!(!version("b", 9).is_newer_than(&version("a", 8)));
        assert_eq!(SourceVersion::parse("a/9"), Some(version("a", 9)));
    }
}
