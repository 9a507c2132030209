//! The rules: what a MultiClusterService becomes, and whether it is accepted. Pure: no client, no clock, no lock.
//!
//! [`mutate`] answers from the request alone. [`PreparedChange::validate`] also needs a [`HubView`], which may be a cached one;
//! where the decision would be different had the cache been stale, the [`Validation`] names what is unconfirmed, and the
//! caller confirms it by a live request and validates again.

mod clusters;
mod counts;
mod deprecated;
mod failover;
mod hub_view;
mod identity;
mod name;
mod ports;
mod prepared_change;
mod types;
mod violations;

use causeway::api::{MultiClusterServiceSpec, labels};
use causeway::domain::FieldErrors;
use causeway::domain::protected::Protection;
use json_patch::PatchOperation;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::entries::{BoundedSpec, too_many};
use crate::fields::{fields, optional_fields};

pub use crate::entries::ENTRIES_MAX;
pub use hub_view::{Clusters, HubView, Locality, Neighbors, Observed, ServiceFacts, ServiceKind};
pub use prepared_change::PreparedChange;
pub use violations::{Impact, Unconfirmed, Validation};

/// Choices of the person who starts the webhook.
#[derive(Clone, Debug)]
pub struct Policy {
    /// A Service that is missing (V4), or lacks a port (V5).
    pub missing_service: Strictness,
    /// A cluster name that no Cluster has (V6, V11).
    pub unknown_cluster: Strictness,
    /// Namespaces that are out of bounds (V10).
    pub protection: Protection,
}

/// Treatment of a violation that may be corrected later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Warn of it.
    Warn,
    /// Deny the request.
    Deny,
}

/// A create or update of a MultiClusterService itself, not of a subresource.
#[derive(Clone, Debug)]
pub struct Change {
    /// The uid of the admission request.
    pub uid: String,
    /// The namespace of the request.
    pub namespace: String,
    /// Whether the request is not to be stored.
    pub dry_run: bool,
    /// The object as it is to be stored.
    pub object: Object,
    /// Stored object.
    pub stored: Stored,
}

/// The object that a change starts from.
#[derive(Clone, Debug)]
pub enum Stored {
    /// There is none, or one that does not decode.
    Nothing,
    /// An object that stays.
    Present(Object),
    /// An object that is being deleted, which is not held up.
    Deleting(Object),
    /// An object that is being deleted and does not decode.
    DeletingUnreadable,
}

impl Stored {
    fn object(&self) -> Option<&Object> {
        match self {
            Self::Present(object) | Self::Deleting(object) => Some(object),
            Self::Nothing | Self::DeletingUnreadable => None,
        }
    }

    fn is_deleting(&self) -> bool {
        matches!(self, Self::Deleting(_) | Self::DeletingUnreadable)
    }
}

/// Validated part of a MultiClusterService.
#[derive(Clone, Debug, Deserialize)]
pub struct Object {
    /// Its name, labels and annotations.
    #[serde(deserialize_with = "fields")]
    pub metadata: Metadata,
    /// Its spec. A list with more than [`ENTRIES_MAX`] entries ends after one more.
    #[serde(deserialize_with = "bounded_spec")]
    pub spec: MultiClusterServiceSpec,
}

fn bounded_spec<'de, D>(input: D) -> Result<MultiClusterServiceSpec, D::Error>
where
    D: Deserializer<'de>,
{
    fields::<BoundedSpec, D>(input).map(Into::into)
}

/// Validated part of the metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name; empty where the API server is to make one up.
    #[serde(default)]
    pub name: String,
    /// The prefix of a name that the API server makes up.
    #[serde(default)]
    pub generate_name: String,
    /// The label that is validated; `None` where there are no labels at all.
    #[serde(default, deserialize_with = "optional_fields")]
    pub labels: Option<Labels>,
    /// The annotations that are validated; `None` where there are none at all.
    #[serde(default, deserialize_with = "optional_fields")]
    pub annotations: Option<Annotations>,
    /// Present while the object is being deleted.
    #[serde(default)]
    pub deletion_timestamp: Option<IgnoredAny>,
}

/// The label that is validated.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Labels {
    /// [`causeway::api::labels::PERMANENT_ID`].
    #[serde(rename = "multiclusterservice.karmada.io/permanent-id", default)]
    pub permanent_id: Option<String>,
}

/// The annotations that are validated: those of [`causeway::domain::Failover`].
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Annotations {
    /// [`causeway::api::labels::PREFER`].
    #[serde(rename = "mcs.causeway.dev/prefer", default)]
    pub prefer: Option<String>,
    /// [`causeway::api::labels::MIN_READY`].
    #[serde(rename = "mcs.causeway.dev/min-ready", default)]
    pub min_ready: Option<String>,
    /// [`causeway::api::labels::UNREACHABLE`].
    #[serde(rename = "mcs.causeway.dev/unreachable", default)]
    pub unreachable: Option<String>,
}

impl Metadata {
    /// The value of an annotation that is validated.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.annotations.as_ref()?;
        match name {
            labels::PREFER => annotations.prefer.as_deref(),
            labels::MIN_READY => annotations.min_ready.as_deref(),
            labels::UNREACHABLE => annotations.unreachable.as_deref(),
            _ => None,
        }
    }

    /// The permanent-id, where it is set and not empty.
    pub fn permanent_id(&self) -> Option<&str> {
        let id = self.labels.as_ref()?.permanent_id.as_deref()?;
        Some(id).filter(|id| !id.is_empty())
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// As it is.
    Allow {
        /// Warnings for the person who applies the object.
        warnings: Vec<String>,
    },
    /// With these changes.
    Patch {
        /// The fewest operations that do it.
        operations: Vec<PatchOperation>,
        /// Warnings for the person who applies the object.
        warnings: Vec<String>,
    },
    /// Not at all.
    Deny {
        /// Reason.
        denial: Denial,
        /// Warnings beside the reason.
        warnings: Vec<String>,
    },
}

/// Reason why a request is denied.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// These fields are wrong; never empty.
    Fields {
        /// Name of the object, for the answer.
        name: String,
        /// All that is wrong.
        errors: FieldErrors,
    },
    /// The request should not have come here, or cannot be read.
    Request(String),
}

/// Returns the permanent-id for which the mutation must look for another MultiClusterService;
/// `None` if it needs no other object.
pub fn contested_id(change: &Change) -> Option<&str> {
    identity::contested(change)
}

/// Mutates a change (M1, M2). `id_taken`: whether another object has the [`contested_id`].
///
/// Applied to its own outcome it changes nothing.
pub fn mutate(mut change: Change, id_taken: bool) -> Decision {
    let mut operations: Vec<_> = identity::set_id(&change, id_taken).into_iter().collect();
    let mut warnings: Vec<_> = identity::replaced_id(&change, id_taken)
        .into_iter()
        .collect();
    let is_too_long = too_many(&change.object.spec, None).next().is_some();
    if !change.stored.is_deleting() && !is_too_long {
        let stored = change.stored.object().map(|object| &object.spec);
        let conversions = deprecated::convert(&mut change.object.spec, stored);
        deprecated::patch(&change.object.spec, &conversions, &mut operations);
        warnings.extend(conversions.iter().filter_map(deprecated::warning));
    }
    if operations.is_empty() {
        Decision::Allow { warnings }
    } else {
        Decision::Patch {
            operations,
            warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_that_is_read_is_the_permanent_id() {
        let text = format!("{{\"{}\": \"x\"}}", labels::PERMANENT_ID);
        let labels: Labels = serde_json::from_str(&text).expect("it decodes");
        assert_eq!(labels.permanent_id.as_deref(), Some("x"));
    }

    #[test]
    fn the_annotations_that_are_read_are_those_of_failover() {
        for name in causeway::domain::Failover::ANNOTATIONS {
            let text = format!("{{\"annotations\": {{\"{name}\": \"x\"}}}}");
            let metadata: Metadata = serde_json::from_str(&text).expect("it decodes");
            assert_eq!(metadata.annotation(name), Some("x"), "{name}");
        }
    }
}
