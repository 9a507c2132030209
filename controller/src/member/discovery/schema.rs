//! Fields of a member's definition of ServiceImport.

use std::time::Duration;

use causeway::api::multicluster::Version;
use serde_json::Value;
use tokio::time::Instant;

use causeway_engine::model::served::ImportFields;

/// An API server publishes the schema of a definition some moments after it serves it; one that has not done so for this long
/// does not do it at all (before Kubernetes 1.24), or does not let it be read.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(30);

/// Knowledge of the schema.
#[derive(Debug, Default)]
pub(super) enum Schema {
    /// It was not asked for.
    #[default]
    Unknown,
    /// It could not be read, since then.
    Missing(Version, Instant),
    /// It was read, and is to be read again.
    Read {
        version: Version,
        fields: ImportFields,
        again_at: Instant,
    },
}

impl Schema {
    /// The fields, where they need not be asked for.
    pub(super) fn fresh(&self, of: Version, now: Instant) -> Option<ImportFields> {
        match self {
            Self::Read {
                version,
                fields,
                again_at,
            } if *version == of && now < *again_at => Some(*fields),
            _ => None,
        }
    }

    /// Takes what was read of a version, if it could be; gives the fields to go by, `None` while it is too early to say. What
    /// was read before holds until something else is read.
    pub(super) fn settle(
        &mut self,
        of: Version,
        read: Option<ImportFields>,
        now: Instant,
        again_after: Duration,
    ) -> Option<ImportFields> {
        match (read, &*self) {
            (Some(fields), _) => {
                *self = Self::Read {
                    version: of,
                    fields,
                    again_at: now + again_after,
                };
                Some(fields)
            }
            (
                None,
                Self::Read {
                    version, fields, ..
                },
            ) if *version == of => Some(*fields),
            (None, Self::Missing(version, since)) if *version == of => {
                let is_late = now.duration_since(*since) >= PUBLISHED_WITHIN;
                is_late.then_some(ImportFields::FIRST)
            }
            (None, _) => {
                *self = Self::Missing(of, now);
                None
            }
        }
    }

    /// It is to be read again with the next look.
    pub(super) fn expire(&mut self, now: Instant) {
        if let Self::Read { again_at, .. } = self {
            *again_at = now;
        }
    }
}

/// Reads which fields the definition of ServiceImport in an OpenAPI v3 document has; `None` where it is not in there.
pub(super) fn import_fields(document: &Value) -> Option<ImportFields> {
    let schemas = document["components"]["schemas"].as_object();
    let is_import = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds
            .into_iter()
            .flatten()
            .any(|kind| kind["kind"] == "ServiceImport")
    };
    let import = schemas?.values().find(is_import)?;
    let is_open = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let properties = &import["properties"];
    let knows = |part: &str, field: &str| {
        let part = &properties[part];
        is_open(import) || is_open(part) || !part["properties"][field].is_null()
    };
    let ips = &properties["spec"]["properties"]["ips"];
    Some(ImportFields {
        two_ips: ips["maxItems"].as_u64().is_none_or(|most| most > 1),
        ip_families: knows("spec", "ipFamilies"),
        internal_traffic_policy: knows("spec", "internalTrafficPolicy"),
        traffic_distribution: knows("spec", "trafficDistribution"),
        cluster_selectors: knows("spec", "clusterSelectors"),
        cluster_selector_results: knows("status", "clusterSelectorResults"),
        observed_generation: knows("status", "observedGeneration"),
        conditions: knows("status", "conditions"),
        endpoint_slice_objects: knows("status", "endpointSliceObjects"),
    })
}

#[cfg(test)]
mod tests {
    use causeway::api::multicluster::Version::{V1alpha1, V1beta1};

    use super::*;

    fn answer(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_fields_are_those_that_the_definition_names() {
        let newest = answer(include_str!("answers/fields-newest.json"));
        let first = answer(include_str!("answers/fields-first.json"));
        let open = answer(include_str!("answers/fields-open.json"));
        let mut unlimited = first.clone();
        let import = "/components/schemas/io.x-k8s.multicluster.v1alpha1.ServiceImport";
        let ips = format!("{import}/properties/spec/properties/ips");
        let ips = unlimited
            .pointer_mut(&ips)
            .unwrap()
            .as_object_mut()
            .unwrap();
        assert_eq!(ips.remove("maxItems"), Some(1.into()));
        let mut exports_alone = first.clone();
        let schemas = exports_alone.pointer_mut("/components/schemas").unwrap();
        schemas
            .as_object_mut()
            .unwrap()
            .remove("io.x-k8s.multicluster.v1alpha1.ServiceImport")
            .unwrap();
        let two_ips = ImportFields {
            two_ips: true,
            ..ImportFields::FIRST
        };
        for (document, fields) in [
            (newest, Some(ImportFields::ALL)),
            (first, Some(ImportFields::FIRST)),
            (open, Some(ImportFields::ALL)),
            (unlimited, Some(two_ips)),
            (exports_alone, None),
            (Value::Null, None),
        ] {
            assert_eq!(import_fields(&document), fields);
        }
    }

    const EVERY: Duration = Duration::from_secs(300);

    #[test]
    fn schema_is_reread_when_it_may_have_changed() {
        let (mut schema, start) = (Schema::default(), Instant::now());
        assert_eq!(schema.fresh(V1beta1, start), None);
        schema.settle(V1beta1, Some(ImportFields::ALL), start, EVERY);
        assert_eq!(schema.fresh(V1beta1, start), Some(ImportFields::ALL));
        assert_eq!(schema.fresh(V1alpha1, start), None);
        assert_eq!(schema.fresh(V1beta1, start + EVERY), None);
        schema.expire(start);
        assert_eq!(schema.fresh(V1beta1, start), None);
    }

    #[test]
    fn unreadable_schema_is_awaited_then_taken_for_the_first() {
        let (mut schema, start) = (Schema::default(), Instant::now());
        let late = start + PUBLISHED_WITHIN;
        assert_eq!(schema.settle(V1beta1, None, start, EVERY), None);
        assert_eq!(schema.settle(V1alpha1, None, late, EVERY), None, "another");
        let later = late + PUBLISHED_WITHIN;
        let first = Some(ImportFields::FIRST);
        assert_eq!(schema.settle(V1alpha1, None, later, EVERY), first);
        assert_eq!(schema.fresh(V1alpha1, later), None, "it may come yet");
        let all = Some(ImportFields::ALL);
        assert_eq!(schema.settle(V1alpha1, all, later, EVERY), all);
        let expired = later + EVERY;
        assert_eq!(schema.settle(V1alpha1, None, expired, EVERY), all, "known");
        assert_eq!(schema.settle(V1beta1, None, expired, EVERY), None);
    }
}
