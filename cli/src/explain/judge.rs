//! `explain(&Scene)`: what became of each endpoint, and why. Pure.

mod clusterset;
mod fate;
mod karmada;
mod native;
mod plan;
mod way;

use super::report::{Explanation, Finding, Reason, Way};
use super::scene::Scene;
use super::standing;

/// Says where each endpoint of the service is, and why it is not where it should be.
pub(super) fn explain(scene: &Scene) -> Explanation {
    let ways: Vec<Way> = [native::way(scene), clusterset::way(scene)]
        .into_iter()
        .flatten()
        .collect();
    let mut findings: Vec<_> = standing::controller(scene).into_iter().collect();
    if ways.is_empty() {
        findings.push(not_asked(scene));
        findings.extend(leftovers(scene));
    }
    let ready = findings.iter().all(|one| one.reason.is_well()) && ways.iter().all(is_well);
    Explanation {
        namespace: scene.key.namespace.to_string(),
        name: scene.key.name.to_string(),
        ready,
        findings,
        ways,
    }
}

fn is_well(way: &Way) -> bool {
    let of_consumers = way.consumers.iter().flat_map(|one| &one.findings);
    let of_providers = way.providers.iter().flat_map(|one| &one.findings);
    let findings = way.findings.iter().chain(of_consumers).chain(of_providers);
    let endpoints = way.providers.iter().flat_map(|one| &one.endpoints);
    let mut fates = endpoints
        .filter(|endpoint| endpoint.ready)
        .flat_map(|endpoint| &endpoint.consumers);
    findings.map(|one| one.reason).all(Reason::is_well)
        && fates.all(|fate| fate.there && fate.finding.reason.is_well())
}

/// What is there though nothing asks for it.
fn leftovers(scene: &Scene) -> Option<Finding> {
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let holders: Vec<_> = scene.holders().collect();
    (!holders.is_empty()).then(|| {
        let message = format!(
            "objects of {namespace}/{name} that causeway wrote are left in {}; the controller collects them when it reaches \
             these members",
            holders.join(", ")
        );
        Finding::new(Reason::Leftovers, message).mend("kubectl mcs status shows which members are not Synced, and why")
    })
}

fn not_asked(scene: &Scene) -> Finding {
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let unread: Vec<_> = scene
        .members
        .iter()
        .filter_map(|(name, held)| Some(format!("{name}: {}", held.as_ref().err()?)))
        .collect();
    let unread = match unread.join("; ").as_str() {
        "" => String::new(),
        unread => format!(" (not read: {unread})"),
    };
    let message = format!(
        "the hub has no MultiClusterService {namespace}/{name}, and no member exports a Service of that name{unread}"
    );
    Finding::new(Reason::NotAsked, message).mend(format!(
        "kubectl -n {namespace} apply -f mcs.yaml, a MultiClusterService called {name}; or in a member: \
         kubectl -n {namespace} apply of a ServiceExport called {name}; kubectl mcs status -A shows what is there"
    ))
}
