//! Clusters that import a service, read from an annotation of its ServiceExport.

use std::fmt;

use super::field::FieldError;
use super::name::ClusterName;
use crate::api::labels;

/// The clusters that import a service beside those that export it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consumers {
    /// All that have the namespace (KEP-1645).
    #[default]
    All,
    /// Those that one of these selects; never empty.
    Selected(Box<[ConsumerSelector]>),
    /// It cannot be read: who imports the service goes on, and nobody else begins.
    Unreadable,
}

/// Some clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConsumerSelector {
    /// The cluster of this name.
    Cluster(ClusterName),
    /// Those of a region.
    Region(Box<str>),
    /// Those that have a zone.
    Zone(Box<str>),
}

/// Maximum number of entries.
const ENTRIES_MAX: usize = 1024;

const REGION: &str = "region/";
const ZONE: &str = "zone/";

impl Consumers {
    /// Reads [`labels::CONSUMERS`], such as `member2, region/eu`; what is wrong goes to `report`.
    pub fn read(annotation: Option<&str>, report: &mut dyn FnMut(FieldError)) -> Self {
        let Some(text) = annotation else {
            return Self::All;
        };
        let path = format!("metadata.annotations[{}]", labels::CONSUMERS);
        if text.split(',').nth(ENTRIES_MAX).is_some() {
            report(FieldError::too_many(path, ENTRIES_MAX));
            return Self::Unreadable;
        }
        let mut is_right = true;
        let selectors = text.split(',').map(str::trim).filter_map(|word| {
            let read = ConsumerSelector::read(word);
            if let Err(why) = &read {
                is_right = false;
                report(FieldError::invalid(&path, word, why.as_str()));
            }
            read.ok()
        });
        let selected = Self::Selected(selectors.collect());
        if let Some(error) = FieldError::of_recorded(&path, &selected.to_string()) {
            is_right = false;
            report(error);
        }
        match is_right {
            true => selected,
            false => Self::Unreadable,
        }
    }

    /// Returns the annotation that is read as the same value: an empty one, which is no list, for
    /// an unreadable one.
    pub fn annotation(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Unreadable => Some(String::new()),
            Self::Selected(_) => Some(self.to_string()),
        }
    }
}

impl ConsumerSelector {
    fn read(word: &str) -> Result<Self, String> {
        let of = |prefix| word.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        match (of(REGION), of(ZONE)) {
            (Some(region), _) => Ok(Self::Region(region.into())),
            (_, Some(zone)) => Ok(Self::Zone(zone.into())),
            _ => ClusterName::try_from(word)
                .map(Self::Cluster)
                .map_err(|why| {
                    format!("name clusters, region/NAME or zone/NAME, joined by commas: {why}")
                }),
        }
    }
}

impl fmt::Display for Consumers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("all clusters"),
            Self::Unreadable => out.write_str("unreadable"),
            Self::Selected(selectors) => {
                let words: Vec<_> = selectors.iter().map(ToString::to_string).collect();
                out.write_str(&words.join(", "))
            }
        }
    }
}

impl fmt::Display for ConsumerSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => write!(out, "{name}"),
            Self::Region(name) => write!(out, "{REGION}{name}"),
            Self::Zone(name) => write!(out, "{ZONE}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: Option<&str>) -> (Consumers, Vec<String>) {
        let mut errors = Vec::new();
        let read = Consumers::read(text, &mut |error| errors.push(error.to_string()));
        (read, errors)
    }

    #[test]
    fn consumers_are_written_as_they_are_read() {
        for (text, normal) in [
            ("member2", "member2"),
            (
                " member2,region/eu , zone/eu-a",
                "member2, region/eu, zone/eu-a",
            ),
        ] {
            let (consumers, errors) = read(Some(text));
            assert_eq!(
                (consumers.annotation().as_deref(), errors),
                (Some(normal), vec![])
            );
            assert_eq!(read(Some(normal)).0, consumers);
        }
        assert_eq!(read(None), (Consumers::All, vec![]));
    }

    #[test]
    fn list_of_more_than_1024_entries_is_unreadable() {
        let list = |entries: usize| vec!["member2"; entries].join(",");
        let (consumers, errors) = read(Some(&list(1024)));
        assert!(matches!(consumers, Consumers::Selected(_)), "{errors:?}");
        let expected = "metadata.annotations[mcs.causeway.dev/consumers]: Too many: must have at \
                        most 1024 items";
        let refused = (Consumers::Unreadable, vec![expected.to_owned()]);
        assert_eq!(read(Some(&list(1025))), refused);
    }

    #[test]
    fn list_that_no_import_can_record_is_unreadable() {
        let (consumers, errors) = read(Some(&format!("region/{}", "x".repeat(64 * 1024))));
        assert_eq!(consumers, Consumers::Unreadable);
        let rule = "must have at most 65536 bytes";
        assert!(errors[0].contains(rule), "{errors:?}");
    }

    #[test]
    fn malformed_list_is_rejected_as_a_whole() {
        for text in ["", "Member", "member2,", "region/", "member2, zone/"] {
            let (consumers, errors) = read(Some(text));
            assert_eq!(consumers, Consumers::Unreadable, "{text}");
            assert_eq!(consumers.annotation().as_deref(), Some(""));
            assert!(
                errors[0]
                    .starts_with("metadata.annotations[mcs.causeway.dev/consumers]: Invalid value")
            );
        }
    }
}
