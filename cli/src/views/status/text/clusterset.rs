//! Exported services as text for a terminal.

use k8s_openapi::jiff::Timestamp;

use super::{ago, note, tone, truth};
use crate::term::screen::{Screen, Tone};
use crate::term::table::{Cell, Row, Table, fields};
use crate::views::status::clusterset::{ClusterReport, ExportReport, ExportedReport, ImportReport};
use crate::views::status::condition::ConditionReport;

/// Returns the table of the exported services.
pub(crate) fn table<'a>(exported: impl Iterator<Item = &'a ExportedReport>) -> Table {
    let table = Table::new([
        "NAMESPACE",
        "NAME",
        "TYPE",
        "EXPORTED BY",
        "IMPORTED BY",
        "READY",
        "REASON",
        "CONFLICT",
    ]);
    let mut table = table.names(2);
    for service in exported {
        table.push(row(service));
    }
    table
}

/// Returns the row of an exported service.
pub(crate) fn row(service: &ExportedReport) -> Row {
    let conflict = service.conflict.as_ref();
    let plain = |text: String| Cell::new(text, Tone::Plain);
    let tone = tone(service.ready, &service.reason);
    let cells = [
        plain(service.namespace.clone()),
        plain(service.name.clone()),
        plain(service.type_.clone()),
        plain(abridged(&service.exporters)),
        plain(abridged(&service.importers)),
        Cell::new(truth(service.ready), tone),
        Cell::new(service.reason.as_str(), tone),
        conflict.map_or(plain(String::new()), |conflict| {
            Cell::new(conflict.reason.as_str(), Tone::Unsure)
        }),
    ];
    let problem = note(service.ready, &service.message);
    let disagreement = conflict.map(|conflict| conflict.message.clone());
    Row::new(cells, problem.into_iter().chain(disagreement))
}

/// Renders all details of one exported service.
pub(crate) fn details(service: &ExportedReport, now: Timestamp, screen: Screen) -> String {
    let (namespace, name) = (&service.namespace, &service.name);
    let conflict = match &service.conflict {
        Some(conflict) => format!("{} ({})", conflict.reason, conflict.message),
        None => "none".to_owned(),
    };
    let ready = format!("{} ({})", truth(service.ready), service.reason);
    let clusterset = format!("{name}.{namespace}.svc.clusterset.local");
    let all = [
        ("Name", format!("{namespace}/{name}").into()),
        ("Clusterset", clusterset.into()),
        ("Type", service.type_.clone().into()),
        ("Ports", service.ports.join(", ").into()),
        ("Exported by", service.exporters.join(", ").into()),
        ("Imported by", service.importers.join(", ").into()),
        (
            "Ready",
            Cell::new(ready, tone(service.ready, &service.reason)),
        ),
        ("Message", service.message.clone().into()),
        ("Conflict", conflict.into()),
    ];
    let mut text = fields(all, screen);
    for table in [exports(&service.clusters, now), imports(&service.clusters)]
        .into_iter()
        .flatten()
    {
        text.push('\n');
        text.push_str(&table.render_on(screen));
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

/// Returns the status, followed by the reason unless the reason is the expected one.
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

/// Returns the names, or the first names and the number of the others.
fn abridged(names: &[String]) -> String {
    match names.len() {
        0 => String::new(),
        _ => super::abridged(names),
    }
}

#[cfg(test)]
mod tests;
