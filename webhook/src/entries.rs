//! Lists of an object, stored up to a bound.
//!
//! An entry of two bytes in a body takes thirty in memory, and each entry is validated. The bound
//! makes the cost of an object proportional to its bytes.

use causeway::api::lists::first_entries;
use causeway::api::{ClusterSelector, ExposurePort, ExposureRange, MultiClusterServiceSpec};
use causeway::domain::{ClusterField, FieldError};
use serde::de::{Deserialize, Deserializer};

/// Maximum number of entries of a list.
pub const ENTRIES_MAX: usize = 1024;

/// First entries of a list: [`ENTRIES_MAX`] and one more if the list is too long.
struct Entries<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        first_entries(input, ENTRIES_MAX + 1).map(Self)
    }
}

/// Decodes a list or null, which is an empty list. For `deserialize_with`.
fn entries<'de, T, D>(input: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(optional(input)?.unwrap_or_default())
}

/// Decodes a list or null. For `deserialize_with`.
fn optional<'de, T, D>(input: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let read = Option::<Entries<T>>::deserialize(input)?;
    Ok(read.map(|Entries(first)| first))
}

/// [`MultiClusterServiceSpec`] with bounded lists.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BoundedSpec {
    #[serde(default, deserialize_with = "entries")]
    types: Vec<String>,
    #[serde(default, deserialize_with = "entries")]
    ports: Vec<ExposurePort>,
    #[serde(default, deserialize_with = "entries")]
    provider_clusters: Vec<ClusterSelector>,
    #[serde(default, deserialize_with = "entries")]
    consumer_clusters: Vec<ClusterSelector>,
    #[serde(default)]
    range: Option<BoundedRange>,
    #[serde(default, deserialize_with = "optional")]
    service_provision_clusters: Option<Vec<String>>,
    #[serde(default, deserialize_with = "optional")]
    service_consumption_clusters: Option<Vec<String>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct BoundedRange {
    #[serde(default, deserialize_with = "optional")]
    cluster_names: Option<Vec<String>>,
}

impl From<BoundedSpec> for MultiClusterServiceSpec {
    fn from(spec: BoundedSpec) -> Self {
        Self {
            types: spec.types,
            ports: spec.ports,
            provider_clusters: spec.provider_clusters,
            consumer_clusters: spec.consumer_clusters,
            range: spec.range.map(|range| ExposureRange {
                cluster_names: range.cluster_names,
            }),
            service_provision_clusters: spec.service_provision_clusters,
            service_consumption_clusters: spec.service_consumption_clusters,
        }
    }
}

/// Returns the errors of lists that are too long, unless `stored` has them as they are.
pub(crate) fn too_many<'a>(
    spec: &'a MultiClusterServiceSpec,
    stored: Option<&'a MultiClusterServiceSpec>,
) -> impl Iterator<Item = FieldError> + use<'a> {
    let is_new = |is_stored: fn(&MultiClusterServiceSpec, &MultiClusterServiceSpec) -> bool| {
        stored.is_none_or(|stored| !is_stored(spec, stored))
    };
    let lists = [
        (
            "spec.types",
            spec.types.len(),
            is_new(|now, before| now.types == before.types),
        ),
        (
            "spec.ports",
            spec.ports.len(),
            is_new(|now, before| now.ports == before.ports),
        ),
    ];
    let clusters = ClusterField::all().map(move |field| {
        let names = field.names(spec);
        let is_new = stored.is_none_or(|stored| field.names(stored) != names);
        (field.path(), names.len(), is_new)
    });
    let all = lists.into_iter().chain(clusters);
    all.filter(|(_, length, is_new)| *length > ENTRIES_MAX && *is_new)
        .map(|(path, ..)| FieldError::too_many(path, ENTRIES_MAX))
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    #[test]
    fn list_is_stored_up_to_its_bound_and_read_to_its_end() {
        let list = |number: usize| format!("[{}]", vec!["{}"; number].join(","));
        let read = |text: &str| serde_json::from_str::<Entries<IgnoredAny>>(text);
        for (number, kept) in [
            (0, 0),
            (ENTRIES_MAX, ENTRIES_MAX),
            (ENTRIES_MAX + 1, ENTRIES_MAX + 1),
            (100_000, ENTRIES_MAX + 1),
        ] {
            let Entries(first) = read(&list(number)).expect("a list");
            assert_eq!(first.len(), kept, "of {number}");
        }
        let broken = list(2000).replace("{},{}]", "{},{]");
        assert!(read(&broken).is_err());
        assert!(read("{}").is_err());
    }
}
