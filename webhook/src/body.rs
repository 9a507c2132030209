//! Bodies: read whole, within bounds of size, time and memory.
//!
//! axum's limit of a body bounds its size alone. Here a large body waits for the memory that it
//! needs, and a connection that must close cuts it off with an answer.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use axum::body::Body;
use axum::{BoxError, body::HttpBody};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::connections::{Phase, Progress};
use crate::limits::{BODY_MAX, Permit};

/// Reason why a request has no body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {BODY_MAX} bytes")]
    TooLarge,
    #[error("too many large requests at one time; try again")]
    NoRoom,
    #[error("the body did not arrive in time")]
    Slow,
    #[error("the body broke off")]
    Broken(#[source] BoxError),
}

/// Reads a body. A large one may have to wait for others.
pub(crate) async fn read(
    body: Body,
    progress: &Progress,
    permit: &mut Permit<'_>,
) -> Result<Bytes, BodyError> {
    let declared = body.size_hint().upper();
    let declared = declared.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if declared.is_some_and(|bytes| bytes > BODY_MAX) {
        return Err(BodyError::TooLarge);
    }
    let mut body = Limited::new(body, BODY_MAX);
    let mut read = Vec::new();
    loop {
        let frame = unless_cut(progress, body.frame()).await;
        let Some(frame) = frame.ok_or(BodyError::Slow)? else {
            break;
        };
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => BodyError::TooLarge,
            false => BodyError::Broken(error),
        })?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = read.len() + data.len();
        progress.received(length);
        if !permit.covers(length) {
            let bytes = declared.unwrap_or(BODY_MAX);
            wait_for_room(bytes, progress, permit).await?;
            read.reserve_exact(bytes.saturating_sub(read.len()));
        }
        read.extend_from_slice(&data);
    }
    progress.body_read();
    Ok(read.into())
}

/// Waits until a body of at most `bytes` fits into the budget. Nothing of it is read meanwhile.
/// After the time limit the answer is that there is no room, even if there is room by then: the
/// body would count as one that did not arrive in time.
async fn wait_for_room(
    bytes: usize,
    progress: &Progress,
    permit: &mut Permit<'_>,
) -> Result<(), BodyError> {
    if permit.try_reserve(bytes) {
        return Ok(());
    }
    progress.enter(Phase::Wait);
    unless_cut(progress, permit.reserve(bytes)).await;
    if progress.is_body_cut() {
        return Err(BodyError::NoRoom);
    }
    progress.enter(Phase::Body);
    Ok(())
}

/// Awaits a future; `None` if the body is cut off before. The connection, which cuts it off, polls
/// it next.
async fn unless_cut<F: Future>(progress: &Progress, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if progress.is_body_cut() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::limits::{FREE, Limiter, Limits};

    const KIB: usize = 1024;

    #[test]
    fn body_that_waited_too_long_is_refused_despite_late_room() {
        let limiter = Limiter::new(&Limits {
            connections: 2,
            in_flight: 2,
            body_bytes: 10 * KIB,
        });
        let admit = || limiter.admit(|| false).now_or_never().flatten();
        let mut first = admit().expect("a permit");
        assert!(first.try_reserve(FREE + 10 * KIB));
        let progress = Progress::default();
        let mut second = admit().expect("a permit");
        let mut waiting = pin!(wait_for_room(FREE + KIB, &progress, &mut second));
        assert!(waiting.as_mut().now_or_never().is_none());

        progress.cut_body();
        drop(first);
        let ended = waiting.now_or_never();
        assert!(matches!(ended, Some(Err(BodyError::NoRoom))), "{ended:?}");
    }
}
