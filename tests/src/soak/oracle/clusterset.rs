//! Desired objects of ServiceExports (KEP-1645).

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::{HEADLESS, ServiceExport, ServiceImport};

use super::native::{Consumer, Source, has_namespace, service};
use super::ports::{self, Port, is_headless};
use super::tiers::Tiers;
use super::{Lines, listed};
use crate::soak::snapshot::{Key, Member, Snapshot};

/// A member that exports a Service, and since when.
struct Exporter<'a> {
    since: [Option<String>; 2],
    export: &'a ServiceExport,
    name: &'a str,
    member: &'a Member,
    ports: Vec<Port>,
    headless: bool,
}

pub(super) fn tell(snapshot: &Snapshot, lines: &mut Lines) {
    let mut exporters = exporters(snapshot);
    for of_one in exporters.values_mut() {
        // The export that was seen first decides, then the oldest; of two that are as old, the
        // first by name.
        of_one.sort_by_key(|exporter| (exporter.since.clone(), exporter.name));
    }
    for (consumer, member) in joined(snapshot) {
        let by_people = by_people(snapshot, member);
        let keys: BTreeSet<&Key> = exporters.keys().chain(by_people.keys()).collect();
        for key in keys.into_iter().filter(|key| has_namespace(member, &key.0)) {
            let of_one = exporters.get(key).map_or(&[][..], Vec::as_slice);
            let shape = match by_people.get(key) {
                // It is left as it is, and decides what is made of it.
                Some(import) => of_import(import),
                None => {
                    let shape = (of_one[0].headless, union(of_one));
                    let mut from: Vec<&str> = of_one.iter().map(|exporter| exporter.name).collect();
                    from.sort_unstable();
                    lines.tell(import(consumer, key, shape.0, &shape.1, &from));
                    shape
                }
            };
            let derived = (key.0.clone(), format!("derived-{}", key.1));
            let kind = ports::kind_of(shape.0);
            lines.tell(service(consumer, &derived, &shape.1, kind, &[]));
            let tiers = of_one.first().filter(|oldest| !oldest.headless);
            let tiers = tiers.and_then(|oldest| Tiers::of(&oldest.export.metadata));
            let sources: Vec<_> = of_one.iter().map(|one| one.source(snapshot, key)).collect();
            let sources: Vec<_> = sources.iter().collect();
            for source in &sources {
                source.tell_companion(consumer, lines);
            }
            let consumer = Consumer {
                name: consumer,
                key,
                way: "imported",
                ports: &shape.1,
                is_headless: shape.0,
            };
            consumer.tell(&sources, tiers.as_ref(), true, lines);
        }
    }
}

impl<'a> Exporter<'a> {
    fn source(&self, snapshot: &'a Snapshot, key: &'a Key) -> Source<'a> {
        let (asks, ports) = (&self.export.metadata, self.ports.clone());
        Source::of(snapshot, (self.name, self.member), key, asks, ports)
    }
}

/// The imports that people made.
fn by_people<'a>(snapshot: &Snapshot, member: &'a Member) -> BTreeMap<Key, &'a ServiceImport> {
    let imports = member.imports.iter();
    let foreign = imports.filter(|(_, import)| !snapshot.is_ours(*import));
    foreign.map(|(key, import)| (key.clone(), import)).collect()
}

/// Whether it is headless, and its ports.
pub(super) fn of_import(import: &ServiceImport) -> (bool, Vec<Port>) {
    let ports = import.spec.ports.iter().map(|port| Port {
        name: port.name.clone().unwrap_or_default(),
        number: port.port,
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
    });
    (import.spec.type_ == HEADLESS, ports.collect())
}

fn joined(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &Member)> {
    let joined = snapshot.joined.keys();
    joined.map(|name| (name.as_str(), &snapshot.members[name]))
}

fn exporters(snapshot: &Snapshot) -> BTreeMap<Key, Vec<Exporter<'_>>> {
    let mut found: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    for (name, member) in joined(snapshot) {
        for (key, export) in &member.exports {
            let Some(service) = member.services.get(key) else {
                continue;
            };
            found.entry(key.clone()).or_default().push(Exporter {
                since: since(export),
                export,
                name,
                member,
                ports: ports::of_service(service),
                headless: is_headless(service),
            });
        }
    }
    found
}

/// Returns the time since which it counts, as its condition records it, and its creation time.
fn since(export: &ServiceExport) -> [Option<String>; 2] {
    let conditions = export.status.iter().flat_map(|status| &status.conditions);
    let mut written = conditions.filter(|one| one.type_.ends_with("/Precedence"));
    let written = written.next().map(|one| &one.last_transition_time);
    let made = export.metadata.creation_timestamp.as_ref();
    [written.or(made), made].map(|time| time.map(|time| time.0.to_string()))
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
