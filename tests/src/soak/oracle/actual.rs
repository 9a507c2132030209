//! Causeway's objects, in the oracle's terms.

use std::collections::BTreeSet;

use causeway::api::labels;
use causeway::api::multicluster::ServiceImport;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::ports::{self, endpoint};
use super::{Lines, clusterset, crosses, native, networks};
use crate::soak::snapshot::{Key, Member, Snapshot, ingress, is_copy, label};

pub(super) fn tell(snapshot: &Snapshot) -> Lines {
    let mut lines = Lines::default();
    for (key, exposed) in &snapshot.exposed {
        let ready = native::is_ready(exposed);
        lines.tell(native::object(snapshot, key, exposed, ready));
        if !crosses(exposed) && snapshot.services.contains_key(key) {
            lines.tell(native::addresses(key, ingress(exposed)));
        }
    }
    for (name, member) in &snapshot.members {
        let services = member.services.iter();
        for (key, service) in services.filter(|(_, service)| snapshot.bears_label(*service)) {
            match snapshot.is_ours(service) {
                true => tell_service(name, key, service, &mut lines),
                false => lines.tell(format!(
                    "{name}: Service {key:?}, which somebody applied, bears the label"
                )),
            }
        }
        let imports = member.imports.iter();
        for (key, object) in imports.filter(|(_, object)| snapshot.is_ours(*object)) {
            tell_import(name, member, key, object, &mut lines);
        }
        tell_copies(snapshot, name, member, &mut lines);
    }
    lines
}

fn tell_service(member: &str, key: &Key, service: &Service, lines: &mut Lines) {
    if networks::companion_of(service).is_some() {
        return lines.tell(networks::existing_companion(member, key, service));
    }
    let selector = super::selector(service);
    let (ports, kind) = (ports::of_service(service), ports::kind(service));
    lines.tell(native::service(member, key, &ports, kind, &selector));
}

fn tell_import(name: &str, member: &Member, key: &Key, object: &ServiceImport, lines: &mut Lines) {
    let (headless, ports) = clusterset::of_import(object);
    let clusters = object.status.iter().flat_map(|status| &status.clusters);
    let mut from: Vec<&str> = clusters.map(|status| status.cluster.as_str()).collect();
    from.sort_unstable();
    lines.tell(clusterset::import(name, key, headless, &ports, &from));
    let derived = (key.0.clone(), format!("derived-{}", key.1));
    let addresses = member
        .services
        .get(&derived)
        .and_then(|service| service.spec.clone());
    let addresses = addresses
        .and_then(|spec| spec.cluster_ips)
        .unwrap_or_default();
    let expected: &[String] = if headless { &[] } else { &addresses };
    if object.spec.ips != expected {
        lines.tell(format!(
            "{name}: ServiceImport {key:?} has {:?} and not {expected:?}",
            object.spec.ips
        ));
    }
}

fn tell_copies(snapshot: &Snapshot, name: &str, member: &Member, lines: &mut Lines) {
    let mut sources = BTreeSet::new();
    for (key, slice) in &member.slices {
        if !is_copy(slice) {
            continue;
        }
        let from = label(slice, labels::SOURCE_CLUSTER);
        let service = label(slice, labels::SERVICE_NAME);
        let (way, service) = match service.strip_prefix("derived-") {
            Some(imported) => ("imported", imported),
            None => ("native", service),
        };
        let source = source(slice);
        if !has_slice(snapshot, from, &source) {
            lines.tell(format!(
                "{name}: copy {key:?} of {source}, which {from} has not"
            ));
        }
        if !sources.insert((way, source.clone())) {
            lines.tell(format!("{name}: copy {key:?} is one more of {source}"));
        }
        let mut ports: Vec<String> = Vec::new();
        for port in slice.ports.iter().flatten() {
            let name = port.name.as_deref().unwrap_or_default();
            ports.push(format!("{name}:{}", port.port.unwrap_or_default()));
        }
        ports.sort();
        for address in &slice.endpoints {
            let copied = native::Copied {
                consumer: name,
                way,
                service: (&key.0, service),
                from,
                endpoint: &endpoint(address),
                ports: &ports,
            };
            lines.tell(copied.to_string());
        }
    }
}

/// The UID of the slice that this is a copy of.
fn source(copy: &EndpointSlice) -> String {
    let all = copy.metadata.annotations.as_ref();
    let source = all.and_then(|all| all.get(labels::SOURCE));
    let source = source.map(String::as_str).unwrap_or_default();
    source.split('/').next().unwrap_or_default().to_owned()
}

fn has_slice(snapshot: &Snapshot, member: &str, uid: &str) -> bool {
    let slices = snapshot
        .members
        .get(member)
        .into_iter()
        .flat_map(|member| member.slices.values());
    let mut uids = slices.filter_map(|slice| slice.metadata.uid.as_deref());
    uids.any(|known| known == uid)
}
