//! V6: unknown clusters, also preferred ones (V11). V9: repeated clusters, and a service that never
//! leaves its cluster.

use std::collections::HashSet;

use causeway::api::labels::{PREFER, SHARE};
use causeway::domain::{ClusterField, ClusterName, Failover, FieldError, only_cluster, quoted};

use super::counts::{has_repetition, repeated};
use super::hub_view::Clusters;
use super::violations::{Severity, Violations};
use super::{HubView, Policy, PreparedChange};

/// Newly named cluster.
pub(super) struct Entry<'a> {
    place: Place,
    pub(super) name: &'a str,
}

/// Place that names a cluster.
enum Place {
    /// An entry of a list.
    Listed(ClusterField, usize),
    /// The annotation [`PREFER`] or [`SHARE`].
    Annotation(&'static str),
}

impl Entry<'_> {
    fn error(&self, detail: String) -> FieldError {
        match self.place {
            Place::Listed(field, index) => {
                FieldError::invalid(field.entry_path(index), self.name, detail)
            }
            Place::Annotation(annotation) => {
                let entry = format!("cluster/{}", self.name);
                FieldError::invalid(Failover::path(annotation), entry, detail)
            }
        }
    }
}

pub(super) fn validate(
    change: &PreparedChange,
    view: &HubView,
    policy: &Policy,
    violations: &mut Violations,
) {
    let severity = Severity::by_policy(policy.unknown_cluster, change.dry_run);
    validate_known(listed(change), view, severity, violations);
    for role in ClusterField::ROLES {
        warn_of_repeated(change, role, violations);
    }
    if let Some(warning) = one_cluster_only(change) {
        violations.warnings.push(warning);
    }
}

/// Returns the valid cluster names that are new in the lists, in the preference or in the share.
pub(super) fn new_names(change: &PreparedChange) -> impl Iterator<Item = Entry<'_>> {
    listed(change).chain(preferred(change))
}

/// Returns the newly preferred clusters, and those that newly have a share.
pub(super) fn preferred(change: &PreparedChange) -> impl Iterator<Item = Entry<'_>> {
    let preferred = change.failover.new_clusters().map(|name| (PREFER, name));
    let shared = change.failover.new_shares().map(|name| (SHARE, name));
    preferred.chain(shared).map(|(annotation, name)| Entry {
        place: Place::Annotation(annotation),
        name: name.as_str(),
    })
}

/// Returns the new clusters in the lists, each once a role.
fn listed(change: &PreparedChange) -> impl Iterator<Item = Entry<'_>> {
    ClusterField::ROLES.into_iter().flat_map(move |role| {
        let field = role.effective(&change.spec);
        let before = change.named_before(role);
        let names = field.names(&change.spec);
        let mut seen = has_repetition(&names).then(HashSet::new);
        let names = names.into_iter().enumerate();
        names
            .filter(move |(_, name)| {
                seen.as_mut().is_none_or(|seen| seen.insert(*name))
                    && ClusterName::check(name).is_ok()
                    && !before.contains(name)
            })
            .map(move |(index, name)| Entry {
                place: Place::Listed(field, index),
                name,
            })
    })
}

/// Validates that named clusters exist. `severity` is that of an unknown one.
pub(super) fn validate_known<'a>(
    mut entries: impl Iterator<Item = Entry<'a>>,
    view: &HubView,
    severity: Severity,
    violations: &mut Violations,
) {
    let Some(observed) = &view.clusters else {
        if entries.next().is_some() {
            violations.unconfirmed_clusters(severity.impact());
        }
        return;
    };
    let mut impact = None;
    for entry in entries {
        let detail = match &observed.value {
            Clusters::Named(names) if names.contains_key(entry.name) => continue,
            Clusters::Named(_) => format!("no Cluster is named {:?}", entry.name),
            // Without Cluster objects the hub would warn of every name.
            Clusters::NotServed if severity == Severity::Warned => continue,
            Clusters::NotServed => {
                "the hub serves no Cluster objects, by which clusters are known".to_owned()
            }
        };
        let detail = format!("{detail}; join it, or correct the name");
        impact = impact.max(Some(violations.add(entry.error(detail), severity)));
    }
    if let (Some(impact), false) = (impact, observed.live) {
        violations.unconfirmed_clusters(impact);
    }
}

fn warn_of_repeated(change: &PreparedChange, role: ClusterField, violations: &mut Violations) {
    let field = role.effective(&change.spec);
    let stored = change.before.spec().map(|stored| role.names(stored));
    for (index, name) in repeated(&field.names(&change.spec), &stored.unwrap_or_default()) {
        let (path, name) = (field.entry_path(index), quoted(name));
        let warning = format!("{path}: cluster {name:?} is listed already");
        violations.warnings.push(warning);
    }
}

/// Returns the warning about a service from a cluster to itself alone.
fn one_cluster_only(change: &PreparedChange) -> Option<String> {
    let mut roles = ClusterField::ROLES.into_iter();
    let changed = change.types_changed() || roles.any(|role| change.role_changed(role));
    let only = quoted(only_cluster(&change.spec).filter(|_| changed)?);
    Some(format!(
        "spec: cluster {only:?} is the only provider and the only consumer, so no endpoints cross \
         clusters"
    ))
}
