//! PINGs, by which each side notices that the other is gone.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep, timeout_at};

use crate::limits::Limits;

/// Time at which the last bytes of a connection arrived.
#[derive(Clone, Debug)]
pub struct LastRead(Arc<Mutex<Instant>>);

/// Connection that notes when bytes arrive.
#[derive(Debug)]
pub struct Tracked<S> {
    stream: S,
    last_read: LastRead,
}

impl<S> Tracked<S> {
    /// Returns the connection over this stream.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            last_read: LastRead(Arc::new(Mutex::new(Instant::now()))),
        }
    }

    /// Returns the time at which the last bytes arrived, as it changes.
    pub fn last_read(&self) -> LastRead {
        self.last_read.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tracked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            *self.last_read.0.lock() = Instant::now();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tracked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Sends a PING at once and after each pause, and reports the round trips. Ends when neither an
/// answer nor any other bytes come in time, or the connection has ended: over a slow link an answer
/// waits behind what is under way.
pub async fn keep_alive(
    mut pings: PingPong,
    last_read: LastRead,
    limits: &Limits,
    mut round_trip: impl FnMut(Duration),
) {
    loop {
        let sent = Instant::now();
        {
            let mut answered = pin!(pings.ping(Ping::opaque()));
            let mut silent_at = sent + limits.ping_answer;
            loop {
                match timeout_at(silent_at, &mut answered).await {
                    Ok(Ok(_)) => break,
                    Ok(Err(_)) => return,
                    Err(_) => {}
                }
                silent_at = *last_read.0.lock() + limits.ping_answer;
                if silent_at <= Instant::now() {
                    return;
                }
            }
        }
        round_trip(sent.elapsed());
        sleep(limits.ping_every).await;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// SETTINGS without any value, and WINDOW_UPDATE of the connection by one byte (RFC 9113).
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const WINDOW_UPDATE: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    #[tokio::test]
    async fn peer_lives_while_bytes_arrive_although_it_answers_no_ping() {
        let limits = Limits {
            ping_answer: Duration::from_secs(1),
            ..Limits::default()
        };
        let (near, mut far) = tokio::io::duplex(1 << 16);
        far.write_all(&SETTINGS).await.expect("room");
        let near = Tracked::new(near);
        let last_read = near.last_read();
        let handshake = h2::client::handshake(near).await;
        let (_requests, mut connection): (h2::client::SendRequest<Bytes>, _) =
            handshake.expect("a connection");
        let pings = connection.ping_pong().expect("PINGs");
        let alive = keep_alive(pings, last_read, &limits, |_| {});
        let begun = Instant::now();
        let writes = async {
            while begun.elapsed() < 3 * limits.ping_answer {
                far.write_all(&WINDOW_UPDATE).await.expect("a reader");
                sleep(limits.ping_answer / 10).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = alive => {}
            ended = connection => panic!("the connection ended: {ended:?}"),
            () = writes => {}
        }
        let lived = begun.elapsed();
        assert!(lived >= 3 * limits.ping_answer, "{lived:?}");
    }
}
