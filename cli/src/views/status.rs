//! Status of members, services and exports, and their problems.

pub(crate) mod changes;
pub(crate) mod clusterset;
pub(crate) mod condition;
pub(crate) mod karmada;
pub(crate) mod report;
pub(crate) mod summary;
pub(crate) mod text;
