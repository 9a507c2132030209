//! What Karmada's own controllers carry of a service, or left of it.

use std::collections::BTreeMap;

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;

use super::super::report::{Finding, Path, Reason};
use super::super::scene::{Held, Scene, has, is_copy, is_ready};
use super::plan::Plan;
use crate::karmada::{self, Work};

/// The slice by which Karmada brought an endpoint of that provider to a consumer.
pub(super) fn slice_with<'a>(
    plan: &'a Plan<'_>,
    provider: &'a str,
    consumer: &str,
    endpoint: &Endpoint,
) -> Option<&'a EndpointSlice> {
    let held = plan.scene.held(consumer)?;
    let mut slices = plan.scene.dispatched(held, provider);
    slices.find(|slice| plan.path == Path::Native && has(slice, endpoint))
}

/// Why an endpoint is not in a consumer, where Karmada is to bring it there.
pub(super) fn not_dispatched(plan: &Plan<'_>, consumer: &str) -> Option<Finding> {
    plan.of_karmada.then(|| {
        let message = format!(
            "Karmada's own controllers carry {}, and no EndpointSlice of theirs in {consumer} holds it",
            plan.scene.key
        );
        Finding::new(Reason::NotDispatchedByKarmada, message).mend(plan.scene.adopt())
    })
}

/// What is to be said of Karmada's part in the service as a whole.
pub(super) fn findings(plan: &Plan<'_>) -> Vec<Finding> {
    let scene = plan.scene;
    let carried = plan.of_karmada.then(|| carried(scene));
    let unapplied = scene.unapplied.as_ref().map(|unapplied| {
        Finding::new(Reason::NotPropagated, unapplied.message.as_str())
            .mend(unapplied.remedy.as_str())
    });
    let whole = carried.or_else(|| left(scene));
    whole
        .into_iter()
        .chain(unapplied)
        .chain(stale(plan))
        .collect()
}

fn carried(scene: &Scene) -> Finding {
    let mut works = scene.works.iter().flatten().filter(|work| work.carries());
    let work = works.next().map(Work::id);
    let work = work.map(|work| format!(" (Work {work})"));
    let message = format!(
        "Karmada's own MultiClusterService controllers carry {}{}; causeway begins nothing of it",
        scene.key,
        work.unwrap_or_default()
    );
    let adopt = scene.adopt();
    Finding::new(Reason::CarriedByKarmada, message)
        .mend(format!("for causeway to carry it: {adopt}"))
}

/// The members in which slices of Karmada's are, that nobody keeps up any more.
fn left(scene: &Scene) -> Option<Finding> {
    let read = scene.members.iter();
    let read = read.filter_map(|(name, held)| Some((name.as_str(), held.as_ref().ok()?)));
    let members = read.filter(|(_, held)| {
        let mut slices = held.slices_of(&scene.key.name);
        slices.any(karmada::is_dispatched)
    });
    let members: Vec<_> = members.map(|(name, _)| name).collect();
    (!members.is_empty()).then(|| {
        let message = format!(
            "EndpointSlices of Karmada's are left in {}, beside causeway's, and nobody keeps them up",
            members.join(", ")
        );
        Finding::new(Reason::LeftByKarmada, message).mend(scene.adopt())
    })
}

/// What consumers offer of a provider that has it no longer, as far as Karmada has a part in it.
fn stale(plan: &Plan<'_>) -> Vec<Finding> {
    let scene = plan.scene;
    let read = scene.members.iter();
    let read = read.filter_map(|(name, held)| Some((name.as_str(), held.as_ref().ok()?)));
    let mut findings = Vec::new();
    for (consumer, held) in read {
        for slice in brought(plan, held) {
            let Some(provider) = provider(slice) else {
                continue;
            };
            let gone = gone(scene, provider, slice);
            if gone.is_empty() {
                continue;
            }
            let message = format!(
                "{consumer} offers {} of {provider}, which {provider} no longer has as ready (EndpointSlice {} of {consumer})",
                gone.join(", "),
                slice.name_any()
            );
            findings.push(Finding::new(Reason::StaleEndpoints, message).mend(scene.adopt()));
        }
    }
    findings
}

/// Karmada's slices in a member, and causeway's copies while Karmada carries the service.
fn brought<'a>(plan: &'a Plan<'_>, held: &'a Held) -> impl Iterator<Item = &'a EndpointSlice> {
    let scene = plan.scene;
    let slices = held.slices_of(&scene.key.name);
    slices.filter(move |slice| {
        karmada::is_dispatched(slice)
            || (plan.of_karmada && is_copy(slice) && scene.is_ours(*slice))
    })
}

fn provider(slice: &EndpointSlice) -> Option<&str> {
    let copied = slice.labels().get(labels::SOURCE_CLUSTER);
    let dispatched = slice.annotations().get(labels::PROVISION_CLUSTER);
    copied.or(dispatched).map(String::as_str)
}

/// The addresses that a slice offers as ready, and no slice of its provider does.
fn gone(scene: &Scene, provider: &str, slice: &EndpointSlice) -> Vec<String> {
    let Some(there) = scene.held(provider) else {
        return Vec::new();
    };
    let sources = there.sources(&scene.key.name);
    let known: BTreeMap<_, _> = sources
        .flat_map(|source| &source.endpoints)
        .map(|one| (&one.addresses, is_ready(one)))
        .collect();
    let offered = slice.endpoints.iter().filter(|one| is_ready(one));
    let gone = offered.filter(|one| known.get(&one.addresses) != Some(&true));
    gone.map(|one| one.addresses.join(",")).collect()
}
