//! Replicas of causeway-tunnel, agents and clients on real sockets, with agents that misbehave.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails by panicking, as the test does"
)]

mod authenticated;
mod clients;
mod enrolment;
mod environment;
mod hostile;
mod identities;
mod replicas;
mod streams;
mod tokens;
mod upgrades;
