//! What a MultiClusterService asks for.

use std::collections::BTreeSet;

use causeway::api::condition;
use causeway::api::{MultiClusterService, labels};
use causeway::domain::{self, ClusterName, ServicePort, describe_ports};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use crate::karmada::{GATE_OFF, GATE_ON};

use super::super::ports;
use super::super::report::{Finding, Path, Reason, Way};
use super::super::scene::Scene;
use super::karmada;
use super::plan::{Plan, is_external_name};
use super::way::carry_out;

/// The way by the service's own name, if the hub has a MultiClusterService of it.
pub(super) fn way(scene: &Scene) -> Option<Way> {
    let object = scene.wish.as_ref()?;
    let address = format!("{}.{}.svc", scene.key.name, scene.key.namespace);
    let wish = match domain::MultiClusterService::try_from(object) {
        Ok(wish) => wish,
        Err(errors) => return Some(invalid(scene, address, &errors)),
    };
    if wish.exposure == domain::ExposureType::LoadBalancer {
        return Some(load_balancer(scene, address));
    }
    let joined = scene
        .clusters
        .iter()
        .filter_map(|cluster| ClusterName::try_from(cluster.name_any().as_str()).ok());
    let named = wish
        .providers
        .named()
        .chain(wish.consumers.named())
        .cloned();
    let names: BTreeSet<ClusterName> = joined.chain(named).collect();
    let chosen = |of: &domain::ClusterSelection| {
        let chosen = names.iter().filter(|name| of.includes(name));
        chosen.map(ToString::to_string).collect::<Vec<_>>()
    };
    let service = scene.service.as_ref();
    let all = service.map(ports::of).unwrap_or_default();
    let (exposed, hidden) = all.into_iter().partition(|port| wish.ports.include(port));
    let plan = Plan {
        scene,
        path: Path::Native,
        service: scene.key.name.to_string(),
        providers: chosen(&wish.providers),
        consumers: chosen(&wish.consumers),
        obstacle: obstacle(scene, object, &wish, service),
        exposed,
        of_karmada: scene.is_carried_by_karmada(),
    };
    let mut findings: Vec<_> = not_exposed(scene, &hidden).into_iter().collect();
    findings.extend(behind(object));
    findings.extend(not_named(scene, &plan.providers));
    findings.extend(karmada::findings(&plan));
    Some(carry_out(&plan, findings, address))
}

fn load_balancer(scene: &Scene, address: String) -> Way {
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let message = format!(
        "MultiClusterService {namespace}/{name} is of type LoadBalancer: its status gathers the addresses of the providers' load \
         balancers, and no endpoint goes to another cluster"
    );
    let finding = Finding::new(Reason::LoadBalancer, message).mend(format!(
        "kubectl -n {namespace} get mcs {name} -o jsonpath='{{.status.loadBalancer}}'; for endpoints delete it and make it anew \
         with types: [CrossCluster]"
    ));
    nobodys(address, finding)
}

fn invalid(scene: &Scene, address: String, errors: &domain::FieldErrors) -> Way {
    let message = format!("MultiClusterService {} cannot be read: {errors}", scene.key);
    let finding = Finding::new(Reason::Invalid, message).mend(edit(scene));
    nobodys(address, finding)
}

/// A way that no endpoint goes.
fn nobodys(address: String, finding: Finding) -> Way {
    Way {
        path: Path::Native,
        address,
        findings: vec![finding],
        consumers: Vec::new(),
        providers: Vec::new(),
    }
}

/// What keeps every endpoint from every other cluster.
fn obstacle(
    scene: &Scene,
    object: &MultiClusterService,
    wish: &domain::MultiClusterService,
    service: Option<&Service>,
) -> Option<Finding> {
    let (key, namespace) = (&scene.key, &scene.key.namespace);
    if object.metadata.deletion_timestamp.is_some() {
        return Some(deleting(scene, object));
    }
    let Some(service) = service else {
        let message =
            format!("the hub has no Service {key}, which the MultiClusterService is about");
        return Some(Finding::new(Reason::NoHubService, message).mend(format!(
            "kubectl -n {namespace} create service clusterip {} --tcp=PORT:TARGETPORT",
            key.name
        )));
    };
    if is_external_name(service) {
        let message =
            format!("Service {key} of the hub is an ExternalName, which has no endpoints");
        return Some(Finding::new(Reason::ExternalName, message).mend(format!(
            "kubectl -n {namespace} edit service {}: give it a selector and another type",
            key.name
        )));
    }
    let ports = ports::of(service);
    let missing: Vec<_> = wish
        .ports
        .missing_from(&ports)
        .map(ToString::to_string)
        .collect();
    let none = !ports.iter().any(|port| wish.ports.include(port));
    (!missing.is_empty() && none).then(|| {
        let message = format!(
            "spec.ports names {}, which Service {key} of the hub has not; it has {}",
            missing.join(", "),
            describe_ports(&ports)
        );
        Finding::new(Reason::PortNotFound, message).mend(edit(scene))
    })
}

fn deleting(scene: &Scene, object: &MultiClusterService) -> Finding {
    let (key, namespace) = (&scene.key, &scene.key.namespace);
    let mut waits = Vec::new();
    let holders: Vec<_> = scene.holders().collect();
    if !holders.is_empty() {
        waits.push(format!("{} to be cleaned", holders.join(", ")));
    }
    let karmadas = crate::karmada::finalizers(object);
    if !karmadas.is_empty() {
        waits.push(format!("Karmada's finalizer: {}", karmadas.join(", ")));
    }
    let others = object.finalizers().iter();
    let others: Vec<_> = others
        .filter(|one| *one != labels::FINALIZER && !karmadas.contains(&one.as_str()))
        .cloned()
        .collect();
    if !others.is_empty() {
        waits.push(format!("somebody else's finalizers: {}", others.join(", ")));
    }
    let waits = match waits.as_slice() {
        [] => String::new(),
        waits => format!("; it waits for {}", waits.join(", and for ")),
    };
    let message = format!("MultiClusterService {key} is being deleted{waits}");
    let finding = Finding::new(Reason::Deleting, message);
    if !karmadas.is_empty() {
        return finding.mend(format!(
            "{}, with karmada-controller-manager started with {GATE_OFF}: then nobody but a person takes that finalizer off; with {GATE_ON} \
             karmada-controller-manager does, and its log says why it does not",
            scene.adopt()
        ));
    }
    finding.mend(format!(
        "wait a moment; if it is to be kept, once it is gone: kubectl -n {namespace} apply -f mcs.yaml"
    ))
}

fn not_exposed(scene: &Scene, hidden: &[ServicePort]) -> Option<Finding> {
    let first = hidden.first()?;
    let (key, namespace) = (&scene.key, &scene.key.namespace);
    let message = format!(
        "spec.ports of the MultiClusterService does not expose {} of Service {key}",
        describe_ports(hidden)
    );
    let name = match &*first.name {
        "" => String::new(),
        name => format!("\"name\":\"{name}\","),
    };
    let entry = format!("{{{name}\"port\":{}}}", first.id.number);
    Some(Finding::new(Reason::PortNotExposed, message).mend(format!(
        "kubectl -n {namespace} patch mcs {} --type=json -p \
         '[{{\"op\":\"add\",\"path\":\"/spec/ports/-\",\"value\":{entry}}}]'",
        key.name
    )))
}

/// Whether the controller has still to judge the object as it is.
fn behind(object: &MultiClusterService) -> Option<Finding> {
    let key = format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    );
    let behind = match ready(object) {
        None => "has not judged it yet",
        Some(ready) if ready.observed_generation < object.metadata.generation => {
            "has not judged its last change yet"
        }
        Some(_) => return None,
    };
    let message = format!("MultiClusterService {key}: the controller {behind}");
    Some(Finding::new(Reason::NotCarriedOut, message).mend(format!(
        "kubectl mcs status {} -n {} --wait",
        object.name_any(),
        object.namespace().unwrap_or_default()
    )))
}

/// Members with pods of their own behind a Service of the name, which are not named as providers.
fn not_named(scene: &Scene, providers: &[String]) -> Vec<Finding> {
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let members = scene.members.keys();
    let others = members.filter(|member| !providers.contains(member));
    let backed = others.filter(|member| {
        let held = scene.held(member);
        held.is_some_and(|held| held.sources(name).any(|slice| !slice.endpoints.is_empty()))
    });
    backed
        .map(|member| {
            let message = format!(
                "{member} has endpoints of its own for {namespace}/{name}, and spec.providerClusters does not name it"
            );
            Finding::new(Reason::NotNamed, message).mend(format!(
                "kubectl -n {namespace} patch mcs {name} --type=json -p \
                 '[{{\"op\":\"add\",\"path\":\"/spec/providerClusters/-\",\"value\":{{\"name\":\"{member}\"}}}}]'"
            ))
        })
        .collect()
}

/// Its condition Ready, if it has one.
fn ready(object: &MultiClusterService) -> Option<&Condition> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    condition::find(conditions, condition::READY)
}

fn edit(scene: &Scene) -> String {
    format!(
        "kubectl -n {} edit mcs {}",
        scene.key.namespace, scene.key.name
    )
}
