//! A relay of TCP that delays all bytes, and loses the network in silence.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Bytes that are read at one time.
const READ: usize = 64 * 1024;

/// A relay, until it is dropped. Connections end with their clients and servers alone.
pub struct Relay {
    address: SocketAddr,
    is_cut: watch::Sender<bool>,
    accepting: AbortHandle,
}

impl Relay {
    /// Starts a relay to `target`. Bytes arrive `delay` after they were sent, in each direction.
    pub async fn start(target: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port for a relay");
        let address = listener.local_addr().expect("the address of a relay");
        let is_cut = watch::Sender::new(false);
        let cut = is_cut.subscribe();
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(relay(socket, target, delay, cut.clone()));
            }
        });
        Self {
            address,
            is_cut,
            accepting: accepting.abort_handle(),
        }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes nothing on from now on, not even the end of a connection.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Ends the cut. Bytes that were sent meanwhile arrive, as TCP repeats them.
    pub fn heal(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn relay(
    client: TcpStream,
    target: SocketAddr,
    delay: Duration,
    mut cut: watch::Receiver<bool>,
) {
    if cut.wait_for(|is_cut| !is_cut).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    // Small packets must not wait for others.
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pass(from_client, to_server, delay, cut.clone()),
        pass(from_server, to_client, delay, cut)
    );
}

/// Passes bytes on in one direction. It reads all that comes, so the delay limits no throughput.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    mut cut: watch::Receiver<bool>,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let reading = async move {
        let mut buffer = vec![0; READ];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let arrives = Instant::now() + delay;
            if sender.send((arrives, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((arrives, bytes)) = receiver.recv().await {
            sleep_until(arrives).await;
            let is_over = cut.wait_for(|is_cut| !is_cut).await.is_err();
            if is_over || to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        cut.wait_for(|is_cut| !is_cut).await.ok();
        // Dropping the half ends the direction.
    };
    tokio::join!(reading, writing);
}
