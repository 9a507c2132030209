//! Failover tiers: sorts the providers of a consumer into the tiers of a preference and decides how
//! many tiers are active.
//!
//! Endpoints of active tiers are ready in the consumer, those of farther tiers are standby
//! endpoints, and a provider that no tier takes is not copied. One tier is active as long as it has
//! enough ready endpoints; while it has too few, the next is active too. Unknown clusters never
//! cause a promotion or a demotion.

mod role;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::domain::path::Path;
use causeway::domain::{
    ClusterName, ClusterSelector, Percentage, Preference, Ranges, ServiceKey, ServicePort, Tier,
};

use k8s_openapi::jiff::Timestamp;

pub(crate) use self::role::EndpointRole;
use super::capabilities::Capabilities;
use super::providers::{Frontend, Provider, Readiness};
use crate::model::TimePoint;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::member::Member;
use crate::observed::service::ServiceView;
use crate::observed::since::PossibleChange;

/// Time for which nearer tiers must have enough ready endpoints before a farther tier is standby
/// again: the first pod that comes back does not get all traffic.
pub(crate) const HOLD: Duration = Duration::from_secs(30);

/// Providers of a service, as one consumer uses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tiers {
    /// Tiers, nearest first.
    pub all: Vec<TierState>,
    /// Number of active tiers, nearest first.
    pub active: usize,
    /// Time since which nearer tiers have had enough ready endpoints without the farthest active
    /// one.
    pub(crate) enough_since: Option<TimePoint>,
    /// Time at which the tiers change without an event.
    pub again_at: Option<TimePoint>,
    /// Unreachable providers, whose endpoints are used while no other is ready.
    pub unreachable: BTreeSet<ClusterName>,
    /// Providers of which no endpoint answers causeway-agent in the consumer, and the time since
    /// which that is so. Their endpoints are used while no other is ready.
    pub no_path: BTreeMap<ClusterName, Timestamp>,
    /// Whether the consumer's data plane uses standby endpoints by itself.
    pub(crate) uses_standby: bool,
    /// Share of a tier that must be ready, if one is requested.
    pub(crate) min_ready: Option<Percentage>,
    /// Whether the preference is unknown.
    pub is_unknown: bool,
}

/// Change of the role of a provider's endpoints in a consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TierShift<'a> {
    /// The endpoints of this tier are ready endpoints now.
    Promoted(&'a TierState),
    /// The endpoints of this tier are standby endpoints now.
    Standby(&'a TierState),
    /// The provider is unreachable, or does not answer in the consumer, and its endpoints are
    /// standby endpoints now.
    Demoted,
}

/// Tier with its providers and their readiness.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TierState {
    /// Tier of the preference; `None` where all providers are alike.
    pub tier: Option<Tier>,
    /// Clusters in the tier.
    pub clusters: Vec<ClusterName>,
    /// Readiness of their endpoints.
    pub readiness: Readiness,
    /// Whether the readiness of all of its clusters is known. The copies of an unknown cluster stay
    /// as they are.
    pub is_known: bool,
}

/// Tiers as the consumer used them before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Before {
    /// Number of active tiers according to the copies in the consumer; `None` where it holds no
    /// copy of a known provider.
    pub active: Option<usize>,
    /// [`Tiers::enough_since`] of the last plan.
    pub(crate) enough_since: Option<TimePoint>,
}

/// Inputs from which tiers are made.
pub(super) struct Request<'a> {
    pub(super) index: &'a Index,
    pub(super) key: &'a ServiceKey,
    pub(super) exposure: Exposure,
    pub(super) preference: Option<&'a Preference>,
    /// Whether something chooses among the endpoints in consumers, so that standby endpoints are
    /// used: a headless Service has no proxy.
    pub(super) chooses: bool,
    /// Providers that have been unreachable for so long that their endpoints are standby endpoints.
    pub(super) unreachable: &'a BTreeSet<ClusterName>,
    pub(super) providers: &'a [Provider<'a>],
    pub(super) now: TimePoint,
}

impl Request<'_> {
    /// Returns the tiers of one consumer, whose Service leads to `frontend`; `None` where it uses
    /// all its providers alike.
    pub(super) fn of_consumer(
        &self,
        consumer: &ClusterName,
        member: &Member,
        frontend: &Frontend<'_>,
    ) -> Option<Tiers> {
        let demoted = self.demoted(consumer, member, frontend);
        if self.preference.is_none() && !demoted.has_demoted() {
            return None;
        }
        let mut tiers = Tiers {
            all: self.sort(&demoted, consumer, member, frontend),
            uses_standby: uses_standby(self.index, consumer, member),
            min_ready: self.preference.and_then(Preference::min_ready),
            ..demoted
        };
        let demotion = PossibleChange::Demotion(self.exposure, consumer.clone());
        let before = Before {
            active: self.active_now(&tiers, member),
            enough_since: self.index.possible_changes.of(self.key, &demotion),
        };
        tiers.settle(self.preference, before, self.now);
        Some(tiers)
    }

    /// Decides which providers a consumer uses while no other is ready, before any tier is known.
    /// An unreachable provider whose endpoints answer causeway-agent in the consumer is used as it
    /// is. One whose endpoints do not answer there is not, as long as another has ready endpoints
    /// for it. Providers that no tier takes are not used at all and do not count.
    fn demoted(&self, consumer: &ClusterName, member: &Member, frontend: &Frontend<'_>) -> Tiers {
        let unreachable = self.unreachable.iter();
        let unreachable = unreachable.filter(|name| self.is_taken(consumer, name));
        let mut demoted = Tiers {
            unreachable: unreachable.cloned().collect(),
            ..Tiers::default()
        };
        if !self.chooses || !self.index.reports_paths(consumer) {
            return demoted;
        }
        let paths = member.paths();
        let mut ends = Vec::new();
        let taken = self.providers.iter();
        let taken = taken.filter(|one| self.is_taken(consumer, one.name));
        for provider in taken.clone().filter(|one| one.name != consumer) {
            let name = provider.name;
            let Some(report) = paths.report(name, self.now) else {
                continue;
            };
            let matters = match report.path {
                Path::Good => demoted.unreachable.remove(name),
                Path::Bad if demoted.unreachable.contains(name) => false,
                Path::Bad => demoted.no_path.insert(name.clone(), report.since).is_none(),
            };
            ends.extend(paths.until(name, self.now).filter(|_| matters));
        }
        let is_other = |provider: &&Provider<'_>| !demoted.is_demoted(provider.name);
        let mut others = taken.filter(is_other);
        let own = self.own_readiness(member, frontend);
        let network = self.index.network(consumer);
        let has_ready = |readiness: Option<Readiness>| readiness.is_some_and(|one| one.ready > 0);
        let is_ready = |provider: &Provider<'_>| {
            let entry = provider.entry((self.index, self.key), self.exposure, &network);
            has_ready(provider.readiness(self.key, frontend, entry))
        };
        if !demoted.no_path.is_empty() && !has_ready(own) && !others.any(is_ready) {
            demoted.no_path.clear();
        }
        demoted.again_at = ends.into_iter().min();
        demoted
    }

    /// Whether the consumer uses a provider: some tier of the preference takes it.
    fn is_taken(&self, consumer: &ClusterName, provider: &ClusterName) -> bool {
        self.preference.is_none_or(|preference| {
            let mut tiers = preference.tiers().iter();
            tiers.any(|tier| takes(self.index, tier, consumer, provider))
        })
    }

    /// Returns the readiness of the consumer's own pods. Natively they are in its Service's own
    /// slices, whatever the hub says of it. In the clusterset it is a provider like others.
    fn own_readiness(&self, member: &Member, frontend: &Frontend<'_>) -> Option<Readiness> {
        if self.exposure != Exposure::Native {
            return Some(Readiness::default());
        }
        let ports = own_ports(self.key, member, frontend);
        Readiness::of(member, self.key, &ports, &Ranges::default(), frontend)
    }

    /// Puts every provider into the first tier that takes it.
    fn sort(
        &self,
        demoted: &Tiers,
        consumer: &ClusterName,
        member: &Member,
        frontend: &Frontend<'_>,
    ) -> Vec<TierState> {
        let tiers = self.preference.map(Preference::tiers);
        let tiers = match tiers {
            Some(tiers) => tiers.iter().cloned().map(Some).collect(),
            None => vec![None],
        };
        let mut states: Vec<_> = tiers.into_iter().map(TierState::new).collect();
        let mut put = |name: &ClusterName, readiness: Option<Readiness>| {
            let takes = |state: &&mut TierState| match &state.tier {
                Some(tier) => takes(self.index, tier, consumer, name),
                None => true,
            };
            if let Some(state) = states.iter_mut().find(takes) {
                state.add(name, readiness);
            }
        };
        let own = self.own_readiness(member, frontend);
        if self.exposure == Exposure::Native && own.is_none_or(|own| own.total > 0) {
            put(consumer, own);
        }
        let network = self.index.network(consumer);
        for provider in self.providers {
            let is_own = provider.name == consumer && self.exposure == Exposure::Native;
            if !is_own && !demoted.is_demoted(provider.name) {
                let entry = provider.entry((self.index, self.key), self.exposure, &network);
                put(provider.name, provider.readiness(self.key, frontend, entry));
            }
        }
        states
    }

    /// Returns the number of active tiers according to existing copies, except those of unknown
    /// providers, which stay as they are.
    fn active_now(&self, tiers: &Tiers, member: &Member) -> Option<usize> {
        let hub = self.index.hub_uid();
        let copies = member.copies(self.key).map(|(_, copy)| &copy.view);
        let own = copies.filter(|copy| copy.is_of(hub, self.exposure));
        let own = own.filter_map(|copy| Some((copy.source_cluster.as_deref()?, copy.standby)));
        let is_known = |name: &str| {
            let mut providers = self.providers.iter();
            providers.any(|one| one.name.as_str() == name && one.member.is_some())
        };
        let known = own.filter(|(provider, _)| is_known(provider));
        let active = known.filter_map(|(provider, is_standby)| {
            let place = tiers.place(provider)?;
            Some(if is_standby { 1 } else { place + 1 })
        });
        active.max()
    }
}

impl Tiers {
    /// Returns the tier that a provider is in, with its clusters.
    pub(crate) fn tier_of(&self, provider: &ClusterName) -> Option<&TierState> {
        self.all.get(self.place(provider.as_str())?)
    }

    /// Returns the promotion or demotion of the endpoints of `provider`; `None` if their role did
    /// not change.
    pub(crate) fn shift(&self, provider: &ClusterName, was_standby: bool) -> Option<TierShift<'_>> {
        let is_standby = self.role(provider)? != EndpointRole::Ready;
        match (was_standby, is_standby) {
            (true, false) => self.tier_of(provider).map(TierShift::Promoted),
            (false, true) if self.is_demoted(provider) => Some(TierShift::Demoted),
            (false, true) => self.tier_of(provider).map(TierShift::Standby),
            _ => None,
        }
    }

    /// Returns the tiers that the consumer's copies show, for a service whose preference is
    /// unknown. Providers without a copy are in no tier: the consumer does not begin to use them.
    pub(super) fn of_copies(
        index: &Index,
        key: &ServiceKey,
        consumer: &ClusterName,
        member: &Member,
    ) -> Self {
        let copies = member.copies(key).map(|(_, copy)| &copy.view);
        let own = copies.filter(|copy| copy.is_of(index.hub_uid(), Exposure::Clusterset));
        let (mut ready, mut standby) = (TierState::new(None), TierState::new(None));
        for copy in own {
            let provider = copy.source_cluster.as_deref().unwrap_or_default();
            let provider = ClusterName::try_from(provider).ok();
            let state = match copy.standby {
                true => &mut standby,
                false => &mut ready,
            };
            state.clusters.extend(provider);
        }
        Self {
            all: vec![ready, standby],
            active: 1,
            uses_standby: uses_standby(index, consumer, member),
            is_unknown: true,
            ..Self::default()
        }
    }

    /// Returns the role of that provider's endpoints in the copies; `None` where no copies are
    /// made.
    pub(crate) fn role(&self, provider: &ClusterName) -> Option<EndpointRole> {
        let standby = match self.uses_standby {
            true => EndpointRole::Standby,
            false => EndpointRole::NotReady,
        };
        if self.is_demoted(provider) {
            let carries = !self.uses_standby && !self.has_ready();
            return Some(if carries {
                EndpointRole::Ready
            } else {
                standby
            });
        }
        let place = self.place(provider.as_str())?;
        Some(match place < self.active {
            true => EndpointRole::Ready,
            false => standby,
        })
    }

    /// Returns the active tiers.
    pub(crate) fn active(&self) -> &[TierState] {
        self.all.get(..self.active).unwrap_or(&self.all)
    }

    /// Returns the tiers whose endpoints are standby endpoints.
    pub(crate) fn standby(&self) -> &[TierState] {
        self.all.get(self.active..).unwrap_or_default()
    }

    /// Returns the index of the tier that a provider is in.
    pub(crate) fn place(&self, provider: &str) -> Option<usize> {
        let mut all = self.all.iter();
        all.position(|state| state.clusters.iter().any(|name| name.as_str() == provider))
    }

    /// Whether no provider is in any tier of the preference, and the consumer therefore uses none.
    pub(crate) fn lack_providers(&self) -> bool {
        !self.is_unknown
            && !self.has_demoted()
            && self.all.iter().all(|state| state.clusters.is_empty())
    }

    fn has_demoted(&self) -> bool {
        !self.unreachable.is_empty() || !self.no_path.is_empty()
    }

    /// Whether the endpoints of a provider are used while no other is ready, whatever its tier.
    fn is_demoted(&self, provider: &ClusterName) -> bool {
        self.unreachable.contains(provider) || self.no_path.contains_key(provider)
    }

    fn has_ready(&self) -> bool {
        self.active().iter().any(|state| state.readiness.ready > 0)
    }

    /// Decides how many tiers are active.
    ///
    /// At least the tiers up to the first that may have enough endpoints are active, and at most
    /// those up to the first that is known to have enough. Between the two, the number stays as it
    /// was; without an earlier number it is the maximum. Tiers beyond the maximum that were active
    /// stay active for [`HOLD`] after the nearer ones have enough.
    fn settle(&mut self, preference: Option<&Preference>, before: Before, now: TimePoint) {
        let has_enough = |state: &TierState| {
            let Readiness { ready, total, .. } = state.readiness;
            preference.is_none_or(|preference| preference.carries(ready, total))
        };
        let up_to = |is_one: &dyn Fn(&TierState) -> bool| {
            let place = self.all.iter().position(is_one);
            place.map_or(self.all.len(), |place| place + 1)
        };
        let most = up_to(&|state| state.is_known && has_enough(state));
        let least = up_to(&|state| !state.is_known || has_enough(state));
        let active = before.active.unwrap_or(most).max(least);
        if active <= most {
            self.active = active;
            return;
        }
        let since = before.enough_since.unwrap_or(now);
        let until = since.after(HOLD);
        self.enough_since = Some(since);
        let is_over = until <= now;
        self.active = if is_over {
            most
        } else {
            active.min(self.all.len())
        };
        let until = (!is_over).then_some(until);
        self.again_at = until.into_iter().chain(self.again_at).min();
    }
}

impl TierState {
    fn new(tier: Option<Tier>) -> Self {
        Self {
            tier,
            clusters: Vec::new(),
            readiness: Readiness::default(),
            is_known: true,
        }
    }

    fn add(&mut self, name: &ClusterName, readiness: Option<Readiness>) {
        self.clusters.push(name.clone());
        self.is_known &= readiness.is_some();
        self.readiness += readiness.unwrap_or_default();
    }
}

/// Whether a tier of a consumer takes a provider.
fn takes(index: &Index, tier: &Tier, consumer: &ClusterName, provider: &ClusterName) -> bool {
    let both = || Some((index.cluster(consumer)?, index.cluster(provider)?));
    match tier {
        Tier::Local => provider == consumer,
        Tier::Cluster(name) => provider == name,
        Tier::Any => true,
        Tier::Zone | Tier::Region if provider == consumer => true,
        Tier::Zone => both().is_some_and(|(consumer, provider)| {
            consumer
                .zones
                .iter()
                .any(|zone| provider.zones.contains(zone))
        }),
        Tier::Region => both().is_some_and(|(consumer, provider)| {
            consumer.region.is_some() && consumer.region == provider.region
        }),
        Tier::Property(selector) => is_selected(index, selector, consumer, provider),
    }
}

/// Whether a selector selects a provider for a consumer.
pub(crate) fn is_selected(
    index: &Index,
    selector: &ClusterSelector,
    consumer: &ClusterName,
    provider: &ClusterName,
) -> bool {
    let of = |name| move |key: &str| index.property(name, key);
    selector.selects(of(consumer), of(provider))
}

/// Returns the ports of a consumer's own Service.
pub(super) fn own_ports(
    key: &ServiceKey,
    member: &Member,
    frontend: &Frontend<'_>,
) -> Vec<ServicePort> {
    let ports = member.service(key).map(ServiceView::ports);
    ports.unwrap_or_else(|| frontend.ports.to_vec())
}

/// Whether a consumer's data plane uses standby endpoints where no other is ready.
pub(super) fn uses_standby(index: &Index, consumer: &ClusterName, member: &Member) -> bool {
    let cluster = index.cluster(consumer);
    Capabilities::of(member).uses_standby() && cluster.is_none_or(|cluster| cluster.uses_standby)
}

#[cfg(test)]
mod tests;
