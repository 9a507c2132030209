//! A proxy in front of an API server that does as a test says: it forwards, or is one of the faults
//! of networks and of API servers. Its certificate is of the cluster's own authority, so that
//! whoever trusts the one trusts the other.

mod answer;
mod lookups;
mod old;
pub(crate) mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use causeway_certs::{Authority, Leaf};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use self::answer::Upstream;
pub use self::lookups::Lookup;
use crate::cluster::Cluster;

/// Behaviour of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It forwards.
    None,
    /// Connections are closed, and new ones refused: the process is gone.
    Refused,
    /// Nothing comes and nothing goes, on old connections and new ones: packets are lost. What was
    /// sent meanwhile arrives when this is over.
    Silent,
    /// On connections that stand when it begins nothing comes and nothing goes any more, ever; new
    /// ones are served: one of the API servers behind a balancer has lost its power.
    Frozen,
    /// Every request waits for so long.
    Late(Duration),
    /// Connections are reset, each as soon as a request was sent on it.
    Reset,
    /// Every request is answered so.
    Answers(u16),
    /// Every new request is answered 404 with a page of HTML, as by a front end that has lost its
    /// backend. Watches that stand go on.
    NotFound,
    /// Answers break off in the middle.
    Torn,
    /// Lists are complete, most recent, and empty; watches have expired.
    Forgetful,
    /// The same, and the state is older than any that was shown before: a store was restored.
    Restored,
    /// Watches have expired.
    Expired,
    /// The certificate is of an authority that nobody knows.
    Impostor,
    /// The API server is of Kubernetes 1.21: it says so, and drops what that release drops of what
    /// is sent to it.
    Kubernetes121,
    /// ServiceExports are said to have been made a quarter of a century ago.
    Backdates,
    /// Requests about these kinds of objects, by their plurals, are answered after the end of the
    /// fault.
    Withholds(&'static [&'static str]),
}

impl Fault {
    /// Whether a request for this path waits.
    fn withholds(self, path: &str) -> bool {
        let asked = |plural: &&str| path.split('/').any(|part| part == *plural);
        matches!(self, Self::Withholds(plurals) if plurals.iter().any(asked))
    }

    /// Whether connections that stand are left standing when the fault begins.
    fn spares_connections(self) -> bool {
        matches!(
            self,
            Self::None
                | Self::Silent
                | Self::Frozen
                | Self::Late(_)
                | Self::NotFound
                | Self::Kubernetes121
                | Self::Backdates
        )
    }
}

/// A proxy at work. Dropping it ends it.
pub struct Proxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    upstream: Arc<Upstream>,
    task: AbortHandle,
}

impl Proxy {
    /// A proxy in front of a cluster's API server, that forwards.
    pub async fn before(cluster: &Cluster) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port for a proxy");
        let address = listener.local_addr().expect("the address of a proxy");
        let unknown = Authority::new("nobody's CA", VALIDITY, SystemTime::now());
        let upstream = Arc::new(Upstream::new(cluster));
        let server = Server {
            address,
            known: acceptor(cluster.authority()),
            unknown: acceptor(&unknown.expect("an authority")),
            upstream: upstream.clone(),
        };
        let (fault, faults) = watch::channel(Fault::None);
        let task = tokio::spawn(server.run(listener, faults)).abort_handle();
        Self {
            address,
            fault,
            upstream,
            task,
        }
    }

    /// Returns its URL, as that of an API server.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The MultiClusterServices that were asked for by their names, in the order of the requests.
    pub fn lookups(&self) -> Vec<Lookup> {
        self.upstream.lookups.all()
    }

    /// Returns the bytes of EndpointSlices that the API server has sent.
    pub fn slice_bytes(&self) -> u64 {
        self.upstream.slice_bytes.load(Ordering::Relaxed)
    }

    /// Begins a fault, or ends it.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);

/// TLS on the loopback with a certificate of that authority.
pub(crate) fn acceptor(authority: &Authority) -> TlsAcceptor {
    let leaf = Leaf {
        common_name: "proxy".to_owned(),
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        validity: VALIDITY,
        ..Leaf::default()
    };
    let credentials = authority.issue(&leaf, SystemTime::now());
    let credentials = credentials.expect("a certificate for a proxy");
    let chain = CertificateDer::from_pem_slice(credentials.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain.expect("a certificate")], key.expect("a key"))
        .expect("a certificate with its key");
    TlsAcceptor::from(Arc::new(config))
}

struct Server {
    address: SocketAddr,
    known: TlsAcceptor,
    unknown: TlsAcceptor,
    upstream: Arc<Upstream>,
}

impl Server {
    async fn run(self, listener: TcpListener, mut faults: watch::Receiver<Fault>) {
        let mut listener = Some(listener);
        loop {
            if *faults.borrow_and_update() == Fault::Refused {
                listener = None;
                if faults.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let open = match listener.take() {
                Some(open) => open,
                None => {
                    let bound = TcpListener::bind(self.address).await;
                    bound.expect("the port that the proxy had")
                }
            };
            tokio::select! {
                accepted = open.accept() => {
                    let (stream, _) = accepted.expect("a connection");
                    self.serve(stream, &faults);
                }
                changed = faults.changed() => if changed.is_err() { return },
            }
            listener = Some(open);
        }
    }

    fn serve(&self, stream: TcpStream, faults: &watch::Receiver<Fault>) {
        let impostor = *faults.borrow() == Fault::Impostor;
        let tls = if impostor { &self.unknown } else { &self.known };
        let (tls, upstream, faults) = (tls.clone(), self.upstream.clone(), faults.clone());
        tokio::spawn(wire::serve(stream, tls, upstream, faults));
    }
}
