//! What the exports of one service disagree on, in words.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::ClusterName;

use super::Constituent;
use crate::index::service::ServiceKind;

/// One thing on which the exports of a service disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The reason, as the API's types word it.
    pub reason: &'static str,
    /// Who wins, with what, and who has something else.
    pub message: String,
}

/// Clusters that are named in a message.
const NAMED_AT_MOST: usize = 3;
/// What a value may take in a message, in characters.
const VALUE_MAX: usize = 80;
/// What all messages may take together, in characters.
const TEXT_MAX: usize = 1000;

/// The reason and the message of the Conflict condition; `None` where the exports agree.
pub fn conflict_text(conflicts: &[Conflict]) -> Option<(String, String)> {
    let join = |texts: Vec<&str>, with: &str| texts.join(with);
    let reasons = conflicts.iter().map(|conflict| conflict.reason).collect();
    let messages = conflicts
        .iter()
        .map(|conflict| &*conflict.message)
        .collect();
    let text = cut(&join(messages, ". "), TEXT_MAX);
    (!conflicts.is_empty()).then(|| (join(reasons, ","), text))
}

/// Finds what they disagree on; the oldest is the first.
pub(super) fn find(by_age: &[Constituent<'_>]) -> Vec<Conflict> {
    let both_stick = |one: &Constituent<'_>| one.service.shape.affinity_seconds.is_some();
    let sticking: Vec<_> = by_age
        .iter()
        .filter(|one| both_stick(one))
        .copied()
        .collect();
    let oldest_sticks = by_age.first().is_some_and(both_stick);
    let of_config = if oldest_sticks {
        sticking.as_slice()
    } else {
        &[]
    };
    [
        conflict("PortConflict", "ports", by_age, ports),
        conflict("TypeConflict", "type", by_age, kind),
        conflict(
            "SessionAffinityConflict",
            "sessionAffinity",
            by_age,
            |one| one.service.shape.session_affinity.clone(),
        ),
        conflict(
            "SessionAffinityConfigConflict",
            "sessionAffinityConfig",
            of_config,
            seconds,
        ),
        conflict(
            "InternalTrafficPolicyConflict",
            "internalTrafficPolicy",
            by_age,
            |one| {
                one.service
                    .internal_traffic_policy
                    .as_deref()
                    .unwrap_or("Cluster")
                    .to_owned()
            },
        ),
        conflict(
            "TrafficDistributionConflict",
            "trafficDistribution",
            by_age,
            |one| {
                one.service
                    .shape
                    .traffic_distribution
                    .clone()
                    .unwrap_or_else(|| "none".to_owned())
            },
        ),
        conflict("IPFamilyConflict", "ipFamilies", by_age, families),
        conflict("LabelsConflict", "exportedLabels", by_age, |one| {
            pairs(&one.spec.exported_labels)
        }),
        conflict(
            "AnnotationsConflict",
            "exportedAnnotations",
            by_age,
            |one| pairs(&one.spec.exported_annotations),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn conflict(
    reason: &'static str,
    field: &str,
    by_age: &[Constituent<'_>],
    value: impl Fn(&Constituent<'_>) -> String,
) -> Option<Conflict> {
    let (oldest, younger) = by_age.split_first()?;
    let winner = value(oldest);
    let others: Vec<(&ClusterName, String)> = younger
        .iter()
        .map(|one| (one.cluster, value(one)))
        .filter(|(_, value)| *value != winner)
        .collect();
    if others.is_empty() {
        return None;
    }
    let named = others.iter().take(NAMED_AT_MOST);
    let named: Vec<_> = named
        .map(|(cluster, value)| format!("{cluster} ({})", cut(value, VALUE_MAX)))
        .collect();
    let more = match others.len().saturating_sub(NAMED_AT_MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let disagree = if others.len() == 1 {
        "disagrees"
    } else {
        "disagree"
    };
    let wins = match reason {
        "PortConflict" => "where ports clash the oldest export wins, in",
        _ => "using that of the oldest export, in",
    };
    let message = format!(
        "Conflicting {field}: {wins} {} ({}); {} of {} clusters {disagree}: {}{more}",
        oldest.cluster,
        cut(&winner, VALUE_MAX),
        others.len(),
        by_age.len(),
        named.join(", "),
    );
    Some(Conflict { reason, message })
}

/// The ports as a set; their order means nothing.
fn ports(one: &Constituent<'_>) -> String {
    let ports = one.service.shape.ports.iter().map(|shape| {
        let protocol = shape.app_protocol.as_deref();
        match protocol {
            Some(protocol) => format!("{} {protocol}", shape.port),
            None => shape.port.to_string(),
        }
    });
    joined(ports)
}

fn kind(one: &Constituent<'_>) -> String {
    match one.service.shape.kind {
        ServiceKind::Headless => "Headless".to_owned(),
        ServiceKind::ClusterIp | ServiceKind::ExternalName => "ClusterSetIP".to_owned(),
    }
}

fn seconds(one: &Constituent<'_>) -> String {
    let seconds = one.service.shape.affinity_seconds.unwrap_or_default();
    format!("{seconds}s")
}

fn families(one: &Constituent<'_>) -> String {
    joined(one.service.ip_families.iter().map(ToString::to_string))
}

fn pairs(all: &BTreeMap<String, String>) -> String {
    joined(all.iter().map(|(name, value)| format!("{name}={value}")))
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    let sorted: Vec<_> = texts.collect::<BTreeSet<_>>().into_iter().collect();
    match sorted.is_empty() {
        true => "none".to_owned(),
        false => sorted.join(", "),
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most).collect();
    format!("{kept}...")
}
