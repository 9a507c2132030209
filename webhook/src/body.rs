//! Bodies: read whole, within bounds of size, time and memory.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::Body;

use crate::connections::{Phase, Progress};
use crate::load::{Admitted, BODY_MAX};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no body.
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

/// Reads a body of that declared length. One that arrives in one piece is not copied. A large one may have to wait for
/// others.
pub(crate) async fn read<B>(
    body: B,
    declared: Option<usize>,
    progress: &Progress,
    admitted: &mut Admitted<'_>,
) -> Result<Bytes, BodyError>
where
    B: Body<Error: Into<BoxError>>,
{
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    while let Some(mut data) = poll_fn(|context| next(body.as_mut(), progress, context)).await? {
        let length = first.len().max(whole.len()) + data.remaining();
        if length > BODY_MAX {
            return Err(BodyError::TooLarge);
        }
        progress.received(length);
        if !admitted.may_hold(length) {
            let bytes = declared.unwrap_or(BODY_MAX);
            wait_for_room(bytes, progress, admitted).await?;
        }
        if first.is_empty() && whole.is_empty() {
            first = data.copy_to_bytes(data.remaining());
            continue;
        }
        if whole.capacity() < length {
            // No more than twice of what has arrived, whatever is declared.
            let wanted = declared.unwrap_or(usize::MAX).clamp(length, 2 * length);
            whole.reserve_exact(wanted - whole.len());
        }
        whole.extend_from_slice(&std::mem::take(&mut first));
        while data.has_remaining() {
            let chunk = data.chunk();
            whole.extend_from_slice(chunk);
            let taken = chunk.len();
            data.advance(taken);
        }
    }
    Ok(if whole.is_empty() {
        first
    } else {
        Bytes::from(whole)
    })
}

/// Waits until a body of so many bytes may be held; meanwhile nothing of it is read. Whoever has waited for as long as may be is
/// refused, to try again, also where room comes in that moment: the body would be taken for one that did not arrive in time.
async fn wait_for_room(
    bytes: usize,
    progress: &Progress,
    admitted: &mut Admitted<'_>,
) -> Result<(), BodyError> {
    if admitted.try_draw(bytes) {
        return Ok(());
    }
    progress.enter(Phase::Wait);
    let mut drawing = pin!(admitted.draw(bytes));
    let drawn = poll_fn(|context| {
        if progress.is_body_cut() {
            return Poll::Ready(None);
        }
        drawing.as_mut().poll(context)
    })
    .await;
    if drawn.is_none() {
        return Err(BodyError::NoRoom);
    }
    admitted.hold(drawn);
    progress.enter(Phase::Body);
    Ok(())
}

/// The next piece of data; `None` at the end.
fn next<B>(
    mut body: Pin<&mut B>,
    progress: &Progress,
    context: &mut Context<'_>,
) -> Poll<Result<Option<B::Data>, BodyError>>
where
    B: Body<Error: Into<BoxError>>,
{
    loop {
        let frame = match body.as_mut().poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending if progress.is_body_cut() => return Poll::Ready(Err(BodyError::Slow)),
            Poll::Pending => return Poll::Pending,
        };
        match frame {
            None => return Poll::Ready(Ok(None)),
            Some(Err(error)) => return Poll::Ready(Err(BodyError::Broken(error.into()))),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Ok(Some(data)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::load::{FREE, Limits, Load};

    const KIB: usize = 1024;

    #[test]
    fn a_body_that_has_waited_for_too_long_is_refused_though_room_comes_in_that_moment() {
        let load = Load::new(&Limits {
            connections: 2,
            in_flight: 2,
            body_bytes: 10 * KIB,
        });
        let mut first = load.admit(|| false).expect("room");
        assert!(first.try_draw(FREE + 10 * KIB));
        let progress = Progress::default();
        let mut second = load.admit(|| false).expect("room");
        let mut waiting = pin!(wait_for_room(FREE + KIB, &progress, &mut second));
        assert!(waiting.as_mut().now_or_never().is_none());

        progress.cut_body();
        drop(first);
        let ended = waiting.now_or_never();
        assert!(matches!(ended, Some(Err(BodyError::NoRoom))), "{ended:?}");
    }
}
