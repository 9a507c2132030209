//! Members and services that cause most of causeway's work, and the latency of changes.

pub(crate) mod activity;
pub(crate) mod metrics;
pub(crate) mod rates;
pub(crate) mod report;
pub(crate) mod text;
