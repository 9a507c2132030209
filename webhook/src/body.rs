//! Bodies: read whole, within bounds of size, time and memory.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use http_body_util::{LengthLimitError, Limited};
use hyper::body::Body;

use crate::connections::{Phase, Progress};
use crate::limits::{BODY_MAX, Permit};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

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

/// Reads a body of that declared length. A large one may have to wait for others.
pub(crate) async fn read<B>(
    body: B,
    declared: Option<usize>,
    progress: &Progress,
    permit: &mut Permit<'_>,
) -> Result<Bytes, BodyError>
where
    B: Body<Error: Into<BoxError>>,
{
    let mut body = pin!(Limited::new(body, BODY_MAX));
    let mut read = Vec::new();
    while let Some(data) = poll_fn(|context| next(body.as_mut(), progress, context)).await? {
        let length = read.len() + data.remaining();
        progress.received(length);
        if !permit.covers(length) {
            let bytes = declared.unwrap_or(BODY_MAX);
            wait_for_room(bytes, progress, permit).await?;
            read.reserve_exact(bytes.saturating_sub(read.len()));
        }
        read.put(data);
    }
    Ok(read.into())
}

/// Waits until a body of so many bytes may be held; meanwhile nothing of it is read. A request that has waited for too long is
/// rejected, to be repeated, also where room comes in that moment: its body would count as one that did not arrive in time.
async fn wait_for_room(
    bytes: usize,
    progress: &Progress,
    permit: &mut Permit<'_>,
) -> Result<(), BodyError> {
    if permit.try_reserve(bytes) {
        return Ok(());
    }
    progress.enter(Phase::Wait);
    let mut reserving = pin!(permit.reserve(bytes));
    let reserved = poll_fn(|context| {
        if progress.is_body_cut() {
            return Poll::Ready(None);
        }
        reserving.as_mut().poll(context)
    })
    .await;
    if reserved.is_none() {
        return Err(BodyError::NoRoom);
    }
    permit.hold(reserved);
    progress.enter(Phase::Body);
    Ok(())
}

/// The next piece of data; `None` at the end. What has arrived counts also where the rest is cut off in that moment.
fn next<B>(
    mut body: Pin<&mut Limited<B>>,
    progress: &Progress,
    context: &mut Context<'_>,
) -> Poll<Result<Option<B::Data>, BodyError>>
where
    B: Body<Error: Into<BoxError>>,
{
    loop {
        match body.as_mut().poll_frame(context) {
            Poll::Ready(None) => return Poll::Ready(Ok(None)),
            Poll::Ready(Some(Err(error))) if error.is::<LengthLimitError>() => {
                return Poll::Ready(Err(BodyError::TooLarge));
            }
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(BodyError::Broken(error))),
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Ok(Some(data)));
                }
            }
            Poll::Pending if progress.is_body_cut() => return Poll::Ready(Err(BodyError::Slow)),
            Poll::Pending => return Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::limits::{FREE, Limiter, Limits};

    const KIB: usize = 1024;

    #[test]
    fn a_body_that_has_waited_for_too_long_is_refused_though_room_comes_in_that_moment() {
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
