//! What the exports of one service agree on, and what they do not (KEP-1645, "Constraints and Conflict Resolution").
//!
//! The export that comes first decides; of two that are equal, the one in the cluster whose name comes first. Ports are the union of
//! all. Nothing here depends on the order in which clusters are observed, nor on the time.

mod conflict;
mod export;
mod exported;
mod ports;
mod shape;

use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::ClusterName;

pub use self::conflict::{Conflict, conflict_text};
pub use self::export::Constituent;
use self::export::Export;
use self::exported::Exported;
use self::ports::Union;
pub use self::shape::{ImportPort, ImportShape};

/// All exports of a service as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged<'a> {
    /// What is imported.
    pub shape: ImportShape,
    /// What the exports disagree on, at most once a field.
    pub conflicts: Vec<Conflict>,
    /// The exporters, those of the oldest exports first.
    pub clusters: Vec<&'a ClusterName>,
}

/// Merges the exports of one service, in whatever order they are given; `None` where there are none.
pub fn merge<'a>(constituents: &[Constituent<'a>]) -> Option<Merged<'a>> {
    let mut by_age: Vec<_> = constituents.iter().copied().map(Export::new).collect();
    by_age.sort_by_key(|Export { export, .. }| (export.precedence, export.cluster));
    let mut union = Union::default();
    for export in &by_age {
        union.extend(export.ports());
    }
    let shape = by_age.first()?.shape(union.named());
    Some(Merged {
        conflicts: conflict::find(&by_age, &shape.ports),
        shape,
        clusters: by_age.iter().map(|export| export.export.cluster).collect(),
    })
}

/// What of an export's labels and annotations cannot be exported, and why.
pub fn left_out(spec: &ServiceExportSpec) -> Option<String> {
    Exported::read(spec).left_out()
}

#[cfg(test)]
mod tests;
