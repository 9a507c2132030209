//! Discovery documents and metadata of API servers, as far as they are read.
//!
//! The types of `k8s-openapi` take up to 75 bytes of memory for each byte of a hostile answer: an
//! entry `{}` becomes a struct of many strings. These types hold names alone, of a bounded number
//! of entries.

use causeway::api::lists::first_entries;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, GroupVersionForDiscovery, ManagedFieldsEntry, ObjectMeta, Time,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Maximum number of entries of a list. Clusters with many definitions serve some hundred groups.
const ENTRIES_MAX: usize = 4096;

/// List of at most [`ENTRIES_MAX`] entries. A longer list is an error.
#[derive(Debug)]
pub(crate) struct Entries<T>(pub(crate) Vec<T>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let entries = first_entries(from, ENTRIES_MAX + 1)?;
        match entries.len() > ENTRIES_MAX {
            true => Err(D::Error::custom(format_args!(
                "expected a list of at most {ENTRIES_MAX} entries"
            ))),
            false => Ok(Self(entries)),
        }
    }
}

/// Version of the documents.
#[derive(Debug, Deserialize)]
enum DocumentVersion {
    #[serde(rename = "v1")]
    V1,
}

#[derive(Debug, Deserialize)]
enum ResourcesKind {
    #[serde(rename = "APIResourceList")]
    Resources,
}

#[derive(Debug, Deserialize)]
enum GroupsKind {
    #[serde(rename = "APIGroupList")]
    Groups,
}

/// Resources that an API server serves in one version of a group (`APIResourceList`).
#[derive(Debug, Deserialize)]
pub(crate) struct Resources {
    #[serde(rename = "apiVersion")]
    _version: Option<DocumentVersion>,
    #[serde(rename = "kind")]
    _kind: Option<ResourcesKind>,
    resources: Option<Entries<Resource>>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    name: Option<Box<str>>,
}

impl Resources {
    /// Whether the list has the resource of that plural.
    pub(crate) fn has(&self, plural: &str) -> bool {
        let mut resources = self.resources.iter().flat_map(|resources| &resources.0);
        resources.any(|one| one.name.as_deref() == Some(plural))
    }
}

/// Groups that an API server serves (`APIGroupList`).
#[derive(Debug, Deserialize)]
pub(super) struct Groups {
    #[serde(rename = "apiVersion")]
    _version: Option<DocumentVersion>,
    #[serde(rename = "kind")]
    _kind: Option<GroupsKind>,
    groups: Option<Entries<Group>>,
}

#[derive(Debug, Deserialize)]
struct Group {
    name: Option<Box<str>>,
    versions: Option<Entries<GroupVersion>>,
}

#[derive(Debug, Deserialize)]
struct GroupVersion {
    version: Option<Box<str>>,
}

impl Groups {
    /// Returns the list with the versions of that group alone.
    pub(super) fn of(self, group: &str) -> APIGroupList {
        let versions = |versions: Entries<GroupVersion>| {
            let versions = versions.0.into_iter().map(|one| GroupVersionForDiscovery {
                group_version: String::new(),
                version: one.version.unwrap_or_default().into(),
            });
            versions.collect()
        };
        let groups = self.groups.unwrap_or_default().0.into_iter();
        let groups = groups.map(|one| APIGroup {
            versions: match one.name.as_deref() == Some(group) {
                true => one.versions.map(versions).unwrap_or_default(),
                false => Vec::new(),
            },
            name: one.name.unwrap_or_default().into(),
            ..APIGroup::default()
        });
        APIGroupList {
            groups: groups.collect(),
        }
    }
}

/// Object, as far as its managed fields name its writers.
#[derive(Debug, Deserialize)]
pub(super) struct Written {
    #[serde(default)]
    metadata: Writers,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Writers {
    managed_fields: Option<Entries<Writer>>,
}

#[derive(Debug, Deserialize)]
struct Writer {
    manager: Option<String>,
    subresource: Option<String>,
    time: Option<Time>,
}

impl Written {
    /// Returns the managed fields without the names of the fields.
    pub(super) fn into_metadata(self) -> ObjectMeta {
        let entries = self.metadata.managed_fields.unwrap_or_default().0;
        let entries = entries.into_iter().map(|one| ManagedFieldsEntry {
            manager: one.manager,
            subresource: one.subresource,
            time: one.time,
            ..ManagedFieldsEntry::default()
        });
        ObjectMeta {
            managed_fields: Some(entries.collect()),
            ..ObjectMeta::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::discovery::is_unserved;
    use causeway::api::ownership::other_writer;

    use super::*;

    fn resources(entries: &[&str]) -> serde_json::Result<Resources> {
        let entries = entries.join(",");
        serde_json::from_str(&format!(
            r#"{{"kind":"APIResourceList","apiVersion":"v1","resources":[{entries}]}}"#
        ))
    }

    #[test]
    fn list_with_too_many_entries_is_an_error() {
        let works = r#"{"name":"works","kind":"Work","verbs":["get"]}"#;
        let mut entries = vec!["{}"; ENTRIES_MAX - 1];
        entries.push(works);
        let read = resources(&entries).unwrap();
        assert!(read.has("works") && !read.has("work"));
        entries.push("{}");
        let error = resources(&entries).unwrap_err().to_string();
        assert!(error.contains("at most 4096 entries"), "{error}");
    }

    #[test]
    fn document_of_another_kind_is_an_error() {
        for (text, is_read) in [
            ("{}", true),
            (r#"{"resources":null}"#, true),
            (r#"{"kind":"APIResourceList","resources":[]}"#, true),
            (r#"{"kind":"APIGroupList","resources":[]}"#, false),
            (r#"{"apiVersion":"v2"}"#, false),
            ("[]", false),
        ] {
            let read = serde_json::from_str::<Resources>(text);
            assert_eq!(read.is_ok(), is_read, "{text}");
        }
    }

    #[test]
    fn versions_of_the_requested_group_are_kept() {
        let listed = r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[
            {"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]},
            {"name":"batch","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}"#;
        for (listed, group, version, unserved) in [
            (listed, "apps", "v1", false),
            (listed, "apps", "v2", true),
            (listed, "batch", "v1", false),
            (listed, "other", "v1", true),
            ("{}", "apps", "v2", false),
            (r#"{"groups":[]}"#, "apps", "v2", false),
            (r#"{"groups":[{}]}"#, "apps", "v2", true),
        ] {
            let read: Groups = serde_json::from_str(listed).unwrap();
            let read = is_unserved(&read.of(group), group, &[version]);
            assert_eq!(read, unserved, "{listed} {group} {version}");
        }
    }

    #[test]
    fn last_writer_other_than_causeway_is_read() {
        let text = r#"{"metadata":{"name":"foo-1","managedFields":[
            {"manager":"first","operation":"Update","time":"2026-01-01T00:00:00Z"},
            {"manager":"last","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:ports":{}}},
            {"manager":"causeway","time":"2026-01-03T00:00:00Z"},
            {"manager":"of-status","subresource":"status","time":"2026-01-04T00:00:00Z"}]}}"#;
        let written: Written = serde_json::from_str(text).unwrap();
        assert_eq!(other_writer(&written.into_metadata(), ""), Some("last"));
        let without: Written = serde_json::from_str("{}").unwrap();
        assert_eq!(other_writer(&without.into_metadata(), ""), None);
    }
}
