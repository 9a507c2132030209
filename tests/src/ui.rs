//! `kubectl mcs ui`, started, and a client that sees of it what a browser would.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::Environment;
use crate::binaries;
use crate::eventually::{START, eventually};
use crate::reaper::{Process, Program, Reaper};

/// `kubectl mcs ui` at work. It ends when this is dropped.
pub struct Ui {
    process: Process,
    address: String,
    token: String,
}

/// An answer that has ended.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: String,
}

impl Environment {
    /// Starts the page, as an administrator of the hub sees it.
    pub async fn ui(&self, args: &[&str]) -> Ui {
        self.ui_of(&self.hub().kubeconfig(), args).await
    }

    /// Starts the page with this kubeconfig.
    pub async fn ui_of(&self, kubeconfig: &Path, args: &[&str]) -> Ui {
        let fleet = &self.fleet;
        Ui::start(fleet.reaper(), fleet.directory(), kubeconfig, args).await
    }
}

impl Ui {
    /// Starts it with this kubeconfig and these arguments, and waits until it says where it serves.
    pub async fn start(
        reaper: &Arc<Reaper>,
        directory: &Path,
        kubeconfig: &Path,
        args: &[&str],
    ) -> Self {
        static STARTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = STARTED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = directory.join(format!("kubectl-mcs-ui-{number}.log"));
        let program = Program::new(binaries::causeway("kubectl-mcs"), &log)
            .args(["ui", "--no-browser", "--kubeconfig"])
            .arg(kubeconfig.display().to_string())
            .args(args.iter().copied());
        let process = reaper.run(program);
        let url = eventually("kubectl mcs ui says where it serves", START, || async {
            let said = process.log_tail(20);
            assert!(process.is_running(), "kubectl mcs ui has ended:\n{said}");
            let mut lines = said.lines();
            let url = lines.find_map(|line| line.strip_prefix("http://"));
            url.map(str::to_owned)
        })
        .await;
        let (address, path) = url.split_once('/').expect("a path");
        Self {
            address: address.to_owned(),
            token: path.trim_end_matches('/').to_owned(),
            process,
        }
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The token in the path.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// A request of that method for a path below the token, as the page itself sends it.
    pub fn request(&self, method: &str, path: &str) -> http::request::Builder {
        self.bare_request(method, &format!("/{}/{path}", self.token))
            .header("host", &self.address)
    }

    /// A request without any header.
    pub fn bare_request(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(path)
    }

    /// Sends a request and reads the whole answer, or the head and what comes within a second of a
    /// stream.
    pub async fn send(&self, request: http::request::Builder) -> Answer {
        const STREAMED: Duration = Duration::from_secs(1);
        let (head, mut body) = self.open(request).await.into_parts();
        let mut all = Vec::new();
        let read = async {
            while let Some(Ok(frame)) = body.frame().await {
                all.extend(frame.into_data().unwrap_or_default());
            }
        };
        tokio::time::timeout(STREAMED, read).await.ok();
        Answer {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8_lossy(&all).into_owned(),
        }
    }

    async fn open(&self, request: http::request::Builder) -> http::Response<Incoming> {
        let stream = TcpStream::connect(&self.address).await.expect("it listens");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        let request = request.body(Empty::<Bytes>::new()).expect("a request");
        sender.send_request(request).await.expect("an answer")
    }

    /// The events of a stream below the token.
    pub async fn events(&self, path: &str) -> Events {
        let answer = self.open(self.request("GET", path)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        Events {
            body: answer.into_body(),
            text: String::new(),
        }
    }

    /// The page, from its first snapshot.
    pub async fn page(&self) -> Page {
        let mut page = Page {
            events: self.events("api/events").await,
            server: Value::Null,
            clusters: BTreeMap::new(),
            services: BTreeMap::new(),
            snapshots: 0,
        };
        page.next().await;
        page
    }
}

/// A stream of server-sent events.
pub struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    /// The next event: its name and its data. Panics where the stream ends.
    pub async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let parsed = parse(event);
                self.text = rest.to_owned();
                if let Some(parsed) = parsed {
                    return parsed;
                }
                continue;
            }
            let frame = self.body.frame().await.expect("the stream goes on");
            let data = frame.expect("a frame").into_data().unwrap_or_default();
            self.text
                .push_str(std::str::from_utf8(&data).expect("text"));
        }
    }

    /// Reads events until one of that name holds, and returns its data. Panics after `within`.
    pub async fn until(
        &mut self,
        name: &str,
        within: Duration,
        mut holds: impl FnMut(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let wait = async {
            loop {
                let (event, data) = self.next().await;
                if event == name && holds(&data) {
                    return data;
                }
                last = data;
            }
        };
        match tokio::time::timeout(within, wait).await {
            Ok(data) => data,
            Err(_) => panic!("no such {name} within {within:?}; the last event: {last:#}"),
        }
    }
}

/// `None` of a comment.
fn parse(event: &str) -> Option<(String, Value)> {
    let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
    let data = serde_json::from_str(data).expect("JSON");
    Some((name.to_owned(), data))
}

/// Content of the page, updated by its events.
pub struct Page {
    events: Events,
    /// State of the server.
    pub server: Value,
    /// The clusters, by name.
    pub clusters: BTreeMap<String, Value>,
    /// The services, by key.
    pub services: BTreeMap<String, Value>,
    /// Number of snapshots.
    pub snapshots: usize,
}

impl Page {
    /// Applies the next event; the keys of the services that it changed.
    pub async fn next(&mut self) -> Vec<String> {
        let (name, data) = self.events.next().await;
        if name == "snapshot" {
            self.snapshots += 1;
            self.clusters.clear();
            self.services.clear();
        }
        if let Some(server) = data.get("server") {
            self.server = server.clone();
        }
        let rows = |list: &str| data[list].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().expect("a key").to_owned();
        for row in rows("clusters") {
            self.clusters.insert(text(&row["name"]), row);
        }
        let mut changed = Vec::new();
        for row in rows("services") {
            let key = text(&row["key"]);
            changed.push(key.clone());
            self.services.insert(key, row);
        }
        for gone in rows("removedClusters") {
            self.clusters.remove(&text(&gone));
        }
        for gone in rows("removedServices") {
            self.services.remove(&text(&gone));
            changed.push(text(&gone));
        }
        changed
    }

    /// Applies events until the page shows this; how long that took. Panics after `within`.
    pub async fn until(
        &mut self,
        what: &str,
        within: Duration,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Duration {
        let begun = Instant::now();
        while !holds(self) {
            let left = within.saturating_sub(begun.elapsed());
            if tokio::time::timeout(left, self.next()).await.is_err() {
                panic!("not within {within:?}: {what}\n{self:#?}");
            }
        }
        begun.elapsed()
    }

    /// The row of a cluster; null where it has none.
    pub fn cluster(&self, name: &str) -> &Value {
        self.clusters.get(name).unwrap_or(&Value::Null)
    }

    /// The row of the MultiClusterService of a namespace and a name; null where it has none.
    pub fn service(&self, namespace: &str, name: &str) -> &Value {
        let key = format!("MultiClusterService/{namespace}/{name}");
        self.services.get(&key).unwrap_or(&Value::Null)
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "server: {:#}", self.server)?;
        for row in self.clusters.values().chain(self.services.values()) {
            writeln!(out, "{row:#}")?;
        }
        Ok(())
    }
}
