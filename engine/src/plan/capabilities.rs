//! Fields that a member's release of Kubernetes stores: the one place where planned content is
//! fitted to a release.
//!
//! An API server silently drops a field whose feature gate is off. The stored object would then
//! never equal the desired one, and causeway would write it again and again. A field that a release
//! does not store by default is therefore not planned for it, even if an administrator has enabled
//! the gate.

use std::fmt;

use causeway::domain::KubernetesVersion;

use crate::observed::member::Member;

/// Field that causeway writes and that not every release since 1.21 stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// `endpoints[].conditions.serving` and `.terminating` of an EndpointSlice.
    EndpointConditions,
    /// `endpoints[].hints.forZones` of an EndpointSlice.
    ZoneHints,
    /// `endpoints[].hints.forNodes` of an EndpointSlice.
    NodeHints,
    /// `spec.internalTrafficPolicy` of a Service.
    InternalTrafficPolicy,
    /// `spec.trafficDistribution` of a Service, PreferClose.
    TrafficDistribution,
    /// Values PreferSameZone and PreferSameNode of `spec.trafficDistribution`. Releases
    /// that store PreferClose alone refuse them.
    PreferSame,
}

/// First release that stores each field by default: the field, its feature gate, and the minor
/// version of Kubernetes 1 in which that gate is on.
///
/// From `pkg/features/kube_features.go` and
/// `pkg/registry/{discovery/endpointslice,core/service}/strategy.go` of each release, and the
/// enhancements that are named. Every release since 1.21 stores all other fields that causeway
/// writes: `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` (IPv6DualStack, on since 1.21),
/// `appProtocol` (ServiceAppProtocol, on since 1.19), `endpoints[].nodeName`
/// (EndpointSliceNodeName, on since 1.21) and `zone` (discovery.k8s.io/v1), SCTP (SCTPSupport, on
/// since 1.19). ServiceImports have the fields of their definition, which causeway reads
/// (the member module of causeway-controller).
pub(crate) const SINCE: [(Field, &str, u32); 6] = [
    // KEP-1672: alpha in 1.20.
    (
        Field::EndpointConditions,
        "EndpointSliceTerminatingCondition",
        22,
    ),
    // KEP-2433: alpha in 1.21; beta in 1.23, and still off there.
    (Field::ZoneHints, "TopologyAwareHints", 24),
    // KEP-3015: alpha in 1.33.
    (Field::NodeHints, "PreferSameTrafficDistribution", 34),
    // KEP-2086: alpha in 1.21.
    (
        Field::InternalTrafficPolicy,
        "ServiceInternalTrafficPolicy",
        22,
    ),
    // KEP-4444: alpha in 1.30.
    (Field::TrafficDistribution, "ServiceTrafficDistribution", 31),
    // KEP-3015: alpha in 1.33.
    (Field::PreferSame, "PreferSameTrafficDistribution", 34),
];

/// Kubernetes release of a member. An unknown release counts as the newest; nothing is written
/// while it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities(pub Option<KubernetesVersion>);

impl Capabilities {
    /// Returns the release of a member.
    pub(crate) fn of(member: &Member) -> Self {
        Self(member.identity().map(|identity| identity.release))
    }

    /// Whether the release stores a field.
    pub(crate) fn stores(self, field: Field) -> bool {
        let mut rows = SINCE.iter();
        let since = rows
            .find_map(|(of, _, since)| (*of == field).then_some(KubernetesVersion::new(1, *since)));
        self.0
            .zip(since)
            .is_none_or(|(release, since)| release >= since)
    }

    /// Whether kube-proxy of the release uses serving and terminating endpoints while no other is
    /// ready: ProxyTerminatingEndpoints (KEP-1669), on since 1.26.
    pub(crate) fn uses_standby(self) -> bool {
        self.0
            .is_none_or(|release| release >= KubernetesVersion::new(1, 26))
    }

    /// Returns the traffic preference of a Service that comes closest to the requested one.
    pub(crate) fn preference(self, asked: &Option<String>) -> Option<String> {
        let asked = asked
            .clone()
            .filter(|_| self.stores(Field::TrafficDistribution))?;
        Some(match self.stores(Field::PreferSame) {
            true => asked,
            false => "PreferClose".to_owned(),
        })
    }

    /// Returns the internal traffic policy of a Service; `None` if the release does not store one.
    pub(crate) fn internal_traffic_policy(self, asked: Option<String>) -> Option<String> {
        asked.filter(|_| self.stores(Field::InternalTrafficPolicy))
    }
}

/// Returns the name of a preference since Kubernetes 1.34: PreferClose is PreferSameZone
/// (KEP-3015).
pub(crate) fn meant_by(preference: &str) -> &str {
    match preference {
        "PreferClose" => "PreferSameZone",
        other => other,
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(version) => version.fmt(out),
            None => out.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests;
