//! Shares of traffic: chooses the ready endpoints of each provider in a consumer.
//!
//! kube-proxy spreads connections evenly over ready endpoints. A provider therefore gets its share
//! if the right number of its endpoints is ready; the others are standby endpoints, which are used
//! while no other is ready. Which of them are ready follows from a limit of their hashes, the
//! *cut*, which each copy records. A cut stays as it is while the shares are near enough to the
//! wanted ones, so that the change of an endpoint changes its own slice alone.

mod divide;
mod subset;

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::domain::{ClusterName, Ranges, ServicePort, Share};

use self::divide::{Division, Part};
pub(crate) use self::subset::Subset;
use super::entry::NoEntry;
use super::port_fit::PortFit;
use super::providers::{Frontend, MOST_SLICES, Provider, candidates};
use super::tiers::{self, EndpointRole, Tiers, uses_standby};
use crate::model::TimePoint;
use crate::model::map::HashSet;
use crate::model::slice::{AddressType, CopiedSlice, Exposure, SourceSlice, Uid};
use crate::observed::ShareResult;
use crate::observed::member::Member;
use crate::observed::since::PossibleChange;

/// Deviation of a share beyond which it is reported, in hundredths of a percent.
const COARSE: u64 = 300;

/// Shares that a service requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Requested<'a> {
    /// None: all ready endpoints are ready.
    #[default]
    Nothing,
    /// These.
    Share(&'a Share),
    /// It is unknown: the cuts of the existing copies remain.
    Unknown,
}

impl<'a> Requested<'a> {
    /// Returns the request, if something chooses among the endpoints in consumers.
    pub(super) fn of(share: Option<&'a Share>, chooses: bool) -> Self {
        let share = share.filter(|_| chooses);
        share.map_or(Self::Nothing, Self::Share)
    }
}

/// Inputs from which shares are made.
pub(super) struct Request<'a> {
    /// Service, providers and time.
    pub(super) of: &'a tiers::Request<'a>,
    pub(super) share: Requested<'a>,
}

/// Shares of the providers of a service in one consumer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    /// Hash of the consumer's name.
    seed: u64,
    /// Cuts by provider, for IPv4 and for IPv6.
    cuts: BTreeMap<ClusterName, [Option<u32>; 2]>,
    /// Shares of its providers, of the address family that has more endpoints.
    pub all: Vec<ProviderShare>,
    /// Whether the consumer's data plane uses standby endpoints. Otherwise all ready endpoints are
    /// ready: a subset that dies would leave no endpoint.
    pub is_applied: bool,
    /// Time since which more endpoints could be ready.
    pub(crate) spare_since: Option<TimePoint>,
    /// Time at which the cuts change without an event.
    pub(crate) again_at: Option<TimePoint>,
}

/// Share of a provider in a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderShare {
    /// Provider.
    pub name: ClusterName,
    /// Whether the request names it. All others share the rest.
    pub is_named: bool,
    /// Wanted share, in hundredths of a percent.
    pub wanted: u64,
    /// Number of its endpoints that are ready in the consumer.
    pub chosen: u64,
    /// Number of its ready endpoints.
    pub ready: u64,
    /// Number of endpoints of all providers that are ready in the consumer.
    pub of: u64,
}

/// Endpoints of a provider that are ready at their source, as hashes for the consumer.
type Hashes = [Vec<u32>; 2];

/// Slices that are behind a change of their Service's ports: their copies stay as they are.
type LateSlices<'a> = HashSet<&'a Uid>;

impl Shares {
    /// Returns the choice among a provider's endpoints; `None` if all of them are chosen.
    pub(crate) fn subset(&self, provider: &ClusterName) -> Option<Subset> {
        let cuts = *self.cuts.get(provider)?;
        let seed = self.seed;
        (cuts != [None; 2]).then_some(Subset { seed, cuts })
    }

    /// Returns the share of a provider.
    pub(crate) fn of(&self, provider: &ClusterName) -> Option<&ProviderShare> {
        self.all.iter().find(|share| share.name == *provider)
    }

    /// Returns the result of the shares and the largest deviation, in hundredths of a percent, for
    /// metrics; `None` while nothing is shared, or the request is unknown.
    pub(crate) fn noted(&self) -> Option<(ShareResult, u64)> {
        let deviation = self.all.iter().map(ProviderShare::deviation).max();
        let result = match deviation {
            _ if !self.is_applied => ShareResult::NotApplied,
            Some(deviation) if deviation > COARSE => ShareResult::Coarse,
            Some(_) => ShareResult::Met,
            None => return None,
        };
        Some((result, deviation.unwrap_or_default()))
    }

    /// Returns the provider whose share deviates most from the wanted one, among all or only the
    /// given one; `None` if its share is near it.
    pub(crate) fn coarsest(&self, provider: Option<&ClusterName>) -> Option<&ProviderShare> {
        let coarse = self.all.iter().filter(|share| share.deviation() > COARSE);
        let coarse = coarse.filter(|share| provider.is_none_or(|one| share.name == *one));
        coarse.max_by_key(|share| (share.is_named, share.deviation()))
    }
}

impl ProviderShare {
    /// Returns the real share, in hundredths of a percent.
    pub(crate) fn real(&self) -> u64 {
        divide::hundredths(self.chosen, self.of)
    }

    pub(crate) fn deviation(&self) -> u64 {
        self.real().abs_diff(self.wanted)
    }
}

impl Request<'_> {
    /// Returns the shares of the active providers in one consumer, whose Service leads to
    /// `frontend`; `None` where none are requested.
    pub(super) fn of_consumer(
        &self,
        consumer: &ClusterName,
        member: &Member,
        frontend: &Frontend<'_>,
        tiers: Option<&Tiers>,
    ) -> Option<Shares> {
        let mut shares = Shares {
            seed: subset::seed(consumer),
            is_applied: true,
            ..Shares::default()
        };
        let share = match self.share {
            Requested::Nothing => return None,
            Requested::Unknown => {
                shares.cuts = self.held(member).cuts();
                return Some(shares);
            }
            Requested::Share(share) => share,
        };
        if !uses_standby(self.of.index, consumer, member) {
            shares.is_applied = false;
            return Some(shares);
        }
        let own = self.own(member, frontend, shares.seed);
        let mut is_known = own.is_some();
        let own = own.filter(|own| own.iter().any(|all| !all.is_empty()));
        let mut found: Vec<_> = own.map(|own| (consumer, own, true)).into_iter().collect();
        let held = self.held(member);
        for provider in self.active(consumer, tiers) {
            match self.hashes(provider, (consumer, member), frontend, shares.seed) {
                Some(hashes) => found.push((provider.name, hashes, false)),
                None => {
                    // Slices that are not behind a change of the ports are copied all the same.
                    is_known = false;
                    let cuts = [0, 1].map(|family| held.of(provider.name, family).flatten());
                    shares.cuts.insert(provider.name.clone(), cuts);
                }
            }
        }
        let growth = PossibleChange::Growth(self.of.exposure, consumer.clone());
        let since = self.of.index.possible_changes.of(self.of.key, &growth);
        for family in [0, 1] {
            let parts = found.iter().map(|(name, hashes, is_own)| Part {
                hashes: &hashes[family],
                wanted: share.of(name),
                is_own: *is_own,
                before: held.of(name, family),
            });
            let parts: Vec<_> = parts.collect();
            let division = divide::divide(&parts, share.rest(), is_known, (since, self.of.now));
            shares.add(share, family, &found, &division);
        }
        Some(shares)
    }

    /// Lists the providers whose endpoints are ready in a consumer, except the consumer itself
    /// where its pods are in its own slices.
    fn active(
        &self,
        consumer: &ClusterName,
        tiers: Option<&Tiers>,
    ) -> impl Iterator<Item = &Provider<'_>> {
        let is_native = self.of.exposure == Exposure::Native;
        self.of.providers.iter().filter(move |provider| {
            let is_own = is_native && provider.name == consumer;
            let role = tiers.map(|tiers| tiers.role(provider.name));
            !is_own && role.is_none_or(|role| role == Some(EndpointRole::Ready))
        })
    }

    /// Returns the cuts that the consumer's copies record.
    fn held(&self, member: &Member) -> Held {
        let mut held = Held::default();
        for copy in self.copies(member) {
            let provider = copy.source_cluster.as_deref();
            let Some(Ok(provider)) = provider.map(ClusterName::try_from) else {
                continue;
            };
            let of_provider = held.0.entry(provider).or_default();
            match copy.cut {
                Some(cut) => {
                    let known = &mut of_provider.0[usize::from(cut.is_ipv6)];
                    *known = (*known).max(Some(cut.below));
                }
                None => of_provider.1 |= !copy.standby,
            }
        }
        held
    }

    /// Lists the copies that a consumer holds.
    fn copies<'m>(&self, consumer: &'m Member) -> impl Iterator<Item = &'m CopiedSlice> {
        let (exposure, hub) = (self.of.exposure, self.of.index.hub_uid());
        let copies = consumer.copies(self.of.key).map(|(_, copy)| &copy.view);
        copies.filter(move |copy| copy.is_of(hub, exposure))
    }

    /// Returns the hashes of the consumer's own ready pods, which are always used natively; `None`
    /// where they are unknown. In the clusterset it is a provider like others.
    fn own(&self, member: &Member, frontend: &Frontend<'_>, seed: u64) -> Option<Hashes> {
        if self.of.exposure != Exposure::Native {
            return Some(Hashes::default());
        }
        let ports = tiers::own_ports(self.of.key, member, frontend);
        let of = (member, &*ports);
        let (hashes, behind) = self.of_pods(of, &Ranges::default(), frontend, seed)?;
        behind.is_empty().then_some(hashes)
    }

    /// Returns the hashes of the ready endpoints that the copies of a provider hold; `None` where
    /// they are unknown, so that the copies stay as they are. A slice that is behind a change of
    /// ports makes them unknown only if it has a ready copy: no other has ready endpoints in the
    /// consumer.
    fn hashes(
        &self,
        provider: &Provider<'_>,
        (name, consumer): (&ClusterName, &Member),
        frontend: &Frontend<'_>,
        seed: u64,
    ) -> Option<Hashes> {
        let (index, key) = (self.of.index, self.of.key);
        let member = provider.member?;
        member.sources_absence(key)?;
        let ports = &*provider.ports;
        let network = index.network(name);
        match provider.entry((index, key), self.of.exposure, &network) {
            Some(Err(NoEntry::Unknown(_))) => None,
            Some(Err(_)) => Some(Hashes::default()),
            Some(Ok(entry)) => {
                let slices: Vec<_> = entry.slices().collect();
                let ranges = index.entry_ranges(provider.name);
                let (hashes, _) = ready(slices.iter(), ports, &ranges, frontend, seed);
                Some(hashes)
            }
            None => {
                let of = (member, ports);
                let (hashes, behind) = self.of_pods(of, &provider.ranges, frontend, seed)?;
                let stays = |copy: &CopiedSlice| {
                    let source = copy.source.as_ref().filter(|_| !copy.standby);
                    source.is_some_and(|source| behind.contains(&source.uid))
                };
                let is_known = behind.is_empty() || !self.copies(consumer).any(stays);
                is_known.then_some(hashes)
            }
        }
    }

    /// Returns the hashes of the ready endpoints of a member's own slices, whose Service has these
    /// ports, and the slices that are behind; `None` where they are unknown.
    fn of_pods<'m>(
        &self,
        (member, ports): (&'m Member, &[ServicePort]),
        ranges: &Ranges,
        frontend: &Frontend<'_>,
        seed: u64,
    ) -> Option<(Hashes, LateSlices<'m>)> {
        let key = self.of.key;
        if member.sources(key).count() > MOST_SLICES {
            return None;
        }
        let sources = candidates(member, key).filter_map(|(_, source)| source.ok());
        Some(ready(sources, ports, ranges, frontend, seed))
    }
}

/// Returns the hashes of the ready endpoints of these slices that are copied, given the ports of
/// the provider's Service, and the slices that are behind a change of the ports.
fn ready<'s>(
    sources: impl Iterator<Item = &'s Arc<SourceSlice>>,
    ports: &[ServicePort],
    ranges: &Ranges,
    frontend: &Frontend<'_>,
    seed: u64,
) -> (Hashes, LateSlices<'s>) {
    let fit = PortFit {
        provider: ports,
        consumer: frontend.ports,
    };
    let (mut hashes, mut behind) = (Hashes::default(), LateSlices::default());
    for source in sources {
        if fit.is_behind(source) {
            behind.insert(&source.version.uid);
            continue;
        }
        let family = match source.address_type {
            AddressType::Ipv4 if frontend.ipv4 => 0,
            AddressType::Ipv6 if frontend.ipv6 => 1,
            _ => continue,
        };
        if !fit.offers(source) {
            continue;
        }
        let is_copied = |address| ranges.refusal(address).is_none();
        let endpoints = source
            .endpoints()
            .filter(|endpoint| endpoint.is_ready() && endpoint.addresses().all(is_copied));
        hashes[family].extend(endpoints.map(|endpoint| subset::hash(seed, endpoint.address)));
    }
    (hashes, behind)
}

impl Shares {
    /// Adds the division of one address family.
    fn add(&mut self, share: &Share, family: usize, found: &[Found<'_>], division: &Division) {
        let of: u64 = division.chosen.iter().sum();
        let ready = |all: &[ProviderShare]| all.iter().map(|one| one.ready).sum::<u64>();
        let mut all = Vec::new();
        for (index, (name, hashes, is_own)) in found.iter().enumerate() {
            let number = |numbers: &[u64]| numbers.get(index).copied().unwrap_or_default();
            if !is_own {
                let cuts = self.cuts.entry((*name).clone()).or_default();
                cuts[family] = division.cuts.get(index).copied().flatten();
            }
            all.push(ProviderShare {
                name: (*name).clone(),
                is_named: share.of(name).is_some(),
                wanted: number(&division.wanted),
                chosen: number(&division.chosen),
                ready: hashes[family].len() as u64,
                of,
            });
        }
        all.retain(|share| share.ready > 0 || share.is_named);
        if ready(&all) > ready(&self.all) || self.all.is_empty() {
            self.all = all;
        }
        let times = [self.spare_since, division.spare_since];
        self.spare_since = times.into_iter().flatten().min();
        self.again_at = [self.again_at, division.again_at]
            .into_iter()
            .flatten()
            .min();
    }
}

/// Provider, its ready endpoints, and whether it is the consumer itself, natively.
type Found<'a> = (&'a ClusterName, Hashes, bool);

/// Cuts that the copies of each provider record, for IPv4 and for IPv6, and whether some of its
/// copies record none and are ready.
#[derive(Debug, Default)]
struct Held(BTreeMap<ClusterName, ([Option<u32>; 2], bool)>);

impl Held {
    fn of(&self, provider: &ClusterName, family: usize) -> Option<Option<u32>> {
        let (cuts, is_whole) = self.0.get(provider)?;
        match cuts[family] {
            Some(cut) => Some(Some(cut)),
            None => is_whole.then_some(None),
        }
    }

    fn cuts(self) -> BTreeMap<ClusterName, [Option<u32>; 2]> {
        let all = self.0.into_iter();
        all.map(|(name, (cuts, _))| (name, cuts)).collect()
    }
}

#[cfg(test)]
mod tests;
