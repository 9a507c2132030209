//! Real HTTP, one request at a time, answered as the test says.

use std::collections::HashMap;
use std::time::Duration;

use http::Uri;
use kube::{Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A request that waits for its answer; it is cut off where there is none.
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    stream: TcpStream,
}

/// A client of a server of its own, the requests that it makes, and the task that takes them.
pub(crate) async fn listen() -> (Client, mpsc::Receiver<Received>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let (ask, requests) = mpsc::channel(8);
    let accepting = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let ask = ask.clone();
            tokio::spawn(async move {
                if let Some(asked) = Received::read(stream).await {
                    ask.send(asked).await.ok();
                }
            });
        }
    });
    let mut config = Config::new(url);
    config.default_retry = false;
    (Client::try_from(config).unwrap(), requests, accepting)
}

impl Received {
    async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).ok()?;
        let target = head.split_whitespace().nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Some(Self {
            path: path.to_owned(),
            query: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            stream,
        })
    }

    /// Whether it asks for nothing but the newest version.
    pub(crate) fn asks_for_the_newest(&self) -> bool {
        self.query.get("limit").is_some_and(|limit| limit == "1")
    }

    /// Answers one who may hang up before the end.
    pub(crate) async fn answer_in_part(mut self, code: u16, body: &str) {
        let length = body.len();
        let head =
            format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        self.stream.write_all((head + body).as_bytes()).await.ok();
    }

    pub(crate) async fn answer(mut self, code: u16, body: &str) {
        let head = format!(
            "HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream
            .write_all((head + body).as_bytes())
            .await
            .unwrap();
        self.stream.shutdown().await.unwrap();
    }

    pub(crate) async fn refuse(self, code: u16, reason: &str, message: &str) {
        self.answer(code, &status(code, reason, message)).await;
    }

    /// Answers that the object of this name does not exist, as an API server does.
    pub(crate) async fn not_found(self, name: &str) {
        let details = format!(r#","details":{{"name":"{name}"}},"code":"#);
        let status = status(404, "NotFound", "not found").replace(r#","code":"#, &details);
        self.answer(404, &status).await;
    }

    pub(crate) async fn accept(&mut self) {
        let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        self.stream.write_all(head).await.unwrap();
    }

    pub(crate) async fn chunk(&mut self, text: &str) {
        self.stream
            .write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
            .await
            .unwrap();
    }

    pub(crate) async fn event(&mut self, kind: &str, object: &str) {
        self.chunk(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
            .await;
    }

    pub(crate) async fn end(mut self) {
        self.stream.write_all(b"0\r\n\r\n").await.unwrap();
        self.stream.shutdown().await.unwrap();
    }
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","code":{code}}}"#
    )
}
