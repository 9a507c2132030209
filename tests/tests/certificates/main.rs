//! Certificates that the webhook keeps by itself, behind a real API server and with the rights of
//! the manifests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod beginnings;
mod cert_manager;
mod escalation;
mod handover;
mod hub;
mod repairs;
mod rotation;
