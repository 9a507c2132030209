//! Which ports of a slice a consumer gets, and why not the others: ports fit by protocol and number.

use causeway::domain::{PortId, ServicePort, describe_ports};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::report::{Finding, Reason};
use super::scene::Scene;

/// The ports that a consumer's clients may ask for, and where they come from.
pub(super) struct Wanted<'a> {
    /// The exposed ports.
    pub exposed: &'a [ServicePort],
    /// The Service in the provider.
    pub provider: (&'a str, &'a Service),
    /// The Service in the consumer.
    pub consumer: (&'a str, &'a Service),
}

/// The ports of a Service.
pub(super) fn of(service: &Service) -> Vec<ServicePort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let ports = ports.into_iter().flatten();
    ports.filter_map(ServicePort::read).collect()
}

/// Why the consumer does not get some of the exposed ports of that slice, and whether it gets none.
pub(super) fn missing(
    scene: &Scene,
    wanted: &Wanted<'_>,
    slice: &EndpointSlice,
) -> (Vec<Finding>, bool) {
    let slice_ports = slice.ports.as_deref().unwrap_or_default();
    if slice_ports.is_empty() {
        return (Vec::new(), false);
    }
    let findings: Vec<_> = wanted
        .exposed
        .iter()
        .filter_map(|port| why(scene, wanted, slice, port))
        .collect();
    let none = findings.len() == wanted.exposed.len();
    (findings, none)
}

fn why(
    scene: &Scene,
    wanted: &Wanted<'_>,
    slice: &EndpointSlice,
    port: &ServicePort,
) -> Option<Finding> {
    let (consumer, service) = wanted.consumer;
    if !has(&of(service), port.id) {
        let reason = if scene.is_ours(service) {
            Reason::UnderWay
        } else {
            Reason::PortNotInConsumer
        };
        return Some(lacks(scene, reason, consumer, service, port));
    }
    let (provider, service) = wanted.provider;
    let here = of(service);
    let Some(own) = here.iter().find(|own| own.id == port.id) else {
        return Some(lacks(
            scene,
            Reason::PortNotInProvider,
            provider,
            service,
            port,
        ));
    };
    let protocol = own.id.protocol.as_str();
    let ports = slice.ports.as_deref().unwrap_or_default();
    let is_in_slice = ports.iter().any(|one| {
        one.name.as_deref().unwrap_or_default() == &*own.name
            && one.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    (!is_in_slice).then(|| {
        let message = format!(
            "the pods behind this EndpointSlice of {provider} do not serve port {own} of Service {}: its targetPort is not \
             one of theirs, or the slice is behind",
            scene.key
        );
        let finding = Finding::new(Reason::PortNotInSlice, message);
        finding.mend(edit(scene, provider))
    })
}

fn lacks(
    scene: &Scene,
    reason: Reason,
    cluster: &str,
    service: &Service,
    port: &ServicePort,
) -> Finding {
    let has = match of(service) {
        ports if ports.is_empty() => "no port".to_owned(),
        ports => describe_ports(&ports),
    };
    let message = format!(
        "Service {} of {cluster} has no port {}; it has {has}",
        scene.key, port.id
    );
    Finding::new(reason, message).mend(edit(scene, cluster))
}

fn edit(scene: &Scene, cluster: &str) -> String {
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    format!("in {cluster}: kubectl -n {namespace} edit service {name}")
}

fn has(ports: &[ServicePort], id: PortId) -> bool {
    ports.iter().any(|port| port.id == id)
}
