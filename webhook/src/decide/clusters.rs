//! V6: clusters that nobody knows; V9: clusters listed twice, and a service that never leaves its cluster.

use std::collections::HashSet;

use causeway::domain::{ClusterField, ClusterName, ExposureType, FieldError, quoted};

use super::counts::{take, times};
use super::findings::{Findings, Severity};
use super::types::type_of;
use super::view::Clusters;
use super::{Policy, Question, Stake, Strictness, View};

const ROLES: [ClusterField; 2] = [ClusterField::Providers, ClusterField::Consumers];

/// A cluster that is named and was not before.
pub(super) struct Entry<'a> {
    field: ClusterField,
    index: usize,
    pub(super) name: &'a str,
}

pub(super) fn judge(question: &Question, view: &View, policy: &Policy, findings: &mut Findings) {
    judge_unknown(question, view, policy, findings);
    for role in ROLES {
        warn_of_repeated(question, role, findings);
    }
    if let Some(warning) = one_cluster_only(question) {
        findings.warnings.push(warning);
    }
}

/// The valid cluster names that were not there before, each once a role.
pub(super) fn new_names(question: &Question) -> impl Iterator<Item = Entry<'_>> {
    ROLES.into_iter().flat_map(move |role| {
        let field = effective(question, role);
        let before = question.named_before(role);
        let names = field.names(&question.spec);
        let mut seen = has_repetition(&names).then(HashSet::new);
        let names = names.into_iter().enumerate();
        names
            .filter(move |(_, name)| {
                seen.as_mut().is_none_or(|seen| seen.insert(*name))
                    && ClusterName::check(name).is_ok()
                    && !before.contains(name)
            })
            .map(move |(index, name)| Entry { field, index, name })
    })
}

fn judge_unknown(question: &Question, view: &View, policy: &Policy, findings: &mut Findings) {
    let refuse = policy.unknown_cluster == Strictness::Deny;
    let Some(seen) = &view.clusters else {
        if new_names(question).next().is_some() {
            findings.doubt_clusters(if refuse {
                Stake::Refusal
            } else {
                Stake::Warning
            });
        }
        return;
    };
    let severity = if refuse {
        Severity::Refused
    } else {
        Severity::Warned
    };
    let mut stake = None;
    for entry in new_names(question) {
        let detail = match &seen.value {
            Clusters::Named(names) if names.contains(entry.name) => continue,
            Clusters::Named(_) => format!("no Cluster is named {:?}", entry.name),
            // Without Cluster objects a mere warning would be about every name, and say nothing.
            Clusters::NotServed if !refuse => continue,
            Clusters::NotServed => {
                "the hub serves no Cluster objects, by which clusters are known".to_owned()
            }
        };
        let detail = format!("{detail}; join it, or correct the name");
        let error = FieldError::invalid(entry.field.entry_path(entry.index), entry.name, detail);
        stake = stake.max(Some(findings.fault(error, severity)));
    }
    if let (Some(stake), false) = (stake, seen.live) {
        findings.doubt_clusters(stake);
    }
}

/// The field that says who a role's clusters are.
fn effective(question: &Question, role: ClusterField) -> ClusterField {
    role.with_deprecated()
        .find(|field| field.name(&question.spec, 0).is_some())
        .unwrap_or(role)
}

/// Whether a list names something twice, which it hardly ever does.
fn has_repetition(names: &[&str]) -> bool {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

fn warn_of_repeated(question: &Question, role: ClusterField, findings: &mut Findings) {
    let field = effective(question, role);
    let stored = question.before.spec().into_iter();
    let mut stored = times(stored.flat_map(|spec| role.names(spec)));
    let names = field.names(&question.spec);
    if !has_repetition(&names) {
        return;
    }
    let mut seen = HashSet::with_capacity(names.len());
    for (index, name) in names.into_iter().enumerate() {
        let is_stored = take(&mut stored, name);
        if !seen.insert(name) && !is_stored {
            let (path, name) = (field.entry_path(index), quoted(name));
            findings
                .warnings
                .push(format!("{path}: cluster {name:?} is listed already"));
        }
    }
}

/// CrossCluster from a cluster to itself.
fn one_cluster_only(question: &Question) -> Option<String> {
    let changed = question.types_changed() || ROLES.iter().any(|role| question.role_changed(*role));
    if !changed || type_of(&question.spec) != Some(ExposureType::CrossCluster) {
        return None;
    }
    let [providers, consumers] = ROLES.map(|role| effective(question, role).names(&question.spec));
    let only = providers.first()?;
    let is_only = |names: &[&str]| !names.is_empty() && names.iter().all(|name| name == only);
    (is_only(&providers) && is_only(&consumers)).then(|| {
        format!(
            "spec: cluster {only:?} is the only provider and the only consumer, so there is nothing to do; its own Service serves it already"
        )
    })
}
