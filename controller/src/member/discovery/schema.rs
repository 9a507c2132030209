//! Fields of a member's definition of ServiceImport.

use std::fmt;
use std::time::Duration;

use causeway::api::multicluster::Version;
use causeway_engine::model::served::ImportFields;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;

use crate::lookup::Entries;

/// Fields that not every definition has. The first definitions have none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Those of ServiceImports.
    pub(super) imports: ImportFields,
    /// `status.clusters` of ServiceExports of the same version.
    pub(super) export_clusters: bool,
}

/// An API server publishes the schema of a definition some moments after it serves it; one that has
/// not done so for this long does not do it at all (before Kubernetes 1.24), or does not let it be
/// read.
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

    /// Takes what was read of a version, if it could be; gives the fields to go by, `None` while it
    /// is too early to say. What was read before holds until something else is read.
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
                is_late.then_some(Fields::default())
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

/// OpenAPI v3 document, as far as it is read: the definitions of both kinds.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    #[serde(default)]
    components: Components,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Components {
    schemas: Schemas,
}

/// The first definition of each kind. Others are not kept.
#[derive(Debug, Default)]
struct Schemas {
    import: Option<Definition>,
    export: Option<Definition>,
}

impl<'de> Deserialize<'de> for Schemas {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Schemas;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("schemas by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Schemas, A::Error> {
                let mut schemas = Schemas::default();
                while let Some((IgnoredAny, definition)) = from.next_entry::<_, Definition>()? {
                    if definition.is("ServiceImport") {
                        schemas.import.get_or_insert(definition);
                    } else if definition.is("ServiceExport") {
                        schemas.export.get_or_insert(definition);
                    }
                }
                Ok(schemas)
            }
        }

        from.deserialize_map(Read)
    }
}

/// Definition of a kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Definition {
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kinds: Entries<Kind>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    is_open: bool,
    properties: Parts,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parts {
    spec: Part,
    status: Part,
}

/// Part of a definition: spec or status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    is_open: bool,
    properties: Properties,
}

/// Fields of the part that not every definition has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    ips: List,
    ip_families: Option<IgnoredAny>,
    internal_traffic_policy: Option<IgnoredAny>,
    traffic_distribution: Option<IgnoredAny>,
    cluster_selectors: Option<IgnoredAny>,
    cluster_selector_results: Option<IgnoredAny>,
    observed_generation: Option<IgnoredAny>,
    conditions: Option<IgnoredAny>,
    endpoint_slice_objects: Option<IgnoredAny>,
    clusters: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct List {
    max_items: Option<u64>,
}

impl Document {
    /// Returns the fields of the definitions; `None` if the document lacks that of ServiceImport.
    pub(super) fn fields(&self) -> Option<Fields> {
        let Schemas { import, export } = &self.components.schemas;
        let has_clusters = |export: &Definition| {
            let status = &export.properties.status;
            export.knows(status, status.properties.clusters)
        };
        Some(Fields {
            imports: import.as_ref()?.import_fields(),
            export_clusters: export.as_ref().is_some_and(has_clusters),
        })
    }
}

impl Definition {
    fn is(&self, kind: &str) -> bool {
        let mut kinds = self.kinds.0.iter();
        kinds.any(|one| one.kind.as_deref() == Some(kind))
    }

    /// Whether the definition has a field in that part.
    fn knows(&self, part: &Part, field: Option<IgnoredAny>) -> bool {
        self.is_open || part.is_open || field.is_some()
    }

    fn import_fields(&self) -> ImportFields {
        let Parts { spec, status } = &self.properties;
        let in_spec = |field| self.knows(spec, field);
        let in_status = |field| self.knows(status, field);
        let (spec, status) = (&spec.properties, &status.properties);
        ImportFields {
            two_ips: spec.ips.max_items.is_none_or(|most| most > 1),
            ip_families: in_spec(spec.ip_families),
            internal_traffic_policy: in_spec(spec.internal_traffic_policy),
            traffic_distribution: in_spec(spec.traffic_distribution),
            cluster_selectors: in_spec(spec.cluster_selectors),
            cluster_selector_results: in_status(status.cluster_selector_results),
            observed_generation: in_status(status.observed_generation),
            conditions: in_status(status.conditions),
            endpoint_slice_objects: in_status(status.endpoint_slice_objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::multicluster::Version::{V1alpha1, V1beta1};

    use serde_json::{Value, json};

    use super::*;

    fn read(document: Value) -> Option<Fields> {
        serde_json::from_value::<Document>(document).ok()?.fields()
    }

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
            ..ImportFields::default()
        };
        for (document, fields) in [
            (newest, Some(ImportFields::ALL)),
            (first, Some(ImportFields::default())),
            (open, Some(ImportFields::ALL)),
            (unlimited, Some(two_ips)),
            (exports_alone, None),
            (Value::Null, None),
        ] {
            assert_eq!(read(document).map(|fields| fields.imports), fields);
        }
    }

    #[test]
    fn clusters_of_an_export_are_a_field_of_some_definitions() {
        for (part, expected) in [
            (json!({"conditions": {}}), false),
            (json!({"clusters": {}}), true),
        ] {
            let kind = |kind: &str| json!([{"group": "g", "version": "v", "kind": kind}]);
            let read = read(json!({"components": {"schemas": {
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
        let first = Some(Fields::default());
        assert_eq!(schema.settle(V1alpha1, None, later, EVERY), first);
        assert_eq!(schema.fresh(V1alpha1, later), None, "it may come yet");
        let all = Some(ALL);
        assert_eq!(schema.settle(V1alpha1, all, later, EVERY), all);
        let expired = later + EVERY;
        assert_eq!(schema.settle(V1alpha1, None, expired, EVERY), all, "known");
        assert_eq!(schema.settle(V1beta1, None, expired, EVERY), None);
    }
}
