//! Whether this process may write, checked at the moment of writing.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::sync::watch;
use tokio::time::Instant;

/// Whether this process may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It may, until then; each renewal moves that forward.
    Leader {
        /// Time at which writes must end, whatever is under way.
        until: Instant,
    },
    /// It may not.
    Follower {
        /// Holder, as far as it is known.
        holder: Option<String>,
    },
}

impl Leadership {
    /// Whether this process may write at that moment.
    pub fn may_write(&self, now: Instant) -> bool {
        matches!(self, Self::Leader { until } if now < *until)
    }
}

/// Goes on with a request only while this process leads: that is checked by the monotonic clock
/// before each step of it, the one that sends it included. `None` where leadership ended before the
/// answer.
pub async fn while_leading<T>(
    leadership: &watch::Receiver<Leadership>,
    request: impl Future<Output = T>,
) -> Option<T> {
    let mut request = pin!(request);
    poll_fn(|context| {
        if leadership.borrow().may_write(Instant::now()) {
            request.as_mut().poll(context).map(Some)
        } else {
            Poll::Ready(None)
        }
    })
    .await
}
