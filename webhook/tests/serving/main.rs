//! The webhook as its callers meet it: HTTP, AdmissionReview, TLS, and a hub that answers or does
//! not.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails by panicking, as the test does"
)]

mod caller;
mod connections;
mod envelope;
mod hub;
mod lookups;
mod traces;
