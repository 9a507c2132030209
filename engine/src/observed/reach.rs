//! Ways by which clusters of other networks reach a cluster, as annotations declare them.

use causeway::api::{bounds, labels};
use causeway::domain::{FieldError, Reach};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Way by which a cluster is reached, as an annotation declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredReach {
    /// A way.
    Way(Reach),
    /// Another text: the way is unknown.
    Unreadable(Box<str>),
}

impl DeclaredReach {
    /// Reads the annotation.
    pub fn read(text: &str) -> Self {
        let unreadable = || Self::Unreadable(bounds::foreign(text).into());
        Reach::read(text).map_or_else(unreadable, Self::Way)
    }

    /// Reads the annotation of a service. An error goes to `report`.
    pub(super) fn of_service(meta: &ObjectMeta, report: impl FnOnce(FieldError)) -> Option<Self> {
        let text = meta.annotations.as_ref()?.get(labels::REACH)?;
        if let Err(error) = Reach::of_annotation(text) {
            report(error);
        }
        Some(Self::read(text))
    }

    /// Returns the way, if the annotation names one.
    pub fn way(&self) -> Option<Reach> {
        match self {
            Self::Way(way) => Some(*way),
            Self::Unreadable(_) => None,
        }
    }

    /// Returns the text of an annotation that names none.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        match self {
            Self::Way(_) => None,
            Self::Unreadable(text) => Some(text),
        }
    }
}
