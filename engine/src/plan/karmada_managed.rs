//! MultiClusterServices that Karmada manages. Causeway creates nothing beside Karmada, maintains
//! its own objects until Karmada's replace them, and reports whether clients are served.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::copies::yield_to_karmada::{lags, ready, undelivered_apart};
use super::desired::{Desired, DesiredMember, KarmadaManaged};
use super::inputs::Inputs;
use super::placement::Placement;
use super::providers::Provider;
use super::service::DesiredService;
use crate::model::MemberState;
use crate::model::slice::{AddressType, Exposure};
use crate::observed::Index;
use crate::observed::member::Member;
use crate::problem::Gap;

/// Time that Karmada has before gaps of consumers are reported.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the planned Service of a consumer beside Karmada: an existing Service stays as it is,
/// whoever owns it.
pub(super) fn leave(service: DesiredService) -> DesiredService {
    match service {
        DesiredService::Own(_) => DesiredService::Foreign,
        other => other,
    }
}

/// Yields the copies of a consumer to Karmada's slices. Returns the gaps that remain.
pub(super) fn leave_to_karmada(
    desired: &mut DesiredMember,
    index: &Index,
    key: &ServiceKey,
    (name, member): (&ClusterName, &Member),
    providers: &[Provider<'_>],
) -> BTreeSet<Gap> {
    let consumer = || name.clone();
    let hub = index.hub_uid();
    let copies = &mut desired.copies;
    let apart = providers.iter();
    let apart = apart.filter(|provider| copies.entry(provider.name).is_some());
    let apart = apart.flat_map(|provider| undelivered_apart(member, key, hub, provider));
    let apart: Vec<_> = apart.collect();
    let undelivered = copies.leave_to_karmada(index, member, key, Exposure::Native);
    let undelivered = undelivered.into_iter().chain(apart);
    let endpoints = undelivered.map(|(provider, slice)| Gap::Endpoints {
        consumer: consumer(),
        provider,
        slice,
    });
    let behind = member.karmadas_slices(key).filter(|(slice, theirs)| {
        let mut providers = providers.iter();
        let provider = providers.find(|provider| *provider.name.as_str() == *theirs.provider);
        let provider = provider.and_then(|provider| provider.member);
        provider.is_some_and(|provider| lags(slice, theirs, provider, key))
    });
    let behind = behind.map(|(slice, _)| Gap::Behind {
        consumer: consumer(),
        slice: slice.clone(),
    });
    let service = member.service(key).is_none().then(|| Gap::Service {
        consumer: consumer(),
    });
    let fit = desired.problem.clone().map(|problem| Gap::Fit {
        consumer: consumer(),
        problem,
    });
    let all = endpoints.chain(behind).chain(service).chain(fit);
    all.collect()
}

/// Adds to a plan the report on a service that Karmada manages by `work`.
pub(super) fn report(
    inputs: Inputs<'_>,
    work: &str,
    desired: Desired,
    gaps: BTreeSet<Gap>,
) -> Desired {
    let (index, key, now) = (inputs.index, inputs.key, inputs.now);
    let until = |lack: &Gap| {
        let since = index.gaps.of(key, lack).unwrap_or(now);
        since.after(PATIENCE)
    };
    let (late, new): (Vec<_>, Vec<_>) = gaps.iter().partition(|lack| until(lack) <= now);
    let again_at = new.iter().map(|lack| until(lack)).min();
    let hub = index.hub_uid();
    let managed = KarmadaManaged {
        work: work.to_owned(),
        late: late.into_iter().cloned().collect(),
        any_ready: has_ready_endpoints(index, key, &desired.placement),
        unknown: unknown(index, key, &desired.placement),
        services: holders(index, |member| {
            let service = member.service(key);
            service.is_some_and(|service| service.is_delivered_by(hub))
        }),
        slices: holders(index, |member| {
            let mut copies = member.copies(key);
            copies.any(|(_, copy)| copy.view.is_of(hub, Exposure::Native))
        }),
        gaps,
    };
    Desired {
        karmada: Some(managed),
        again_at: desired.again_at.into_iter().chain(again_at).min(),
        ..desired
    }
}

fn has_ready_endpoints(index: &Index, key: &ServiceKey, placement: &Placement) -> bool {
    let mut providers = placement.providers();
    providers.any(|name| {
        let member = index.member(name).into_iter();
        let mut sources = member.flat_map(|member| member.sources(key));
        sources.any(|(_, source)| ready(source).next().is_some())
    })
}

/// Returns the providers and consumers whose state is not known, and the providers with a slice
/// that cannot be read: it may have the only ready endpoint.
fn unknown(index: &Index, key: &ServiceKey, placement: &Placement) -> BTreeSet<ClusterName> {
    let is_known = |name: &ClusterName| {
        index.member_state(name) == MemberState::Synced
            && index.member(name).is_some_and(|member| member.covers(key))
    };
    let is_read = |name: &ClusterName| {
        let sources = index.member(name).into_iter();
        let mut sources = sources.flat_map(|member| member.sources(key));
        is_known(name) && sources.all(|(_, one)| one.address_type != AddressType::Unread)
    };
    let providers = placement.providers().filter(|name| !is_read(name));
    let consumers = placement.consumers().filter(|name| !is_known(name));
    providers.chain(consumers).cloned().collect()
}

/// Returns the members of which a predicate holds.
fn holders(index: &Index, holds: impl Fn(&Member) -> bool) -> BTreeSet<ClusterName> {
    let members = index.members().filter(|(_, member)| holds(member));
    members.map(|(name, _)| name.clone()).collect()
}
