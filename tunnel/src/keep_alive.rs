//! PINGs, by which each side notices that the other is gone.

use std::time::{Duration, Instant};

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

use crate::limits::Limits;

/// Sends a PING at once and after each pause, and reports the round trips. Ends when an answer does
/// not come in time, or the connection has ended.
pub async fn keep_alive(
    mut pings: PingPong,
    limits: &Limits,
    mut round_trip: impl FnMut(Duration),
) {
    loop {
        let sent = Instant::now();
        let answered = timeout(limits.ping_answer, pings.ping(Ping::opaque())).await;
        if !matches!(answered, Ok(Ok(_))) {
            return;
        }
        round_trip(sent.elapsed());
        sleep(limits.ping_every).await;
    }
}
