//! Scripts of a release, without compiling.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod krew;
mod scripts;
