//! A hub of a few objects, over plain HTTP, that can be made to fail in ways that a real one does
//! not on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Answers by path and query, and what was requested of it.
#[derive(Clone, Default)]
pub(crate) struct FakeHub {
    answers: Arc<Mutex<BTreeMap<String, (StatusCode, Value)>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeHub {
    /// Answers requests for that path (and query) so; to others as an API server that lacks the
    /// object or the kind.
    pub(crate) fn answers(&self, path: &str, code: StatusCode, body: Value) {
        let mut answers = self.answers.lock().expect("no panic");
        answers.insert(path.to_owned(), (code, body));
    }

    /// Returns the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().expect("no panic"))
    }

    /// Serves, and returns a client.
    pub(crate) async fn client(&self) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let hub = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let hub = hub.clone();
                let service = service_fn(move |request| {
                    let answer = hub.answer(&request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        client(address)
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().to_string();
        let answers = self.answers.lock().expect("no panic");
        let (code, body) = answers.get(&path).cloned().unwrap_or_else(|| {
            if path == "/apis" {
                return (StatusCode::OK, groups());
            }
            let name = path.rsplit('/').next().filter(|name| !name.contains('?'));
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not found",
                "reason": "NotFound", "code": 404, "details": {"name": name}});
            (StatusCode::NOT_FOUND, status)
        });
        self.requests.lock().expect("no panic").push(path);
        let mut response = Response::new(Full::from(body.to_string()));
        *response.status_mut() = code;
        response
    }
}

/// API groups of a hub without Clusters.
pub(crate) fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "networking.karmada.io",
        "versions": [{"groupVersion": "networking.karmada.io/v1alpha1", "version": "v1alpha1"}]}]})
}

/// A client of a hub that nobody listens for.
pub(crate) async fn unreachable() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    client(listener.local_addr().expect("an address"))
}

/// A client of a hub that takes connections and never answers.
pub(crate) async fn silent() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    client(address)
}

fn client(address: SocketAddr) -> Client {
    causeway::process::kube_client::install_crypto_provider();
    let url = format!("http://{address}").parse().expect("a URL");
    let mut config = Config::new(url);
    causeway::process::kube_client::harden(&mut config);
    Client::try_from(config).expect("a client")
}
