//! What a change in a member comes to.

use std::collections::BTreeSet;

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;

use super::change::MemberChange;
use super::connection::Kind;
use super::state::MemberView;

/// What has changed with it.
#[derive(Default)]
pub(super) struct Applied {
    pub services: BTreeSet<ServiceKey>,
    pub namespaces: BTreeSet<String>,
    /// Whether it can be read now and could not before, or the other way round, or serves other kinds.
    pub stands_otherwise: bool,
    /// Whether its Nodes are others.
    pub nodes: bool,
    /// Whether its Nodes may be needed now, or not any more.
    pub node_needs: bool,
}

/// Whether a list is complete.
pub(super) fn is_done<K>(event: &Event<K>) -> bool {
    matches!(event, Event::InitDone)
}

/// Applies it.
pub(super) fn apply(member: &mut MemberView, change: MemberChange) -> Applied {
    let mut applied = Applied::default();
    let connection = &mut member.connection;
    match change {
        MemberChange::Identified(identity) => {
            connection.begin([
                Kind::Namespace,
                Kind::Service,
                Kind::EndpointSlice,
                Kind::ServiceExport,
                Kind::ServiceImport,
            ]);
            member.identity = identity;
        }
        MemberChange::Namespaces(event) => {
            applied.stands_otherwise = is_done(&event) && connection.listed(Kind::Namespace);
            applied.namespaces = member.namespaces.apply(event);
        }
        MemberChange::Services(event) => {
            applied.stands_otherwise = is_done(&event) && connection.listed(Kind::Service);
            applied.services = member.services.apply(event);
        }
        MemberChange::Slices(event) => {
            applied.stands_otherwise = is_done(&event) && connection.listed(Kind::EndpointSlice);
            applied.services = member.slices.apply(event);
        }
        MemberChange::ExportsServed(version) => {
            applied.stands_otherwise = member.exports_served != version;
            member.exports_served = version;
            if version.is_none() {
                applied.stands_otherwise |= connection.listed(Kind::ServiceExport);
                applied.services = member.exports.replace(Vec::new());
                applied.node_needs = member.note_exports(&applied.services);
            }
        }
        MemberChange::Exports(event) => {
            applied.stands_otherwise = is_done(&event) && connection.listed(Kind::ServiceExport);
            applied.services = member.exports.apply(event);
            applied.node_needs = member.note_exports(&applied.services);
        }
        MemberChange::ImportsServed(version) => {
            applied.stands_otherwise = member.imports_served != version;
            member.imports_served = version;
            if version.is_none() {
                applied.stands_otherwise |= connection.listed(Kind::ServiceImport);
                applied.services = member.imports.replace(Vec::new());
            }
        }
        MemberChange::Imports(event) => {
            applied.stands_otherwise = is_done(&event) && connection.listed(Kind::ServiceImport);
            applied.services = member.imports.apply(event);
        }
        MemberChange::Nodes(event) => {
            let is_first = is_done(&event) && !matches!(member.nodes_read, Some(Ok(())));
            if is_first {
                member.nodes_read = Some(Ok(()));
            }
            let changed = !member.nodes.apply(event).is_empty();
            applied.nodes = is_first || changed && member.nodes_read.is_some();
        }
        MemberChange::NodesUnread(failure) => {
            applied.nodes = member.nodes_read.as_ref() != Some(&Err(failure.clone()));
            member.nodes_read = Some(Err(failure));
        }
        MemberChange::Disconnected(why) => {
            applied.stands_otherwise = connection.end(why.to_string(), Timestamp::now());
            member.failure = why;
        }
    }
    applied
}
