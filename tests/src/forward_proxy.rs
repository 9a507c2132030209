//! A proxy between a hub and its members: CONNECT over plain HTTP or over TLS, or SOCKS5.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use causeway_certs::Authority;
use parking_lot::Mutex;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
    copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::proxy::acceptor;

const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);

/// Protocol between a client and a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// CONNECT over plain HTTP.
    Http,
    /// CONNECT over TLS, with a certificate of an authority of its own.
    Https,
    /// SOCKS5.
    Socks5,
}

/// A forward proxy at work. Dropping it ends it; connections that stand go on.
pub struct ForwardProxy {
    address: SocketAddr,
    protocol: Protocol,
    authority: Authority,
    state: Arc<State>,
    task: AbortHandle,
}

#[derive(Default)]
struct State {
    /// A line of the head of CONNECT, in lower case, without which it answers 407.
    required: Mutex<Option<String>>,
    opened: AtomicU64,
}

impl ForwardProxy {
    /// A proxy that lets everybody through.
    pub async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port for a proxy");
        let address = listener.local_addr().expect("the address of a proxy");
        let authority = Authority::new("proxies' CA", VALIDITY, SystemTime::now());
        let authority = authority.expect("an authority");
        let tls = (protocol == Protocol::Https).then(|| acceptor(&authority));
        let state = Arc::new(State::default());
        let task = tokio::spawn(run(listener, protocol, tls, state.clone())).abort_handle();
        Self {
            address,
            protocol,
            authority,
            state,
            task,
        }
    }

    /// Returns its URL, as `spec.proxyURL` holds it.
    pub fn url(&self) -> String {
        let scheme = match self.protocol {
            Protocol::Http => "http",
            Protocol::Https => "https",
            Protocol::Socks5 => "socks5",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the certificate of its authority in PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Answers 407 to each CONNECT without this header, such as `x-pass: open`.
    pub fn require(&self, header: &str) {
        *self.state.required.lock() = Some(header.to_lowercase());
    }

    /// Returns how many connections to members it has opened.
    pub fn opened(&self) -> u64 {
        self.state.opened.load(Ordering::Relaxed)
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    listener: TcpListener,
    protocol: Protocol,
    tls: Option<TlsAcceptor>,
    state: Arc<State>,
) {
    loop {
        let (client, _) = listener.accept().await.expect("a connection");
        let (tls, state) = (tls.clone(), state.clone());
        tokio::spawn(async move {
            // A client may go at any time.
            let _: Option<()> = match (protocol, tls) {
                (Protocol::Socks5, _) => by_socks(client, &state).await,
                (_, None) => by_connect(client, &state).await,
                (_, Some(tls)) => match tls.accept(client).await {
                    Ok(client) => by_connect(client, &state).await,
                    Err(_) => None,
                },
            };
        });
    }
}

async fn by_connect(client: impl AsyncRead + AsyncWrite + Unpin, state: &State) -> Option<()> {
    let mut client = BufReader::new(client);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        client.read_line(&mut line).await.ok()?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let required = state.required.lock().clone();
    let given = |line: &String| head.iter().any(|other| other.to_lowercase() == *line);
    if !required.as_ref().is_none_or(given) {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
        client.write_all(refusal).await.ok()?;
        return client.shutdown().await.ok();
    }
    let target = head.first()?.strip_prefix("CONNECT ")?.split(' ').next()?;
    let Ok(member) = TcpStream::connect(target).await else {
        let refusal = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
        client.write_all(refusal).await.ok()?;
        return client.shutdown().await.ok();
    };
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await
        .ok()?;
    tunnel(client, member, state).await
}

/// RFC 1928, without authentication, to IPv4 addresses and names.
async fn by_socks(mut client: TcpStream, state: &State) -> Option<()> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting).await.ok()?;
    let mut methods = vec![0; greeting[1].into()];
    client.read_exact(&mut methods).await.ok()?;
    client.write_all(&[5, 0]).await.ok()?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await.ok()?;
    let host = match request[3] {
        1 => {
            let mut address = [0; 4];
            client.read_exact(&mut address).await.ok()?;
            Ipv4Addr::from(address).to_string()
        }
        3 => {
            let mut name = vec![0; client.read_u8().await.ok()?.into()];
            client.read_exact(&mut name).await.ok()?;
            String::from_utf8(name).ok()?
        }
        _ => return None,
    };
    let port = client.read_u16().await.ok()?;
    let member = TcpStream::connect((host, port)).await;
    let code = if member.is_ok() { 0 } else { 5 };
    let answer = [5, code, 0, 1, 0, 0, 0, 0, 0, 0];
    client.write_all(&answer).await.ok()?;
    tunnel(client, member.ok()?, state).await
}

async fn tunnel(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut member: TcpStream,
    state: &State,
) -> Option<()> {
    state.opened.fetch_add(1, Ordering::Relaxed);
    copy_bidirectional(&mut client, &mut member).await.ok()?;
    Some(())
}
