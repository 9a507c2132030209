//! Connections without number, and such that take their time: everybody else is answered all the
//! while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use causeway::process::open_files;
use futures::stream::{self, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use crate::client::{Client, closed, fine, post, read_answer, send};
use crate::running::{Webhook, files, nobody};

/// Memory limit of a connection, in a build without optimisation.
const EACH_KIB: i64 = 64;

/// Number of handshakes at one time.
const AT_ONCE: usize = 32;

/// An API server of sorts: sends requests over a connection that it keeps, and over new ones.
struct Honest {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    sending: JoinHandle<()>,
}

impl Honest {
    async fn new(client: &Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(AtomicUsize::new(0));
        let (client, until, counted) = (client.clone(), Arc::clone(&stop), Arc::clone(&answers));
        let mut kept = client.connect().await;
        let sending = tokio::spawn(async move {
            while !until.load(Ordering::Relaxed) {
                send(&mut kept).await;
                client.send_usual().await;
                counted.fetch_add(2, Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
            }
        });
        Self {
            stop,
            answers,
            sending,
        }
    }

    /// Waits for so many more answers.
    async fn is_answered(&self, more: usize) {
        let enough = self.answers.load(Ordering::Relaxed) + more;
        while self.answers.load(Ordering::Relaxed) < enough {
            assert!(!self.sending.is_finished(), "it was not answered");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Every request was answered, on the connection that was kept as on new ones.
    async fn ends(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sending.await.expect("every request is answered");
    }
}

async fn connections(client: &Client, number: usize) -> Vec<TlsStream<TcpStream>> {
    let connecting = (0..number).map(|_| client.connect());
    stream::iter(connecting)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// Connections on which so much was said.
async fn having_said(client: &Client, number: usize, words: &[u8]) -> Vec<TlsStream<TcpStream>> {
    let mut streams = connections(client, number).await;
    for stream in &mut streams {
        // It may have made room for others already.
        stream.write_all(words).await.ok();
    }
    streams
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_idle_connections_costs_bounded_memory() {
    assert!(
        open_files::raise() > 4096,
        "ulimit -n is too low for this test"
    );
    let files = files(nobody());
    let mut webhook = Webhook::start(files.path(), &["--max-connections=4096"]);
    let client = Client::new(&webhook, files.path());
    client.send_usual().await;
    let before = webhook.memory();
    let honest = Honest::new(&client).await;
    let mut idle = connections(&client, 1500).await;
    for stream in idle.iter_mut().take(500) {
        send(stream).await;
    }
    let mut silent = Vec::new();
    for _ in 0..700 {
        silent.push(client.plain().await);
    }
    honest.is_answered(20).await;
    webhook.until("all are accepted", |webhook| {
        webhook.metric("causeway_webhook_connections") >= 2200
    });
    let growth = webhook.memory() - before;
    println!("2200 idle connections: {growth} KiB");
    assert!(growth < 2200 * EACH_KIB, "it grew by {growth} KiB");
    assert_eq!(
        webhook.metric("causeway_webhook_connections_rejected_total{reason=\"evicted\"}"),
        0
    );
    drop((idle, silent));
    honest.ends().await;
    webhook.until("all are gone", |webhook| {
        webhook.metric("causeway_webhook_connections") == 0
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_connection_evicts_a_slow_or_idle_one_at_the_limit() {
    let files = files(nobody());
    let args = ["--max-connections=1000"];
    let mut webhook = Webhook::start(files.path(), &args);
    let client = Client::new(&webhook, files.path());
    client.send_usual().await;
    let before = webhook.memory();
    let honest = Honest::new(&client).await;
    let body = post("/mutate", &fine().to_string());
    let mut all = Vec::new();
    for _ in 0..4 {
        let idle = connections(&client, 100).await;
        let half_heads = having_said(&client, 60, b"POST /mutate HTTP/1.1\r\nX: ").await;
        let half_bodies = having_said(&client, 60, &body[..body.len() - 5]).await;
        let never_reading = having_said(&client, 20, &body.repeat(50)).await;
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(client.plain().await);
        }
        all.push((idle, half_heads, half_bodies, never_reading, silent));
        honest.is_answered(10).await;
        // Those that are evicted are counted until their tasks have ended.
        webhook.until("the limit holds", |webhook| {
            webhook.metric("causeway_webhook_connections") <= 1010
        });
    }
    honest.is_answered(10).await;
    honest.ends().await;
    let evicted = "causeway_webhook_connections_rejected_total{reason=\"evicted\"}";
    webhook.until("many are evicted", |webhook| webhook.metric(evicted) > 500);
    let growth = webhook.memory() - before;
    assert!(growth < 1000 * EACH_KIB, "it grew by {growth} KiB");
}

#[tokio::test]
async fn client_that_reads_no_answer_is_closed() {
    let files = files(nobody());
    let mut webhook = Webhook::start(files.path(), &[]);
    let client = Client::new(&webhook, files.path());
    client.send_usual().await;
    let before = webhook.memory();
    let request = post("/mutate", &fine().to_string());
    let mut stream = client.connect().await;
    let begun = std::time::Instant::now();
    let writing = async {
        // Until the webhook has had enough.
        while stream.write_all(&request.repeat(100)).await.is_ok() {}
        begun.elapsed()
    };
    let honest = Honest::new(&client).await;
    let time = tokio::time::timeout(crate::running::LONG, writing).await;
    println!("{:?}", time.expect("it is closed"));
    honest.ends().await;
    let growth = webhook.memory() - before;
    assert!(growth < 8 * 1024, "it grew by {growth} KiB");
    let slow = "causeway_webhook_connections_rejected_total{reason=\"slow\"}";
    webhook.until("it is counted", |webhook| webhook.metric(slow) == 1);
}

#[tokio::test]
async fn client_that_closes_one_half_gets_its_answer() {
    let files = files(nobody());
    let webhook = Webhook::start(files.path(), &[]);
    let client = Client::new(&webhook, files.path());
    let mut stream = client.connect().await;
    let request = post("/mutate", &fine().to_string());
    stream.write_all(&request).await.expect("it reads");
    stream.shutdown().await.expect("one half is closed");
    let answer = read_answer(&mut stream).await.expect("an answer");
    assert!(answer.is_allowed(), "{answer:?}");
    closed(stream).await;

    let mut stream = client.connect().await;
    stream
        .write_all(&request[..request.len() - 5])
        .await
        .expect("it reads");
    stream.shutdown().await.expect("one half is closed");
    let answer = read_answer(&mut stream).await.expect("an answer");
    assert_eq!(answer.code, 400, "{answer:?}");
    assert!(answer.body.contains("the body broke off"), "{answer:?}");
}

#[tokio::test]
async fn plain_http_gets_an_answer_and_other_bytes_an_alert() {
    let files = files(nobody());
    let mut webhook = Webhook::start(files.path(), &[]);
    let client = Client::new(&webhook, files.path());
    let large = [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n".to_vec(),
        vec![b'x'; 500_000],
    ]
    .concat();
    for words in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"G",
        &large,
    ] {
        let mut stream = client.plain().await;
        stream.write_all(words).await.expect("it reads");
        let answer = read_answer(&mut stream).await.expect("an answer");
        assert_eq!(answer.code, 400, "{answer:?}");
        assert_eq!(
            answer.body,
            "Client sent an HTTP request to an HTTPS server.\n"
        );
    }
    for words in [
        b"\x16\x03\x01\xff\xff".repeat(100).as_slice(),
        b"\x16\x03\x01\x00\x05hello",
        b"\x80\x2e\x01\x00\x02",
        &[0; 1000],
        b"ssh",
    ] {
        let mut stream = client.plain().await;
        // It may be closed before all of it is written.
        stream.write_all(words).await.ok();
        stream.shutdown().await.ok();
        assert!(closed(stream).await < Duration::from_secs(5));
    }
    client.send_usual().await;
    let refused = "causeway_webhook_connections_rejected_total{reason=\"plain_http\"}";
    webhook.until("all are counted", |webhook| webhook.metric(refused) == 4);
    assert!(!webhook.log().contains("panicked"), "{}", webhook.log());
}
