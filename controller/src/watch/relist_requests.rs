//! Requests to a watch while it runs, and the connections that it makes for lists.

use std::sync::Arc;

use causeway_engine::model::{Failure, Term};
use kube::Client;

/// Makes a client with connections of its own.
pub type Connect = Arc<dyn Fn() -> Result<Client, Failure> + Send + Sync>;

/// Requests to a watch: one each time that a number grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelistRequests {
    /// A second list, later and over a new connection: deletions are suspected in the last.
    pub second_list: u64,
    /// A list at once that confirms the suspended deletions: a person says that they are real.
    pub confirm_deletions: u64,
    /// A list at once: this process begins to write, and a watch may have been silent meanwhile.
    pub term: Term,
    /// No list, but the next attempt at once where the last one failed: the credentials are others.
    pub retry: u64,
}
