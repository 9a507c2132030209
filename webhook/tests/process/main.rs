//! The program itself, as a person starts it and as clients of every kind meet it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails by panicking, as the test does"
)]

mod callers;
mod client;
mod flags;
mod floods;
mod hostile;
mod leaving;
mod memory;
mod running;
mod traces;
