//! One connection, from its first byte to its last.
//!
//! hyper reads and writes HTTP, tokio-rustls TLS. What their servers do not offer is here: an
//! answer to plain HTTP, the phases by which [`Connections`](crate::connections::Connections)
//! closes overdue connections, and an end of which no reset overtakes the last answer.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use causeway::process::supervise::Tasks;
use futures::TryFutureExt;
use http::Request;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

use crate::connections::{Close, Phase, Progress, Slot};
use crate::drain::Drain;

/// Maximum size of a request head and of one read, in bytes. An API server sends a few hundred.
const HEAD_MAX: usize = 16 * 1024;

/// The first byte of every TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Answer to plain HTTP, in the words of Go's server.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Answer to HTTP/2.
const HTTP2: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\r\nHTTP/2 is not served; HTTP/1.1 is.\n";

/// Reason of an early end of a connection.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("slow, idle for too long, or evicted")]
    Closed,
    #[error("plain HTTP on the TLS port")]
    PlainHttp,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// An accepted connection.
pub(crate) struct Connection {
    pub(crate) tls: TlsAcceptor,
    pub(crate) router: Router,
    pub(crate) drain: Drain,
    pub(crate) tasks: Tasks,
    pub(crate) peer: SocketAddr,
    pub(crate) slot: Slot,
}

impl Connection {
    /// Serves until either side closes the connection. A panic ends this connection and no other.
    pub(crate) async fn serve(self, stream: TcpStream) {
        let tasks = self.tasks.clone();
        let peer = self.peer;
        let outcome = tasks
            .catch_panic("connection", self.try_serve(stream))
            .await;
        // A panic was logged where it was counted.
        if let Ok(Err(ended)) = outcome {
            tracing::debug!(%peer, reason = %ended, "connection closed");
        }
    }

    /// Serves a connection. An idle connection keeps this future and that of [`Self::serve_http`];
    /// the handshake has a future of its own, which it does not keep.
    async fn try_serve(self, stream: TcpStream) -> Result<(), Ended> {
        let Some(stream) = Box::pin(self.handshake(stream)).await? else {
            return Ok(());
        };
        self.slot.progress().enter(Phase::Unused);
        Box::pin(self.serve_http(stream)).await
    }

    /// Performs the handshake; `None` if it failed, and the client has the reason.
    async fn handshake(
        &self,
        mut stream: TcpStream,
    ) -> Result<Option<TlsStream<TcpStream>>, Ended> {
        let progress = self.slot.progress();
        stream.set_nodelay(true)?;
        if !begins_tls(&stream, progress).await? {
            self.slot.rejected("plain_http");
            end(&mut stream, PLAIN_HTTP, progress).await?;
            return Err(Ended::PlainHttp);
        }
        let handshake = self.tls.accept(stream).into_fallible();
        match unless_closed(progress, handshake).await? {
            Ok(stream) => Ok(Some(stream)),
            Err((error, mut stream)) => {
                self.slot.rejected("handshake");
                tracing::debug!(peer = %self.peer, %error, "TLS handshake failed");
                // A reset would overtake the alert, which has the reason.
                end(&mut stream, b"", progress).await?;
                Ok(None)
            }
        }
    }

    /// Serves HTTP. Not an async function, whose future would have room for the stream twice.
    fn serve_http<T>(&self, stream: T) -> impl Future<Output = Result<(), Ended>>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let progress = self.slot.progress();
        let service = service_fn(move |mut request: Request<Incoming>| {
            progress.request_begins(!request.body().is_end_stream());
            if self.tasks.is_terminating() {
                self.drain.request_arrived();
            }
            request.extensions_mut().insert(Arc::clone(progress));
            self.router.clone().oneshot(request).map_ok(|mut response| {
                if self.tasks.is_terminating() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                progress.enter(Phase::Send);
                response
            })
        });
        let stream = ProgressStream {
            stream,
            progress: Arc::clone(progress),
        };
        let mut connection = http1::Builder::new()
            .header_read_timeout(None)
            .half_close(true)
            .max_buf_size(HEAD_MAX)
            .serve_connection(TokioIo::new(stream), service);
        async move {
            let ended = poll_fn(|context| poll_http(&mut connection, progress, context)).await;
            let stream = connection.into_parts().io.into_inner().stream;
            Box::pin(close(stream, &ended, progress)).await?;
            ended
        }
    }
}

/// Polls HTTP, and closes the connection on request.
fn poll_http<C>(
    connection: &mut C,
    progress: &Progress,
    context: &mut Context<'_>,
) -> Poll<Result<(), Ended>>
where
    C: GracefulConnection<Error = hyper::Error> + Unpin,
{
    match progress.next_close(context) {
        None => {}
        Some(Close::Now) => match progress.phase() {
            Phase::Body | Phase::Wait => progress.cut_body(),
            Phase::Answer => Pin::new(&mut *connection).graceful_shutdown(),
            _ => return Poll::Ready(Err(Ended::Closed)),
        },
        Some(Close::WhenIdle) => {
            // Reads what has arrived before the connection counts as idle. hyper-util's
            // GracefulShutdown reads after that, and closes connections without a request at once.
            let ended = Pin::new(&mut *connection).poll(context);
            if ended.is_ready() {
                return ended.map_err(Ended::from);
            }
            if !matches!(progress.phase(), Phase::Unused | Phase::Head) {
                Pin::new(&mut *connection).graceful_shutdown();
            }
        }
    }
    Pin::new(connection).poll(context).map_err(Ended::from)
}

/// Closes the stream of a connection whose HTTP has ended.
async fn close<T>(
    mut stream: T,
    ended: &Result<(), Ended>,
    progress: &Progress,
) -> Result<(), Ended>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    match ended {
        Err(Ended::Http(error)) if error.is_parse_version_h2() => {
            end(&mut stream, HTTP2, progress).await
        }
        Err(Ended::Http(error)) if error.is_parse() => end(&mut stream, b"", progress).await,
        Ok(()) if progress.is_body_unread() => end(&mut stream, b"", progress).await,
        Ok(()) => {
            progress.enter(Phase::Closing);
            Ok(unless_closed(progress, stream.shutdown()).await??)
        }
        Err(_) => Ok(()),
    }
}

/// Whether a connection begins with TLS, not with HTTP. TLS reports anything else.
async fn begins_tls(stream: &TcpStream, progress: &Progress) -> Result<bool, Ended> {
    let mut first = [TLS_HANDSHAKE];
    unless_closed(progress, stream.peek(&mut first)).await??;
    Ok(!first[0].is_ascii_uppercase())
}

/// Writes a last answer, and closes after the client has. Closing earlier would answer what the
/// client still sends with a reset, which may discard the answer.
async fn end<T>(stream: &mut T, last: &'static [u8], progress: &Progress) -> Result<(), Ended>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    progress.enter(Phase::Closing);
    let ending = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut ignored = [0; 1024];
        while stream.read(&mut ignored).await? > 0 {}
        Ok(())
    };
    Box::pin(unless_closed(progress, ending)).await?
}

/// Awaits a future, unless the connection must close now.
async fn unless_closed<F: Future>(progress: &Progress, future: F) -> Result<F::Output, Ended> {
    let mut future = pin!(future);
    poll_fn(|context| match progress.next_close(context) {
        Some(Close::Now) => Poll::Ready(Err(Ended::Closed)),
        // What is under way here ends soon.
        Some(Close::WhenIdle) | None => future.as_mut().poll(context).map(Ok),
    })
    .await
}

/// Stream that reports the begin of a request and the end of an answer.
struct ProgressStream<T> {
    stream: T,
    progress: Arc<Progress>,
}

impl<T: AsyncRead + Unpin> AsyncRead for ProgressStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before
            && matches!(self.progress.phase(), Phase::Unused | Phase::Idle)
        {
            self.progress.enter(Phase::Head);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ProgressStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() && self.progress.phase() == Phase::Send {
            self.progress.enter(Phase::Idle);
        }
        flushed
    }

    /// Closes nothing: [`close`] does, depending on how HTTP ended.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
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
