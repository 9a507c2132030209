//! Shares of traffic among the providers of a service, read from an annotation.

use std::collections::HashSet;
use std::fmt;

use super::field::FieldError;
use super::name::ClusterName;

/// Shares of a service's traffic, by provider. All other providers take the rest, in proportion to
/// their ready endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// Percentages of named clusters, at most 100 together; never empty.
    clusters: Box<[(ClusterName, u8)]>,
}

/// Maximum number of entries.
const ENTRIES_MAX: usize = 1024;

const CLUSTER: &str = "cluster/";
const REST: &str = "rest";
/// Entries of a share.
const ENTRIES: &[&str] = &["cluster/NAME=N%", REST];

/// Entry of the annotation.
enum Entry {
    Cluster(ClusterName, u8),
    Rest,
}

impl Share {
    /// Reads `cluster/NAME=N%, rest`, which is at this path. Errors go to `report`, and a wrong
    /// value counts as none.
    pub(super) fn read(text: &str, path: &str, report: &mut dyn FnMut(FieldError)) -> Option<Self> {
        if text.split(',').nth(ENTRIES_MAX).is_some() {
            report(FieldError::too_many(path, ENTRIES_MAX));
            return None;
        }
        let mut clusters: Vec<(ClusterName, u8)> = Vec::new();
        let mut seen = HashSet::new();
        let mut is_right = true;
        let mut words = text.split(',').map(str::trim).peekable();
        while let Some(word) = words.next() {
            let is_last = words.peek().is_none();
            let error = match Entry::read(word, path) {
                Err(error) => error,
                Ok(Entry::Rest) if is_last => continue,
                Ok(Entry::Rest) => {
                    let detail = "nothing comes after rest, which all other clusters share; move it to \
                                  the end";
                    FieldError::invalid(path, word, detail)
                }
                Ok(Entry::Cluster(name, _)) if !seen.insert(name.clone()) => {
                    FieldError::duplicate(path, word, "name each cluster once")
                }
                Ok(Entry::Cluster(name, percent)) => {
                    clusters.push((name, percent));
                    if is_last {
                        let detail = "add rest, which all other clusters share";
                        FieldError::invalid(path, text, detail)
                    } else {
                        continue;
                    }
                }
            };
            is_right = false;
            report(error);
        }
        let share = Self {
            clusters: clusters.into(),
        };
        let total = share.total();
        if total > 100 {
            let detail = format!("the shares add up to {total}%; lower them to 100% or less");
            report(FieldError::invalid(path, text, detail));
            return None;
        }
        if is_right && share.clusters.is_empty() {
            let detail = "write cluster/NAME=N% before rest, or remove the annotation";
            report(FieldError::invalid(path, text, detail));
            return None;
        }
        is_right.then_some(share)
    }

    /// Returns the named clusters with their percentages.
    pub fn clusters(&self) -> impl Iterator<Item = (&ClusterName, u8)> {
        self.clusters.iter().map(|(name, percent)| (name, *percent))
    }

    /// Returns the percentage of a cluster; `None` for one that shares the rest.
    pub fn of(&self, cluster: &ClusterName) -> Option<u8> {
        let mut clusters = self.clusters();
        clusters.find_map(|(name, percent)| (name == cluster).then_some(percent))
    }

    /// Returns the percentage that all other clusters share.
    pub fn rest(&self) -> u8 {
        u8::try_from(100_u32.saturating_sub(self.total())).unwrap_or_default()
    }

    /// Returns the shares with this percentage of a cluster; `None` if they add up to more than
    /// 100%.
    pub fn with(before: Option<&Self>, cluster: &ClusterName, percent: u8) -> Option<Self> {
        let mut clusters = before
            .map(|share| share.clusters.to_vec())
            .unwrap_or_default();
        match clusters.iter_mut().find(|(name, _)| name == cluster) {
            Some((_, known)) => *known = percent,
            None => clusters.push((cluster.clone(), percent)),
        }
        let share = Self {
            clusters: clusters.into(),
        };
        (share.total() <= 100).then_some(share)
    }

    fn total(&self) -> u32 {
        self.clusters().map(|(_, percent)| u32::from(percent)).sum()
    }
}

impl Entry {
    fn read(word: &str, path: &str) -> Result<Self, FieldError> {
        if word == REST {
            return Ok(Self::Rest);
        }
        let entry = word.strip_prefix(CLUSTER);
        let Some((name, percent)) = entry.and_then(|entry| entry.split_once('=')) else {
            return Err(FieldError::not_supported(path, word, ENTRIES));
        };
        let invalid = |detail: String| FieldError::invalid(path, word, detail);
        let name = ClusterName::try_from(name).map_err(|error| invalid(error.to_string()))?;
        let digits = percent.strip_suffix('%');
        let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok());
        let number = number.filter(|number| *number <= 100);
        let number = number.ok_or_else(|| {
            invalid("write a whole percentage from 0% to 100%, such as 10%".to_owned())
        })?;
        Ok(Self::Cluster(name, number))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, percent) in self.clusters() {
            write!(out, "{CLUSTER}{name}={percent}%, ")?;
        }
        out.write_str(REST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATH: &str = "metadata.annotations[mcs.causeway.dev/share]";

    fn read(text: &str) -> Result<Share, Vec<String>> {
        let mut errors = Vec::new();
        let read = Share::read(text, PATH, &mut |error| errors.push(error.to_string()));
        assert_eq!(read.is_none(), !errors.is_empty(), "{text}");
        read.ok_or(errors)
    }

    #[test]
    fn shares_are_read_and_written_as_they_are_read() {
        for (text, normal, rest) in [
            ("cluster/new=10%, rest", "cluster/new=10%, rest", 90),
            (
                " cluster/b=0%,cluster/a=25% ,rest",
                "cluster/b=0%, cluster/a=25%, rest",
                75,
            ),
            ("cluster/a=100%, rest", "cluster/a=100%, rest", 0),
        ] {
            let share = read(text).expect("it is right");
            assert_eq!(share.to_string(), normal);
            assert_eq!(share.rest(), rest);
            assert_eq!(read(normal), Ok(share));
        }
        let share = read("cluster/new=10%, rest").expect("it is right");
        let name = |text| ClusterName::try_from(text).expect("a name");
        assert_eq!(
            [share.of(&name("new")), share.of(&name("old"))],
            [Some(10), None]
        );
    }

    #[test]
    fn wrong_share_is_refused_with_a_remedy() {
        let path = format!("{PATH}: ");
        for (text, expected) in [
            (
                "new=10%, rest",
                r#"Unsupported value: "new=10%": supported values: "cluster/NAME=N%", "rest""#,
            ),
            (
                "cluster/new, rest",
                r#"Unsupported value: "cluster/new": supported values: "cluster/NAME=N%", "rest""#,
            ),
            (
                "cluster/new=10, rest",
                r#"Invalid value: "cluster/new=10": write a whole percentage from 0% to 100%, such as 10%"#,
            ),
            (
                "cluster/new=101%, rest",
                r#"Invalid value: "cluster/new=101%": write a whole percentage from 0% to 100%, such as 10%"#,
            ),
            (
                "cluster/a=1%, cluster/a=2%, rest",
                r#"Duplicate value: "cluster/a=2%": name each cluster once"#,
            ),
            (
                "rest, cluster/a=2%, rest",
                r#"Invalid value: "rest": nothing comes after rest, which all other clusters share; move it to the end"#,
            ),
            (
                "cluster/a=2%",
                r#"Invalid value: "cluster/a=2%": add rest, which all other clusters share"#,
            ),
            (
                "cluster/a=60%, cluster/b=60%, rest",
                r#"Invalid value: "cluster/a=60%, cluster/b=60%, rest": the shares add up to 120%; lower them to 100% or less"#,
            ),
            (
                "rest",
                r#"Invalid value: "rest": write cluster/NAME=N% before rest, or remove the annotation"#,
            ),
        ] {
            assert_eq!(read(text), Err(vec![path.clone() + expected]), "{text}");
        }
        for text in [
            "",
            "cluster/=10%, rest",
            "cluster/New=10%, rest",
            "cluster/a=-1%, rest",
            "cluster/a=+1%, rest",
            "cluster/a=1.5%, rest",
            "cluster/a=%, rest",
            "cluster/a=10%,, rest",
            "cluster/a=10%, rest, rest",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_share_reads_as_the_same(parts in proptest::collection::vec(0_u8..=9, 1..12)) {
            let clusters = parts.iter().enumerate().map(|(number, percent)| {
                let name = ClusterName::try_from(format!("member{number}").as_str());
                (name.expect("a name"), *percent)
            });
            let share = Share { clusters: clusters.collect() };
            prop_assert_eq!(read(&share.to_string()), Ok(share));
        }
    }
}
