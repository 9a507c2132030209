//! The alerts, the dashboards and the runbooks, as promtool plays the rules.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod dashboards;
mod rules;
mod runbooks;
