//! ServiceExports and ServiceImports for a service that a MultiClusterService exposes, for tools of
//! the clusterset: Gateway API routes refer to ServiceImports, and clusterset DNS answers from
//! them.

use causeway::api::labels;
use causeway::api::multicluster::{ServiceExport, ServiceExportSpec, Version};
use causeway::api::ownership::NATIVE_OWNER;
use causeway::domain::ServiceKey;

use super::clusterset::exports::validity;
use super::clusterset::merge::ImportShape;
use super::clusterset::{Clusterset, DesiredImport, Imports, import};
use super::copies::DesiredCopies;
use super::desired::{Desired, DesiredMember, Members};
use super::placement::Roles;
use super::provider_use::Unused;
use super::service::DesiredService;
use crate::model::object::{new_meta, own_labels};
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::member::{Member, NamespaceState};
use crate::observed::service::ServiceView;

/// Adds exports in the providers and imports in the consumers. The Service of the own name serves
/// the import: causeway makes no other Service and no other copies.
pub(crate) fn publish(
    index: &Index,
    key: &ServiceKey,
    native: &Desired,
    clusterset: &mut Clusterset,
) {
    let (Members::Wanted(members), Imports::Wanted(imports)) =
        (&native.members, &mut clusterset.imports)
    else {
        return;
    };
    let Some(mcs) = index.multi_cluster_service(key) else {
        return;
    };
    let owner = format!("{NATIVE_OWNER}{}", mcs.uid);
    for (name, desired) in members {
        let roles = native.placement.targets.get(name).copied();
        let (roles, Some(member)) = (roles.unwrap_or_default(), index.member(name)) else {
            continue;
        };
        // Nothing is begun beside Karmada.
        let goes_on =
            |ours: Option<Exposure>| native.karmada.is_none() || ours == Some(Exposure::Native);
        let hub = index.hub_uid();
        let export = member.export(key).and_then(|export| export.exposure(hub));
        let import = member.import(key).and_then(|import| import.exposure(hub));
        if roles.provider && member.exports_followed().is_some() && goes_on(export) {
            clusterset.published.insert(name.clone(), owner.clone());
            if member.export(key).is_some() {
                let validity = validity(member.service(key));
                let exports = &mut clusterset.exports;
                exports.entry(name.clone()).or_insert(validity);
            }
        }
        if goes_on(import)
            && let Some(desired) = desired_import(key, member, desired, roles, &owner)
        {
            imports.entry(name.clone()).or_insert(desired);
        }
    }
    if !imports.is_empty() {
        let providers = native.placement.providers();
        let used = providers.filter(|name| !Unused::excludes(index, name));
        clusterset.exporters.extend(used.cloned());
    }
}

fn desired_import(
    key: &ServiceKey,
    member: &Member,
    desired: &DesiredMember,
    roles: Roles,
    owner: &str,
) -> Option<DesiredImport> {
    let served = member.imports_followed()?;
    let active = member.namespace(&key.namespace) == NamespaceState::Active;
    let service = member.service(key).filter(|_| roles.consumer && active)?;
    let shape = shape(service, desired)?;
    Some(DesiredImport {
        served,
        service: None,
        import: import::plan(served, &shape, owner, (key, Some(service)), None),
        copies: DesiredCopies::of_no_consumer(),
        problem: None,
        unresolved: None,
        karmadas: false,
    })
}

/// Returns the exposed part of the member's Service; `None` if that Service stands for another
/// service.
fn shape(service: &ServiceView, desired: &DesiredMember) -> Option<ImportShape> {
    let port = |port: &causeway::domain::ServicePort| {
        let mut ports = service.shape.ports.iter();
        let own = ports.find(|own| own.port.id == port.id);
        let protocol = own.and_then(|own| own.app_protocol.clone());
        ImportShape::port(port.clone(), protocol)
    };
    let preference = match &desired.service {
        DesiredService::Own(own) => own.shape.traffic_distribution.clone(),
        DesiredService::Foreign => service.shape.traffic_distribution.clone(),
        DesiredService::Conflict(_) => return None,
    };
    Some(ImportShape {
        traffic_distribution: preference,
        ..ImportShape::of(service, desired.offered.iter().map(port).collect())
    })
}

/// Returns the ServiceExport of a provider.
pub(crate) fn export(key: &ServiceKey, version: Version, hub: &str, owner: &str) -> ServiceExport {
    let annotations = [(labels::OWNER.to_owned(), owner.to_owned())].into();
    let metadata = new_meta(key, own_labels(hub), annotations);
    ServiceExport::new(version, metadata, ServiceExportSpec::default())
}
