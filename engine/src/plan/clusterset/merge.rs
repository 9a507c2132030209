//! Merge of the exports of one service, and their conflicts (KEP-1645, "Constraints and Conflict
//! Resolution").
//!
//! The export with the first `Precedence` decides; of two equal ones, the export in the cluster
//! with the first name. Ports are the union of all. The result depends neither on the order in
//! which clusters are observed, nor on the time.

mod conflict;
mod export;
mod exported;
mod ports;
mod shape;

use causeway::domain::ClusterName;

pub(crate) use self::conflict::{Conflict, DEFAULT_POLICY, Value as ConflictingValue, Words};
pub(crate) use self::export::Constituent;
use self::export::Export;
use self::exported::Exported;
pub(crate) use self::exported::{ExportObstacle, NotExported};
pub(crate) use self::shape::ImportShape;
use crate::observed::clusterset::{ExportView, recorded_size};

/// All exports of a service, merged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merged<'a> {
    /// Shape of the import.
    pub shape: ImportShape,
    /// Conflicts of the exports, at most one a field.
    pub conflicts: Vec<Conflict>,
    /// Exporters, those of the oldest exports first.
    pub clusters: Vec<&'a ClusterName>,
}

/// Merges the exports of one service, which may be given in any order; `None` without exports.
pub(crate) fn merge<'a>(constituents: &[Constituent<'a>]) -> Option<Merged<'a>> {
    let mut by_age: Vec<_> = constituents.iter().copied().map(Export::new).collect();
    by_age.sort_by_key(|Export { export, .. }| (export.precedence, export.cluster));
    let (oldest, younger) = by_age.split_first()?;
    let mut union = Vec::new();
    ports::extend(&mut union, oldest.ports(), usize::MAX);
    for export in younger {
        ports::extend(&mut union, export.ports(), ports::UNION_MAX);
    }
    let shape = oldest.shape(ports::named(union));
    Some(Merged {
        conflicts: conflict::find(&by_age, &shape.ports),
        shape,
        clusters: by_age.iter().map(|export| export.export.cluster).collect(),
    })
}

/// Returns the labels and annotations of an export that cannot be exported, with the reasons.
pub(crate) fn left_out(export: &ExportView) -> Vec<NotExported> {
    let recorded = recorded_size(&export.failover, &export.consumers);
    Exported::read(&export.spec, recorded).left_out
}

#[cfg(test)]
mod tests;
