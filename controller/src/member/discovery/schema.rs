//! Fields of a member's definition of ServiceImport.

use std::time::Duration;

use causeway::api::multicluster::Version;
use serde_json::Value;
use tokio::time::Instant;

use causeway_engine::model::served::ImportFields;

/// Fields that not every definition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// Those of ServiceImports.
    pub(super) imports: ImportFields,
    /// `status.clusters` of ServiceExports of the same version.
    pub(super) export_clusters: bool,
}

impl Fields {
    /// Fields of the first definitions.
    const FIRST: Self = Self {
        imports: ImportFields::FIRST,
        export_clusters: false,
    };
}

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
        fields: Fields,
        again_at: Instant,
    },
}

impl Schema {
    /// The fields, where they need not be asked for.
    pub(super) fn fresh(&self, of: Version, now: Instant) -> Option<Fields> {
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
        read: Option<Fields>,
        now: Instant,
        again_after: Duration,
    ) -> Option<Fields> {
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
                is_late.then_some(Fields::FIRST)
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

/// Reads which fields the definitions in an OpenAPI v3 document have; `None` where that of ServiceImport is not in there.
pub(super) fn fields(document: &Value) -> Option<Fields> {
    let import = definition(document, "ServiceImport")?;
    let export = definition(document, "ServiceExport");
    Some(Fields {
        imports: import_fields(import),
        export_clusters: export.is_some_and(|export| knows(export, "status", "clusters")),
    })
}

/// Returns the definition of a kind in an OpenAPI v3 document.
fn definition<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    let schemas = document["components"]["schemas"].as_object();
    let is_it = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        let mut kinds = kinds.into_iter().flatten();
        kinds.any(|kind| kind["kind"] == name)
    };
    schemas?.values().find(is_it)
}

/// Whether a definition has a field in that part.
fn knows(definition: &Value, part: &str, field: &str) -> bool {
    let is_open = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let part = &definition["properties"][part];
    is_open(definition) || is_open(part) || !part["properties"][field].is_null()
}

fn import_fields(import: &Value) -> ImportFields {
    let knows = |part, field| knows(import, part, field);
    let ips = &import["properties"]["spec"]["properties"]["ips"];
    ImportFields {
        two_ips: ips["maxItems"].as_u64().is_none_or(|most| most > 1),
        ip_families: knows("spec", "ipFamilies"),
        internal_traffic_policy: knows("spec", "internalTrafficPolicy"),
        traffic_distribution: knows("spec", "trafficDistribution"),
        cluster_selectors: knows("spec", "clusterSelectors"),
        cluster_selector_results: knows("status", "clusterSelectorResults"),
        observed_generation: knows("status", "observedGeneration"),
        conditions: knows("status", "conditions"),
        endpoint_slice_objects: knows("status", "endpointSliceObjects"),
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::multicluster::Version::{V1alpha1, V1beta1};

    use serde_json::json;

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
            let read = super::fields(&document).map(|fields| fields.imports);
            assert_eq!(read, fields);
        }
    }

    #[test]
    fn clusters_of_an_export_are_a_field_of_some_definitions() {
        for (part, expected) in [
            (json!({"conditions": {}}), false),
            (json!({"clusters": {}}), true),
        ] {
            let kind = |kind: &str| json!([{"group": "g", "version": "v", "kind": kind}]);
            let read = super::fields(&json!({"components": {"schemas": {
                "import": {"x-kubernetes-group-version-kind": kind("ServiceImport")},
                "export": {
                    "x-kubernetes-group-version-kind": kind("ServiceExport"),
                    "properties": {"status": {"properties": part}},
                },
            }}}));
            assert_eq!(read.map(|fields| fields.export_clusters), Some(expected));
        }
    }

    const ALL: Fields = Fields {
        imports: ImportFields::ALL,
        export_clusters: true,
    };

    const EVERY: Duration = Duration::from_secs(300);

    #[test]
    fn schema_is_reread_when_it_may_have_changed() {
        let (mut schema, start) = (Schema::default(), Instant::now());
        assert_eq!(schema.fresh(V1beta1, start), None);
        schema.settle(V1beta1, Some(ALL), start, EVERY);
        assert_eq!(schema.fresh(V1beta1, start), Some(ALL));
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
        let first = Some(Fields::FIRST);
        assert_eq!(schema.settle(V1alpha1, None, later, EVERY), first);
        assert_eq!(schema.fresh(V1alpha1, later), None, "it may come yet");
        let all = Some(ALL);
        assert_eq!(schema.settle(V1alpha1, all, later, EVERY), all);
        let expired = later + EVERY;
        assert_eq!(schema.settle(V1alpha1, None, expired, EVERY), all, "known");
        assert_eq!(schema.settle(V1beta1, None, expired, EVERY), None);
    }
}
