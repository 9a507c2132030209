//! V6: unknown clusters, also those that are preferred (V11); V9: clusters listed twice, and a service that never leaves its
//! cluster.

use std::collections::HashSet;

use causeway::api::labels::PREFER;
use causeway::domain::{ClusterField, ClusterName, ExposureType, Failover, FieldError, quoted};

use super::counts::{take, times};
use super::hub_view::Clusters;
use super::types::type_of;
use super::violations::{Severity, Violations};
use super::{HubView, Impact, Policy, PreparedChange, Strictness};

const ROLES: [ClusterField; 2] = [ClusterField::Providers, ClusterField::Consumers];

/// A cluster that is named and was not before.
pub(super) struct Entry<'a> {
    place: Place,
    pub(super) name: &'a str,
}

/// Place that names a cluster.
enum Place {
    /// An entry of a list.
    Listed(ClusterField, usize),
    /// The annotation [`PREFER`].
    Preferred,
}

impl Entry<'_> {
    fn error(&self, detail: String) -> FieldError {
        match self.place {
            Place::Listed(field, index) => {
                FieldError::invalid(field.entry_path(index), self.name, detail)
            }
            Place::Preferred => {
                let tier = format!("cluster/{}", self.name);
                FieldError::invalid(Failover::path(PREFER), tier, detail)
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
    validate_known(listed(change), view, policy, violations);
    for role in ROLES {
        warn_of_repeated(change, role, violations);
    }
    if let Some(warning) = one_cluster_only(change) {
        violations.warnings.push(warning);
    }
}

/// The valid cluster names that were not there before.
pub(super) fn new_names(change: &PreparedChange) -> impl Iterator<Item = Entry<'_>> {
    listed(change).chain(preferred(change))
}

/// Those that are preferred.
pub(super) fn preferred(change: &PreparedChange) -> impl Iterator<Item = Entry<'_>> {
    change.failover.new_clusters().map(|name| Entry {
        place: Place::Preferred,
        name: name.as_str(),
    })
}

/// Those in the lists, each once a role.
fn listed(change: &PreparedChange) -> impl Iterator<Item = Entry<'_>> {
    ROLES.into_iter().flat_map(move |role| {
        let field = effective(change, role);
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

/// Validates that there are the clusters that are named.
pub(super) fn validate_known<'a>(
    mut entries: impl Iterator<Item = Entry<'a>>,
    view: &HubView,
    policy: &Policy,
    violations: &mut Violations,
) {
    let refuse = policy.unknown_cluster == Strictness::Deny;
    let Some(observed) = &view.clusters else {
        if entries.next().is_some() {
            violations.unconfirmed_clusters(if refuse {
                Impact::Denial
            } else {
                Impact::Warning
            });
        }
        return;
    };
    let severity = if refuse {
        Severity::Denied
    } else {
        Severity::Warned
    };
    let mut impact = None;
    for entry in entries {
        let detail = match &observed.value {
            Clusters::Named(names) if names.contains_key(entry.name) => continue,
            Clusters::Named(_) => format!("no Cluster is named {:?}", entry.name),
            // Without Cluster objects a mere warning would be about every name, and say nothing.
            Clusters::NotServed if !refuse => continue,
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

/// The field that says who a role's clusters are.
pub(super) fn effective(change: &PreparedChange, role: ClusterField) -> ClusterField {
    role.with_deprecated()
        .find(|field| field.name(&change.spec, 0).is_some())
        .unwrap_or(role)
}

/// Whether a list names something twice, which it hardly ever does.
fn has_repetition(names: &[&str]) -> bool {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

fn warn_of_repeated(change: &PreparedChange, role: ClusterField, violations: &mut Violations) {
    let field = effective(change, role);
    let stored = change.before.spec().into_iter();
    let mut stored = times(stored.flat_map(|spec| role.names(spec)));
    let names = field.names(&change.spec);
    if !has_repetition(&names) {
        return;
    }
    let mut seen = HashSet::with_capacity(names.len());
    for (index, name) in names.into_iter().enumerate() {
        let is_stored = take(&mut stored, name);
        if !seen.insert(name) && !is_stored {
            let (path, name) = (field.entry_path(index), quoted(name));
            violations
                .warnings
                .push(format!("{path}: cluster {name:?} is listed already"));
        }
    }
}

/// CrossCluster from a cluster to itself.
fn one_cluster_only(change: &PreparedChange) -> Option<String> {
    let changed = change.types_changed() || ROLES.iter().any(|role| change.role_changed(*role));
    if !changed || type_of(&change.spec) != Some(ExposureType::CrossCluster) {
        return None;
    }
    let [providers, consumers] = ROLES.map(|role| effective(change, role).names(&change.spec));
    let only = providers.first()?;
    let is_only = |names: &[&str]| !names.is_empty() && names.iter().all(|name| name == only);
    (is_only(&providers) && is_only(&consumers)).then(|| {
        format!(
            "spec: cluster {only:?} is the only provider and the only consumer, so there is nothing to do; its own Service serves it already"
        )
    })
}
