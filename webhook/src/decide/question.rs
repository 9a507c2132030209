//! A change, made ready to be judged: converted, compared with what is stored, and read by the one parser.

use std::collections::{BTreeSet, HashSet};

use causeway::api::{ExposurePort, MultiClusterServiceSpec};
use causeway::domain::{ClusterField, FieldError, FieldErrors, MultiClusterService, same_clusters};

use super::counts::{take, times};
use super::findings::{Findings, Verdict};
use super::{Change, Metadata, Policy, View, clusters, deprecated, identity, name, ports, types};

/// Whether a change is accepted, to be judged against one view of the hub or several.
#[derive(Debug)]
pub struct Question {
    pub(super) namespace: String,
    pub(super) dry_run: bool,
    pub(super) metadata: Metadata,
    /// The spec after M2; the ports that are as stored come first.
    pub(super) spec: MultiClusterServiceSpec,
    pub(super) before: Before,
    /// For each port of `spec` its index in the request.
    pub(super) port_origins: Vec<usize>,
    /// How many ports are as stored.
    pub(super) ports_kept: usize,
    /// Whether the spec is not as stored.
    is_spec_judged: bool,
    /// What the parser finds wrong in what has changed.
    wrong: FieldErrors,
}

/// What a change is compared with.
#[derive(Debug)]
pub(super) enum Before {
    /// Nothing: everything is judged.
    Nothing,
    /// An object, its spec after M2: only what differs is judged.
    Object(Metadata, Box<MultiClusterServiceSpec>),
    /// An object on its way out: nothing is judged.
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

impl From<Change> for Question {
    fn from(change: Change) -> Self {
        let mut spec = change.object.spec;
        let before = match change.stored {
            super::Stored::Nothing => {
                deprecated::convert(&mut spec, None);
                Before::Nothing
            }
            super::Stored::Present(mut stored) => {
                if spec != stored.spec {
                    deprecated::convert(&mut spec, Some(&stored.spec));
                    deprecated::convert(&mut stored.spec, None);
                }
                Before::Object(stored.metadata, Box::new(stored.spec))
            }
            super::Stored::Deleting(_) | super::Stored::DeletingUnreadable => Before::Deleting,
        };
        let is_spec_judged = match &before {
            Before::Nothing => true,
            Before::Object(_, stored) => **stored != spec,
            Before::Deleting => false,
        };
        let mut question = Self {
            namespace: change.namespace,
            dry_run: change.dry_run,
            metadata: change.object.metadata,
            port_origins: (0..spec.ports.len()).collect(),
            ports_kept: 0,
            spec,
            before,
            is_spec_judged,
            wrong: FieldErrors::default(),
        };
        if is_spec_judged {
            question.put_kept_ports_first();
            question.wrong = question.parse();
        }
        question
    }
}

impl Question {
    /// The namespace and the name of the Service that the object is about.
    pub fn service(&self) -> (&str, &str) {
        (&self.namespace, &self.metadata.name)
    }

    /// The clusters that are named and were not before.
    pub fn new_cluster_names(&self) -> BTreeSet<&str> {
        clusters::new_names(self).map(|entry| entry.name).collect()
    }

    /// Judges the change by what is known of the hub (V1-V10).
    pub fn judge(&self, view: &View, policy: &Policy) -> Verdict {
        let mut findings = Findings::default();
        match &self.before {
            Before::Deleting => {}
            Before::Nothing => {
                name::judge(self, view, policy, &mut findings);
                self.judge_spec(view, policy, &mut findings);
            }
            Before::Object(stored, _) => {
                findings
                    .errors
                    .extend(identity::changed_id(&self.metadata, stored));
                self.judge_spec(view, policy, &mut findings);
            }
        }
        findings.verdict(&self.metadata.name)
    }

    fn judge_spec(&self, view: &View, policy: &Policy, findings: &mut Findings) {
        if !self.is_spec_judged {
            return;
        }
        types::judge(self, findings);
        findings.errors.append(&self.wrong);
        ports::judge(self, view, policy, findings);
        clusters::judge(self, view, policy, findings);
        types::judge_service(self, view, findings);
    }

    /// Whether `types` differs from what is stored, as a set.
    pub(super) fn types_changed(&self) -> bool {
        let set = |spec: &MultiClusterServiceSpec| -> BTreeSet<String> {
            spec.types.iter().cloned().collect()
        };
        self.before
            .spec()
            .is_none_or(|stored| set(stored) != set(&self.spec))
    }

    /// Whether the clusters of a role, under its name or a deprecated one, differ from those stored.
    pub(super) fn role_changed(&self, role: ClusterField) -> bool {
        self.before.spec().is_none_or(|stored| {
            role.with_deprecated().any(|field| {
                let (now, before) = (field.names(&self.spec), field.names(stored));
                !same_clusters(&now, &before)
            })
        })
    }

    /// The clusters that the object stored names in that role, under its name or a deprecated one.
    pub(super) fn named_before(&self, role: ClusterField) -> HashSet<&str> {
        let stored = self.before.spec().into_iter();
        stored
            .flat_map(|stored| role.with_deprecated().flat_map(|field| field.names(stored)))
            .collect()
    }

    /// Sorts the ports: first those that are as stored, each stored one counting once.
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

    /// What the parser says of the spec, as far as it is about something that has changed.
    fn parse(&self) -> FieldErrors {
        let known = Known {
            types: self
                .before
                .spec()
                .map(|stored| stored.types.iter().map(String::as_str).collect()),
            providers: self.named_before(ClusterField::Providers),
            consumers: self.named_before(ClusterField::Consumers),
        };
        let mut errors = FieldErrors::default();
        MultiClusterService::read(&self.spec, &mut |error| {
            errors.extend(self.judged(&known, error));
        });
        errors
    }

    /// The error with the path that it has in the request; `None` where it is about what has not changed.
    fn judged(&self, known: &Known<'_>, mut error: FieldError) -> Option<FieldError> {
        if let Some(index) = entry_index(&error.path, "spec.ports") {
            let changed = index >= self.ports_kept;
            error.path = self.port_path(index)? + after_entry(&error.path);
            return changed.then_some(error);
        }
        if let Some(index) = entry_index(&error.path, "spec.types") {
            let type_ = self.spec.types.get(index)?.as_str();
            let stored = known.types.as_ref();
            let changed = stored.is_none_or(|stored| !stored.contains(type_));
            return changed.then_some(error);
        }
        if error.path == "spec.types" {
            return self.types_changed().then_some(error);
        }
        let field = fields().find(|field| error.path.starts_with(field.path()))?;
        let role = field.successor();
        let changed = match entry_index(&error.path, field.path()) {
            Some(index) => !known.names(role).contains(field.name(&self.spec, index)?),
            None => self.role_changed(role),
        };
        changed.then_some(error)
    }

    /// The path of a port of `spec` in the request.
    pub(super) fn port_path(&self, index: usize) -> Option<String> {
        let origin = self.port_origins.get(index)?;
        Some(format!("spec.ports[{origin}]"))
    }
}

fn fields() -> impl Iterator<Item = ClusterField> {
    [ClusterField::Providers, ClusterField::Consumers]
        .into_iter()
        .flat_map(ClusterField::with_deprecated)
}

/// What the object stored has, to tell what has changed.
struct Known<'a> {
    types: Option<HashSet<&'a str>>,
    providers: HashSet<&'a str>,
    consumers: HashSet<&'a str>,
}

impl Known<'_> {
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

/// The index in a path such as `spec.ports[3].name`, where it is one of that list.
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
