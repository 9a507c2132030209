//! Webhooks that are replaced, one after the other, while a real API server asks them through their
//! Service.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod restarts;
mod rotations;
mod writer;
