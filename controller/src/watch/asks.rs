//! What may be asked of a watch while it runs, and the connections that it makes for that.

use std::sync::Arc;

use causeway_engine::model::Failure;
use kube::Client;

/// Makes a client with connections of its own.
pub type Connect = Arc<dyn Fn() -> Result<Client, Failure> + Send + Sync>;

/// What may be asked of a watch while it runs: each time that a number grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// A second list, later and over a new connection: there are reasons to doubt the last.
    pub again: u64,
    /// A second list at once, that is believed in what it lacks: a person says that the losses are real.
    pub release: u64,
}
