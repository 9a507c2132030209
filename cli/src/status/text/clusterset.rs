//! Exported services as a person reads them.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::{ago, note, truth};
use crate::status::clusterset::{ClusterReport, ExportReport, ExportedReport, ImportReport};
use crate::status::condition::ConditionReport;
use crate::status::report::UnreadReport;
use crate::table::{Table, fields};

/// The exported services, a row each.
pub(crate) fn overview(exported: &[ExportedReport]) -> String {
    let mut table = Table::new([
        "NAMESPACE",
        "NAME",
        "TYPE",
        "EXPORTED BY",
        "IMPORTED BY",
        "READY",
        "REASON",
        "CONFLICT",
    ]);
    for service in exported {
        let conflict = service.conflict.as_ref();
        let cells = [
            service.namespace.clone(),
            service.name.clone(),
            service.type_.clone(),
            abridged(&service.exporters),
            abridged(&service.importers),
            truth(service.ready),
            service.reason.clone(),
            conflict
                .map(|conflict| conflict.reason.clone())
                .unwrap_or_default(),
        ];
        let problem = note(service.ready, &service.message);
        let disagreement = conflict.map(|conflict| conflict.message.clone());
        table.row(cells, problem.into_iter().chain(disagreement));
    }
    table.render()
}

/// All that is known of one exported service.
pub(crate) fn details(service: &ExportedReport, now: Timestamp) -> String {
    let (namespace, name) = (&service.namespace, &service.name);
    let conflict = match &service.conflict {
        Some(conflict) => format!("{} ({})", conflict.reason, conflict.message),
        None => "none".to_owned(),
    };
    let mut text = fields([
        ("Name", format!("{namespace}/{name}")),
        (
            "Clusterset",
            format!("{name}.{namespace}.svc.clusterset.local"),
        ),
        ("Type", service.type_.clone()),
        ("Ports", service.ports.join(", ")),
        ("Exported by", service.exporters.join(", ")),
        ("Imported by", service.importers.join(", ")),
        (
            "Ready",
            format!("{} ({})", truth(service.ready), service.reason),
        ),
        ("Message", service.message.clone()),
        ("Conflict", conflict),
    ]);
    for table in [exports(&service.clusters, now), imports(&service.clusters)]
        .into_iter()
        .flatten()
    {
        text.push('\n');
        text.push_str(&table.render());
    }
    text
}

fn exports(clusters: &[ClusterReport], now: Timestamp) -> Option<Table> {
    let mut table = None;
    for cluster in clusters {
        let Some(export) = &cluster.export else {
            continue;
        };
        let table = table
            .get_or_insert_with(|| Table::new(["EXPORT IN", "VALID", "READY", "CONFLICT", "AGE"]));
        let state = |type_: &str| {
            let condition = export.conditions.iter().find(|one| one.type_ == type_);
            condition.map(state).unwrap_or_default()
        };
        let cells = [
            cluster.name.clone(),
            state("Valid"),
            state("Ready"),
            state("Conflict"),
            ago(export.created, now),
        ];
        table.row(cells, export_notes(export));
    }
    table
}

/// `True`, or the status and why it is so.
fn state(condition: &ConditionReport) -> String {
    let expected = ["Valid", "Exported", "NoConflicts"];
    if expected.contains(&condition.reason.as_str()) {
        return condition.status.clone();
    }
    format!("{} ({})", condition.status, condition.reason)
}

fn export_notes(export: &ExportReport) -> impl Iterator<Item = String> + use<> {
    let published = "published for the MultiClusterService of its name".to_owned();
    let published = export.published.then_some(published);
    note(export.ready, &export.message)
        .into_iter()
        .chain(published)
}

fn imports(clusters: &[ClusterReport]) -> Option<Table> {
    let mut table = None;
    for cluster in clusters {
        let Some(import) = &cluster.import else {
            continue;
        };
        let table = table.get_or_insert_with(|| {
            Table::new([
                "IMPORT IN",
                "TYPE",
                "ADDRESSES",
                "FROM",
                "SERVICE",
                "SLICES/ENDPOINTS",
            ])
        });
        let sources = cluster.sources.iter();
        let sources =
            sources.map(|one| format!("{} {}/{}", one.cluster, one.slices, one.endpoints));
        let derived = cluster.derived.as_ref();
        let cells = [
            cluster.name.clone(),
            import.type_.clone(),
            import.ips.join(","),
            import.clusters.join(","),
            derived.map(|one| one.name.clone()).unwrap_or_default(),
            sources.collect::<Vec<_>>().join(", "),
        ];
        table.row(cells, import_notes(cluster, import));
    }
    table
}

fn import_notes(cluster: &ClusterReport, import: &ImportReport) -> Vec<String> {
    let mut notes = Vec::new();
    if import.foreign {
        notes.push("foreign; causeway does not change it".to_owned());
    }
    let derived = cluster.derived.as_ref();
    let others = derived.filter(|one| !one.addresses.is_empty() && one.addresses != import.ips);
    notes.extend(others.map(|one| {
        let addresses = one.addresses.join(",");
        format!(
            "{} has {addresses}; the clusterset's name leads to the import's spec.ips alone",
            one.name
        )
    }));
    let unmet = import.conditions.iter().filter(|one| one.status == "False");
    notes.extend(unmet.map(|one| format!("{}: {}", one.reason, one.message)));
    notes
}

/// The members of which nothing is shown, a line for each cause.
pub(crate) fn unread(members: &[UnreadReport]) -> String {
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for member in members {
        causes
            .entry(&member.message)
            .or_default()
            .push(&member.name);
    }
    let lines = causes.iter().map(|(why, names)| {
        let names = names.join(", ");
        format!("Exports and imports of {names} are not shown: {why}\n")
    });
    lines.collect()
}

/// The names, or the first few and how many more.
fn abridged(names: &[String]) -> String {
    match names.len() {
        0 => String::new(),
        _ => super::abridged(names),
    }
}

#[cfg(test)]
mod tests;
