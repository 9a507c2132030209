//! A change, prepared for validation: converted, compared with the stored object, and parsed.

use std::collections::{BTreeSet, HashSet};

use causeway::api::{ExposurePort, MultiClusterServiceSpec};
use causeway::domain::{
    ClusterField, FieldError, FieldErrors, MultiClusterService, convert_deprecated, same_clusters,
};

use super::counts::{take, times};
use super::read_failover::ReadFailover;
use super::{Change, Metadata};
use crate::entries::too_many;

/// Change that is validated against one or two views of the hub.
#[derive(Debug)]
pub struct PreparedChange {
    pub(super) namespace: String,
    pub(super) dry_run: bool,
    pub(super) metadata: Metadata,
    /// Spec after M2, with stored ports first.
    pub(super) spec: MultiClusterServiceSpec,
    pub(super) before: Before,
    /// Index in the request of each port of `spec`.
    pub(super) port_origins: Vec<usize>,
    /// Number of stored ports in `spec`.
    pub(super) ports_kept: usize,
    /// Whether the spec differs from the stored one.
    pub(super) is_spec_validated: bool,
    /// Errors of the parser in changed parts.
    pub(super) wrong: FieldErrors,
    /// Errors of lists that are too long. If there are any, nothing else is validated.
    pub(super) too_long: FieldErrors,
    /// Parsed annotations.
    pub(super) failover: ReadFailover,
}

/// Object that a change is compared with.
#[derive(Debug)]
pub(super) enum Before {
    /// No object: everything is validated.
    Nothing,
    /// An object, with its spec after M2: differences are validated.
    Object(Metadata, Box<MultiClusterServiceSpec>),
    /// A terminating object: nothing is validated.
    Deleting,
}

impl Before {
    pub(super) fn spec(&self) -> Option<&MultiClusterServiceSpec> {
        match self {
            Self::Object(_, spec) => Some(spec),
            Self::Nothing | Self::Deleting => None,
        }
    }
}

impl From<Change> for PreparedChange {
    fn from(change: Change) -> Self {
        let mut spec = change.object.spec;
        let mut too_long = FieldErrors::default();
        if !change.stored.is_deleting() {
            let stored = change.stored.object().map(|object| &object.spec);
            too_long.extend(too_many(&spec, stored));
        }
        let before = match change.stored {
            super::Stored::Nothing => {
                convert_deprecated(&mut spec, None);
                Before::Nothing
            }
            super::Stored::Present(mut stored) => {
                if spec != stored.spec {
                    convert_deprecated(&mut spec, Some(&stored.spec));
                    convert_deprecated(&mut stored.spec, None);
                }
                Before::Object(stored.metadata, Box::new(stored.spec))
            }
            super::Stored::Deleting(_) | super::Stored::DeletingUnreadable => Before::Deleting,
        };
        let is_spec_validated = match &before {
            Before::Nothing => true,
            Before::Object(_, stored) => **stored != spec,
            Before::Deleting => false,
        };
        let mut prepared = Self {
            namespace: change.namespace,
            dry_run: change.dry_run,
            metadata: change.object.metadata,
            port_origins: (0..spec.ports.len()).collect(),
            ports_kept: 0,
            spec,
            before,
            is_spec_validated,
            wrong: FieldErrors::default(),
            too_long,
            failover: ReadFailover::default(),
        };
        if !prepared.too_long.is_empty() {
            return prepared;
        }
        if is_spec_validated {
            prepared.put_kept_ports_first();
            prepared.wrong = prepared.parse();
        }
        prepared.failover = match &prepared.before {
            Before::Nothing => ReadFailover::new(&prepared.metadata, None),
            Before::Object(stored, _) => ReadFailover::new(&prepared.metadata, Some(stored)),
            Before::Deleting => ReadFailover::default(),
        };
        prepared
    }
}

impl PreparedChange {
    /// Returns namespace and name of the Service.
    pub fn service(&self) -> (&str, &str) {
        (&self.namespace, &self.metadata.name)
    }

    /// Whether an annotation differs from the stored one.
    pub(super) fn annotation_changed(&self, name: &str) -> bool {
        let stored = match &self.before {
            Before::Nothing => None,
            Before::Object(stored, _) => stored.annotation(name),
            Before::Deleting => return false,
        };
        self.metadata.annotation(name) != stored
    }

    /// Whether `types` differs from the stored list, as a set.
    pub(super) fn types_changed(&self) -> bool {
        let set = |spec: &MultiClusterServiceSpec| -> BTreeSet<String> {
            spec.types.iter().cloned().collect()
        };
        self.before
            .spec()
            .is_none_or(|stored| set(stored) != set(&self.spec))
    }

    /// Whether the clusters of a role differ from the stored ones, in the role's field or a
    /// deprecated one.
    pub(super) fn role_changed(&self, role: ClusterField) -> bool {
        self.before.spec().is_none_or(|stored| {
            role.with_deprecated().any(|field| {
                let (now, before) = (field.names(&self.spec), field.names(stored));
                !same_clusters(&now, &before)
            })
        })
    }

    /// Returns the clusters of a role in the stored object, in the role's field or a deprecated
    /// one.
    pub(super) fn named_before(&self, role: ClusterField) -> HashSet<&str> {
        let stored = self.before.spec().into_iter();
        stored
            .flat_map(|stored| role.with_deprecated().flat_map(|field| field.names(stored)))
            .collect()
    }

    /// Sorts stored ports first. Each stored port counts once.
    fn put_kept_ports_first(&mut self) {
        let ports = std::mem::take(&mut self.spec.ports);
        let stored = self.before.spec().into_iter();
        let mut left = times(stored.flat_map(|stored| stored.ports.iter().map(identity_of)));
        let kept = ports.iter().map(|port| take(&mut left, &identity_of(port)));
        let is_kept: Vec<bool> = kept.collect();
        let (kept, changed): (Vec<_>, Vec<_>) = ports
            .into_iter()
            .enumerate()
            .partition(|(index, _)| is_kept[*index]);
        self.ports_kept = kept.len();
        (self.port_origins, self.spec.ports) = kept.into_iter().chain(changed).unzip();
    }

    /// Returns the errors of the parser in changed parts of the spec.
    fn parse(&self) -> FieldErrors {
        let stored_entries = StoredEntries {
            types: self
                .before
                .spec()
                .map(|stored| stored.types.iter().map(String::as_str).collect()),
            providers: self.named_before(ClusterField::Providers),
            consumers: self.named_before(ClusterField::Consumers),
        };
        let mut errors = FieldErrors::default();
        MultiClusterService::read(&self.spec, &mut |error| {
            errors.extend(self.relevant(&stored_entries, error));
        });
        errors
    }

    /// Returns the error with its path in the request; `None` if the part has not changed.
    fn relevant(
        &self,
        stored_entries: &StoredEntries<'_>,
        mut error: FieldError,
    ) -> Option<FieldError> {
        if let Some(index) = entry_index(&error.path, "spec.ports") {
            let changed = index >= self.ports_kept;
            error.path = self.port_path(index)? + after_entry(&error.path);
            return changed.then_some(error);
        }
        if let Some(index) = entry_index(&error.path, "spec.types") {
            let type_ = self.spec.types.get(index)?.as_str();
            let stored = stored_entries.types.as_ref();
            let changed = stored.is_none_or(|stored| !stored.contains(type_));
            return changed.then_some(error);
        }
        if error.path == "spec.types" {
            return self.types_changed().then_some(error);
        }
        let mut fields = ClusterField::all();
        let Some(field) = fields.find(|field| error.path.starts_with(field.path())) else {
            return Some(error);
        };
        let role = field.successor();
        let changed = match entry_index(&error.path, field.path()) {
            Some(index) => !stored_entries
                .names(role)
                .contains(field.name(&self.spec, index)?),
            None => self.role_changed(role),
        };
        changed.then_some(error)
    }

    /// Returns the path in the request of a port of `spec`.
    pub(super) fn port_path(&self, index: usize) -> Option<String> {
        let origin = self.port_origins.get(index)?;
        Some(format!("spec.ports[{origin}]"))
    }
}

/// Entries of the stored object, to which changed ones are compared.
struct StoredEntries<'a> {
    types: Option<HashSet<&'a str>>,
    providers: HashSet<&'a str>,
    consumers: HashSet<&'a str>,
}

impl StoredEntries<'_> {
    fn names(&self, role: ClusterField) -> &HashSet<&str> {
        match role.successor() {
            ClusterField::Providers => &self.providers,
            _ => &self.consumers,
        }
    }
}

fn identity_of(port: &ExposurePort) -> (&str, i32) {
    (port.name.as_deref().unwrap_or_default(), port.port)
}

/// Returns the index in a path such as `spec.ports[3].name`, if it is of that list.
fn entry_index(path: &str, list: &str) -> Option<usize> {
    let (index, _) = path
        .strip_prefix(list)?
        .strip_prefix('[')?
        .split_once(']')?;
    index.parse().ok()
}

fn after_entry(path: &str) -> &str {
    path.split_once(']').map_or("", |(_, rest)| rest)
}
