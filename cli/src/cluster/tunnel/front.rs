//! The front of causeway-tunnel: the address that the user gives, or a port of this machine that is
//! forwarded to a pod of causeway-tunnel through the hub's API server.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::{TunnelFront, TunnelFrontError};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::Portforwarder;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep};

use crate::cluster::admin_endpoint::{self, is_of, named_port};
use crate::cluster::api_server::{ApiServer, RequestError};

/// Port of the front in the manifests.
const PORT: i32 = 7080;
const PORT_NAME: &str = "front";
/// Time for which a failed attempt is not repeated.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum number of concurrent connections to the front.
const CONNECTIONS: usize = 1024;
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    #[error("and no port of this machine can be forwarded to it: {0}")]
    Socket(#[from] std::io::Error),
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
    let forwarder = Forwarder {
        hub: hub.clone(),
        pods: Mutex::new(ready_pods(hub).await?),
    };
    drop(forwarder.open().await?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let front = format!("http://{}", listener.local_addr()?).parse()?;
    tokio::spawn(serve(Arc::new(forwarder), listener));
    Ok(front)
}

/// Opens connections to the front in pods of causeway-tunnel.
struct Forwarder {
    hub: ApiServer,
    /// Name and port of each ready pod.
    pods: Mutex<Vec<(String, u16)>>,
}

/// Connection to a port of a pod.
struct Opened {
    pod: Portforwarder,
    port: u16,
}

impl Forwarder {
    /// Opens a connection to the first pod that gives one. Lists the pods again if none does.
    async fn open(&self) -> Result<Opened, FrontError> {
        let pods = self.pods.lock().await.clone();
        if let Ok(opened) = self.open_one_of(&pods).await {
            return Ok(opened);
        }
        let pods = ready_pods(&self.hub).await?;
        self.pods.lock().await.clone_from(&pods);
        self.open_one_of(&pods).await
    }

    async fn open_one_of(&self, pods: &[(String, u16)]) -> Result<Opened, FrontError> {
        let all = self.hub.within::<Pod>(DEFAULT_NAMESPACE);
        let mut failure = FrontError::NoPod;
        for (name, port) in pods {
            let port = *port;
            match self.hub.request(all.portforward(name, &[port])).await {
                Ok(pod) => return Ok(Opened { pod, port }),
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }
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

/// Joins a client to a pod. A client that gets no connection receives the reason, as from the
/// front.
async fn join(forwarder: &Forwarder, mut socket: TcpStream) {
    let refusal = match forwarder.open().await {
        Err(why) => format!("causeway-tunnel is not reached, {why}"),
        Ok(mut opened) => {
            let Some(mut stream) = opened.pod.take_stream(opened.port) else {
                return;
            };
            let failed = opened.pod.take_error(opened.port);
            let failed = async {
                match failed {
                    Some(failed) => failed.await,
                    None => None,
                }
            };
            tokio::select! {
                biased;
                Some(why) = failed => format!("causeway-tunnel is not reached through the hub: {why}"),
                // Either side may end the connection at any time.
                _ = copy_bidirectional(&mut socket, &mut stream) => return,
            }
        }
    };
    let printable: String = refusal.chars().filter(|c| matches!(c, ' '..='~')).collect();
    let answer = format!(
        "HTTP/1.1 502 Bad Gateway\r\nx-causeway-reason: {printable}\r\ncontent-length: 0\r\n\r\n"
    );
    // The client may be gone.
    socket.write_all(answer.as_bytes()).await.ok();
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
