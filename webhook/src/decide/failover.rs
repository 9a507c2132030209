//! V11: the annotations about the order and the shares of providers, and about unreachable ones.

use std::collections::{HashMap, HashSet};

use causeway::api::labels::{
    self, HOSTNAME, HOSTNAME_ROUTING, MIN_READY, PREFER, SHARE, UNREACHABLE,
};
use causeway::domain::{
    ClusterField, ClusterName, ExposureType, Failover, FieldError, Preference, Tier, Unreachable,
    has_entry_clusters,
};

use super::hub_view::{Clusters, Locality, ServiceKind};
use super::read_failover::{named, shared};
use super::violations::{Severity, Violations};
use super::{HubView, Impact, Policy, PreparedChange, clusters};

pub(super) fn validate(
    change: &PreparedChange,
    view: &HubView,
    policy: &Policy,
    violations: &mut Violations,
) {
    violations.errors.append(&change.failover.wrong);
    let has_entries = has_entry_clusters(&change.spec);
    if ExposureType::of(&change.spec) == Some(ExposureType::LoadBalancer) && !has_entries {
        return warn_of_load_balancer(change, violations);
    }
    // The Service of an entry cluster has a virtual address, whatever that of the hub has.
    if !has_entries {
        validate_service(change, view, violations);
    }
    let severity = Severity::by_policy(policy.unknown_cluster, change.dry_run);
    clusters::validate_known(clusters::preferred(change), view, severity, violations);
    warn_of_threshold(change, violations);
    let preference = change.failover.failover.preference.as_ref();
    if let Some(preference) = preference {
        warn_of_local(change, preference, violations);
    }
    warn_of_no_providers(change, violations);
    if let Some(preference) = preference {
        warn_of_places(change, preference, view, violations);
    }
}

/// Warns of annotations without effect: without entry clusters type LoadBalancer routes no traffic.
/// Unreachable clusters matter where DNS publishes a name.
fn warn_of_load_balancer(change: &PreparedChange, violations: &mut Violations) {
    let has_name = change.metadata.annotation(HOSTNAME).is_some();
    let of_names = [HOSTNAME, HOSTNAME_ROUTING];
    let has_effect = |name: &str| of_names.contains(&name) || has_name && name == UNREACHABLE;
    for name in labels::VALIDATED
        .into_iter()
        .filter(|name| !has_effect(name))
    {
        let changed = change.annotation_changed(name) || change.types_changed();
        if changed && change.metadata.annotation(name).is_some() {
            violations.warnings.push(format!(
                "{}: has no effect on a MultiClusterService of type LoadBalancer without \
                 spec.consumerClusters",
                Failover::path(name)
            ));
        }
    }
}

/// Refuses values that need a proxy: no proxy chooses endpoints of a headless Service.
fn validate_service(change: &PreparedChange, view: &HubView, violations: &mut Violations) {
    let read = &change.failover;
    let has_preference = read.failover.preference.is_some() || read.is_preference_wrong;
    let has_standby = read.failover.unreachable == Some(Unreachable::Standby);
    let has_share = read.failover.share.is_some() || read.is_share_wrong;
    let needs = [
        (
            PREFER,
            has_preference,
            "has no proxy that chooses; remove the annotation",
        ),
        (
            UNREACHABLE,
            has_standby,
            "has no proxy that chooses, and DNS leaves standby endpoints out; write keep, or \
             withdraw-after=DURATION",
        ),
        (
            SHARE,
            has_share,
            "has no proxy that chooses; remove the annotation",
        ),
    ];
    let needs = needs.iter();
    let mut needs = needs
        .filter(|(name, needs, _)| *needs && change.annotation_changed(name))
        .peekable();
    if needs.peek().is_none() {
        return;
    }
    let Some(observed) = &view.service else {
        return violations.unconfirmed_service(Impact::Denial);
    };
    let kind = observed.value.as_ref().map(|service| service.kind);
    if kind != Some(ServiceKind::Headless) {
        return;
    }
    let (namespace, service) = change.service();
    let severity = Severity::by_other_object(change.dry_run);
    for (name, _, detail) in needs {
        let value = change.metadata.annotation(name).unwrap_or_default();
        let detail = format!("Service {namespace}/{service} is headless: it {detail}");
        let error = FieldError::invalid(Failover::path(name), value, detail);
        let impact = violations.add(error, severity);
        if !observed.live {
            violations.unconfirmed_service(impact);
        }
    }
}

fn warn_of_threshold(change: &PreparedChange, violations: &mut Violations) {
    let read = &change.failover;
    let has_preference = read.failover.preference.is_some() || read.is_preference_wrong;
    let changed = [MIN_READY, PREFER]
        .iter()
        .any(|name| change.annotation_changed(name));
    if changed && !has_preference && change.metadata.annotation(MIN_READY).is_some() {
        let (namespace, _) = change.service();
        let detail = match change.metadata.annotation(PREFER) {
            Some(_) => format!("has no effect without a preference; set {PREFER} too"),
            // The Namespace may have a default.
            None => {
                format!("has no effect unless Namespace {namespace} has {PREFER}; or set that too")
            }
        };
        violations
            .warnings
            .push(format!("{}: {detail}", Failover::path(MIN_READY)));
    }
}

/// Warns of a tier `local` that comes too late, or that no consumer is in.
fn warn_of_local(change: &PreparedChange, preference: &Preference, violations: &mut Violations) {
    if !may_differ(change) {
        return;
    }
    let tiers = preference.tiers();
    let has_local = tiers.contains(&Tier::Local);
    let path = Failover::path(PREFER);
    if has_local && !both_roles(change, None) {
        violations.warnings.push(format!(
            "{path}: no consumer is a provider, so nobody is in tier local; remove it"
        ));
        return;
    }
    let is_late = match tiers.first() {
        Some(Tier::Cluster(first)) => both_roles(change, Some(first)),
        Some(Tier::Local) | None => false,
        Some(Tier::Zone | Tier::Region | Tier::Property(_) | Tier::Any) => has_local,
    };
    if is_late {
        violations.warnings.push(format!(
            "{path}: a consumer that is also a provider always uses its own pods, which are in its \
             own EndpointSlices; write local first"
        ));
    }
}

/// Warns of a cluster that is preferred, or has a share, and is no provider.
fn warn_of_no_providers(change: &PreparedChange, violations: &mut Violations) {
    let Some(providers) = members(change, ClusterField::Providers) else {
        return;
    };
    let before = change.named_before(ClusterField::Providers);
    let read = &change.failover;
    let is_news = |name: &ClusterName, named_before: &HashSet<ClusterName>| {
        // The stored object names it, and it is no provider there either.
        let is_old =
            named_before.contains(name) && !before.is_empty() && !before.contains(name.as_str());
        !is_old && !providers.contains(name.as_str())
    };
    let preferred = named(read.failover.preference.as_ref());
    for name in preferred.filter(|name| is_news(name, &read.preferred_before)) {
        violations.warnings.push(format!(
            "{}: cluster {:?} is no provider, so nobody is in tier cluster/{name}; add it to \
             spec.providerClusters, or remove the tier",
            Failover::path(PREFER),
            name.as_str(),
        ));
    }
    let sharing = shared(read.failover.share.as_ref());
    for name in sharing.filter(|name| is_news(name, &read.shared_before)) {
        violations.warnings.push(format!(
            "{}: cluster {:?} is no provider, so its share goes to the others; add it to \
             spec.providerClusters, or remove the entry",
            Failover::path(SHARE),
            name.as_str(),
        ));
    }
}

/// Warns of a tier `zone` or `region` that has no provider for any consumer.
fn warn_of_places(
    change: &PreparedChange,
    preference: &Preference,
    view: &HubView,
    violations: &mut Violations,
) {
    if !may_differ(change) {
        return;
    }
    let Some(Clusters::Named(known)) = view.clusters.as_ref().map(|observed| &observed.value)
    else {
        return;
    };
    let [Some(providers), Some(consumers)] =
        ClusterField::ROLES.map(|role| located(change, role, known))
    else {
        return;
    };
    let mut has_local = false;
    for tier in preference.tiers() {
        let (places, shares, field): (Places, _, _) = match tier {
            Tier::Local => {
                has_local = true;
                continue;
            }
            Tier::Zone => (|one| &one.zones, "shares a zone with", "spec.zones"),
            Tier::Region => (
                |one| one.region.as_slice(),
                "is in the region of",
                "spec.region",
            ),
            Tier::Cluster(_) | Tier::Property(_) | Tier::Any => continue,
        };
        let has_own = !has_local && both_roles(change, None);
        if !has_own && !is_shared(&providers, &consumers, places) {
            violations.warnings.push(format!(
                "{}: no consumer {shares} another provider, so nobody is in tier {tier}; set \
                 {field} of the Clusters, or remove the tier",
                Failover::path(PREFER)
            ));
        }
    }
}

/// Accessor of the places that decide a tier: zones or regions.
type Places = fn(&Locality) -> &[Box<str>];

type Located<'a> = Vec<(&'a str, &'a Locality)>;

/// Returns the clusters of a role with their localities; `None` if one is unknown, or there is
/// none.
fn located<'a>(
    change: &'a PreparedChange,
    role: ClusterField,
    known: &'a HashMap<Box<str>, Locality>,
) -> Option<Located<'a>> {
    let located: Located<'a> = match members(change, role) {
        None => known.iter().map(|(name, place)| (&**name, place)).collect(),
        Some(names) => {
            let located = |name| Some((name, known.get(name)?));
            names.into_iter().map(located).collect::<Option<_>>()?
        }
    };
    (!located.is_empty()).then_some(located)
}

/// Whether a consumer shares a place with a provider other than itself.
fn is_shared(providers: &Located<'_>, consumers: &Located<'_>, places: Places) -> bool {
    // One provider of each place, and whether the place has another one.
    let mut by_place: HashMap<&str, (&str, bool)> = HashMap::new();
    for (name, locality) in providers {
        for place in places(locality) {
            let entry = by_place.entry(place).or_insert((name, false));
            entry.1 |= entry.0 != *name;
        }
    }
    consumers.iter().any(|(name, locality)| {
        let mut found = places(locality)
            .iter()
            .filter_map(|place| by_place.get(&**place));
        found.any(|(provider, has_another)| *has_another || provider != name)
    })
}

/// Whether the preference or the clusters of a role changed.
fn may_differ(change: &PreparedChange) -> bool {
    let mut roles = ClusterField::ROLES.into_iter();
    change.annotation_changed(PREFER) || roles.any(|role| change.role_changed(role))
}

/// Returns the clusters of a role; `None` for all.
fn members(change: &PreparedChange, role: ClusterField) -> Option<HashSet<&str>> {
    let names = role.effective(&change.spec).names(&change.spec);
    (!names.is_empty()).then(|| names.into_iter().collect())
}

/// Whether a cluster other than `other_than` may be both provider and consumer.
fn both_roles(change: &PreparedChange, other_than: Option<&ClusterName>) -> bool {
    let other_than = other_than.map(ClusterName::as_str);
    let is_another = |name: &&str| Some(*name) != other_than;
    match ClusterField::ROLES.map(|role| members(change, role)) {
        [None, None] => true,
        [Some(named), None] | [None, Some(named)] => named.iter().any(is_another),
        [Some(providers), Some(consumers)] => providers.intersection(&consumers).any(is_another),
    }
}
