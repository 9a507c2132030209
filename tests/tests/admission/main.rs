//! The webhook behind a real API server, registered by the project's own manifests and with the
//! rights that they give it, asked by kubectl.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod callers;
mod creation;
mod disturbance;
mod failover;
mod floods;
mod hub;
mod old;
mod order;
mod updates;
