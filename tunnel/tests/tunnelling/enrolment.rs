//! Agents that get their certificates from causeway-tunnel, with real API servers of hub and
//! member.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api::labels;
use causeway::domain::ClusterName;
use causeway::domain::enrolment::{
    CLUSTER_UID, EXPIRES, HASH, NAME, NAMESPACE, TOKEN, bootstrap_name, member_name,
};
use causeway::process::Process;
use causeway::process::certificate::authorities;
use causeway_certs::{Authority, Leaf, RequestKey};
use causeway_tests::Fleet;
use causeway_tests::write::merge;
use causeway_tunnel::agent::{Agent, Enrolment, Peers, Route};
use causeway_tunnel::credentials::Credentials;
use causeway_tunnel::digest::Digest;
use causeway_tunnel::enrolment::{ENROL_ALPN, RENEW_ALPN, REQUEST_MAX};
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::splice::Shared;
use causeway_tunnel::tunnel::Signer;
use hyper_util::client::proxy::matcher::Matcher;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use rustls::ClientConfig;
use rustls::crypto::ring;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::environment::{
    HUB, Hub, LOCAL, Member, Replica, SOON, api, echo, echoing, eventually, limits,
};

const DAY: Duration = Duration::from_secs(24 * 3600);
const TOKEN_OF_EDGE: &str = "a token of edge";
/// UID of each member's Cluster.
const UID: &str = "7d5f1c7e-2f51-4a27-8f6e-0d6f3f0c8a11";
/// Name of the agent's Secret, in a namespace of each test.
const SECRET: &str = "causeway-agent";

/// A hub and a member, which the tests share.
async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    let start = async || {
        let fleet = Fleet::builder().members(1).start().await;
        fleet.hub().create_namespace(NAMESPACE).await;
        fleet
    };
    FLEET.get_or_init(start).await
}

/// The authorities of a hub, and a member of this name alone.
struct Stage {
    fleet: &'static Fleet,
    hub: Hub,
    enrolment: Authority,
    files: tempfile::TempDir,
    name: ClusterName,
}

impl Stage {
    async fn new(name: &str) -> Self {
        let now = SystemTime::now();
        let enrolment = Authority::new("enrolment", 100 * DAY, now).expect("an authority");
        let files = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("ca.crt", enrolment.pem()),
            ("ca.key", &enrolment.key_pem()),
        ] {
            std::fs::write(files.path().join(name), text).expect("a file");
        }
        let stage = Self {
            fleet: fleet().await,
            hub: Hub::new(),
            enrolment,
            files,
            name: ClusterName::try_from(name).expect("a name"),
        };
        stage.create(&member_name(&stage.name), &[]).await;
        stage
    }

    /// Starts a replica that issues certificates of this life, and an agent that enrols.
    async fn enrolled(name: &str, certificate: Duration) -> (Self, Replica, Api<Secret>, Enrolled) {
        let stage = Self::new(name).await;
        stage.invite(TOKEN_OF_EDGE, MINUTE).await;
        let limits = Limits {
            certificate,
            ..quick()
        };
        let replica = stage.replica(limits).await;
        let secrets = stage.agent_secret().await;
        let agent = stage.agent(&replica, &secrets).await;
        (stage, replica, secrets, agent)
    }

    async fn replica(&self, limits: Limits) -> Replica {
        self.replica_of(limits, self.fleet.hub().client()).await
    }

    async fn replica_of(&self, limits: Limits, hub: Client) -> Replica {
        let signer = Signer::read(self.files.path()).expect("an authority");
        let enrolment = Some((signer, hub));
        Replica::start_with(&self.hub, limits, ("tunnel-0", 1), enrolment).await
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.fleet.hub().client(), NAMESPACE)
    }

    async fn create(&self, name: &str, data: &[(&str, &str)]) {
        let label = (labels::CLUSTER.to_owned(), self.name.to_string());
        let secret = secret(name, data, BTreeMap::from([label]));
        let (secrets, parameters) = (self.secrets(), PostParams::default());
        let created = secrets.create(&parameters, &secret).await;
        created.expect("a Secret");
    }

    /// Lets the token enrol the member, from now on for this time.
    async fn invite(&self, token: &str, within: SignedDuration) {
        let secrets = self.secrets();
        let name = bootstrap_name(&self.name);
        if secrets.get_opt(&name).await.expect("an answer").is_some() {
            let deleted = secrets.delete(&name, &DeleteParams::default()).await;
            deleted.expect("it is deleted");
        }
        let hash = Digest::of(token.as_bytes()).hex();
        let expires = (Timestamp::now() + within).to_string();
        let data = [
            (HASH, hash.as_str()),
            (EXPIRES, &expires),
            (CLUSTER_UID, UID),
        ];
        self.create(&name, &data).await;
    }

    /// Creates the Secret of the agent in the member, in a namespace of its own.
    async fn agent_secret(&self) -> Api<Secret> {
        let member = self.fleet.member("member1");
        member.create_namespace(self.name.as_str()).await;
        let secrets = Api::<Secret>::namespaced(member.client(), self.name.as_str());
        self.apply_file(&secrets, TOKEN_OF_EDGE).await;
        secrets
    }

    /// Creates the Secret of the file with that token.
    async fn apply_file(&self, secrets: &Api<Secret>, token: &str) {
        let data = [
            ("ca.crt", self.hub.authority.pem()),
            (NAME, self.name.as_str()),
            (TOKEN, token),
        ];
        let secret = secret(SECRET, &data, BTreeMap::new());
        let created = secrets.create(&PostParams::default(), &secret).await;
        created.expect("a Secret");
    }

    /// Starts the agent with its Secret.
    async fn agent(&self, replica: &Replica, secrets: &Api<Secret>) -> Enrolled {
        let process = Process::start(LOCAL.into()).await.expect("a process");
        let peers = Arc::new(Peers {
            route: Route::Dialled(replica.agents.to_string().parse().expect("an address")),
            tokens: None,
            proxies: Matcher::builder().build(),
            api: api().await.to_string(),
        });
        let shared = Shared::new(limits(), &Metrics::default());
        let (secrets, secret) = (secrets.clone(), SECRET.to_owned());
        let enrolment = Enrolment::new(peers.clone(), secrets, secret, shared.clone());
        let tasks = process.tasks.clone();
        let shutdown = tasks.shutdown();
        process.tasks.spawn("enrolment", async move {
            let kept = async {
                let credentials = enrolment.credentials().await;
                let agent = Agent::new(peers, credentials.clone(), shared, tasks.clone());
                tasks.spawn("connections", agent.run());
                enrolment.renew(credentials).await;
            };
            shutdown.run_until_cancelled(kept).await;
        });
        Enrolled(process)
    }
}

/// An agent that enrols, until it is dropped.
struct Enrolled(Process);

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.0.tasks.shutdown().cancel();
    }
}

fn secret(name: &str, data: &[(&str, &str)], labels: BTreeMap<String, String>) -> Secret {
    let bytes = |value: &str| ByteString(value.as_bytes().to_vec());
    let data = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), bytes(value)));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    }
}

async fn stored(secrets: &Api<Secret>, key: &str) -> Option<Vec<u8>> {
    let secret = secrets.get(SECRET).await.expect("the Secret");
    Some(secret.data?.get(key)?.0.clone())
}

fn outcome(replica: &Replica, outcome: &str) -> u64 {
    replica.metric(&format!(
        "causeway_tunnel_enrolments_total{{outcome=\"{outcome}\"}}"
    ))
}

/// Connects without a certificate.
async fn connect(stage: &Stage, replica: &Replica) -> TlsStream<TcpStream> {
    try_connect(stage, replica).await.expect("a handshake")
}

async fn try_connect(stage: &Stage, replica: &Replica) -> io::Result<TlsStream<TcpStream>> {
    let roots = authorities(stage.hub.authority.pem().as_bytes()).expect("authorities");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("TLS");
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![ENROL_ALPN.to_vec()];
    let socket = TcpStream::connect(replica.agents).await.expect("a socket");
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(replica.agents.ip().into(), socket).await
}

/// Reads to the end, however that comes. Returns status and body.
async fn answer(mut tls: TlsStream<TcpStream>) -> (u16, String) {
    let mut read = Vec::new();
    // A connection may end without close_notify.
    let ended = timeout(SOON, tls.read_to_end(&mut read)).await;
    ended.expect("in time").ok();
    let text = String::from_utf8_lossy(&read).into_owned();
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status.unwrap_or_default(), body.unwrap_or_default())
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /enrol HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}")
}

async fn enrol(
    stage: &Stage,
    replica: &Replica,
    [name, token]: [&str; 2],
    csr: &str,
) -> (u16, String) {
    let mut tls = connect(stage, replica).await;
    let body = json!({"name": name, "token": token, "csr": csr}).to_string();
    tls.write_all(post(&body).as_bytes())
        .await
        .expect("it reads");
    answer(tls).await
}

fn csr() -> String {
    let key = RequestKey::new().expect("a key");
    key.request().expect("a request")
}

fn quick() -> Limits {
    Limits {
        refusal: Duration::from_millis(200),
        ..limits()
    }
}

const MINUTE: SignedDuration = SignedDuration::from_secs(60);

#[tokio::test]
async fn agent_enrols_once_and_restarts_with_what_it_stored() {
    let certificate = quick().certificate;
    let (stage, replica, secrets, agent) = Stage::enrolled("restarts", certificate).await;
    replica.connected("restarts").await;
    echoing(replica.front, "restarts").await;
    let stored_certificate = async || stored(&secrets, "tls.crt").await;
    assert!(stored_certificate().await.is_some());
    assert!(stored(&secrets, "tls.key").await.is_some());
    assert_eq!(stored(&secrets, TOKEN).await, None);
    let first = stored_certificate().await;
    drop(agent);
    eventually("it is gone", || replica.connections("restarts") == 0).await;

    let _agent = stage.agent(&replica, &secrets).await;
    replica.connected("restarts").await;
    assert_eq!(stored_certificate().await, first);
    assert_eq!(outcome(&replica, "enrolled"), 1);
}

#[tokio::test]
async fn agent_that_ended_before_it_stored_enrols_again_with_its_key() {
    let stage = Stage::new("crashes").await;
    stage.invite(TOKEN_OF_EDGE, MINUTE).await;
    let replica = stage.replica(quick()).await;
    let secrets = stage.agent_secret().await;
    // The key is stored, and the answer is lost.
    let key = RequestKey::new().expect("a key");
    let patch = json!({"stringData": {"tls.key": key.pem()}});
    merge(&secrets, SECRET, patch).await;
    let request = key.request().expect("a request");
    let (status, _) = enrol(&stage, &replica, ["crashes", TOKEN_OF_EDGE], &request).await;
    assert_eq!(status, 200);
    let _agent = stage.agent(&replica, &secrets).await;
    replica.connected("crashes").await;
}

#[tokio::test]
async fn token_is_good_for_one_key() {
    let stage = Stage::new("replayed").await;
    stage.invite(TOKEN_OF_EDGE, MINUTE).await;
    let replica = stage.replica(quick()).await;
    let credentials = ["replayed", TOKEN_OF_EDGE];
    let own = csr();
    let (status, body) = enrol(&stage, &replica, credentials, &own).await;
    assert_eq!(status, 200, "{body}");
    // No authorities: an agent verifies the controller by those of its file.
    let issued: Value = serde_json::from_str(&body).expect("JSON");
    let fields: Vec<_> = issued.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["certificate"]);
    let (status, _) = enrol(&stage, &replica, credentials, &csr()).await;
    assert_eq!((status, outcome(&replica, "used")), (401, 1));
    let (status, _) = enrol(&stage, &replica, credentials, &own).await;
    assert_eq!(status, 200);
    // A token of a later join makes the former one invalid.
    stage.invite("another token", MINUTE).await;
    let (status, _) = enrol(&stage, &replica, credentials, &own).await;
    assert_eq!((status, outcome(&replica, "token")), (401, 1));
}

#[tokio::test]
async fn used_token_is_one_event_of_all_replicas() {
    let stage = Stage::new("reused").await;
    stage.invite(TOKEN_OF_EDGE, MINUTE).await;
    let replicas = [stage.replica(quick()).await, stage.replica(quick()).await];
    let credentials = ["reused", TOKEN_OF_EDGE];
    let window = || Timestamp::now().as_second() / 600;
    let begun = window();
    let (status, _) = enrol(&stage, &replicas[0], credentials, &csr()).await;
    assert_eq!(status, 200);
    let present = async |replica: &Replica, used| {
        let (status, _) = enrol(&stage, replica, credentials, &csr()).await;
        assert_eq!((status, outcome(replica, "used")), (401, used));
    };
    for replica in &replicas {
        present(replica, 1).await;
        present(replica, 2).await;
    }
    // Used precedes expired.
    let past = (Timestamp::now() - MINUTE).to_string();
    let patch = json!({"stringData": {EXPIRES: past}});
    merge(&stage.secrets(), &bootstrap_name(&stage.name), patch).await;
    present(&replicas[0], 3).await;

    let events = Api::<Event>::namespaced(stage.fleet.hub().client(), "default");
    let found = causeway_tests::eventually("an Event", SOON, async || {
        let all = events.list(&ListParams::default()).await.expect("a list");
        let all = all.items.into_iter().filter(|event| {
            let about = event.regarding.as_ref();
            about.is_some_and(|about| about.name.as_deref() == Some("reused"))
        });
        let all: Vec<_> = all.collect();
        (!all.is_empty()).then_some(all).ok_or("none")
    });
    let found = found.await;
    let windows = usize::try_from(window() - begun + 1).expect("a number");
    assert!(found.len() <= windows, "{found:?}");
    let event = &found[0];
    assert_eq!(event.reason.as_deref(), Some("EnrolmentTokenReused"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let about = event.regarding.as_ref().expect("a Cluster");
    assert_eq!(about.uid.as_deref(), Some(UID));
    let note = event.note.as_deref().unwrap_or_default();
    let remedy = "unjoin reused, and join your cluster by another name";
    assert!(note.contains(remedy), "{note}");
}

#[tokio::test]
async fn refusals_of_tokens_are_alike_and_take_their_time() {
    let stage = Stage::new("refused").await;
    let other = Stage::new("refused-other").await;
    other.invite("a token of the other", MINUTE).await;
    let replica = stage.replica(quick()).await;
    let mut answers = Vec::new();
    for (name, token, within, reason) in [
        ("refused", "wrong", MINUTE, "token"),
        ("refused", "", MINUTE, "token"),
        ("refused", TOKEN_OF_EDGE, -MINUTE, "expired"),
        // The token of one member opens no other.
        ("refused", "a token of the other", MINUTE, "token"),
        ("refused-other", TOKEN_OF_EDGE, MINUTE, "token"),
        ("nobody", TOKEN_OF_EDGE, MINUTE, "unknown"),
    ] {
        stage.invite(TOKEN_OF_EDGE, within).await;
        let before = outcome(&replica, reason);
        let begun = Instant::now();
        answers.push(enrol(&stage, &replica, [name, token], &csr()).await);
        assert!(begun.elapsed() >= quick().refusal, "{name} {token}");
        assert_eq!(outcome(&replica, reason), before + 1, "{name} {token}");
    }
    assert_eq!(answers[0].0, 401);
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(outcome(&replica, "enrolled"), 0);
}

#[tokio::test]
async fn front_end_without_a_backend_refuses_no_token() {
    let stage = Stage::new("backend").await;
    let listener = TcpListener::bind(SocketAddr::from(LOCAL)).await;
    let listener = listener.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // It answers 404 to every request.
    tokio::spawn(async move { axum::serve(listener, Router::new()).await });
    let front_end = Config::new(url.parse().expect("a URL"));
    let front_end = Client::try_from(front_end).expect("a client");
    let replica = stage.replica_of(quick(), front_end).await;
    let (status, body) = enrol(&stage, &replica, ["backend", TOKEN_OF_EDGE], &csr()).await;
    assert_eq!((status, outcome(&replica, "unavailable")), (503, 1));
    assert_eq!(body.trim(), "the hub cannot be asked");
}

#[tokio::test]
async fn of_two_replicas_one_takes_a_token() {
    let stage = Stage::new("raced").await;
    let one = stage.replica(quick()).await;
    let other = stage.replica(quick()).await;
    for _ in 0..5 {
        stage.invite(TOKEN_OF_EDGE, MINUTE).await;
        let requests = [&one, &other, &one, &other].map(|replica| {
            let stage = &stage;
            async move {
                enrol(stage, replica, ["raced", TOKEN_OF_EDGE], &csr())
                    .await
                    .0
            }
        });
        let mut statuses = futures::future::join_all(requests).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401, 401, 401]);
    }
}

#[tokio::test]
async fn request_without_a_provable_key_is_refused_and_takes_no_token() {
    let stage = Stage::new("keyless").await;
    stage.invite(TOKEN_OF_EDGE, MINUTE).await;
    let replica = stage.replica(quick()).await;
    let credentials = ["keyless", TOKEN_OF_EDGE];
    // A request in which the last byte of the signature differs.
    let forged = csr();
    let lines: Vec<_> = forged.lines().map(str::trim).collect();
    let end = lines.len() - 1;
    let mut der = STANDARD.decode(lines[1..end].concat()).expect("a request");
    *der.last_mut().expect("bytes") ^= 1;
    let forged = STANDARD.encode(der);
    let forged = format!("{}\n{forged}\n{}\n", lines[0], lines[end]);
    for csr in [forged.as_str(), "", "-----BEGIN CERTIFICATE REQUEST-----"] {
        let (status, body) = enrol(&stage, &replica, credentials, csr).await;
        assert_eq!(status, 400, "{body}");
    }
    for name in ["", "Keyless", "../keyless", &"a".repeat(300)] {
        let (status, _) = enrol(&stage, &replica, [name, TOKEN_OF_EDGE], &csr()).await;
        assert_eq!(status, 400, "{name}");
    }
    let (status, _) = enrol(&stage, &replica, credentials, &csr()).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn garbage_and_endless_requests_are_cut() {
    let stage = Stage::new("garbage").await;
    let replica = stage.replica(quick()).await;
    let long = "a".repeat(REQUEST_MAX + 1);
    for (request, expected) in [
        (post("{}"), 400),
        (post("nonsense"), 400),
        (post(&long), 400),
        (format!("{}{long}", post("")), 400),
        (post("{}").replace("/enrol", "/renew"), 400),
        (post("{}").replace("POST", "GET"), 400),
        (
            format!("GET / HTTP/1.1\r\na: {}", "a".repeat(64 * 1024)),
            431,
        ),
        ("\0".repeat(100), 400),
    ] {
        let mut tls = connect(&stage, &replica).await;
        // It may not read all of it.
        tls.write_all(request.as_bytes()).await.ok();
        let (status, body) = answer(tls).await;
        let shown: String = request.chars().take(60).collect();
        assert_eq!(status, expected, "{shown:?}: {body}");
    }
    // A body of no given length, without an end.
    let mut tls = connect(&stage, &replica).await;
    let head = "POST /enrol HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    tls.write_all(head.as_bytes()).await.expect("it reads");
    let chunk = format!("1000\r\n{}\r\n", "a".repeat(4096));
    let endless = async { while tls.write_all(chunk.as_bytes()).await.is_ok() {} };
    timeout(SOON, endless).await.expect("it is cut");
}

#[tokio::test]
async fn slow_newcomers_take_no_places_of_agents() {
    let stage = Stage::new("slow").await;
    let enrolment = Duration::from_secs(2);
    let few = Limits {
        enrolments: 2,
        enrolment,
        agents: 2,
        handshakes: 2,
        ..quick()
    };
    let replica = stage.replica(few).await;
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut tls = connect(&stage, &replica).await;
        tls.write_all(b"POST /enrol HTTP/1.1\r\n")
            .await
            .expect("it reads");
        slow.push(tls);
    }
    assert!(try_connect(&stage, &replica).await.is_err());
    assert_eq!(outcome(&replica, "full"), 1);
    let _member = Member::start(&stage.hub, "slow", replica.agents, api().await).await;
    replica.connected("slow").await;
    for tls in slow {
        answer(tls).await;
    }
    assert_eq!(outcome(&replica, "slow"), 2);
}

#[tokio::test]
async fn certificate_is_renewed_at_half_of_its_life() {
    let certificate = Duration::from_secs(8);
    let (_stage, replica, secrets, _agent) = Stage::enrolled("renews", certificate).await;
    replica.connected("renews").await;
    let begun = Instant::now();
    let first = stored(&secrets, "tls.crt").await;
    let mut stream = echoing(replica.front, "renews").await;
    eventually("it is renewed", || outcome(&replica, "renewed") >= 1).await;
    // It is dated back by a tenth, and times have whole seconds.
    assert!(begun.elapsed() >= certificate / 4, "{:?}", begun.elapsed());
    eventually("it is renewed again", || outcome(&replica, "renewed") >= 3).await;
    assert!(begun.elapsed() > certificate);
    echo(&mut stream).await;
    echoing(replica.front, "renews").await;
    assert_ne!(stored(&secrets, "tls.crt").await, first);
    assert_eq!(outcome(&replica, "enrolled"), 1);
}

#[tokio::test]
async fn certificate_that_is_always_due_is_renewed_with_pauses() {
    let certificate = Duration::from_secs(2);
    let (_stage, replica, _, _agent) = Stage::enrolled("due", certificate).await;
    eventually("it is renewed", || outcome(&replica, "renewed") >= 1).await;
    let (before, begun) = (outcome(&replica, "renewed"), Instant::now());
    eventually("time has passed", || begun.elapsed() >= certificate).await;
    let renewals = outcome(&replica, "renewed") - before;
    let most = begun.elapsed().div_duration_f64(certificate / 8).ceil();
    assert!(renewals as f64 <= most, "{renewals} of {most}");
}

#[tokio::test]
async fn late_save_of_a_certificate_keeps_the_token_of_a_new_file() {
    let certificate = Duration::from_secs(10);
    let (stage, replica, secrets, _agent) = Stage::enrolled("late", certificate).await;
    replica.connected("late").await;
    eventually("the token is removed", || {
        outcome(&replica, "enrolled") == 1
    })
    .await;
    // Nobody may change the data: the next certificate cannot be stored.
    merge(&secrets, SECRET, json!({"immutable": true})).await;
    let before = outcome(&replica, "renewed");
    eventually("it is renewed", || outcome(&replica, "renewed") > before).await;

    let token = "a-token-of-the-second-join";
    stage.invite(token, MINUTE).await;
    let deleted = secrets.delete(SECRET, &DeleteParams::default()).await;
    deleted.expect("it is deleted");
    stage.apply_file(&secrets, token).await;
    eventually("it is enrolled", || outcome(&replica, "enrolled") == 2).await;
    let before = outcome(&replica, "renewed");
    eventually("it is renewed", || outcome(&replica, "renewed") > before).await;
    assert_eq!(stored(&secrets, TOKEN).await, None);
}

#[tokio::test]
async fn agent_of_a_removed_member_is_not_renewed() {
    let certificate = Duration::from_secs(10);
    let (stage, replica, _, _agent) = Stage::enrolled("removed", certificate).await;
    replica.connected("removed").await;
    let name = member_name(&stage.name);
    let deleted = stage
        .secrets()
        .delete(&name, &DeleteParams::default())
        .await;
    deleted.expect("it is deleted");
    // Joined again, it is another enrolment.
    stage.create(&name, &[]).await;
    eventually("it is refused", || outcome(&replica, "removed") >= 1).await;
    eventually("it is gone", || replica.connections("removed") == 0).await;
    assert_eq!(outcome(&replica, "renewed"), 0);
}

#[tokio::test]
async fn agent_of_a_member_joined_again_enrols_by_the_token_of_the_new_file() {
    let certificate = Duration::from_secs(10);
    let (stage, replica, secrets, _agent) = Stage::enrolled("again", certificate).await;
    replica.connected("again").await;
    let name = member_name(&stage.name);
    let deleted = stage
        .secrets()
        .delete(&name, &DeleteParams::default())
        .await;
    deleted.expect("it is deleted");
    stage.create(&name, &[]).await;
    let token = "a-token-of-the-second-join";
    stage.invite(token, MINUTE).await;
    let patch = json!({"stringData": {TOKEN: token}});
    merge(&secrets, SECRET, patch).await;
    eventually("it is enrolled", || outcome(&replica, "enrolled") == 2).await;
    eventually("it is renewed", || outcome(&replica, "renewed") >= 1).await;
    assert_eq!(stored(&secrets, TOKEN).await, None);
    echoing(replica.front, "again").await;
}

#[tokio::test]
async fn certificate_of_the_hubs_authority_is_not_renewed_by_the_other() {
    let stage = Stage::new("foreign").await;
    let replica = stage.replica(quick()).await;
    let files = stage
        .hub
        .files(&stage.hub.member_leaf("foreign"), SystemTime::now());
    let (status, _) = renew(&replica, files.path()).await;
    assert_eq!((status, outcome(&replica, "removed")), (403, 1));
}

async fn renew(replica: &Replica, files: &Path) -> (u16, String) {
    let credentials = Credentials::<ClientConfig>::read(files, &Metrics::default());
    let current = credentials.expect("credentials").current();
    let mut config = ClientConfig::clone(&current.config);
    config.alpn_protocols = vec![RENEW_ALPN.to_vec()];
    let socket = TcpStream::connect(replica.agents).await.expect("a socket");
    let connector = TlsConnector::from(Arc::new(config));
    let tls = connector.connect(replica.agents.ip().into(), socket).await;
    let mut tls = tls.expect("a handshake");
    let body = json!({ "csr": csr() }).to_string();
    let request = post(&body).replace("/enrol", "/renew");
    tls.write_all(request.as_bytes()).await.expect("it reads");
    answer(tls).await
}

#[tokio::test]
async fn long_lived_certificate_of_the_enrolment_authority_is_rejected() {
    let stage = Stage::new("long").await;
    let replica = stage.replica(quick()).await;
    let issuer = Hub::with(HUB, &stage.enrolment);
    for (days, is_accepted) in [(8, false), (7, true)] {
        let leaf = Leaf {
            validity: days * DAY,
            ..issuer.member_leaf("long")
        };
        let files = issuer.files(&leaf, SystemTime::now());
        let trusted = stage.hub.authority.pem();
        std::fs::write(files.path().join("ca.crt"), trusted).expect("a file");
        let before = replica.failed("handshake");
        let _member = Member::of(files.path(), &replica).await;
        match is_accepted {
            true => replica.connected("long").await,
            false => {
                eventually("it is rejected", || replica.failed("handshake") > before).await;
                assert_eq!(replica.connections("long"), 0);
            }
        }
    }
}

#[tokio::test]
async fn enrolment_authority_cannot_pose_as_causeway_tunnel() {
    let stage = Stage::new("poses").await;
    let impostor = Hub::with(HUB, &stage.enrolment);
    let impostor = Replica::start(&impostor, quick()).await;
    let _member = Member::start(&stage.hub, "poses", impostor.agents, api().await).await;
    eventually("the agent refuses it", || impostor.failed("handshake") >= 1).await;
    assert_eq!(impostor.connections("poses"), 0);
}
