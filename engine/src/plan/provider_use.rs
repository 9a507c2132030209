//! Use of a provider by a service, and reasons against it.
//!
//! A provider that does not answer loses no endpoint, unless the service or a flag requests that.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServiceKey, Unreachable};

use super::settings::Settings;
use crate::model::TimePoint;
use crate::observed::Index;
use crate::observed::member::Member;

/// Use of a provider by a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProviderUse {
    /// Its endpoints are used as they are.
    Used,
    /// It is unreachable, and its endpoints are standby endpoints.
    Standby,
    /// Its endpoints are unknown: copies stay as they are.
    Unknown,
    /// Nothing that it provides is used.
    Unused(Unused),
}

/// Reason why nothing that a cluster provides is used. The first two are requests of the hub, the
/// others follow from evidence and a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unused {
    /// No Cluster has its name.
    NotJoined,
    /// A person drained it.
    Drained,
    /// It is a second name of another cluster.
    Duplicate,
    /// It has been unreachable for longer than `--provider-ttl`.
    TtlExpired,
    /// It has been unreachable for longer than the service's `withdraw-after`.
    WithdrawAfter,
}

impl Unused {
    /// Returns the reason that holds for every service; `None` where services may use the cluster.
    pub(crate) fn everywhere(index: &Index, name: &ClusterName) -> Option<Self> {
        let Some(cluster) = index.cluster(name) else {
            return Some(Self::NotJoined);
        };
        let is_duplicate = |member: &Member| member.refusals().duplicate_of.is_some();
        match () {
            () if cluster.withdrawn => Some(Self::Drained),
            () if index.member(name).is_some_and(is_duplicate) => Some(Self::Duplicate),
            () if index.has_ttl_expired(name) => Some(Self::TtlExpired),
            () => None,
        }
    }

    /// Whether no service may use a cluster, whether reachable or not.
    pub(crate) fn excludes(index: &Index, name: &ClusterName) -> bool {
        let unused = Self::everywhere(index, name);
        unused.is_some_and(|why| why != Self::TtlExpired)
    }
}

/// Policy of one service for unreachable providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreachablePolicy {
    /// Request of the service, which precedes `--provider-ttl`; `None` without one.
    pub requested: Option<Unreachable>,
    /// Policy without a request.
    pub default: Unreachable,
    /// Whether the service is headless. No proxy chooses its endpoints, and DNS leaves standby
    /// endpoints out: in a headless service, standby would be a withdrawal.
    pub headless: bool,
}

/// Providers of one service that it does not use as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProviderUses {
    /// Unreachable providers whose endpoints are standby endpoints.
    pub standby: BTreeSet<ClusterName>,
    unused: BTreeMap<ClusterName, Unused>,
    /// Time at which an unreachable provider is demoted or withdrawn.
    pub again_at: Option<TimePoint>,
}

impl ProviderUses {
    /// Decides the use of each provider. A Cluster that is suspected to be lost is never unused.
    pub(crate) fn of<'a>(
        index: &Index,
        settings: &Settings,
        policy: UnreachablePolicy,
        providers: impl Iterator<Item = &'a ClusterName>,
        now: TimePoint,
    ) -> Self {
        let mut uses = Self::default();
        let suspected = index.suspected_clusters();
        let requested = policy.requested.unwrap_or(policy.default);
        let (patience, next) = match requested {
            Unreachable::Keep => (None, None),
            Unreachable::Standby if policy.headless => (None, None),
            Unreachable::Standby => (Some(settings.standby_after), None),
            Unreachable::WithdrawAfter(patience) => (Some(patience), Some(Unused::WithdrawAfter)),
        };
        for name in providers.filter(|name| !suspected.contains(*name)) {
            match Unused::everywhere(index, name) {
                // The request of the service precedes the flag.
                Some(Unused::TtlExpired) if policy.requested.is_some() => {}
                Some(why) => {
                    uses.unused.insert(name.clone(), why);
                    continue;
                }
                None => {}
            }
            let end = patience.and_then(|patience| index.unreachable_for(name, patience));
            let Some(end) = end else { continue };
            if end <= now
                && let Some(until) = index.answers_until(name, now)
            {
                // Its endpoints answer: only its API server is gone. Each consumer decides.
                uses.again_at = uses.again_at.into_iter().chain([until]).min();
                if next.is_some() {
                    continue;
                }
            }
            match next {
                _ if end > now => uses.again_at = uses.again_at.into_iter().chain([end]).min(),
                Some(why) => drop(uses.unused.insert(name.clone(), why)),
                None => drop(uses.standby.insert(name.clone())),
            }
        }
        uses
    }

    /// Returns the reason why nothing of a provider is used; `None` if something is.
    pub(crate) fn unused(&self, name: &ClusterName) -> Option<Unused> {
        self.unused.get(name).copied()
    }

    /// Lists the providers of which nothing is used, with the reason.
    pub(crate) fn all_unused(&self) -> impl Iterator<Item = (&ClusterName, Unused)> {
        self.unused.iter().map(|(name, why)| (name, *why))
    }

    /// Returns the use of a provider by the service.
    pub(crate) fn get(&self, index: &Index, key: &ServiceKey, name: &ClusterName) -> ProviderUse {
        let is_known = |member: &Member| member.sources_are_known(key);
        match self.unused(name) {
            Some(why) => ProviderUse::Unused(why),
            None if !index.member(name).is_some_and(is_known) => ProviderUse::Unknown,
            None if self.standby.contains(name) => ProviderUse::Standby,
            None => ProviderUse::Used,
        }
    }

    /// Returns the member whose slices are copied; `None` where it is unknown what it provides.
    ///
    /// # Errors
    /// The reason why nothing of it is used.
    pub(crate) fn member<'i>(
        &self,
        index: &'i Index,
        key: &ServiceKey,
        name: &ClusterName,
    ) -> Result<Option<&'i Member>, Unused> {
        match self.get(index, key, name) {
            ProviderUse::Unused(why) => Err(why),
            ProviderUse::Unknown => Ok(None),
            ProviderUse::Used | ProviderUse::Standby => Ok(index.member(name)),
        }
    }
}

#[cfg(test)]
mod tests;
