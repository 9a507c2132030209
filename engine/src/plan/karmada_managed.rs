//! MultiClusterServices that Karmada manages. Causeway creates nothing beside Karmada, maintains
//! its own objects until Karmada's replace them, and reports whether clients are served.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::copies::Provider;
use super::copies::yield_to_karmada::{lags, ready};
use super::desired::{Desired, DesiredMember, KarmadaManaged, Members, Problem, ProblemKind};
use super::placement::Placement;
use super::service::DesiredService;
use crate::model::slice::Exposure;
use crate::model::{MemberState, TimePoint};
use crate::observed::Index;
use crate::observed::gaps::Gap;
use crate::observed::member::Member;

/// Time that Karmada has before gaps of consumers are reported.
const PATIENCE: Duration = Duration::from_secs(30);
const NAMED_AT_MOST: usize = 5;

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
    name: &ClusterName,
    member: &Member,
    key: &ServiceKey,
    providers: &[Provider<'_>],
) -> BTreeSet<Gap> {
    let consumer = || name.clone();
    let copies = &mut desired.copies;
    let undelivered = copies
        .leave_to_karmada(member, key, key, Exposure::Native)
        .into_iter();
    let endpoints = undelivered.map(|lacked| Gap::Endpoints {
        consumer: consumer(),
        provider: lacked.provider,
        slice: lacked.slice,
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
    let fit = desired.problem.as_ref().map(|why| Gap::Fit {
        consumer: consumer(),
        why: why.to_string(),
    });
    let all = endpoints.chain(behind).chain(service).chain(fit);
    all.collect()
}

/// Adds to a plan the report on a service that Karmada manages by `work`.
pub(super) fn report(
    index: &Index,
    key: &ServiceKey,
    work: &str,
    desired: Desired,
    gaps: BTreeSet<Gap>,
    now: TimePoint,
) -> Desired {
    let until = |lack: &Gap| {
        let since = index.gap_since(key, lack).unwrap_or(now);
        since.after(PATIENCE)
    };
    let (old, new): (Vec<_>, Vec<_>) = gaps.iter().partition(|lack| until(lack) <= now);
    let again_at = new.iter().map(|lack| until(lack)).min();
    let said = Said {
        index,
        key,
        placement: &desired.placement,
    };
    let mut message = format!(
        "Karmada's own MultiClusterService controllers manage this service (Work {work}), and causeway begins nothing beside them"
    );
    let hub = desired
        .problem
        .as_ref()
        .map(|problem| problem.message.clone());
    let endpoints = matches!(desired.members, Members::Wanted(_))
        .then(|| said.endpoints(&old, !new.is_empty()));
    for part in hub.into_iter().chain(endpoints).chain(said.left()) {
        message.push_str(". ");
        message.push_str(&part);
    }
    let (namespace, name) = (&key.namespace, &key.name);
    message.push_str(&format!(
        ". For causeway to manage it, without a gap: kubectl mcs adopt {name} -n {namespace}"
    ));
    let wavers = !new.is_empty();
    Desired {
        problem: Some(Problem {
            kind: ProblemKind::ManagedByKarmada,
            message,
        }),
        karmada: Some(KarmadaManaged {
            work: work.to_owned(),
            gaps,
            wavers,
        }),
        again_at: desired.again_at.into_iter().chain(again_at).min(),
        ..desired
    }
}

struct Said<'a> {
    index: &'a Index,
    key: &'a ServiceKey,
    placement: &'a Placement,
}

impl Said<'_> {
    fn endpoints(&self, gaps: &[&Gap], wavers: bool) -> String {
        let known = match (gaps, wavers, self.has_ready_endpoints()) {
            ([], true, _) => "Not every ready endpoint is in every consumer yet".to_owned(),
            ([], false, true) => "Every ready endpoint is in every consumer".to_owned(),
            ([], false, false) => "No provider has a ready endpoint".to_owned(),
            _ => {
                let gaps: Vec<_> = gaps.iter().map(|gap| words(self.key, gap)).collect();
                let gaps = named(&gaps, "; ");
                format!("Not every ready endpoint is in every consumer: {gaps}")
            }
        };
        let placement = self.placement;
        let parties = placement.providers().chain(placement.consumers());
        let unknown = parties.filter(|name| self.index.member_state(name) != MemberState::Synced);
        let unknown: BTreeSet<_> = unknown.map(ClusterName::as_str).collect();
        let unknown: Vec<_> = unknown.into_iter().collect();
        match unknown.is_empty() {
            true => known,
            false => format!(
                "{known}, as far as is known: {} cannot be asked",
                named(&unknown, ", ")
            ),
        }
    }

    fn has_ready_endpoints(&self) -> bool {
        let mut providers = self.placement.providers();
        providers.any(|name| {
            let member = self.index.member(name).into_iter();
            let mut sources = member.flat_map(|member| member.sources(self.key));
            sources.any(|(_, source)| ready(source).next().is_some())
        })
    }

    /// Describes the objects of causeway that remain, and the members that hold them.
    fn left(&self) -> Option<String> {
        let hub = self.index.hub_uid();
        let those = |holds: &dyn Fn(&Member) -> bool| -> Vec<&str> {
            let members = self.index.members();
            let holders = members.filter(|(_, member)| holds(member));
            holders.map(|(name, _)| name.as_str()).collect()
        };
        let services = those(&|member| {
            let service = member.service(self.key);
            service.is_some_and(|service| service.is_delivered_by(hub))
        });
        let slices = those(&|member| {
            let mut copies = member.copies(self.key);
            copies.any(|(_, copy)| *copy.view.hub == *hub && copy.view.exposure == Exposure::Native)
        });
        let kinds = [("its Service in", services), ("EndpointSlices in", slices)];
        let kinds: Vec<_> = kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("{kind} {}", named(&names, ", ")))
            .collect();
        (!kinds.is_empty()).then(|| {
            format!(
                "What causeway made stays until Karmada's stands in its place: {}",
                kinds.join("; ")
            )
        })
    }
}

fn words(key: &ServiceKey, lack: &Gap) -> String {
    match lack {
        Gap::Service { consumer } => format!("{consumer} has no Service {}", key.name),
        Gap::Fit { consumer, why } => format!("{consumer} {why}"),
        Gap::Endpoints {
            consumer,
            provider,
            slice,
        } => format!("{consumer} lacks those of EndpointSlice {slice} of {provider}"),
        Gap::Behind { consumer, slice } => {
            format!("Karmada's EndpointSlice {slice} in {consumer} is behind")
        }
    }
}

fn named<T: AsRef<str>>(all: &[T], between: &str) -> String {
    let first = all.iter().take(NAMED_AT_MOST).map(AsRef::as_ref);
    let first: Vec<_> = first.collect();
    match all.len().saturating_sub(NAMED_AT_MOST) {
        0 => first.join(between),
        more => format!("{}{between}and {more} more", first.join(between)),
    }
}
