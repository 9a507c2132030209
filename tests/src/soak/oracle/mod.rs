//! Desired objects of every cluster, recomputed from scratch: from the rules of the design and the
//! existing objects, without the controller's code. Desired and actual objects are written as
//! lines, and the lines have to be equal.

mod actual;
mod clusterset;
#[cfg(test)]
mod damages;
mod native;
mod networks;
mod ports;
mod tiers;

use std::collections::BTreeMap;

use causeway::api::MultiClusterService;
use k8s_openapi::api::core::v1::Service;

use self::ports::Port;
use crate::soak::snapshot::Snapshot;

/// Lines, and how often each occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, usize>);

impl Lines {
    fn tell(&mut self, line: String) {
        *self.0.entry(line).or_default() += 1;
    }

    /// Adds a line of an object that several rules ask for and that exists once.
    fn tell_once(&mut self, line: String) {
        self.0.entry(line).or_insert(1);
    }

    /// Returns the number of lines that contain that text.
    pub fn count(&self, contains: &str) -> usize {
        let those = self.0.iter().filter(|(line, _)| line.contains(contains));
        those.map(|(_, count)| count).sum()
    }

    /// Lists missing and superfluous lines; empty if both agree.
    fn differences(expected: &Self, actual: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (line, wanted) in &expected.0 {
            let there = actual.0.get(line).copied().unwrap_or_default();
            if there < *wanted {
                found.push(format!("missing ({there} of {wanted}): {line}"));
            }
        }
        for (line, there) in &actual.0 {
            let wanted = expected.0.get(line).copied().unwrap_or_default();
            if *there > wanted {
                found.push(format!("too many ({there} of {wanted}): {line}"));
            }
        }
        found
    }
}

/// Compares what is with what should be.
///
/// # Errors
/// The differences.
pub(super) fn check(snapshot: &Snapshot) -> Result<Lines, Vec<String>> {
    let mut expected = Lines::default();
    native::tell(snapshot, &mut expected);
    clusterset::tell(snapshot, &mut expected);
    let actual = actual::tell(snapshot);
    let differences = Lines::differences(&expected, &actual);
    if differences.is_empty() {
        Ok(expected)
    } else {
        Err(differences)
    }
}

fn listed(ports: &[Port]) -> String {
    let mut all: Vec<String> = ports.iter().map(ToString::to_string).collect();
    all.sort();
    all.join(",")
}

/// Selector of a Service, as `label=value`.
fn selector(service: &Service) -> Vec<String> {
    let selector = service
        .spec
        .iter()
        .flat_map(|spec| spec.selector.iter().flatten());
    selector
        .map(|(label, value)| format!("{label}={value}"))
        .collect()
}

fn is_of_type(exposed: &MultiClusterService, type_: &str) -> bool {
    exposed.spec.types.iter().any(|one| one == type_)
}

fn crosses(exposed: &MultiClusterService) -> bool {
    is_of_type(exposed, "CrossCluster")
}

/// Whether its consumers are entry clusters.
fn has_entries(exposed: &MultiClusterService) -> bool {
    !crosses(exposed) && !exposed.spec.consumer_clusters.is_empty()
}

/// Whether its consumers get the endpoints of its providers.
fn dispatches(exposed: &MultiClusterService) -> bool {
    crosses(exposed) || has_entries(exposed)
}
