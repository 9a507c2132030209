//! Reports on observed objects, and their texts. Views read nothing: the same objects always give
//! the same report.

pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod tunnel;
pub(crate) mod ui;
