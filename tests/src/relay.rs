//! A relay of TCP that delays all bytes, and has the faults of a network.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::Fault;
use crate::proxy::wire::frozen;

/// Bytes that are read at one time.
const READ: usize = 64 * 1024;

/// A relay, until it is dropped. Connections end with their clients and servers alone.
pub struct Relay {
    address: SocketAddr,
    targets: watch::Sender<Vec<SocketAddr>>,
    accepted: Arc<AtomicUsize>,
    fault: watch::Sender<Fault>,
    accepting: AbortHandle,
}

impl Relay {
    /// Starts a relay to `target`. Bytes arrive `delay` after they were sent, in each direction.
    pub async fn start(target: SocketAddr, delay: Duration) -> Self {
        Self::balance([target], delay).await
    }

    /// Starts a relay to several targets, as a load balancer: each connection goes to the next one,
    /// or to another if that refuses it.
    pub async fn balance(targets: impl IntoIterator<Item = SocketAddr>, delay: Duration) -> Self {
        let targets = watch::Sender::new(targets.into_iter().collect::<Vec<_>>());
        let accepted = Arc::<AtomicUsize>::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port for a relay");
        let address = listener.local_addr().expect("the address of a relay");
        let fault = watch::Sender::new(Fault::None);
        let (counter, faults) = (Arc::clone(&accepted), fault.subscribe());
        let present = targets.subscribe();
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let turn = counter.fetch_add(1, Ordering::Relaxed);
                let mut targets = present.borrow().clone();
                let first = turn % targets.len();
                targets.rotate_left(first);
                tokio::spawn(relay(socket, targets, delay, faults.clone()));
            }
        });
        Self {
            address,
            targets,
            accepted,
            fault,
            accepting: accepting.abort_handle(),
        }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of connections that it accepted.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Passes new connections to another target.
    pub fn redirect(&self, target: SocketAddr) {
        self.targets.send_replace(vec![target]);
    }

    /// Begins a fault of packets: [`Fault::Refused`], [`Fault::Silent`], [`Fault::Frozen`],
    /// [`Fault::Reset`] or [`Fault::Late`], which [`Fault::None`] ends.
    pub fn set(&self, fault: Fault) {
        let is_known = matches!(
            fault,
            Fault::None
                | Fault::Refused
                | Fault::Silent
                | Fault::Frozen
                | Fault::Reset
                | Fault::Late(_)
        );
        assert!(is_known, "{fault:?} is no fault of packets");
        self.fault.send_replace(fault);
    }

    /// Passes nothing on from now on, not even the end of a connection.
    pub fn cut(&self) {
        self.set(Fault::Silent);
    }

    /// Ends the cut. Bytes that were sent meanwhile arrive, as TCP repeats them.
    pub fn heal(&self) {
        self.set(Fault::None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn relay(
    mut client: TcpStream,
    targets: Vec<SocketAddr>,
    delay: Duration,
    mut fault: watch::Receiver<Fault>,
) {
    if fault
        .wait_for(|fault| *fault != Fault::Silent)
        .await
        .is_err()
    {
        return;
    }
    let (mut ended, frozen) = (fault.clone(), frozen(fault.clone()));
    let ended = ended.wait_for(|fault| matches!(fault, Fault::Refused | Fault::Reset));
    let passing = async {
        // It tries one after the other.
        let Ok(mut server) = TcpStream::connect(&targets[..]).await else {
            return;
        };
        // Small packets must not wait for others.
        if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
            return;
        }
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = pass(from_client, to_server, delay, fault.clone());
        let answers = pass(from_server, to_client, delay, fault);
        tokio::select! {
            _ = async { tokio::join!(requests, answers) } => {}
            // Neither side learns of it.
            () = frozen => pending().await,
        }
    };
    let is_reset = tokio::select! {
        biased;
        fault = ended => fault.is_ok_and(|fault| *fault == Fault::Reset),
        () = passing => false,
    };
    if is_reset {
        client.set_zero_linger().expect("a socket");
    }
}

/// Passes bytes on in one direction. It reads all that comes, so the delay limits no throughput.
async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    delay: Duration,
    mut fault: watch::Receiver<Fault>,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let lateness = fault.clone();
    let reading = async move {
        let mut buffer = vec![0; READ];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let late = match *lateness.borrow() {
                Fault::Late(late) => late,
                _ => Duration::ZERO,
            };
            let arrives = Instant::now() + delay + late;
            if sender.send((arrives, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((arrives, bytes)) = receiver.recv().await {
            sleep_until(arrives).await;
            let is_over = fault
                .wait_for(|fault| *fault != Fault::Silent)
                .await
                .is_err();
            if is_over || to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        fault.wait_for(|fault| *fault != Fault::Silent).await.ok();
        to.shutdown().await.ok();
    };
    tokio::join!(reading, writing);
}
