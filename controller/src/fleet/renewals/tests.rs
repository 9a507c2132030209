use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api;
use causeway::process::Process;
use causeway_certs::Authority;
use causeway_engine::model::Signal;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::cluster_profiles::plugin::PluginCall;
use crate::event::Event;
use crate::fleet::Credentials;
use crate::member;

fn edge() -> ClusterName {
    ClusterName::try_from("edge").expect("a name")
}

fn cluster(annotations: &serde_json::Value) -> api::Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": "edge", "uid": "uid-of-edge", "annotations": annotations},
        "spec": {"syncMode": "Pull"},
    }))
    .expect("a Cluster")
}

/// Returns the Cluster of a member whose agent gives its credentials.
fn by_agent() -> api::Cluster {
    cluster(&json!({
        "mcs.causeway.dev/tunnel": "true", "mcs.causeway.dev/credentials": "agent",
    }))
}

/// A fleet with the Cluster `edge`, whose agent gives its credentials.
struct Stage {
    fleet: Fleet,
    events: mpsc::Receiver<Event>,
    authority: String,
    _process: Process,
}

impl Stage {
    async fn new(front: Option<&str>, tls_dir: Option<&str>) -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let process = Process::start(loopback).await.expect("a process");
        let (sender, events) = mpsc::channel(8);
        let credentials = Credentials {
            tunnel_front: front.map(|front| front.parse().expect("a front")),
            tunnel_tls_dir: tls_dir.map(PathBuf::from),
            ..Credentials::default()
        };
        let settings = member::Settings::default();
        let mut fleet = Fleet::new(credentials, settings, sender, process.tasks.clone());
        fleet.note_clusters(&Signal::Applied(by_agent()));
        let day = Duration::from_secs(24 * 3600);
        let authority = Authority::new("member", day, SystemTime::now()).expect("an authority");
        Self {
            fleet,
            events,
            authority: STANDARD.encode(authority.pem()),
            _process: process,
        }
    }

    fn given(&self, server: &str, token: &[u8]) -> Result<Given, Failure> {
        let front = "http://127.0.0.1:1".parse().expect("a front");
        let target = Target::of_agent(edge(), &front, server, &self.authority);
        Ok(Given {
            token: Token::parse(token).expect("a token"),
            expiry: None,
            target: Some(target.expect("an address")),
        })
    }

    fn hear(&mut self, outcome: Result<Given, Failure>) -> Outcome {
        let round = self.fleet.renewals[&edge()].round;
        self.fleet.note_credentials(&edge(), round, outcome);
        self.fleet.reconsider(&edge())
    }

    /// Receives what the call gave, and uses it.
    async fn hear_call(&mut self) -> Outcome {
        match self.events.recv().await.expect("an event") {
            Event::Credentials { outcome, .. } => self.hear(outcome),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn member_is_refused_until_the_controller_can_ask_its_agent() {
    let mut stage = Stage::new(None, None).await;
    let Outcome::Refused(ConfigurationError::Invalid(failure)) = stage.fleet.reconsider(&edge())
    else {
        panic!("no front")
    };
    assert!(failure.to_string().contains("--tunnel-front"), "{failure}");
    for tls_dir in [None, Some("/no/such/directory")] {
        let mut stage = Stage::new(Some("http://127.0.0.1:1"), tls_dir).await;
        assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
        let Outcome::Refused(ConfigurationError::AgentCredentials(failure)) =
            stage.hear_call().await
        else {
            panic!("no certificate")
        };
        let text = failure.to_string();
        assert!(text.contains("kubectl mcs install --tunnel"), "{text}");
    }
}

#[tokio::test]
async fn unreached_agent_makes_its_member_unreachable_and_ends_no_engagement() {
    let mut stage = Stage::new(Some("http://127.0.0.1:1"), None).await;
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    let away = Failure::new(FailureKind::Network, "its agent is not connected");
    let old = Failure::new(FailureKind::Invalid, "its agent is too old");
    let unreached = Outcome::Unreached(1, away.clone());
    assert_eq!(stage.hear(Err(away.clone())), unreached);
    assert_eq!(stage.hear(Err(away.clone())), unreached);
    let first = stage.given("https://10.96.0.1:443", b"one");
    assert_eq!(stage.hear(first), Outcome::Engaged(2));
    let second = stage.given("https://10.96.0.1:443", b"two");
    assert_eq!(stage.hear(second), Outcome::Renewed);
    assert_eq!(stage.hear(Err(away)), Outcome::Unchanged);
    let kept = Outcome::Kept(ConfigurationError::AgentCredentials(old.clone()));
    assert_eq!(stage.hear(Err(old)), kept);
    let moved = stage.given("https://10.96.0.2:443", b"two");
    assert_eq!(stage.hear(moved), Outcome::Engaged(3));
    // Its Secret is used again, which does not exist.
    let tunnelled = cluster(&json!({"mcs.causeway.dev/tunnel": "true"}));
    stage.fleet.note_clusters(&Signal::Applied(tunnelled));
    let kept = Outcome::Kept(ConfigurationError::PullWithoutCredentials);
    assert_eq!(stage.fleet.reconsider(&edge()), kept);
    assert!(stage.fleet.renewals.is_empty());
}

#[tokio::test]
async fn failure_of_an_agent_is_news_once_for_each_reason() {
    let mut stage = Stage::new(Some("http://127.0.0.1:1"), None).await;
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    let round = stage.fleet.renewals[&edge()].round;
    for (reason, is_news) in [
        ("no token: connection refused, try 1", true),
        ("no token: connection refused, try 2", false),
        ("no token: its account is unknown", true),
    ] {
        let message = "its agent gives no credentials";
        let failure = Failure::quoting(FailureKind::Network, message, reason);
        let outcome = Err(failure.clone());
        let noted = stage.fleet.note_credentials(&edge(), round, outcome);
        assert_eq!(noted, is_news, "{reason}");
        let Outcome::Unreached(1, reported) = stage.fleet.reconsider(&edge()) else {
            panic!("{reason}")
        };
        assert_eq!(reported.to_string(), failure.to_string());
    }
}

#[tokio::test]
async fn engaged_member_awaits_the_first_token_of_its_agent() {
    let mut stage = Stage::new(Some("http://127.0.0.1:1"), None).await;
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    let first = stage.given("https://10.96.0.1:443", b"one");
    assert_eq!(stage.hear(first), Outcome::Engaged(1));
    // Its credentials are not of its agent for a while.
    let tunnelled = cluster(&json!({"mcs.causeway.dev/tunnel": "true"}));
    stage.fleet.note_clusters(&Signal::Applied(tunnelled));
    let kept = Outcome::Kept(ConfigurationError::PullWithoutCredentials);
    assert_eq!(stage.fleet.reconsider(&edge()), kept);
    stage.fleet.note_clusters(&Signal::Applied(by_agent()));
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Awaited);
    let away = Failure::new(FailureKind::Network, "its agent is not connected");
    assert_eq!(stage.hear(Err(away.clone())), Outcome::Awaited);
    let second = stage.given("https://10.96.0.1:443", b"two");
    assert_eq!(stage.hear(second), Outcome::Renewed);
    assert_eq!(stage.hear(Err(away)), Outcome::Unchanged);
}

#[tokio::test]
async fn renewal_by_an_agent_ends_with_its_cluster() {
    let mut stage = Stage::new(Some("http://127.0.0.1:1"), None).await;
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    let first = stage.given("https://10.96.0.1:443", b"one");
    assert_eq!(stage.hear(first), Outcome::Engaged(1));
    let mut joined_again = by_agent();
    joined_again.metadata.uid = Some("uid-of-another".to_owned());
    for (cluster, expected) in [
        (by_agent(), Outcome::Unchanged),
        (joined_again, Outcome::Pending),
    ] {
        stage.fleet.note_clusters(&Signal::Applied(cluster));
        assert_eq!(stage.fleet.reconsider(&edge()), expected);
    }
    stage.fleet.stop_watching(&edge());
    assert!(stage.fleet.renewals.is_empty());
}

#[tokio::test]
async fn agent_is_asked_again_if_token_or_authorities_are_rejected() {
    let mut stage = Stage::new(Some("http://127.0.0.1:1"), None).await;
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    for (failure, is_rejected) in [
        (Some(FailureKind::Unauthorized), true),
        (None, false),
        (Some(FailureKind::Tls), true),
        (Some(FailureKind::Network), false),
    ] {
        stage.fleet.note_unreachable(&edge(), failure);
        let rejected = *stage.fleet.renewals[&edge()].rejected.borrow();
        assert_eq!(rejected, is_rejected, "{failure:?}");
    }
}

#[tokio::test]
async fn changed_call_inherits_the_rejection_of_the_token() {
    let mut stage = Stage::new(Some("http://127.0.0.1:1"), None).await;
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    let round = stage.fleet.renewals[&edge()].round;
    let failure = Some(FailureKind::Unauthorized);
    stage.fleet.note_unreachable(&edge(), failure);
    stage.fleet.credentials.tunnel_tls_dir = Some(PathBuf::from("/no/such/directory"));
    assert_eq!(stage.fleet.reconsider(&edge()), Outcome::Pending);
    let renewal = &stage.fleet.renewals[&edge()];
    assert_ne!(renewal.round, round, "another call");
    assert!(*renewal.rejected.borrow());
}

#[tokio::test]
async fn hanging_plugins_delay_those_of_their_program_alone() {
    let mut stage = Stage::new(None, None).await;
    let plugin = |command: &str, args: &[&str]| {
        Call::Plugin(PluginCall {
            command: command.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: BTreeMap::new(),
            api_version: "v1".to_owned(),
            request: String::new(),
        })
    };
    for number in 0..=PLUGINS_AT_ONCE {
        let name = format!("hangs-{number}");
        let name = ClusterName::try_from(name.as_str()).expect("a name");
        let call = plugin("sleep", &["1000"]);
        assert_eq!(stage.fleet.renewed(&name, call), None);
    }
    let script = r#"echo '{"apiVersion":"v1","kind":"ExecCredential","status":{"token":"abc"}}'"#;
    let call = plugin("/bin/sh", &["-c", script]);
    assert_eq!(stage.fleet.renewed(&edge(), call), None);
    match stage.events.recv().await.expect("an event") {
        Event::Credentials { name, outcome, .. } => {
            assert_eq!(name, edge());
            assert!(outcome.is_ok(), "{outcome:?}");
        }
        other => panic!("{other:?}"),
    }
}
