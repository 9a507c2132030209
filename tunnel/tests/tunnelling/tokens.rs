//! Credentials that an agent gives to the controller, and to nobody else.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::domain::ClusterName;
use causeway::process::certificate;
use causeway::process::kube_client::HubAccess;
use causeway_certs::{Leaf, Purpose};
use causeway_tunnel::tokens::{AGENT_HOST, AgentCredentials, AskError, Issuer, ask};
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use kube::config::Kubeconfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::environment::{Hub, LOCAL, Member, Refusal, Replica, SOON, api, connect_to, limits};
use crate::hostile;

const REQUEST: &str = "GET /credentials HTTP/1.1\r\nHost: agent\r\n\r\n";

/// A member edge1 whose agent issues tokens of an API server that counts them.
struct Stage {
    hub: Hub,
    replica: Replica,
    _member: Member,
    api: SocketAddr,
    issued: Arc<AtomicUsize>,
    controller: tempfile::TempDir,
}

/// Issues token-1, token-2 and so on, each for an hour.
async fn issue(State(issued): State<Arc<AtomicUsize>>) -> String {
    let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
    let end = Timestamp::now() + Duration::from_secs(3600);
    let status = json!({"token": format!("token-{number}"), "expirationTimestamp": end});
    let (kind, version) = ("TokenRequest", "authentication.k8s.io/v1");
    json!({"kind": kind, "apiVersion": version, "metadata": {}, "spec": {"audiences": []},
        "status": status})
    .to_string()
}

/// Returns a Status with the stored code.
async fn refuse(State(code): State<Arc<AtomicU16>>) -> (StatusCode, String) {
    let code = code.load(Ordering::SeqCst);
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "not now", "reason": "Reason", "code": code});
    let code = StatusCode::from_u16(code).expect("a status");
    (code, status.to_string())
}

fn access(hub: &Hub, api: SocketAddr) -> HubAccess {
    let authority = STANDARD.encode(hub.authority.pem());
    let kubeconfig: Kubeconfig = serde_json::from_value::<Value>(json!({
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {
            "server": format!("http://{api}"), "certificate-authority-data": authority,
        }}],
        "users": [{"name": "a", "user": {}}],
    }))
    .and_then(serde_json::from_value)
    .expect("a kubeconfig");
    HubAccess::Kubeconfig(Box::new(kubeconfig))
}

impl Stage {
    async fn start() -> Self {
        let issued = Arc::new(AtomicUsize::new(0));
        Self::of(post(issue).with_state(issued.clone()), issued).await
    }

    /// Starts a stage whose API server answers token requests by `answers`.
    async fn of(answers: MethodRouter, issued: Arc<AtomicUsize>) -> Self {
        let hub = Hub::new();
        let path = "/api/v1/namespaces/causeway-system/serviceaccounts/causeway/token";
        let router = Router::new().route(path, answers);
        let listener = TcpListener::bind(SocketAddr::from(LOCAL)).await;
        let listener = listener.expect("a port");
        let api = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        let account = "causeway-system/causeway".parse().expect("an account");
        let tokens = Issuer::new(access(&hub, api), account, "10.96.0.1:443");
        let replica = Replica::start(&hub, limits()).await;
        let files = hub.files(&hub.member_leaf("edge1"), SystemTime::now());
        let member = Member::issuing(files.path(), replica.agents, api, tokens).await;
        replica.connected("edge1").await;
        let controller = hub.files(&hub.controller_leaf(), SystemTime::now());
        Self {
            hub,
            replica,
            _member: member,
            api,
            issued,
            controller,
        }
    }

    async fn ask(&self, is_rejected: bool) -> Result<AgentCredentials, AskError> {
        ask_at(self.replica.front, self.controller.path(), is_rejected).await
    }

    /// Connects to the agent with the certificate of these files, if any. The certificate of the
    /// agent is not verified.
    async fn connect(&self, files: Option<&Path>) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = connect_to(self.replica.front, "edge1", AGENT_HOST).await;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody));
        let mut config = match files {
            None => config.with_no_client_auth(),
            Some(files) => {
                let own = certificate::read(files).expect("a certificate").chain;
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
        };
        config.alpn_protocols = vec![b"causeway-credentials/1".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let name = "agent.example".try_into().expect("a name");
        connector.connect(name, stream.expect("a stream")).await
    }

    /// Sends a request with the certificate of these files, and returns what comes back.
    async fn exchange(&self, files: Option<&Path>, request: &str) -> String {
        let exchange = async {
            let mut tls = self.connect(files).await?;
            tls.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            // The end may be a reset.
            let ended = tls.read_to_end(&mut answer).await;
            Ok::<_, std::io::Error>((String::from_utf8_lossy(&answer).into_owned(), ended))
        };
        match timeout(SOON, exchange).await.expect("in time") {
            Ok((answer, Err(error))) if answer.is_empty() => error.to_string(),
            Ok((answer, _)) => answer,
            Err(error) => error.to_string(),
        }
    }
}

async fn ask_at(
    front: SocketAddr,
    directory: &Path,
    is_rejected: bool,
) -> Result<AgentCredentials, AskError> {
    let front = format!("http://{front}").parse().expect("a front");
    let edge1 = ClusterName::try_from("edge1").expect("a name");
    let asked = ask(&front, directory, &edge1, is_rejected);
    timeout(SOON, asked).await.expect("in time")
}

/// Accepts each certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[tokio::test]
async fn controller_receives_a_token_until_it_is_rejected() {
    let stage = Stage::start().await;
    for (is_rejected, token) in [
        (false, "token-1"),
        (false, "token-1"),
        (true, "token-2"),
        (false, "token-2"),
    ] {
        let given = stage.ask(is_rejected).await.expect("credentials");
        assert_eq!(given.token, token);
        assert_eq!(given.server, "https://10.96.0.1:443");
        let authority = STANDARD.decode(&given.certificate_authority_data);
        let authority = String::from_utf8(authority.expect("base64")).expect("PEM");
        assert_eq!(authority.trim(), stage.hub.authority.pem().trim());
        assert!(!format!("{given:?}").contains("token-"), "{given:?}");
    }
    assert_eq!(stage.issued.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn failing_api_server_is_a_bad_gateway_and_a_refusal_is_not() {
    let code = Arc::new(AtomicU16::default());
    let stage = Stage::of(post(refuse).with_state(code.clone()), Arc::default()).await;
    for (of_api_server, of_agent) in [
        (429, 502),
        (500, 502),
        (503, 502),
        (504, 502),
        (401, 500),
        (403, 500),
        (404, 500),
    ] {
        code.store(of_api_server, Ordering::SeqCst);
        match stage.ask(false).await {
            Err(AskError::Refused { status, reason }) => {
                assert_eq!(status.as_u16(), of_agent, "{of_api_server}: {reason}");
                assert!(reason.ends_with(": not now"), "{reason}");
            }
            other => panic!("{of_api_server}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn nobody_but_the_controller_of_the_hub_receives_a_token() {
    let stage = Stage::start().await;
    let hub = &stage.hub;
    let now = SystemTime::now();
    let foreign = Hub::of("11111111-2222-3333-4444-555555555555");
    let other = Hub::new();
    let of_client = |leaf: Leaf| Leaf {
        purpose: Purpose::Client,
        ..leaf
    };
    let expired = Leaf {
        validity: Duration::from_secs(60),
        ..hub.controller_leaf()
    };
    let as_server = Leaf {
        purpose: Purpose::Server,
        ..hub.controller_leaf()
    };
    let of_none = Leaf {
        uris: Vec::new(),
        ..hub.controller_leaf()
    };
    for (who, files, answer) in [
        ("no certificate", None, "alert: CertificateRequired"),
        (
            "a member",
            Some(hub.files(&hub.member_leaf("edge1"), now)),
            " 403 ",
        ),
        (
            "another member",
            Some(hub.files(&hub.member_leaf("edge2"), now)),
            " 403 ",
        ),
        (
            "causeway-tunnel",
            Some(hub.files(&hub.tunnel_leaf(), now)),
            "alert: ",
        ),
        (
            "causeway-tunnel as a client",
            Some(hub.files(&of_client(hub.tunnel_leaf()), now)),
            " 403 ",
        ),
        (
            "another hub",
            Some(hub.files(&foreign.controller_leaf(), now)),
            " 403 ",
        ),
        (
            "another authority",
            Some(other.files(&other.controller_leaf(), now)),
            "alert: ",
        ),
        ("nobody", Some(hub.files(&of_none, now)), " 403 "),
        (
            "an expired certificate",
            Some(hub.files(&expired, now - Duration::from_secs(3600))),
            "alert: ",
        ),
        ("a server", Some(hub.files(&as_server, now)), "alert: "),
    ] {
        let files = files.as_ref().map(tempfile::TempDir::path);
        let answered = stage.exchange(files, REQUEST).await;
        assert!(answered.contains(answer), "{who}: {answered}");
    }
    assert_eq!(stage.issued.load(Ordering::SeqCst), 0);
    let own = stage.exchange(Some(stage.controller.path()), REQUEST).await;
    assert!(own.contains("token-1"), "{own}");
}

#[tokio::test]
async fn requests_are_answered_within_bounds() {
    let stage = Stage::start().await;
    let long = format!(
        "GET /credentials HTTP/1.1\r\nA: {}\r\n\r\n",
        "a".repeat(64 * 1024)
    );
    for (request, answer) in [
        (
            "POST /credentials HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n",
            " 405 ",
        ),
        ("GET /other HTTP/1.1\r\nHost: a\r\n\r\n", " 404 "),
        ("nonsense\r\n\r\n", " 400 "),
        // The agent answers 431, which a reset may overtake.
        (long.as_str(), ""),
    ] {
        let own = Some(stage.controller.path());
        let answered = stage.exchange(own, request).await;
        assert!(answered.contains(answer), "{answered}");
        assert!(!answered.contains("token-"), "{answered}");
    }
    assert_eq!(stage.issued.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn slow_clients_are_closed_and_take_four_places() {
    let stage = Stage::start().await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let own = Some(stage.controller.path());
        slow.push(stage.connect(own).await.expect("a connection"));
    }
    let (status, reason) = agent_of(&stage.replica).await;
    assert_eq!(status, 502, "{reason}");
    assert!(
        reason.contains("503") && reason.contains("not answered yet"),
        "{reason}"
    );
    for mut tls in slow {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let ended = timeout(SOON, tls.read_to_end(&mut rest)).await;
        drop(ended.expect("in time"));
        assert!(rest.is_empty());
    }
    stage.ask(false).await.expect("a place is free");
}

/// Returns the refusal of a stream to the agent.
async fn agent_of(replica: &Replica) -> Refusal {
    let opened = connect_to(replica.front, "edge1", AGENT_HOST).await;
    opened.expect_err("no stream")
}

#[tokio::test]
async fn agent_without_an_account_or_of_an_old_version_is_named() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let (status, reason) = agent_of(&replica).await;
    assert_eq!(status, 503, "{reason}");
    let member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let (status, reason) = agent_of(&replica).await;
    assert_eq!(status, 501);
    assert!(
        reason.ends_with("start it with --token-account"),
        "{reason}"
    );
    drop(member);
    crate::environment::eventually("it is gone", || replica.connections("edge1") == 0).await;
    let old = hostile::connection(&hub, "edge1", replica.agents).await;
    let _serving = hostile::serve(old, |_, mut respond| async move {
        let mut answer = http::Response::new(());
        *answer.status_mut() = StatusCode::FORBIDDEN;
        drop(respond.send_response(answer, true));
    });
    replica.connected("edge1").await;
    let (status, reason) = agent_of(&replica).await;
    assert_eq!(status, 501);
    let expected = "its agent, of version 0.2.0, is too old to give credentials: update it";
    assert_eq!(reason, expected);
}

#[tokio::test]
async fn credentials_of_another_member_are_not_accepted() {
    let stage = Stage::start().await;
    let account = "causeway-system/causeway".parse().expect("an account");
    let tokens = Issuer::new(access(&stage.hub, stage.api), account, "10.96.0.1:443");
    let files = stage
        .hub
        .files(&stage.hub.member_leaf("edge2"), SystemTime::now());
    let _other = Member::issuing(files.path(), stage.replica.agents, stage.api, tokens).await;
    stage.replica.connected("edge2").await;
    // A causeway-tunnel that leads the controller to another member.
    let listener = TcpListener::bind(SocketAddr::from(LOCAL))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let front = stage.replica.front;
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        crate::environment::read_head(&mut socket).await;
        let to = connect_to(front, "edge2", AGENT_HOST).await;
        let mut to = to.expect("a stream");
        socket
            .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
            .await
            .expect("it reads");
        copy_bidirectional(&mut socket, &mut to).await.ok();
    });
    let error = ask_at(address, stage.controller.path(), false).await;
    let error = error.expect_err("another member");
    assert!(matches!(error, AskError::Foreign(_)), "{error}");
    assert_eq!(stage.issued.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn certificate_of_the_controller_is_read_at_each_request() {
    let stage = Stage::start().await;
    let now = SystemTime::now();
    let directory = stage.controller.path();
    std::fs::remove_file(directory.join("tls.key")).expect("a file");
    let error = stage.ask(false).await.expect_err("no key");
    assert!(matches!(error, AskError::Certificate(_)), "{error}");
    stage
        .hub
        .write(directory, &stage.hub.member_leaf("edge1"), now);
    let error = stage.ask(false).await.expect_err("another role");
    assert!(matches!(error, AskError::Certificate(_)), "{error}");
    stage
        .hub
        .write(directory, &stage.hub.controller_leaf(), now);
    stage.ask(false).await.expect("credentials");
}
