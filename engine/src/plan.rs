//! Desired state of every cluster for one service: a pure function of the observed state.

pub(crate) mod by_member;
pub(crate) mod capabilities;
pub(crate) mod clusterset;
pub(crate) mod companions;
pub(crate) mod copies;
mod desired;
pub(crate) mod disagreement;
pub(crate) mod dns;
pub(crate) mod entry;
pub(crate) mod entry_clusters;
pub(crate) mod exposure;
pub(crate) mod hostnames;
pub(crate) mod ignored;
pub(crate) mod inputs;
pub(crate) mod karmada_managed;
pub(crate) mod no_endpoints;
pub(crate) mod not_followed;
pub(crate) mod placement;
pub(crate) mod port_fit;
pub(crate) mod provider_use;
pub(crate) mod providers;
pub(crate) mod publish;
pub(crate) mod remark;
pub(crate) mod service;
mod settings;
pub(crate) mod shares;
pub(crate) mod tiers;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::{
    ClusterName, ClusterSelection, ExposureType, MultiClusterService, ServiceKey, ServicePort,
    Unreachable,
};

use self::capabilities::Capabilities;
pub use self::copies::CopyCache;
use self::copies::{DesiredCopies, Outcomes};
pub use self::desired::Desired;
pub(crate) use self::desired::{Companions, DesiredMember, KarmadaManaged, Members};
use self::entry::new_nodes;
use self::entry_clusters::EntryClusters;
use self::exposure::Exposed;
use self::inputs::Inputs;
use self::placement::{Placement, Roles};
use self::provider_use::{ProviderUses, UnreachablePolicy};
use self::providers::{Frontend, Provider};
use self::service::DesiredService;
pub use self::settings::{STANDBY_AFTER, Settings};
use crate::model::slice::Exposure;
use crate::model::{MemberState, TimePoint};
use crate::observed::Index;
use crate::observed::hub::McsView;
use crate::observed::hub::manager::Manager;
use crate::observed::member::Member;
use crate::observed::service::{ServiceKind, ServiceView};
use crate::problem::{Gap, Problem};

/// Plans one service on both paths: natively under its own name, and for the clusterset under the
/// derived name. The cache changes how long that takes, never the result.
pub fn plan(
    index: &Index,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
    cache: &mut CopyCache,
) -> Desired {
    let mut outcomes = cache.take(key);
    let inputs = Inputs {
        index,
        settings,
        key,
        now,
    };
    let mut clusterset = clusterset::plan(inputs, &mut outcomes);
    let publishes = settings.publish_exports && clusterset.is_unused();
    let native = native(inputs, publishes, &mut outcomes);
    cache.keep(key, outcomes);
    if publishes {
        publish::publish(index, key, &native, &mut clusterset);
    }
    let ends = [native.again_at, clusterset.again_at];
    let mut desired = Desired {
        clusterset,
        ..native
    };
    desired.companions = Companions::of(inputs, &desired);
    desired.name = match desired.members.is_untouched() {
        true => dns::NamePlan::Untouched,
        false => dns::plan(inputs, &desired.placement, desired.entry_clusters.as_ref()),
    };
    let of_tiers = desired.each_tiers();
    let of_tiers = of_tiers.filter_map(|(_, _, tiers)| tiers.again_at);
    let of_writers = disagreement::again_at(index, key, &desired, now);
    let of_nodes = new_nodes::again_at(index, key, &desired.companions.entry_nodes, now);
    let of_shares = desired.each_copies();
    let of_shares = of_shares.filter_map(|(.., copies)| copies.shares.as_ref()?.again_at);
    let of_name = desired.name.wanted().and_then(|name| name.again_at);
    let ends = ends.into_iter();
    let ends = ends.chain([of_writers, of_nodes, of_name]).flatten();
    desired.again_at = ends.chain(of_tiers).chain(of_shares).min();
    desired
}

/// Plans the native exposure: the request of a MultiClusterService.
fn native(inputs: Inputs<'_>, publishes: bool, outcomes: &mut Outcomes) -> Desired {
    let (index, key) = (inputs.index, inputs.key);
    let Some(mcs) = index
        .multi_cluster_service(key)
        .filter(|mcs| !mcs.is_deleting())
    else {
        return Desired::default();
    };
    if let Err(protected) = inputs.settings.protection.check(&key.namespace, &key.name) {
        return untouched(Some(Problem::Protected(protected)));
    }
    let work = match index.manager(key, inputs.now) {
        Manager::Karmada(work) => Some(work),
        Manager::Causeway => None,
        Manager::Unknown(until) => {
            return Desired {
                members: Members::Untouched,
                on_hold: true,
                again_at: until,
                ..Desired::default()
            };
        }
    };
    match (&mcs.spec, work) {
        (Ok(spec), _) if spec.exposure == ExposureType::CrossCluster || has_entries(spec, work) => {
            let exposed = exposure::expose(inputs, spec);
            let plan = Native {
                inputs,
                mcs,
                exposed: &exposed,
                publishes,
                karmada_managed: work.is_some(),
                has_entries: spec.has_entry_clusters(),
            };
            plan.dispatch(spec, work, outcomes)
        }
        (_, Some(work)) => karmada_managed::report(inputs, work, untouched(None), BTreeSet::new()),
        (Err(errors), None) => untouched(Some(Problem::Invalid(errors.clone()))),
        (Ok(spec), None) => Desired {
            placement: placement::place(index, spec),
            ..Desired::default()
        },
    }
}

/// Whether the consumers are entry clusters of causeway's: what Karmada manages is Karmada's.
fn has_entries(spec: &MultiClusterService, work: Option<&str>) -> bool {
    spec.has_entry_clusters() && work.is_none()
}

/// Returns a plan that reports a problem and leaves the members untouched, whoever wrote their
/// objects.
fn untouched(problem: Option<Problem>) -> Desired {
    Desired {
        members: Members::Untouched,
        problem,
        ..Desired::default()
    }
}

/// Service of the hub, with the owner and the providers of the objects in every member.
struct Shared<'a> {
    service: &'a ServiceView,
    owner: &'a str,
    uses: &'a ProviderUses,
    request: &'a tiers::Request<'a>,
    share: shares::Requested<'a>,
}

/// Member, with its roles.
#[derive(Clone, Copy)]
struct Target<'a> {
    name: &'a ClusterName,
    member: &'a Member,
    roles: Roles,
}

/// Inputs of the plan of a MultiClusterService whose consumers get the endpoints of its providers.
struct Native<'a> {
    inputs: Inputs<'a>,
    mcs: &'a McsView,
    exposed: &'a Exposed,
    publishes: bool,
    karmada_managed: bool,
    /// Whether the consumers are entry clusters.
    has_entries: bool,
}

impl Native<'_> {
    /// Plans the service. `work` is the Work by which Karmada manages it, if Karmada does.
    fn dispatch(
        &self,
        spec: &MultiClusterService,
        work: Option<&str>,
        outcomes: &mut Outcomes,
    ) -> Desired {
        let placement = placement::place(self.inputs.index, spec);
        let uses = self.provider_uses(spec, &placement);
        let mut gaps = BTreeSet::new();
        let mut entries = self.has_entries.then(EntryClusters::default);
        let members = match &self.exposed.state {
            exposure::State::Held => Members::Untouched,
            exposure::State::Nothing => Members::default(),
            exposure::State::Service(service) => {
                let providers = self.providers(spec, &placement, &uses);
                // A headless Service has no proxy that chooses; beside Karmada its slices are used.
                let chooses = !self.is_headless() && !self.karmada_managed;
                let request = tiers::Request {
                    index: self.inputs.index,
                    key: self.inputs.key,
                    exposure: Exposure::Native,
                    preference: self.mcs.failover.preference.as_ref().filter(|_| chooses),
                    chooses,
                    unreachable: &uses.standby,
                    providers: &providers,
                    now: self.inputs.now,
                };
                let shared = Shared {
                    service,
                    owner: &format!("{NATIVE_OWNER}{}", self.mcs.uid),
                    uses: &uses,
                    request: &request,
                    share: shares::Requested::of(self.mcs.failover.share.as_ref(), chooses),
                };
                let members = self.desired_members(&placement, &shared, &mut gaps, outcomes);
                if let Some(entries) = &mut entries {
                    *entries = self.entry_clusters(spec, &request, &placement, &members);
                }
                Members::Wanted(members)
            }
        };
        let exposed = self.exposed.ports.iter();
        let of_entries = entries.as_ref().and_then(|entries| entries.uses.again_at);
        let ends = [self.exposed.again_at, uses.again_at, of_entries];
        let desired = Desired {
            members,
            exposed: exposed.map(|shape| shape.port.clone()).collect(),
            problem: self.exposed.problem.clone(),
            on_hold: self.exposed.is_unknown,
            placement,
            again_at: ends.into_iter().flatten().min(),
            uses,
            entry_clusters: entries,
            ..Desired::default()
        };
        match work {
            Some(work) => karmada_managed::report(self.inputs, work, desired, gaps),
            None => desired,
        }
    }

    /// Decides the use of the entry clusters, given the objects that they should hold. A requested
    /// cluster that has lost its credentials counts as one while a member holds copies from it.
    fn entry_clusters(
        &self,
        spec: &MultiClusterService,
        request: &tiers::Request<'_>,
        placement: &Placement,
        members: &BTreeMap<ClusterName, DesiredMember>,
    ) -> EntryClusters {
        let held = self.held(placement, &spec.consumers);
        let names: Vec<_> = placement.consumers().chain(held).collect();
        let uses = self.uses(names.iter().copied());
        let objects = members.iter();
        let objects = objects.map(|(name, member)| (name, (&*member.offered, &member.copies)));
        EntryClusters::of(request, &names, &objects.collect(), uses)
    }

    /// Lists the clusters of a selection that have lost their credentials while a member holds
    /// copies from them.
    fn held<'p>(
        &self,
        placement: &'p Placement,
        selection: &ClusterSelection,
    ) -> impl Iterator<Item = &'p ClusterName> {
        let Inputs { index, key, .. } = self.inputs;
        let left_out = placement.left_out_of(selection);
        left_out.filter(move |name| !index.is_left_out(name, key))
    }

    /// Decides how the service uses its providers. A cluster that lost its credentials is among
    /// them: its copies stay until a person drains it.
    fn provider_uses(&self, spec: &MultiClusterService, placement: &Placement) -> ProviderUses {
        let left_out = placement.left_out_of(&spec.providers);
        self.uses(placement.providers().chain(left_out))
    }

    /// Decides how the service uses these clusters. Unreachable providers of a service that Karmada
    /// manages retain their endpoints, unless `--provider-ttl` has expired.
    fn uses<'n>(&self, names: impl Iterator<Item = &'n ClusterName>) -> ProviderUses {
        let policy = UnreachablePolicy {
            requested: self
                .mcs
                .failover
                .unreachable
                .filter(|_| !self.karmada_managed),
            default: match self.karmada_managed {
                true => Unreachable::Keep,
                false => self.inputs.settings.unreachable,
            },
            headless: self.is_headless(),
        };
        ProviderUses::of(
            self.inputs.index,
            self.inputs.settings,
            policy,
            names,
            self.inputs.now,
        )
    }

    /// Whether no proxy chooses the endpoints. In an entry cluster one does.
    fn is_headless(&self) -> bool {
        !self.has_entries
            && matches!(&self.exposed.state, exposure::State::Service(one) if one.shape.kind == ServiceKind::Headless)
    }

    fn desired_members(
        &self,
        placement: &Placement,
        shared: &Shared<'_>,
        gaps: &mut BTreeSet<Gap>,
        outcomes: &mut Outcomes,
    ) -> BTreeMap<ClusterName, DesiredMember> {
        let targets = placement.targets.iter();
        let staying = targets.filter(|(name, _)| !self.inputs.index.is_being_removed(name));
        let mut members = BTreeMap::new();
        for (name, roles) in staying {
            let Some(member) = self.inputs.index.member(name) else {
                continue;
            };
            let target = Target {
                name,
                member,
                roles: *roles,
            };
            let mut desired = self.desired_member(target, shared, outcomes);
            if self.karmada_managed && roles.consumer {
                let found = karmada_managed::leave_to_karmada(
                    &mut desired,
                    self.inputs.index,
                    self.inputs.key,
                    (name, member),
                    shared.request.providers,
                );
                let is_known = self.inputs.index.member_state(name) == MemberState::Synced;
                gaps.extend(found.into_iter().filter(|_| is_known));
            }
            members.insert(name.clone(), desired);
        }
        members
    }

    fn desired_member(
        &self,
        target: Target<'_>,
        shared: &Shared<'_>,
        outcomes: &mut Outcomes,
    ) -> DesiredMember {
        let observed = target.member.service(self.inputs.key);
        let service = self.desired_service(target, shared);
        let (offered, problem) =
            service.ports_offered(observed, self.inputs.key, &self.exposed.ports);
        let copies = match &service {
            _ if !target.roles.consumer => DesiredCopies::of_no_consumer(),
            DesiredService::Own(_) | DesiredService::Foreign => {
                self.copies(target, (&service, &*offered), shared, outcomes)
            }
            DesiredService::Conflict(conflict) => DesiredCopies::of_conflict(conflict),
        };
        DesiredMember {
            service,
            offered,
            copies,
            problem,
        }
    }

    /// Plans the copies in a consumer, whose Service offers `ports`.
    fn copies(
        &self,
        target: Target<'_>,
        (service, ports): (&DesiredService, &[ServicePort]),
        shared: &Shared<'_>,
        outcomes: &mut Outcomes,
    ) -> DesiredCopies {
        let Target { name, member, .. } = target;
        let Shared {
            owner,
            request,
            share,
            ..
        } = *shared;
        let (index, key) = (self.inputs.index, self.inputs.key);
        let observed = member.service(key);
        let frontend = Frontend::new(ports, observed);
        // Another writer's Service may be headless: DNS leaves out endpoints that are not ready.
        let is_headless = service.is_headless(observed);
        let tiers = request.of_consumer(name, member, &frontend);
        let tiers = tiers.filter(|_| !is_headless);
        let shares = shares::Request { of: request, share };
        let shares = shares.of_consumer(name, member, &frontend, tiers.as_ref());
        let shares = shares.filter(|_| !is_headless);
        let origin = copies::Origin {
            index,
            owner,
            key,
            exposure: Exposure::Native,
            service: &key.name,
            multicluster: self.publishes,
            import: None,
        };
        let consumer = copies::Consumer {
            name,
            network: &index.network(name),
            ports,
            traffic_distribution: service.traffic_distribution(observed),
            is_headless,
            capabilities: Capabilities::of(member),
            tiers: tiers.as_ref(),
            shares: shares.as_ref(),
        };
        let others = request.providers.iter();
        let others = others.filter(|provider| provider.name != name);
        copies::copies(&origin, &consumer, others, shared.uses, outcomes)
    }

    fn desired_service(&self, target: Target<'_>, shared: &Shared<'_>) -> DesiredService {
        let (index, key) = (self.inputs.index, self.inputs.key);
        let site = service::Site {
            hub: index.hub_uid(),
            key,
            observed: target.member.service(key),
            capabilities: Capabilities::of(target.member),
        };
        let (ports, provides) = (&self.exposed.ports, target.roles.provider);
        let service = service::desired(&site, shared.service, ports, provides, shared.owner);
        if self.has_entries && target.roles.consumer {
            return service.of_entry_cluster(shared.service);
        }
        match self.karmada_managed {
            true => karmada_managed::leave(service),
            false => service,
        }
    }

    /// Lists the providers that the service uses, clusters that may be lost, and requested clusters
    /// that have lost their credentials. The copies of the latter two stay.
    fn providers<'p>(
        &'p self,
        spec: &MultiClusterService,
        placement: &'p Placement,
        uses: &ProviderUses,
    ) -> Vec<Provider<'p>> {
        let index = self.inputs.index;
        let suspected = index.suspected_clusters();
        let named = placement.providers();
        let named = named.filter(|name| !suspected.contains(*name));
        let held = self.held(placement, &spec.providers);
        let provider = |name| {
            let member = uses.member(index, self.inputs.key, name).ok()?;
            let service = member.and_then(|member| member.service(self.inputs.key));
            let exposed = || self.exposed.ports.iter().map(|shape| shape.port.clone());
            let ports = service.map_or_else(|| exposed().collect(), ServiceView::ports);
            Some(Provider::new(index, name, member, ports, self.inputs.now))
        };
        let all = named.chain(suspected).chain(held);
        all.filter_map(provider).collect()
    }
}
