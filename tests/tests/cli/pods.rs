//! Pods of a hub that stand for processes of this machine: what the hub's API server proxies to
//! them reaches these, and a kubelet has logs and forwards ports.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::write::merge_status;
use causeway_tests::{Cluster, Fleet, Installation};
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

const NODE: &str = "node";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The logs that the kubelet has, by `pod/container`, with `?previous` behind it for the container
/// before.
type Logs = Arc<Mutex<HashMap<String, String>>>;

/// A node of the hub on which such pods are.
pub(crate) struct Pods<'a> {
    hub: &'a Cluster,
    address: IpAddr,
    logs: Logs,
}

impl<'a> Pods<'a> {
    /// A node of the hub, and its kubelet.
    ///
    /// # Errors
    /// What is missing on this machine: for a line that says what is skipped.
    pub(crate) async fn start(
        fleet: &'a Fleet,
        installation: &Installation,
    ) -> Result<Self, String> {
        Self::start_on(fleet.hub(), fleet, installation).await
    }

    /// A node of that cluster, and its kubelet.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub(crate) async fn start_on(
        hub: &'a Cluster,
        fleet: &Fleet,
        installation: &Installation,
    ) -> Result<Self, String> {
        let address = fleet.endpoint_address()?;
        let logs = Logs::default();
        let listener = TcpListener::bind((address, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(serve(listener, acceptor(installation), Arc::clone(&logs)));
        let nodes = Api::<Node>::all(hub.client());
        let node = json!({"metadata": {"name": NODE}});
        let node: Node = serde_json::from_value(node).expect("a node");
        nodes
            .create(&PostParams::default(), &node)
            .await
            .expect("a node");
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        merge_status(&nodes, NODE, status).await;
        Ok(Self { hub, address, logs })
    }

    /// A pod that stands for the process with this admin address; `container` is what its only
    /// container has beside its name and image.
    pub(crate) async fn add(&self, name: &str, component: &str, admin: &str, container: Value) {
        let listener = TcpListener::bind((self.address, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(forward(listener, admin.parse().expect("an address")));
        let mut spec = json!({
            "name": component,
            "image": format!("causeway/causeway-{component}:1"),
            "ports": [{"name": "admin", "containerPort": port}],
            // As the namespace demands it.
            "securityContext": {
                "allowPrivilegeEscalation": false, "runAsNonRoot": true,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
            },
        });
        let mut more = container.as_object().expect("a map").clone();
        let ports = spec["ports"].as_array_mut().expect("a list");
        let more_ports = more.remove("ports").unwrap_or_default();
        ports.extend(more_ports.as_array().into_iter().flatten().cloned());
        spec.as_object_mut().expect("a map").extend(more);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
                "app.kubernetes.io/name": "causeway", "app.kubernetes.io/component": component,
            }},
            "spec": {"nodeName": NODE, "containers": [spec]},
        }))
        .expect("a pod");
        let pods = Api::<Pod>::namespaced(self.hub.client(), NAMESPACE);
        pods.create(&PostParams::default(), &pod)
            .await
            .expect("a pod");
        let terminated =
            json!({"exitCode": 137, "reason": "Error", "containerID": "containerd://0"});
        let status = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": self.address, "podIPs": [{"ip": self.address}],
            "containerStatuses": [{
                "name": component, "ready": true, "restartCount": 1,
                "image": format!("causeway/causeway-{component}:1"), "imageID": "sha256:0",
                "state": {"running": {}}, "lastState": {"terminated": terminated},
            }],
        }});
        merge_status(&pods, name, status).await;
    }

    /// Sets the log of a pod's container; `previous` is that of the previous container.
    pub(crate) fn log(&self, pod: &str, component: &str, previous: bool, text: &str) {
        let key = key(pod, component, previous);
        self.logs.lock().insert(key, text.to_owned());
    }
}

fn key(pod: &str, container: &str, previous: bool) -> String {
    let previous = if previous { "?previous" } else { "" };
    format!("{pod}/{container}{previous}")
}

/// As kubelets serve: TLS, with a certificate that API servers do not verify unless they have an
/// authority for it.
fn acceptor(installation: &Installation) -> TlsAcceptor {
    let credentials = installation.certificate(DAY);
    let chain = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate that fits its key");
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, logs: Logs) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, logs) = (tls.clone(), Arc::clone(&logs));
        // A connection that breaks is the API server's to make again.
        tokio::spawn(async move { answer(stream, tls, &logs).await.ok() });
    }
}

async fn answer(stream: TcpStream, tls: TlsAcceptor, logs: &Logs) -> std::io::Result<()> {
    let mut stream = tls.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let target = request.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path.starts_with("/portForward/") {
        return forward_port(stream, &request, query).await;
    }
    // /containerLogs/NAMESPACE/POD/CONTAINER
    let mut parts = path.split('/').skip(3);
    let (pod, container) = (parts.next(), parts.next());
    let key = key(
        pod.unwrap_or_default(),
        container.unwrap_or_default(),
        query.contains("previous=true"),
    );
    let log = logs.lock().get(&key).cloned();
    let (status, text) = match log {
        Some(log) => ("200 OK", log),
        None => ("404 Not Found", format!("no log {key}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Joins a port of the loopback, where the processes are that pods stand for, by the protocol
/// v4.channel.k8s.io: each message begins with its channel, 0 for data and 1 for an error, and the
/// first of each channel names the port.
async fn forward_port(
    mut stream: TlsStream<TcpStream>,
    request: &str,
    query: &str,
) -> std::io::Result<()> {
    let mut headers = request.lines().filter_map(|line| line.split_once(": "));
    let key = headers.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let accept = derive_accept_key(key.expect("a WebSocket").1.as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {accept}\r\nsec-websocket-protocol: v4.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let port: u16 = query.trim_start_matches("port=").parse().expect("a port");
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (mut read, mut write) = socket.into_split();
    let mut messages = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let [low, high] = port.to_le_bytes();
    for channel in [0, 1] {
        let named = Message::binary(vec![channel, low, high]);
        messages.send(named).await.map_err(std::io::Error::other)?;
    }
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(Ok(Message::Binary(bytes))) => write.write_all(&bytes[1..]).await?,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => {}
            },
            count = read.read(&mut buffer) => {
                let count = count?;
                if count == 0 {
                    return messages.close(None).await.map_err(std::io::Error::other);
                }
                let message = Message::binary([&[0], &buffer[..count]].concat());
                messages.send(message).await.map_err(std::io::Error::other)?;
            }
        }
    }
}

async fn forward(listener: TcpListener, to: SocketAddr) {
    while let Ok((mut from, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut to = TcpStream::connect(to).await?;
            tokio::io::copy_bidirectional(&mut from, &mut to).await
        });
    }
}
