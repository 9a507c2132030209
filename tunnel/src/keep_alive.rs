//! PINGs, by which each side notices that the other is gone.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use h2::{Ping, PingPong};
use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::io::InspectReader;

use crate::limits::Limits;

/// Time at which the last bytes of a connection arrived.
#[derive(Clone, Debug)]
pub struct LastRead(Arc<Mutex<Instant>>);

/// Returns the stream, and the time at which its last bytes arrived, as it changes.
pub fn tracked<S: AsyncRead>(stream: S) -> (InspectReader<S, impl FnMut(&[u8])>, LastRead) {
    let last_read = LastRead(Arc::new(Mutex::new(Instant::now())));
    let noted = last_read.clone();
    let note = move |bytes: &[u8]| {
        // The end of the stream is no sign of life.
        if !bytes.is_empty() {
            *noted.0.lock() = Instant::now();
        }
    };
    (InspectReader::new(stream, note), last_read)
}

/// Sends a PING at once and after each pause, and reports the round trips. Ends when neither an
/// answer nor any other bytes come in time, or the connection has ended: over a slow link an answer
/// waits behind what is under way. Never ends without `pings`.
pub async fn keep_alive(
    pings: Option<PingPong>,
    last_read: LastRead,
    limits: &Limits,
    mut round_trip: impl FnMut(Duration),
) {
    let Some(mut pings) = pings else {
        return pending().await;
    };
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
        let (near, last_read) = tracked(near);
        let handshake = h2::client::handshake(near).await;
        let (_requests, mut connection): (h2::client::SendRequest<Bytes>, _) =
            handshake.expect("a connection");
        let pings = connection.ping_pong();
        assert!(pings.is_some());
        let alive = keep_alive(pings, last_read, &limits, |_| {});
        let begun = Instant::now();
        let writes = async {
            while begun.elapsed() < 3 * limits.ping_answer {
                far.write_all(&WINDOW_UPDATE).await.expect("a reader");
                sleep(limits.ping_answer / 10).await;
            }
            pending::<()>().await;
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
