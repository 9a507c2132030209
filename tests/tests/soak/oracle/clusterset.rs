//! What ServiceExports should have brought about (KEP-1645).

use std::collections::BTreeMap;

use super::native::{Source, has_namespace, service};
use super::ports::{self, Port, is_headless};
use super::{Lines, listed};
use crate::scene::{Key, Member, Scene};

/// A member that exports a Service, and since when.
struct Exporter<'a> {
    since: String,
    name: &'a str,
    member: &'a Member,
    ports: Vec<Port>,
    headless: bool,
}

pub(super) fn tell(scene: &Scene, lines: &mut Lines) {
    for (key, mut exporters) in exporters(scene) {
        // The oldest export decides; of two that are as old, the first by name.
        exporters.sort_by_key(|exporter| (exporter.since.clone(), exporter.name));
        let headless = exporters[0].headless;
        let union = union(&exporters);
        let derived = (key.0.clone(), format!("derived-{}", key.1));
        for (consumer, member) in joined(scene) {
            if !has_namespace(member, &key.0) {
                continue;
            }
            let mut from: Vec<&str> = exporters.iter().map(|exporter| exporter.name).collect();
            from.sort_unstable();
            lines.tell(import(consumer, &key, headless, &union, &from));
            lines.tell(service(consumer, &derived, &union, headless, &[]));
            for exporter in &exporters {
                let source = Source {
                    name: exporter.name,
                    member: exporter.member,
                    by_hand: false,
                };
                let ports = (exporter.ports.as_slice(), union.as_slice());
                source.copies(consumer, &key, "imported", ports, lines);
            }
        }
    }
}

fn joined(scene: &Scene) -> impl Iterator<Item = (&str, &Member)> {
    let joined = scene.joined.iter();
    joined.map(|name| (name.as_str(), &scene.members[name]))
}

fn exporters(scene: &Scene) -> BTreeMap<Key, Vec<Exporter<'_>>> {
    let mut found: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    for (name, member) in joined(scene) {
        for (key, export) in &member.exports {
            let Some(service) = member.services.get(key) else {
                continue;
            };
            let made = export.metadata.creation_timestamp.as_ref();
            found.entry(key.clone()).or_default().push(Exporter {
                since: made.map(|made| made.0.to_string()).unwrap_or_default(),
                name,
                member,
                ports: ports::of_service(service),
                headless: is_headless(service),
            });
        }
    }
    found
}

/// By name first, then by protocol and number.
fn union(exporters: &[Exporter<'_>]) -> Vec<Port> {
    let mut all: Vec<Port> = Vec::new();
    for port in exporters.iter().flat_map(|exporter| &exporter.ports) {
        let is_there = |known: &Port| {
            known.name == port.name
                || (known.number == port.number && known.protocol == port.protocol)
        };
        if !all.iter().any(is_there) {
            all.push(port.clone());
        }
    }
    all
}

/// A ServiceImport.
pub(super) fn import(
    member: &str,
    (namespace, name): &Key,
    headless: bool,
    ports: &[Port],
    from: &[&str],
) -> String {
    let kind = if headless { "Headless" } else { "ClusterSetIP" };
    let (ports, from) = (listed(ports), from.join(","));
    format!("{member}: ServiceImport {namespace}/{name} {kind}, ports {ports}, from {from}")
}
