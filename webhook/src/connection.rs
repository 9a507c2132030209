//! How long a connection may be silent.
//!
//! A request head has to arrive in time once it has begun, and the first one in time after the handshake. Between
//! requests a connection may rest for longer than clients keep idle connections (Go: 90 s), so that none is closed
//! under a request that is just being sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

const HEAD_DEADLINE: Duration = Duration::from_secs(10);
const IDLE_DEADLINE: Duration = Duration::from_secs(150);

/// Where a connection is: the low bits are the phase, the rest counts how often it changed.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

const PHASE_BITS: u64 = 2;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;
const HEAD: u64 = 0;
const REQUEST: u64 = 1;
const IDLE: u64 = 2;

impl Pace {
    /// A request head is complete.
    pub(crate) fn request_begins(&self) {
        self.enter(REQUEST);
    }

    /// The answer to a request is made.
    pub(crate) fn request_ends(&self) {
        self.enter(IDLE);
    }

    fn bytes_arrived(&self) {
        if self.get() & PHASE_MASK == IDLE {
            self.enter(HEAD);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self, phase: u64) {
        let changes = self.get() >> PHASE_BITS;
        self.0
            .store((changes + 1) << PHASE_BITS | phase, Ordering::Relaxed);
    }
}

/// A stream whose reads fail when the peer is silent for longer than its [`Pace`] allows.
#[derive(Debug)]
pub(crate) struct Paced<T> {
    stream: T,
    pace: Arc<Pace>,
    armed: u64,
    deadline: Pin<Box<Sleep>>,
}

impl<T> Paced<T> {
    /// Awaits a first request head from now on.
    pub(crate) fn new(stream: T) -> Self {
        Self {
            stream,
            pace: Arc::default(),
            armed: HEAD,
            deadline: Box::pin(sleep(HEAD_DEADLINE)),
        }
    }

    /// Where the progress of requests is to be told.
    pub(crate) fn pace(&self) -> Arc<Pace> {
        Arc::clone(&self.pace)
    }

    /// Ready when the peer has been silent for too long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = self.pace.get();
        let limit = match now & PHASE_MASK {
            REQUEST => return Poll::Pending,
            IDLE => IDLE_DEADLINE,
            _ => HEAD_DEADLINE,
        };
        if now != self.armed {
            self.armed = now;
            self.deadline.as_mut().reset(Instant::now() + limit);
        }
        self.deadline.as_mut().poll(context)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            if buffer.filled().len() > before {
                self.pace.bytes_arrived();
            }
            return Poll::Ready(read);
        }
        ready!(self.poll_silence(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
