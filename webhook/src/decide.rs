//! The rules of admission. Pure: no client, no clock, no lock.
//!
//! [`mutate`] decides by the request alone. [`PreparedChange::validate`] also needs a [`HubView`],
//! which may come from the cache. If a decision rests on the cache, the [`Validation`] names the
//! unconfirmed observations. The caller then confirms them by live requests and validates again.
//!
//! Rules about the spec alone are in [`causeway::domain`], which the controller shares.

mod clusters;
mod counts;
mod deprecated;
mod failover;
mod hostname;
mod hub_view;
mod identity;
mod name;
mod ports;
mod prepared_change;
mod reach;
mod read_failover;
mod types;
mod violations;

use std::collections::BTreeSet;
use std::fmt;

use causeway::api::{MultiClusterServiceSpec, labels};
use causeway::domain::protected::Protection;
use causeway::domain::{Conversion, FieldErrors, convert_deprecated};
use json_patch::PatchOperation;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use self::prepared_change::Before;
use self::violations::Violations;
use crate::entries::{BoundedSpec, too_many};
use crate::fields::{fields, optional_fields};

pub use crate::entries::ENTRIES_MAX;
pub use hub_view::{Clusters, HubView, Locality, Neighbors, Observed, ServiceFacts, ServiceKind};
pub use identity::contested_id;
pub use prepared_change::PreparedChange;
pub use violations::{Impact, Unconfirmed, Validation};

/// Options of the rules, which the flags set.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Treatment of a Service that is missing (V4), or lacks a port (V5).
    pub missing_service: Strictness,
    /// Treatment of a cluster name without a Cluster (V6, V11).
    pub unknown_cluster: Strictness,
    /// Namespaces in which no MultiClusterService is permitted (V10).
    pub protection: Protection,
}

/// Treatment of a violation that a person may correct later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Accept the object with a warning.
    Warn,
    /// Deny the request.
    Deny,
}

/// Create or update of a MultiClusterService itself, not of a subresource.
#[derive(Clone, Debug)]
pub struct Change {
    /// UID of the admission request.
    pub uid: String,
    /// Namespace of the request.
    pub namespace: String,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// New object.
    pub object: Object,
    /// Stored object.
    pub stored: Stored,
}

/// Stored object of a change.
#[derive(Clone, Debug)]
pub enum Stored {
    /// No object, or one that does not decode.
    Nothing,
    /// An object that is not being deleted.
    Present(Object),
    /// An object that is being deleted: it is not validated.
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
    /// Name, labels and annotations.
    #[serde(deserialize_with = "fields")]
    pub metadata: Metadata,
    /// Spec. A list with more than [`ENTRIES_MAX`] entries ends after one more.
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
    /// Name; empty if the API server is to make one up.
    #[serde(default)]
    pub name: String,
    /// Prefix of a name that the API server makes up.
    #[serde(default)]
    pub generate_name: String,
    /// Validated label; `None` without any label.
    #[serde(default, deserialize_with = "optional_fields")]
    pub labels: Option<Labels>,
    /// Validated annotations; `None` without any annotation.
    #[serde(default, deserialize_with = "optional_fields")]
    pub annotations: Option<Box<Annotations>>,
    /// Time of the deletion, while the object is being deleted.
    #[serde(default)]
    pub deletion_timestamp: Option<IgnoredAny>,
}

/// Validated label.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Labels {
    /// [`causeway::api::labels::PERMANENT_ID`].
    #[serde(rename = "multiclusterservice.karmada.io/permanent-id", default)]
    pub permanent_id: Option<String>,
}

/// Annotations that the webhook looks at.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    /// Values of [`causeway::api::labels::VALIDATED`].
    validated: [Option<String>; labels::VALIDATED.len()],
    /// Name of an annotation with the prefix [`causeway::api::labels::KARMADA_ELB`].
    karmada_elb: Option<String>,
}

/// Returns the place of a validated annotation.
fn place(name: &str) -> Option<usize> {
    labels::VALIDATED.iter().position(|one| *one == name)
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Annotations;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut read = Annotations::default();
                while let Some(name) = map.next_key::<String>()? {
                    let value = place(&name).and_then(|place| read.validated.get_mut(place));
                    match value {
                        Some(Some(_)) => {
                            let error = format_args!("duplicate field `{name}`");
                            return Err(A::Error::custom(error));
                        }
                        Some(value) => *value = map.next_value()?,
                        None => {
                            map.next_value::<IgnoredAny>()?;
                            if name.starts_with(labels::KARMADA_ELB) {
                                read.karmada_elb = Some(name);
                            }
                        }
                    }
                }
                Ok(read)
            }
        }

        input.deserialize_map(Names)
    }
}

impl Metadata {
    /// Returns the value of a validated annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let validated = &self.annotations.as_ref()?.validated;
        validated.get(place(name)?)?.as_deref()
    }

    /// Returns the name of an annotation that only Karmada's cloud provider reads.
    pub(crate) fn karmada_elb(&self) -> Option<&str> {
        self.annotations.as_ref()?.karmada_elb.as_deref()
    }

    /// Returns the permanent-id, unless it is empty.
    pub fn permanent_id(&self) -> Option<&str> {
        let id = self.labels.as_ref()?.permanent_id.as_deref()?;
        Some(id).filter(|id| !id.is_empty())
    }
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Accept the object unchanged.
    Allow {
        /// Warnings for the person who applies the object.
        warnings: Vec<String>,
    },
    /// Accept the object with changes.
    Patch {
        /// Operations, as few as possible.
        operations: Vec<PatchOperation>,
        /// Warnings for the person who applies the object.
        warnings: Vec<String>,
    },
    /// Deny the object.
    Deny {
        /// Reason.
        denial: Denial,
        /// Warnings beside the reason.
        warnings: Vec<String>,
    },
}

impl PreparedChange {
    /// Returns the newly named clusters.
    pub fn new_cluster_names(&self) -> BTreeSet<&str> {
        clusters::new_names(self).map(|entry| entry.name).collect()
    }

    /// Validates the change against observations of the hub (V1-V13).
    pub fn validate(&self, view: &HubView, policy: &Policy) -> Validation {
        let mut violations = Violations::default();
        if !self.too_long.is_empty() {
            violations.errors.append(&self.too_long);
            return violations.into_validation(&self.metadata.name);
        }
        match &self.before {
            Before::Deleting => return violations.into_validation(&self.metadata.name),
            Before::Nothing => name::validate(self, view, policy, &mut violations),
            Before::Object(stored, _) => {
                let changed = identity::changed_id(&self.metadata, stored);
                violations.errors.extend(changed);
            }
        }
        self.validate_spec(view, policy, &mut violations);
        failover::validate(self, view, policy, &mut violations);
        reach::validate(self, view, &mut violations);
        types::warn_of_karmada_elb(self, &mut violations);
        hostname::validate(self, &mut violations);
        violations.into_validation(&self.metadata.name)
    }

    fn validate_spec(&self, view: &HubView, policy: &Policy, violations: &mut Violations) {
        if !self.is_spec_validated {
            return;
        }
        types::validate(self, violations);
        violations.errors.append(&self.wrong);
        ports::validate(self, view, policy, violations);
        clusters::validate(self, view, policy, violations);
        types::validate_service(self, view, violations);
    }
}

/// Reason why a request is denied.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// Invalid fields; never empty.
    Fields {
        /// Beginning of the name of the object, for the answer.
        name: String,
        /// Errors of the fields.
        errors: FieldErrors,
    },
    /// A request that the webhook does not handle, or an object that does not decode.
    Request(String),
}

/// Mutates a change (M1, M2), given whether another object has the [`contested_id`]. Applied to its
/// own outcome it changes nothing.
pub fn mutate(mut change: Change, id_taken: bool) -> Decision {
    let mut operations: Vec<_> = identity::set_id(&change, id_taken).into_iter().collect();
    let mut warnings: Vec<_> = identity::replaced_id(&change, id_taken)
        .into_iter()
        .collect();
    let is_too_long = too_many(&change.object.spec, None).next().is_some();
    if !change.stored.is_deleting() && !is_too_long {
        let stored = change.stored.object().map(|object| &object.spec);
        let conversions = convert_deprecated(&mut change.object.spec, stored);
        deprecated::patch(&change.object.spec, &conversions, &mut operations);
        warnings.extend(conversions.iter().filter_map(Conversion::warning));
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
    fn decoded_label_is_the_permanent_id() {
        let text = format!("{{\"{}\": \"x\"}}", labels::PERMANENT_ID);
        let labels: Labels = serde_json::from_str(&text).expect("it decodes");
        assert_eq!(labels.permanent_id.as_deref(), Some("x"));
    }

    #[test]
    fn decoded_annotations_are_the_validated_ones() {
        for name in labels::VALIDATED {
            let text = format!("{{\"annotations\": {{\"{name}\": \"x\"}}}}");
            let metadata: Metadata = serde_json::from_str(&text).expect("it decodes");
            assert_eq!(metadata.annotation(name), Some("x"), "{name}");
        }
    }
}
