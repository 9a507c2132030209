//! The connections of a proxy: bytes go back and forth as long as the fault lets them.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Fault;
use super::answer::Upstream;

const BUFFER: usize = 64 * 1024;

/// Serves one connection until it ends, or a fault ends it.
pub(super) async fn serve(
    mut stream: TcpStream,
    tls: TlsAcceptor,
    upstream: Arc<Upstream>,
    faults: watch::Receiver<Fault>,
) {
    let (near, far) = duplex(BUFFER);
    let http = speak(far, tls, upstream, faults.clone());
    let mut ends = faults.clone();
    let resets = tokio::select! {
        () = pump(&mut stream, near, faults) => false,
        () = http => false,
        fault = ended(&mut ends) => fault == Fault::Reset,
    };
    if resets {
        // Without lingering a close is a reset.
        stream.set_zero_linger().ok();
    }
}

/// Waits for a fault that ends connections.
async fn ended(faults: &mut watch::Receiver<Fault>) -> Fault {
    loop {
        if faults.changed().await.is_err() {
            return Fault::Refused;
        }
        let fault = *faults.borrow_and_update();
        if !fault.spares_connections() {
            return fault;
        }
    }
}

/// Carries bytes both ways, and none while there is silence.
async fn pump(stream: &mut TcpStream, near: DuplexStream, faults: watch::Receiver<Fault>) {
    let (mut from_client, mut to_client) = stream.split();
    let (mut from_server, mut to_server) = tokio::io::split(near);
    let (mut sounds, frozen) = ([faults.clone(), faults.clone()], frozen(faults));
    let [requests, answers] = &mut sounds;
    let carried = async {
        tokio::join!(
            carry(&mut from_client, &mut to_server, requests),
            carry(&mut from_server, &mut to_client, answers),
        )
    };
    tokio::select! {
        _ = carried => {}
        () = frozen => pending().await,
    }
}

/// Returns a future that ends when the connections that stand now are frozen.
pub(crate) fn frozen(mut faults: watch::Receiver<Fault>) -> impl Future<Output = ()> {
    let is_new = *faults.borrow() == Fault::Frozen;
    async move {
        let is_frozen = |fault: &Fault| *fault == Fault::Frozen;
        if is_new || faults.wait_for(is_frozen).await.is_err() {
            pending().await
        }
    }
}

async fn carry(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    faults: &mut watch::Receiver<Fault>,
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let Ok(read) = from.read(&mut buffer).await else {
            return;
        };
        if faults
            .wait_for(|fault| *fault != Fault::Silent)
            .await
            .is_err()
        {
            return;
        }
        if read == 0 {
            to.shutdown().await.ok();
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn speak(
    far: DuplexStream,
    tls: TlsAcceptor,
    upstream: Arc<Upstream>,
    faults: watch::Receiver<Fault>,
) {
    let Ok(stream) = tls.accept(far).await else {
        return;
    };
    let service = service_fn(move |request| {
        let (upstream, fault, mut faults) = (upstream.clone(), *faults.borrow(), faults.clone());
        async move {
            let _under_way = upstream.lookups.note(&request);
            let path = hyper::Request::uri(&request).path();
            let reported = faults.wait_for(|fault| !fault.withholds(path)).await;
            reported.map_err(io::Error::other)?;
            if let Fault::Late(by) = fault {
                tokio::time::sleep(by).await;
            }
            upstream.answer(request, fault).await
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if connection.await.is_err() {
        // A torn answer: what was sent of it is to arrive before the end.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
