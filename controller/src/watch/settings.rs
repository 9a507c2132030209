//! Time limits and bounds of a watch.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::limits::Limits;

/// Enough to keep some cores busy while some API servers are slow.
const TURNS: usize = 8;

/// Time limits and bounds of a watch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Objects a page of a list, at most.
    pub page: u32,
    /// Bytes a page of a list, as far as the pages before it tell: one of JSON is held as a whole
    /// while it is read.
    pub page_bytes: usize,
    /// Maximum time of a page.
    pub page_deadline: Duration,
    /// Maximum time until the answer to a watch request.
    pub connect_deadline: Duration,
    /// After how long the API server is asked to end a watch; at most 290 s. Up to a sixth is taken
    /// off at random.
    pub watch_timeout: Duration,
    /// Time after that at which a watch counts as dead.
    pub margin: Duration,
    /// After how long without a word a connection is taken for dead. An API server that was asked
    /// for bookmarks sends one a minute, give or take two seconds, on a watch on which nothing
    /// happens; half a minute more is for slow networks.
    pub silence: Duration,
    /// The pause before the second attempt.
    pub first_retry: Duration,
    /// The longest pause between attempts.
    pub last_retry: Duration,
    /// Bounds of what is read.
    pub limits: Limits,
    /// The pause after an API server said more.
    pub excess_retry: Duration,
    /// Long lists that are read at one time; those that share it take turns, so that the first is
    /// complete long before the last.
    pub turns: Arc<Semaphore>,
    /// The threads that read what is longer than a page; the watch's own where there are none.
    pub long_lists: Option<Handle>,
    /// Maximum time that a list waits for its turn: one that never ends does not delay the others.
    pub turn_deadline: Duration,
    /// Time between a list whose deletions are suspended and the second list.
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
