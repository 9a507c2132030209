//! The front of causeway-tunnel: the address that the user gives, or a port of this machine that is
//! forwarded to the pods of causeway-tunnel, one after another, through the hub's API server.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::{TunnelFront, TunnelFrontError};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::Portforwarder;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::admin_endpoint::{self, is_of, named_port};
use crate::cluster::api_server::{ApiServer, RequestError};

/// Port of the front in the manifests.
const PORT: i32 = 7080;
const PORT_NAME: &str = "front";
/// Time for which a failed attempt is not repeated.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum time of one request to the hub, and of a pod's answer. causeway-tunnel waits 10 s for an
/// agent.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Maximum time in which a client sends its request.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of concurrent connections to the front.
const CONNECTIONS: usize = 1024;
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of a client's request, in bytes.
const REQUEST_HEAD: u64 = 16 * 1024;
/// Start of the answer of a replica that has no connection of the agent with a free stream.
const UNAVAILABLE: &[u8; 12] = b"HTTP/1.1 503";
/// Start of that answer once no other replica is left.
const REFUSED: &[u8; 12] = b"HTTP/1.1 502";

/// Reason why the front is not reached.
#[derive(Debug, thiserror::Error)]
enum FrontError {
    #[error("whose pods on the hub cannot be reached: {0}")]
    Request(RequestError),
    #[error(
        "and you may not list pods or create pods/portforward in namespace {DEFAULT_NAMESPACE} of the hub ({0}); give --tunnel-front or, \
         as an administrator: kubectl -n {DEFAULT_NAMESPACE} create role causeway-tunnel-front --verb=get,list,create \
         --resource=pods,pods/portforward, and kubectl -n {DEFAULT_NAMESPACE} create rolebinding causeway-tunnel-front \
         --role=causeway-tunnel-front --user=YOU"
    )]
    Forbidden(String),
    #[error(
        "of which namespace {DEFAULT_NAMESPACE} of the hub has no ready pod; if it runs elsewhere, give --tunnel-front http://HOST:{PORT}"
    )]
    NoPod,
    #[error("and its pod did not answer through the hub: {0}")]
    Pod(String),
    #[error("and no port of this machine can be forwarded to it: {0}")]
    Socket(#[from] io::Error),
    #[error("and no port of this machine can be forwarded to it: {0}")]
    Address(#[from] TunnelFrontError),
}

impl From<RequestError> for FrontError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NotAllowed { message, .. } => Self::Forbidden(message),
            other => Self::Request(other),
        }
    }
}

/// Returns the front of a hub's tunnel.
///
/// # Errors
/// The reason why it is not reached, as the end of a sentence on causeway-tunnel.
pub(crate) async fn front(hub: &ApiServer) -> Result<TunnelFront, String> {
    let mut last = hub.tunnel_front.lock().await;
    match &*last {
        Some((_, Ok(front))) => return Ok(front.clone()),
        Some((at, Err(why))) if at.elapsed() < RETRY => return Err(why.clone()),
        Some(_) | None => {}
    }
    let found = forward(hub).await.map_err(|why| why.to_string());
    *last = Some((Instant::now(), found.clone()));
    found
}

/// Forwards a port of the loopback interface until the program ends.
async fn forward(hub: &ApiServer) -> Result<TunnelFront, FrontError> {
    let hub = ApiServer {
        answer_within: hub.answer_within.min(ANSWER_WITHIN),
        ..hub.clone()
    };
    let forwarder = Forwarder {
        pods: Mutex::new(ready_pods(&hub).await?),
        hub,
    };
    forwarder.check().await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let front = format!("http://{}", listener.local_addr()?).parse()?;
    tokio::spawn(serve(Arc::new(forwarder), listener));
    Ok(front)
}

/// Sends requests of clients to the front in pods of causeway-tunnel.
struct Forwarder {
    hub: ApiServer,
    /// Name and port of each ready pod, in the order of attempts.
    pods: Mutex<Vec<(String, u16)>>,
}

/// Stream to a pod that has begun to answer a request.
struct Answered {
    /// First bytes of the answer.
    start: [u8; UNAVAILABLE.len()],
    stream: DuplexStream,
}

impl Answered {
    /// Sends a request, and waits for the start of the answer.
    async fn new(mut stream: DuplexStream, request: &[u8]) -> Result<Self, FrontError> {
        let mut start = [0; UNAVAILABLE.len()];
        let exchange = async {
            stream.write_all(request).await?;
            stream.read_exact(&mut start).await
        };
        let exchanged = exchange.await;
        exchanged.map_err(|why| FrontError::Pod(why.to_string()))?;
        Ok(Self { start, stream })
    }

    fn is_unavailable(&self) -> bool {
        self.start == *UNAVAILABLE
    }

    /// Passes the answer to the client, and what both send afterwards. 503 becomes 502: clients
    /// repeat a request after 503, and all replicas have answered this one.
    async fn pass(mut self, client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        if self.is_unavailable() {
            self.start = *REFUSED;
        }
        client.write_all(&self.start).await?;
        copy_bidirectional(client, &mut self.stream).await?;
        Ok(())
    }
}

impl Forwarder {
    /// Checks that the hub opens a connection to one of the pods.
    async fn check(&self) -> Result<(), FrontError> {
        let mut checked = Err(FrontError::NoPod);
        for (name, port) in &*self.pods.lock().await {
            checked = self.open(name, *port).await.map(drop);
            if checked.is_ok() {
                break;
            }
        }
        checked
    }

    /// Sends a request to the pods one after another, until one is connected to the agent of the
    /// member. Lists the pods again if none is, and repeats the request if they are others.
    async fn send(&self, request: &[u8]) -> Result<Answered, FrontError> {
        let pods = self.pods.lock().await.clone();
        let answered = self.send_to(&pods, request).await;
        if matches!(&answered, Ok(one) if !one.is_unavailable()) {
            return answered;
        }
        let tried: BTreeSet<_> = pods.iter().collect();
        match ready_pods(&self.hub).await {
            Ok(mut ready) if ready.iter().collect::<BTreeSet<_>>() != tried => {
                ready.sort_by_key(|pod| tried.contains(pod));
                self.pods.lock().await.clone_from(&ready);
                self.send_to(&ready, request).await
            }
            Ok(_) | Err(_) => answered,
        }
    }

    async fn send_to(
        &self,
        pods: &[(String, u16)],
        request: &[u8],
    ) -> Result<Answered, FrontError> {
        let attempts = pods.iter();
        let attempts = attempts.map(|(name, port)| self.send_to_one(name, *port, request));
        first_available(attempts.collect()).await
    }

    /// Sends a request to a pod. The next requests try a pod that fails last.
    async fn send_to_one(
        &self,
        name: &str,
        port: u16,
        request: &[u8],
    ) -> Result<Answered, FrontError> {
        let answered = self.exchange(name, port, request).await;
        if answered.is_err() {
            let mut pods = self.pods.lock().await;
            pods.sort_by_key(|(one, _)| one == name);
        }
        answered
    }

    async fn exchange(
        &self,
        name: &str,
        port: u16,
        request: &[u8],
    ) -> Result<Answered, FrontError> {
        let mut pod = self.open(name, port).await?;
        let (Some(stream), Some(failed)) = (pod.take_stream(port), pod.take_error(port)) else {
            return Err(FrontError::NoPod);
        };
        let answered = timeout(self.hub.answer_within, Answered::new(stream, request));
        tokio::select! {
            biased;
            Some(why) = failed => Err(FrontError::Pod(why)),
            answered = answered => answered.unwrap_or_else(|_| {
                let seconds = self.hub.answer_within.as_secs();
                Err(FrontError::Pod(format!("nothing within {seconds} s")))
            }),
        }
    }

    async fn open(&self, name: &str, port: u16) -> Result<Portforwarder, FrontError> {
        let all = self.hub.within::<Pod>(DEFAULT_NAMESPACE);
        let opened = self.hub.request(all.portforward(name, &[port])).await;
        Ok(opened?)
    }
}

/// Returns the first answer other than 503: an agent may be connected to some replicas alone.
/// Without one, returns the first error, since the agent may be connected to that replica, or 503.
async fn first_available<F>(attempts: Vec<F>) -> Result<Answered, FrontError>
where
    F: Future<Output = Result<Answered, FrontError>>,
{
    let mut refused = None;
    for attempt in attempts {
        let answered = attempt.await;
        if matches!(&answered, Ok(one) if !one.is_unavailable()) {
            return answered;
        }
        if !matches!(refused, Some(Err(_))) {
            refused = Some(answered);
        }
    }
    refused.unwrap_or(Err(FrontError::NoPod))
}

async fn ready_pods(hub: &ApiServer) -> Result<Vec<(String, u16)>, FrontError> {
    let pods = admin_endpoint::pods(hub, DEFAULT_NAMESPACE).await?;
    let pods: Vec<_> = pods.iter().filter_map(front_of).collect();
    (!pods.is_empty()).then_some(pods).ok_or(FrontError::NoPod)
}

/// Returns name and port of the front in a ready pod of causeway-tunnel.
fn front_of(pod: &Pod) -> Option<(String, u16)> {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    if !is_ready || !is_of(pod, "tunnel") || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let port = named_port(pod, PORT_NAME).unwrap_or(PORT);
    Some((pod.name_any(), u16::try_from(port).ok()?))
}

async fn serve(forwarder: Arc<Forwarder>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // Never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        let Ok((socket, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let forwarder = forwarder.clone();
        tokio::spawn(async move {
            join(&forwarder, socket).await;
            drop(place);
        });
    }
}

/// Joins a client to the first pod that accepts its request. A client that gets no connection
/// receives the reason, as from the front.
async fn join(forwarder: &Forwarder, mut socket: TcpStream) {
    // A client without a request gets no answer.
    let Ok(Ok(request)) = timeout(REQUEST_WITHIN, read_request(&mut socket)).await else {
        return;
    };
    let refusal = match forwarder.send(&request).await {
        Err(why) => format!("causeway-tunnel is not reached, {why}"),
        Ok(answered) => {
            // Either side may end the connection at any time.
            answered.pass(&mut socket).await.ok();
            return;
        }
    };
    let printable: String = refusal.chars().filter(|c| matches!(c, ' '..='~')).collect();
    let answer = format!(
        "HTTP/1.1 502 Bad Gateway\r\nx-causeway-reason: {printable}\r\ncontent-length: 0\r\n\r\n"
    );
    // The client may be gone.
    socket.write_all(answer.as_bytes()).await.ok();
}

/// Reads a request of a client. It ends with an empty line, which bytes for the member may follow.
async fn read_request(client: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut client = client.take(REQUEST_HEAD);
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if client.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use bytes::Bytes;
    use http_body_util::Full;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::io::duplex;
    use tokio::sync::Notify;
    use tokio::task::yield_now;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::server;

    /// Returns the bytes that a client receives.
    async fn passed(answered: Answered) -> String {
        let (mut client, mut socket) = duplex(1024);
        client.shutdown().await.expect("a socket");
        let passed = answered.pass(&mut socket).await;
        passed.expect("a client");
        drop(socket);
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer).await;
        read.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn pod_without_the_agent_is_followed_by_the_next() {
        let (accepted, unavailable) = ("HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 503 No\r\n\r\n");
        let refused = "HTTP/1.1 502 No\r\n\r\n";
        let failed = "and its pod did not answer through the hub: early eof";
        for (pods, expected, dialled) in [
            ([accepted, unavailable], accepted, 1),
            ([unavailable, accepted], accepted, 2),
            (["", accepted], accepted, 2),
            ([unavailable, unavailable], refused, 2),
            (["", unavailable], failed, 2),
            ([unavailable, ""], failed, 2),
        ] {
            let count = &Cell::new(0);
            let attempt = move |answer: &'static str| async move {
                count.set(count.get() + 1);
                let (stream, mut pod) = duplex(1024);
                let answers = async move {
                    let mut request = [0; 7];
                    pod.read_exact(&mut request).await.expect("a request");
                    assert_eq!(&request, b"CONNECT");
                    let (start, rest) = answer.split_at(answer.len() / 2);
                    for part in [start, rest] {
                        let answered = pod.write_all(part.as_bytes()).await;
                        answered.expect("a client");
                        yield_now().await;
                    }
                };
                tokio::join!(Answered::new(stream, b"CONNECT"), answers).0
            };
            let attempts = pods.into_iter().map(attempt).collect();
            let answer = match first_available(attempts).await {
                Ok(answered) => passed(answered).await,
                Err(why) => why.to_string(),
            };
            assert_eq!(answer, expected, "{pods:?}");
            assert_eq!(count.get(), dialled, "{pods:?}");
        }
    }

    #[tokio::test]
    async fn failed_pod_is_last_in_the_next_attempts() {
        let dialled = Arc::new(Notify::new());
        let second = dialled.clone();
        // Pod a fails, pod b hangs.
        let answers = service_fn(move |request: http::Request<Body>| {
            let second = second.clone();
            async move {
                if request.uri().path().contains("/pods/b/") {
                    second.notify_one();
                    pending::<()>().await;
                }
                let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":404}"#;
                let body = Full::new(Bytes::from(status));
                let answer = http::Response::builder().status(404).body(body);
                answer.map_err(BoxError::from)
            }
        });
        let hub = server(Side::Hub, Client::new(answers, "default"));
        let pod = |name: &str| (name.to_owned(), 7080);
        let forwarder = Forwarder {
            hub,
            pods: Mutex::new(vec![pod("a"), pod("b")]),
        };
        let is_answered = tokio::select! {
            _ = forwarder.send(b"CONNECT") => true,
            () = dialled.notified() => false,
        };
        assert!(!is_answered);
        assert_eq!(*forwarder.pods.lock().await, [pod("b"), pod("a")]);
    }

    #[tokio::test]
    async fn request_ends_with_an_empty_line_within_16_kib() {
        let end = "\r\n\r\n";
        let longest = "a".repeat(16 * 1024 - end.len());
        let longer = format!("{longest}a");
        for (parts, is_request) in [
            (["CONNECT a:443 HTTP/1.1\r\n\r", "\nb"], true),
            (["CONNECT a:443 HTTP/1.1\r\n", ""], false),
            ([longest.as_str(), end], true),
            ([longer.as_str(), end], false),
        ] {
            let (mut client, mut socket) = duplex(32 * 1024);
            let sends = async move {
                for part in parts {
                    let sent = client.write_all(part.as_bytes()).await;
                    sent.expect("a socket");
                    yield_now().await;
                }
            };
            let (read, ()) = tokio::join!(read_request(&mut socket), sends);
            assert_eq!(read.is_ok(), is_request, "{} bytes", parts[0].len());
            if let Ok(mut received) = read {
                let rest = socket.read_to_end(&mut received).await;
                rest.expect("the rest");
                assert_eq!(received, parts.concat().as_bytes());
            }
        }
    }

    #[test]
    fn only_ready_pods_of_causeway_tunnel_are_forwarded_to() {
        let pod = |component: &str, ready: &str, ports: Value| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "a", "labels": {"app.kubernetes.io/component": component}},
                "spec": {"containers": [{"name": "a", "ports": ports}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }))
            .expect("a pod")
        };
        let front =
            json!([{"name": "admin", "containerPort": 1}, {"name": "front", "containerPort": 2}]);
        for (pod, expected) in [
            (pod("tunnel", "True", front.clone()), Some(2)),
            (pod("tunnel", "True", json!([])), Some(7080)),
            (pod("tunnel", "False", front.clone()), None),
            (pod("controller", "True", front), None),
        ] {
            assert_eq!(front_of(&pod).map(|(_, port)| port), expected);
        }
    }
}
