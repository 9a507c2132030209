//! A stream of HTTP/2 joined to a socket, with or without TLS: all bytes, both ways, until both
//! have ended.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::budget::{Budget, Held};
use crate::limits::{Limits, READ};
use crate::metrics::Metrics;

/// Silence after which the system probes a socket, and pause between its probes.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// Size of a chunk that keeps its buffer alive while it waits, at least, in bytes.
const SMALL: usize = 4096;

thread_local! {
    /// A stream that is idle has no buffer: bytes are read into that of the thread, and copied.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Reason why a stream ended before both sides had closed it.
#[derive(Debug, thiserror::Error)]
pub enum SpliceError {
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The stream or its connection failed.
    #[error("the stream failed: {0}")]
    Stream(#[from] h2::Error),
    /// The receiver is slower than the sender, and no memory is left for what arrives.
    #[error("its receiver is too slow: no memory is left for what arrives")]
    Full,
    /// One side has ended, and the other does not.
    #[error("one side did not end in time")]
    HalfClosed,
}

impl SpliceError {
    fn label(&self) -> &'static str {
        match self {
            Self::Socket(_) => "socket",
            Self::Stream(_) => "stream",
            Self::Full => "full",
            Self::HalfClosed => "half_closed",
        }
    }
}

/// Both halves of a stream.
#[derive(Debug)]
pub struct Stream {
    /// The sending half.
    pub send: SendStream<Bytes>,
    /// The receiving half.
    pub receive: RecvStream,
}

/// Lets the system notice that the other side of a socket is gone, and send at once what is
/// written.
///
/// # Errors
/// The socket is closed already.
pub fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_EVERY)?;
    Ok(sockopt::set_tcp_keepcnt(socket, PROBES)?)
}

/// What all streams of a process share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Limits of this side.
    pub limits: Arc<Limits>,
    /// Bytes that all streams may hold.
    pub budget: Arc<Budget>,
    /// Metrics of the program.
    pub metrics: Metrics,
}

impl Shared {
    /// Creates the shared part of a process with these limits.
    pub fn new(limits: Limits, metrics: &Metrics) -> Self {
        Self {
            budget: Budget::new(limits.held),
            limits: Arc::new(limits),
            metrics: metrics.clone(),
        }
    }
}

/// Passes all bytes on, both ways, between a stream and the halves of a socket. `early` was read
/// from the socket before. A stream that fails is reset, and counted.
///
/// # Errors
/// [`SpliceError`] unless both sides have closed the stream.
pub async fn splice(
    mut input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    early: Bytes,
    stream: Stream,
    shared: &Shared,
) -> Result<(), SpliceError> {
    let _open = shared.metrics.stream();
    let Stream { mut send, receive } = stream;
    let limits = &shared.limits;
    let max = 2 * usize::try_from(limits.window).unwrap_or(usize::MAX / 2);
    let mut down = Down {
        receive,
        output,
        waiting: VecDeque::new(),
        held: Held::new(shared.budget.clone(), max),
        ended: false,
        metrics: &shared.metrics,
    };
    let mut down = std::pin::pin!(poll_fn(|context| down.poll(context)));
    let ended = {
        let mut up = std::pin::pin!(up(&mut input, early, &mut send, &shared.metrics));
        let one = tokio::select! {
            ended = &mut up => ended.map(|()| true),
            ended = &mut down => ended.map(|()| false),
        };
        match one {
            Ok(true) => timeout(limits.half_closed, down).await,
            Ok(false) => timeout(limits.half_closed, up).await,
            Err(error) => Ok(Err(error)),
        }
    };
    let ended = ended.unwrap_or(Err(SpliceError::HalfClosed));
    if let Err(error) = &ended {
        send.send_reset(Reason::CANCEL);
        shared.metrics.stream_failed(error.label());
    }
    ended
}

/// Passes on the bytes of the socket. The other side gives leave for each of them.
async fn up(
    input: &mut (impl AsyncRead + Unpin),
    early: Bytes,
    send: &mut SendStream<Bytes>,
    metrics: &Metrics,
) -> Result<(), SpliceError> {
    let mut read = early;
    loop {
        while !read.is_empty() {
            send.reserve_capacity(read.len());
            let capacity = poll_fn(|context| send.poll_capacity(context)).await;
            let capacity = capacity.ok_or(SpliceError::HalfClosed)??;
            let allowed = read.split_to(capacity.min(read.len()));
            metrics.sent(allowed.len());
            send.send_data(allowed, false)?;
        }
        read = poll_fn(|context| receive(input, context)).await?;
        if read.is_empty() {
            return Ok(send.send_data(read, true)?);
        }
    }
}

/// Reads what has arrived, at most [`READ`] bytes; none at the end.
fn receive(
    input: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
) -> Poll<io::Result<Bytes>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(input).poll_read(context, &mut read))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(read.filled())))
    })
}

/// Passes on the bytes of the stream. It takes them from HTTP/2 as they arrive, so that they are
/// counted, and gives leave for further ones when they are written.
struct Down<'a, W> {
    receive: RecvStream,
    output: W,
    waiting: VecDeque<Bytes>,
    held: Held,
    ended: bool,
    metrics: &'a Metrics,
}

/// Returns a chunk that keeps little memory beyond its length alive: a small one shares a buffer of
/// many KiB with what else was read at the time.
fn owned(bytes: Bytes) -> Bytes {
    match bytes.len() < SMALL {
        true => Bytes::copy_from_slice(&bytes),
        false => bytes,
    }
}

impl<W: AsyncWrite + Unpin> Down<'_, W> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SpliceError>> {
        loop {
            self.take(context)?;
            let Some(first) = self.waiting.front_mut() else {
                let mut output = Pin::new(&mut self.output);
                if self.ended {
                    return output.poll_shutdown(context).map_err(SpliceError::Socket);
                }
                // TLS may not have written all that it has encrypted.
                ready!(output.as_mut().poll_flush(context))?;
                return Poll::Pending;
            };
            let length = ready!(Pin::new(&mut self.output).poll_write(context, first))?;
            if length == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
            }
            first.advance(length);
            if first.is_empty() {
                self.waiting.pop_front();
                self.held.chunk_done();
            }
            self.held.written(length);
            self.metrics.received(length);
            self.receive.flow_control().release_capacity(length)?;
        }
    }

    fn take(&mut self, context: &mut Context<'_>) -> Result<(), SpliceError> {
        while !self.ended {
            match self.receive.poll_data(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.ended = true,
                Poll::Ready(Some(Ok(bytes))) if bytes.is_empty() => {}
                Poll::Ready(Some(Ok(bytes))) if self.held.hold(bytes.len()) => {
                    self.waiting.push_back(owned(bytes));
                }
                Poll::Ready(Some(Ok(_))) => return Err(SpliceError::Full),
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
