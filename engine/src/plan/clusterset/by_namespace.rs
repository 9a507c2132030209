//! Exports of all Services of a namespace, as its annotation `mcs.causeway.dev/export: all`
//! requests.
//!
//! causeway creates ordinary ServiceExports. From then on they count as those that users create:
//! permission, quota, age and the guard against sudden losses apply to them.

use std::collections::BTreeMap;

use causeway::api::ownership::NAMESPACE_OWNER;
use causeway::domain::{ClusterName, ServiceKey};

use crate::model::TimePoint;
use crate::observed::Index;
use crate::observed::member::{Member, NamespaceState};
use crate::plan::inputs::Inputs;
use crate::plan::provider_use::Unused;

/// Returns the members that are to hold an export because of their namespace, with its owner.
///
/// An export of that kind is withdrawn only if the member showed its namespace without the
/// annotation, or no Service of the name for the grace period, or if the hub withdrew the
/// permission.
pub(super) fn exports(inputs: Inputs<'_>) -> BTreeMap<ClusterName, String> {
    let (index, key) = (inputs.index, inputs.key);
    if inputs
        .settings
        .protection
        .check(&key.namespace, &key.name)
        .is_err()
    {
        return held(index, key).collect();
    }
    let requested = index.members().filter_map(|(name, member)| {
        let uid = member.exported_namespace(&key.namespace)?;
        let exports = exports_service(&inputs, name, member);
        exports.then(|| (name.clone(), format!("{NAMESPACE_OWNER}{uid}")))
    });
    // Objects that are not there are not evidence while the namespace itself is not shown.
    let unknown = held(index, key).filter(|(name, _)| {
        let member = index.member(name);
        member.is_none_or(|member| member.namespace(&key.namespace) != NamespaceState::Active)
    });
    unknown.chain(requested).collect()
}

/// Lists the exports that exist because of their namespace.
fn held<'a>(
    index: &'a Index,
    key: &'a ServiceKey,
) -> impl Iterator<Item = (ClusterName, String)> + 'a {
    index.holders(key).filter_map(|(name, member)| {
        let export = member.export(key)?;
        let owner = export.owner.as_deref()?.to_owned();
        let is_held = export.is_of_namespace(index.hub_uid());
        is_held.then(|| (name.clone(), owner))
    })
}

/// Whether the member exports the Service of that name because of its namespace.
fn exports_service(inputs: &Inputs<'_>, name: &ClusterName, member: &Member) -> bool {
    let (index, key) = (inputs.index, inputs.key);
    let hub = index.hub_uid();
    let export = member.export(key);
    let is_own = export.is_some_and(|export| export.is_of_namespace(hub));
    let may_export = index
        .cluster(name)
        .is_some_and(|cluster| cluster.may_export_from(&key.namespace));
    // Another export of the name, of whomever, takes precedence.
    if !may_export || super::is_out(index, name) || export.is_some() && !is_own {
        return false;
    }
    let is_begun = is_own
        || member.exports_followed().is_some()
            && member.other_controller_in(&key.namespace).is_none()
            && Unused::everywhere(index, name) != Some(Unused::Duplicate);
    is_begun
        && match member.service(key) {
            Some(service) => {
                service.hub.is_none() && !service.is_external_name() && !is_of_import(member, key)
            }
            None => is_own && is_in_grace(inputs, member),
        }
}

/// Whether Services of that name represent an imported service (KEP-1645 and Karmada name them
/// `derived-<name>`).
fn is_of_import(member: &Member, key: &ServiceKey) -> bool {
    let of = key.underived();
    of.is_some_and(|of| member.import(&of).is_some())
}

/// Whether a Service that is gone may only be about to be replaced.
fn is_in_grace(inputs: &Inputs<'_>, member: &Member) -> bool {
    let since: Option<TimePoint> = member.service_lost_since(inputs.key);
    since.is_none_or(|since| inputs.now < since.after(inputs.settings.service_grace))
}
