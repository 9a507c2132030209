//! How patient a watch is.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::limits::Limits;

/// Enough to keep some cores busy while some API servers are slow.
const TURNS: usize = 8;

/// How patient a watch is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Objects a page of a list, at most.
    pub page: u32,
    /// Bytes a page of a list, as far as the pages before it tell: one of JSON is held as a whole while it is read.
    pub page_bytes: usize,
    /// How long a page may take.
    pub page_deadline: Duration,
    /// How long the answer to a watch request may take.
    pub connect_deadline: Duration,
    /// After how long the API server is asked to end a watch; at most 290 s. Up to a sixth is taken off at random.
    pub watch_timeout: Duration,
    /// How much later than that a watch is taken for dead.
    pub margin: Duration,
    /// After how long without a word a connection is taken for dead. An API server that was asked for bookmarks sends one a minute,
    /// give or take two seconds, on a watch on which nothing happens; half a minute more is for slow networks.
    pub silence: Duration,
    /// The pause before the second attempt.
    pub first_retry: Duration,
    /// The longest pause between attempts.
    pub last_retry: Duration,
    /// How much is listened to.
    pub limits: Limits,
    /// The pause after an API server said more.
    pub excess_retry: Duration,
    /// Long lists that are read at one time; those that share it take turns, so that the first is complete long before the last.
    pub turns: Arc<Semaphore>,
    /// The threads that read what is longer than a page; the watch's own where there are none.
    pub long_lists: Option<Handle>,
    /// How long a list waits for its turn: one that comes to no end does not keep the others.
    pub turn_deadline: Duration,
    /// How long after a list whose deletions are suspended the second one is requested.
    pub confirmation_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            page: 500,
            page_bytes: 2 * 1024 * 1024,
            page_deadline: Duration::from_secs(60),
            connect_deadline: Duration::from_secs(15),
            watch_timeout: Duration::from_secs(288),
            margin: Duration::from_secs(15),
            silence: Duration::from_secs(90),
            first_retry: Duration::from_millis(200),
            last_retry: Duration::from_secs(30),
            limits: Limits::default(),
            excess_retry: Duration::from_secs(60),
            turns: Arc::new(Semaphore::new(TURNS)),
            long_lists: None,
            turn_deadline: Duration::from_secs(5),
            confirmation_interval: Duration::from_secs(30),
        }
    }
}
