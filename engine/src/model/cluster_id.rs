//! Id of a cluster in its clusterset (KEP-2149).

use causeway::api::bounds;
use causeway::domain::dns1123_label;

/// Id of a member in its clusterset, as the member reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedId {
    /// The member has no ClusterProperty `cluster.clusterset.k8s.io`.
    Absent,
    /// DNS label, as the KEP requires.
    Valid(Box<str>),
    /// Text that is no DNS label, shortened. It is not used.
    Invalid(Box<str>),
}

impl ReportedId {
    /// Reads the value of the ClusterProperty.
    pub fn read(value: &str) -> Self {
        match dns1123_label(value) {
            Ok(()) => Self::Valid(value.into()),
            Err(_) => Self::Invalid(bounds::foreign(value).into()),
        }
    }

    /// Returns the id, if the member reports a valid one.
    pub(crate) fn valid(&self) -> Option<&str> {
        match self {
            Self::Valid(id) => Some(id),
            Self::Absent | Self::Invalid(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dns_labels_are_ids() {
        for id in ["eu-1", "721ab723-13bc-11e5-aec2-42010af0021e", "1"] {
            assert_eq!(ReportedId::read(id), ReportedId::Valid(id.into()));
        }
        let long = "a".repeat(64);
        for text in ["", " eu-1", "EU", "eu.1", "-eu", "eu-", &*long] {
            let read = ReportedId::read(text);
            assert!(matches!(read, ReportedId::Invalid(_)), "{text:?}");
        }
        let bomb = ReportedId::read(&"x\n".repeat(100_000));
        let ReportedId::Invalid(text) = bomb else {
            panic!("{bomb:?}")
        };
        assert!(text.len() <= bounds::FOREIGN_TEXT && !text.contains('\n'));
    }
}
