//! Union of the ports of several Services.

use super::shape::ImportShape;
use crate::observed::service::PortShape;

/// Maximum number of ports of an import to which younger exports add. With the longest names and
/// application protocols that many use about 600 KB of a Service or ServiceImport, and API servers
/// store objects of up to 1.5 MB.
pub(super) const UNION_MAX: usize = 1024;

/// Adds to a union the ports that share neither a name, nor a number and a protocol, with a port
/// that came before, until it has `most`.
///
/// An empty name is a name like any other (KEP-1645, "Service Port"). Among other ports a port
/// needs a name, so the name that it would receive is reserved from the start: a later port renames
/// nothing but a port without a name.
pub(super) fn extend(
    union: &mut Vec<PortShape>,
    ports: impl IntoIterator<Item = PortShape>,
    most: usize,
) {
    for port in ports {
        if union.len() >= most {
            return;
        }
        if !union.iter().any(|other| collide(other, &port)) {
            union.push(port);
        }
    }
}

/// Returns the ports of a union. If there are several, all of them have names.
pub(super) fn named(mut union: Vec<PortShape>) -> Vec<PortShape> {
    if union.len() > 1 {
        for port in &mut union {
            port.port.name = name_among_others(port);
        }
    }
    union
}

fn collide(one: &PortShape, other: &PortShape) -> bool {
    let (of_one, of_other) = (&one.port, &other.port);
    let by_given_name = || match (of_one.name.is_empty(), of_other.name.is_empty()) {
        (false, false) => false,
        (true, true) => true,
        _ => name_among_others(one) == name_among_others(other),
    };
    of_one.name == of_other.name || of_one.id == of_other.id || by_given_name()
}

/// Returns the name of a port among others: its own, or `<protocol>-<number>`.
fn name_among_others(port: &PortShape) -> Box<str> {
    let port = &port.port;
    if port.name.is_empty() {
        let protocol = port.id.protocol.as_str().to_ascii_lowercase();
        format!("{protocol}-{}", port.id.number).into()
    } else {
        port.name.clone()
    }
}

impl ImportShape {
    /// Returns the recorded shape with the ports that the known exports add: while an exporter is
    /// unknown, nothing else changes. A record with an unnamed port gets no further ports, because
    /// that port would need a name.
    #[must_use]
    pub(crate) fn grown_from(record: &Self, merged: Option<&Self>) -> Self {
        let mut grown = record.clone();
        let all_named = record.ports.iter().all(|port| !port.port.name.is_empty());
        if let Some(merged) = merged.filter(|_| all_named) {
            extend(&mut grown.ports, merged.ports.iter().cloned(), UNION_MAX);
            grown.ports = named(grown.ports);
        }
        grown
    }
}
