//! The rules, as tables: what is accepted, what is refused, in which words, and what a mutation
//! makes of it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails by panicking, as the test does"
)]

mod codes;
mod combinations;
mod creation;
mod entry_clusters;
mod failover;
mod hostname;
mod large;
mod mutation;
mod reach;
mod request;
mod unconfirmed;
mod update;
