//! Conflicts of the exports of one service.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, Consumers, Preference, Share, Unreachable};

use super::export::Export;
use crate::observed::service::PortShape;
use crate::plan::capabilities::meant_by;
use crate::reasons::Reason;

/// Field on which the exports of a service disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Cluster of the oldest export, and its value, which is used.
    pub used: (ClusterName, Value),
    /// Ports that are imported besides those of the oldest export.
    pub added: Vec<PortShape>,
    /// First clusters with other values, at most [`NAMED_AT_MOST`], and these values.
    pub others: Vec<(ClusterName, Value)>,
    /// Number of clusters with other values.
    pub count: usize,
    /// Number of all exporters.
    pub total: usize,
}

/// Value of a field on which exports disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Ports of the Service.
    Ports(Vec<PortShape>),
    /// Whether the Service is headless.
    Headless(bool),
    /// None or ClientIP.
    SessionAffinity(String),
    /// Seconds of the session affinity.
    SessionAffinitySeconds(i32),
    /// Cluster or Local.
    InternalTrafficPolicy(String),
    /// Preference such as PreferClose.
    TrafficDistribution(Option<String>),
    /// Address families.
    IpFamilies(Vec<Box<str>>),
    /// Exported labels.
    Labels(Words),
    /// Exported annotations.
    Annotations(Words),
    /// Preference among the providers, where an export has selectors.
    ClusterSelectors(Option<Preference>),
    /// Preference among the providers, where annotations alone name it.
    Prefer(Option<Preference>),
    /// Treatment of unreachable providers.
    Unreachable(Option<Unreachable>),
    /// Shares of the providers' traffic.
    Share(Option<Share>),
    /// Clusters that import the service.
    Consumers(Consumers),
}

/// Exported labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Those that not all exports share.
    pub(crate) apart: BTreeMap<String, String>,
    /// Whether all exports share others.
    pub(crate) share_others: bool,
}

/// Maximum number of disagreeing clusters with their values.
pub(crate) const NAMED_AT_MOST: usize = 3;

/// Internal traffic policy of a Service that names none.
pub(crate) const DEFAULT_POLICY: &str = "Cluster";

type Texts = BTreeMap<String, String>;

impl Conflict {
    /// Returns the reason, as KEP-1645 words it.
    pub(crate) fn reason(&self) -> Reason {
        match &self.used.1 {
            Value::Ports(_) => Reason::PortConflict,
            Value::Headless(_) => Reason::TypeConflict,
            Value::SessionAffinity(_) => Reason::SessionAffinityConflict,
            Value::SessionAffinitySeconds(_) => Reason::SessionAffinityConfigConflict,
            Value::InternalTrafficPolicy(_) => Reason::InternalTrafficPolicyConflict,
            Value::TrafficDistribution(_) => Reason::TrafficDistributionConflict,
            Value::IpFamilies(_) => Reason::IPFamilyConflict,
            Value::Labels(_) => Reason::LabelsConflict,
            Value::Annotations(_) => Reason::AnnotationsConflict,
            Value::ClusterSelectors(_) => Reason::ClusterSelectorsConflict,
            Value::Prefer(_) => Reason::PreferConflict,
            Value::Unreachable(_) => Reason::UnreachableConflict,
            Value::Share(_) => Reason::ShareConflict,
            Value::Consumers(_) => Reason::ConsumersConflict,
        }
    }
}

/// Finds the conflicts of exports, the first of which is the oldest. `ports` are the imported
/// ports.
pub(super) fn find(exports: &[Export<'_>], ports: &[PortShape]) -> Vec<Conflict> {
    let Some((oldest, others)) = exports.split_first() else {
        return Vec::new();
    };
    let exports = Exports { oldest, others };
    [
        exports.ports(ports),
        exports.differing(Export::is_headless, Value::Headless),
        exports.differing(
            |export| &export.service().shape.session_affinity,
            |affinity| Value::SessionAffinity(affinity.clone()),
        ),
        exports.session_affinity_seconds(),
        exports.differing(
            |export| {
                export
                    .service()
                    .internal_traffic_policy
                    .as_deref()
                    .unwrap_or(DEFAULT_POLICY)
            },
            |policy| Value::InternalTrafficPolicy(policy.to_owned()),
        ),
        exports.traffic_distribution(),
        exports.ip_families(),
        exports.words(|export| &export.exported.labels, Value::Labels),
        exports.words(|export| &export.exported.annotations, Value::Annotations),
        exports.preferences(),
        exports.differing(
            |export| export.export.failover.unreachable,
            Value::Unreachable,
        ),
        exports.differing(|export| export.failover().share, Value::Share),
        exports.differing(
            |export| export.export.consumers,
            |consumers| Value::Consumers(consumers.clone()),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

struct Exports<'e, 'a> {
    oldest: &'e Export<'a>,
    others: &'e [Export<'a>],
}

impl<'e, 'a> Exports<'e, 'a> {
    /// Finds a conflict between lists that differ, although ports that do not collide are imported,
    /// up to the maximum number.
    fn ports(&self, imported: &[PortShape]) -> Option<Conflict> {
        let of = |export: &Export<'_>| export.ports().collect::<Vec<_>>();
        let own = of(self.oldest);
        let differs = |other: &Export<'_>| {
            let ports = of(other);
            let all_in = |one: &[PortShape], other: &[PortShape]| {
                one.iter().all(|port| other.contains(port))
            };
            !all_in(&ports, &own) || !all_in(&own, &ports)
        };
        let is_added = |port: &&PortShape| own.iter().all(|own| own.port.id != port.port.id);
        let found = self.conflict(differs, |export| Value::Ports(of(export)))?;
        Some(Conflict {
            added: imported.iter().filter(is_added).cloned().collect(),
            ..found
        })
    }

    /// Compares the seconds only if both exports have them: a missing affinity is another conflict.
    fn session_affinity_seconds(&self) -> Option<Conflict> {
        let of = |export: &Export<'_>| export.service().shape.affinity_seconds;
        let own = of(self.oldest);
        let differs = |other: &Export<'_>| {
            let other = of(other);
            own.is_some() && other.is_some() && own != other
        };
        self.conflict(differs, |export| {
            Value::SessionAffinitySeconds(of(export).unwrap_or_default())
        })
    }

    fn traffic_distribution(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| export.service().shape.traffic_distribution.as_deref();
        let meant = |export: &Export<'a>| of(export).map(meant_by);
        let differs = |other: &Export<'a>| meant(other) != meant(self.oldest);
        self.conflict(differs, |export| {
            Value::TrafficDistribution(of(export).map(ToOwned::to_owned))
        })
    }

    fn ip_families(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| &export.service().ip_families;
        let own = of(self.oldest);
        let differs = |other: &Export<'a>| {
            let other = of(other);
            own.len() != other.len() || own.iter().any(|family| !other.contains(family))
        };
        self.conflict(differs, |export| Value::IpFamilies(of(export).clone()))
    }

    fn preferences(&self) -> Option<Conflict> {
        let mut all = self.others.iter().chain([self.oldest]);
        let by_selectors = all.any(|export| !export.cluster_selectors().is_empty());
        let value = match by_selectors {
            true => Value::ClusterSelectors,
            false => Value::Prefer,
        };
        self.differing(|export| export.failover().preference, value)
    }

    /// Finds a conflict of labels or annotations.
    fn words(
        &self,
        of: impl for<'x> Fn(&'x Export<'a>) -> &'x Texts,
        value: impl Fn(Words) -> Value,
    ) -> Option<Conflict> {
        let own = of(self.oldest);
        let is_shared = |(name, value): &(&String, &String)| {
            let has = |export: &Export<'a>| of(export).get(*name) == Some(*value);
            has(self.oldest) && self.others.iter().all(has)
        };
        self.conflict(
            |other| of(other) != own,
            |export| {
                let all = of(export);
                let apart = all.iter().filter(|word| !is_shared(word));
                value(Words {
                    apart: apart
                        .map(|(name, text)| (name.clone(), text.clone()))
                        .collect(),
                    share_others: all.iter().any(|word| is_shared(&word)),
                })
            },
        )
    }

    /// Finds a conflict of a field whose values are compared as they are.
    fn differing<T: PartialEq>(
        &self,
        of: impl Fn(&'e Export<'a>) -> T,
        value: impl Fn(T) -> Value,
    ) -> Option<Conflict> {
        let own = of(self.oldest);
        self.conflict(|other| of(other) != own, |export| value(of(export)))
    }

    fn conflict(
        &self,
        differs: impl Fn(&'e Export<'a>) -> bool,
        value: impl Fn(&'e Export<'a>) -> Value,
    ) -> Option<Conflict> {
        let differing: Vec<_> = self.others.iter().filter(|other| differs(other)).collect();
        if differing.is_empty() {
            return None;
        }
        let named = |export: &'e Export<'a>| (export.export.cluster.clone(), value(export));
        let others = differing.iter().take(NAMED_AT_MOST);
        Some(Conflict {
            used: named(self.oldest),
            added: Vec::new(),
            others: others.map(|export| named(export)).collect(),
            count: differing.len(),
            total: self.others.len() + 1,
        })
    }
}
