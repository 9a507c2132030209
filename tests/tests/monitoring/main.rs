//! The alerts, the dashboards and the runbooks: as promtool plays the rules, and with a Prometheus
//! that scrapes real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod dashboards;
mod faults;
mod rules;
mod runbooks;
mod slow_link;
mod story;
mod watched;
