//! Checks of documents, comments, words and modules, on the sources and the programs. `make lint`
//! runs them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod circles;
mod doc_comments;
mod forge;
mod pages;
mod prose;
mod tables;
mod words;
