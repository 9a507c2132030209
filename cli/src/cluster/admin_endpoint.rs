//! Access to the admin endpoints of causeway's processes, through the hub's API server or a URL.

use causeway::api::labels;
use futures::AsyncReadExt as _;
use http::{Request, Uri};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Config, ResourceExt as _};

use crate::cluster::access::Side;
use crate::cluster::api_server::{ApiServer, RequestError};

/// Port on which the processes serve `/livez`, `/readyz` and `/metrics` in the manifests.
const PORT: i32 = 8081;
const PORT_NAME: &str = "admin";
/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 32 * 1024 * 1024;

/// Failed request to an admin endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the request cannot be made: {0}")]
    Http(#[from] http::Error),
    #[error("{0} answers more than {ANSWER_MAX} bytes")]
    TooLong(String),
    #[error(
        "{url} answers nothing: {why}; give the address of --admin-bind, or that of kubectl port-forward"
    )]
    Unreachable { url: String, why: String },
    #[error(
        "you may not get pods/proxy in namespace {namespace} of the hub ({message}); as an administrator: {}",
        grant(namespace)
    )]
    Forbidden { namespace: String, message: String },
    #[error(
        "the hub's API server does not reach pod {namespace}/{pod} ({message}); kubectl -n {namespace} port-forward {pod} {PORT}, then give \
         --admin-url http://127.0.0.1:{PORT}"
    )]
    NotProxied {
        namespace: String,
        pod: String,
        message: String,
    },
}

/// Returns the commands that grant a user the right to read metrics.
fn grant(namespace: &str) -> String {
    format!(
        "kubectl -n {namespace} create role causeway-metrics --verb=get,list --resource=pods,pods/proxy, and kubectl -n {namespace} create \
         rolebinding causeway-metrics --role=causeway-metrics --user=YOU"
    )
}

/// Location of one process's admin endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminEndpoint {
    /// Pod of the hub, reached through the proxy of the hub's API server.
    Pod {
        namespace: String,
        name: String,
        port: i32,
    },
    /// Base URL, for example `http://127.0.0.1:8081`.
    Url(Uri),
}

impl AdminEndpoint {
    /// Returns the endpoint of a pod. A pod without a port named `admin` gets [`PORT`].
    pub(crate) fn of(pod: &Pod) -> Self {
        Self::Pod {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            port: named_port(pod, PORT_NAME).unwrap_or(PORT),
        }
    }

    /// Returns the name of the pod, or the host and port of the URL, without its user.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Pod { name, .. } => name.clone(),
            Self::Url(url) => match (url.host(), url.port()) {
                (Some(host), Some(port)) => format!("{host}:{port}"),
                (host, _) => host.unwrap_or_default().to_owned(),
            },
        }
    }

    /// Sends a GET request for a path, for example `/metrics`, and returns the body.
    pub(crate) async fn get(&self, hub: &ApiServer, path: &str) -> Result<String, AdminError> {
        let answer = match self {
            Self::Pod {
                namespace,
                name,
                port,
            } => {
                let uri = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy{path}");
                let answer = read(hub, &uri).await?;
                answer.map_err(|error| self.failure(error))?
            }
            Self::Url(url) => {
                let server = ApiServer::new(Side::Hub, Config::new(url.clone()))?;
                let base = url.path().trim_end_matches('/');
                let answer = read(&server, &format!("{base}{path}")).await?;
                answer.map_err(|error| AdminError::Unreachable {
                    url: url.to_string(),
                    why: match error {
                        RequestError::Unreachable { why, .. } => why,
                        other => other.to_string(),
                    },
                })?
            }
        };
        match answer.len() > ANSWER_MAX {
            true => Err(AdminError::TooLong(self.name())),
            false => Ok(answer),
        }
    }

    fn failure(&self, error: RequestError) -> AdminError {
        match (self, error) {
            (Self::Pod { namespace, .. }, RequestError::NotAllowed { message, .. }) => {
                AdminError::Forbidden {
                    namespace: namespace.clone(),
                    message,
                }
            }
            (
                Self::Pod {
                    namespace, name, ..
                },
                RequestError::Busy { message, .. } | RequestError::Unreachable { why: message, .. },
            ) => AdminError::NotProxied {
                namespace: namespace.clone(),
                pod: name.clone(),
                message,
            },
            (_, other) => other.into(),
        }
    }
}

/// Reads an answer, at most a byte more than [`ANSWER_MAX`].
async fn read(server: &ApiServer, uri: &str) -> Result<Result<String, RequestError>, http::Error> {
    let request = Request::get(uri).body(Vec::new())?;
    let answer = async {
        let body = server.client.request_stream(request).await?;
        let mut text = String::new();
        let mut body = body.take(ANSWER_MAX as u64 + 1);
        let read = body.read_to_string(&mut text).await;
        read.map_err(kube::Error::ReadEvents)?;
        Ok(text)
    };
    Ok(server.request(answer).await)
}

/// Returns the given admin addresses, or else those of the component's pods in a namespace of the
/// hub that have not ended.
///
/// # Errors
/// [`RequestError`] if the pods cannot be listed.
pub(crate) async fn of_component(
    hub: &ApiServer,
    given: &[Uri],
    (namespace, component): (&str, &str),
) -> Result<Vec<AdminEndpoint>, RequestError> {
    if !given.is_empty() {
        return Ok(given.iter().cloned().map(AdminEndpoint::Url).collect());
    }
    let pods = pods(hub, namespace).await?;
    let pods = pods.iter().filter(|pod| is_of(pod, component));
    let pods = pods.filter(|pod| !has_ended(pod));
    Ok(pods.map(AdminEndpoint::of).collect())
}

/// Lists causeway's pods in a namespace of the hub, sorted by name.
pub(crate) async fn pods(hub: &ApiServer, namespace: &str) -> Result<Vec<Pod>, RequestError> {
    let of_causeway = format!("{}={}", labels::NAME, labels::MANAGER);
    let parameters = ListParams::default().labels(&of_causeway);
    let mut pods: Vec<Pod> = hub.list(hub.within(namespace), &parameters).await?;
    pods.sort_by_key(|pod| pod.name_any());
    Ok(pods)
}

/// Returns the port of a pod with that name.
pub(crate) fn named_port(pod: &Pod, name: &str) -> Option<i32> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(name));
    port.map(|port| port.container_port)
}

/// Whether a pod runs the given component, `controller`, `webhook` or `tunnel`.
pub(crate) fn is_of(pod: &Pod, component: &str) -> bool {
    let label = pod.labels().get("app.kubernetes.io/component");
    label.is_some_and(|label| label == component)
}

/// Whether a pod runs no more, as one that was evicted: it stays until somebody deletes it.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_were_evicted_have_ended() {
        for (status, expected) in [
            (json!({"phase": "Running"}), false),
            (json!({"phase": "Pending"}), false),
            (json!({"phase": "Failed", "reason": "Evicted"}), true),
            (json!({"phase": "Succeeded"}), true),
            (json!({}), false),
        ] {
            let pod = json!({"metadata": {"name": "a"}, "status": status});
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            assert_eq!(has_ended(&pod), expected, "{status}");
        }
    }

    #[test]
    fn the_port_is_that_of_the_name_admin() {
        let pod = |ports| -> Pod {
            let container = json!({"name": "controller", "ports": ports});
            serde_json::from_value(json!({
                "metadata": {"name": "a", "namespace": "causeway-system"},
                "spec": {"containers": [container]},
            }))
            .expect("a pod")
        };
        for (ports, expected) in [
            (json!([]), 8081),
            (json!([{"name": "https", "containerPort": 9443}]), 8081),
            (
                json!([{"name": "https", "containerPort": 9443}, {"name": "admin", "containerPort": 9090}]),
                9090,
            ),
        ] {
            let AdminEndpoint::Pod { port, .. } = AdminEndpoint::of(&pod(ports)) else {
                panic!("a pod's");
            };
            assert_eq!(port, expected);
        }
    }
}
