//! What ServiceExports ask for.

use causeway::api::{SyncMode, condition};
use causeway::domain::ServicePort;
use k8s_openapi::api::core::v1 as core;
use kube::ResourceExt as _;

use super::super::report::{Finding, Path, Reason, Way};
use super::super::scene::{Held, Scene};
use super::super::standing;
use super::plan::Plan;
use super::way::carry_out;

/// The way by the name of the clusterset, if a person exports the service, or copies of an export are there.
pub(super) fn way(scene: &Scene) -> Option<Way> {
    let derived = scene.key.derived();
    let read = || {
        let members = scene.members.iter();
        members.filter_map(|(name, held)| Some((name, held.as_ref().ok()?)))
    };
    let exporters: Vec<String> = read()
        .filter(|(_, held)| exports(scene, held))
        .map(|(name, _)| name.clone())
        .collect();
    let recorded: Vec<String> = read()
        .flat_map(|(_, held)| &held.imports)
        // Nobody keeps up the status of a person's import.
        .filter(|import| !scene.is_a_persons(*import))
        .flat_map(|import| import.status.iter().flat_map(|status| &status.clusters))
        .map(|one| one.cluster.clone())
        .filter(|name| scene.wish.is_none() && scene.held(name).is_none())
        .collect();
    let mut providers = [exporters, recorded].concat();
    providers.sort();
    providers.dedup();
    if providers.is_empty() {
        return None;
    }
    let plan = Plan {
        scene,
        path: Path::Clusterset,
        service: derived.name.to_string(),
        consumers: consumers(scene),
        obstacle: None,
        of_karmada: false,
        exposed: read()
            .find_map(|(_, held)| imported(held))
            .unwrap_or_default(),
        providers,
    };
    let address = format!(
        "{}.{}.svc.clusterset.local",
        scene.key.name, scene.key.namespace
    );
    let mut findings = not_exported(scene, &plan.providers);
    findings.extend(disagreement(scene, &plan.providers));
    findings.extend(standing::karmadas_import(scene));
    findings.extend(not_imported(scene));
    Some(carry_out(&plan, findings, address))
}

/// Every member that is reached from the hub and has the namespace, or of which that is not known.
fn consumers(scene: &Scene) -> Vec<String> {
    let pushed = scene
        .clusters
        .iter()
        .filter(|cluster| cluster.spec.sync_mode != Some(SyncMode::Pull));
    let mut names: Vec<_> = pushed
        .map(|cluster| cluster.name_any())
        .filter(|name| scene.held(name).is_none_or(|held| held.namespace.is_some()))
        .collect();
    names.sort();
    names
}

fn exports(scene: &Scene, held: &Held) -> bool {
    held.exports.iter().any(|export| scene.is_a_persons(export))
}

/// Members that are reached and have not the namespace.
fn not_imported(scene: &Scene) -> Option<Finding> {
    let namespace = &scene.key.namespace;
    let read = scene.members.iter();
    let without = read.filter(|(_, held)| held.as_ref().is_ok_and(|held| held.namespace.is_none()));
    let without: Vec<_> = without.map(|(name, _)| name.as_str()).collect();
    let first = without.first()?;
    let message = format!(
        "{} without namespace {namespace} do not import it",
        without.join(", ")
    );
    let remedy = format!("in {first}: kubectl create namespace {namespace}");
    Some(Finding::new(Reason::NotImported, message).mend(remedy))
}

/// What the exports say of each other.
fn disagreement(scene: &Scene, exporters: &[String]) -> Option<Finding> {
    let held = exporters.iter().filter_map(|name| scene.held(name));
    let mut exports =
        held.flat_map(|held| held.exports.iter().filter(|one| scene.is_a_persons(*one)));
    let conflict = exports.find_map(|export| {
        let conditions = &export.status.as_ref()?.conditions;
        condition::find(conditions, condition::CONFLICT).filter(|one| one.status == condition::TRUE)
    })?;
    let message = format!(
        "the exports disagree, and the oldest decides: {} ({})",
        conflict.reason, conflict.message
    );
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let finding = Finding::new(Reason::ExportsDisagree, message);
    Some(finding.mend(format!(
        "kubectl mcs status {name} -n {namespace} shows them beside each other"
    )))
}

/// The ports of the import.
fn imported(held: &Held) -> Option<Vec<ServicePort>> {
    let import = held.imports.first()?;
    let ports = import.spec.ports.iter().map(|port| core::ServicePort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: port.port,
        ..core::ServicePort::default()
    });
    Some(ports.filter_map(|port| ServicePort::read(&port)).collect())
}

/// Members with a backed Service of the name that do not export it.
fn not_exported(scene: &Scene, exporters: &[String]) -> Vec<Finding> {
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let others = scene.members.keys().filter(|member| {
        let held = scene.held(member);
        let backed =
            held.is_some_and(|held| held.sources(name).any(|slice| !slice.endpoints.is_empty()));
        backed && !exporters.contains(member) && standing::clusterset(scene, member).is_none()
    });
    others
        .map(|member| {
            let message = format!(
                "{member} has endpoints of its own for {namespace}/{name} and does not export them"
            );
            Finding::new(Reason::NotNamed, message).mend(format!(
                "in {member}: make a ServiceExport {namespace}/{name} (multicluster.x-k8s.io)"
            ))
        })
        .collect()
}
