//! The page of `kubectl mcs ui` in a real Chromium. Skipped, with a line that says so, where there
//! is none.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod chromium;
mod page;
mod story;
mod watcher;
