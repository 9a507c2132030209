use std::net::SocketAddr;

use causeway::process::Process;
use serde_json::{Value, json};

use super::*;

pub(super) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// Returns a cluster in Pull mode, as karmada-agent registers it with or without credentials.
fn pulled(credentials: bool) -> api::Cluster {
    let secret = json!({"namespace": "karmada-cluster", "name": "edge"});
    from(json!({
        "metadata": {"name": "edge", "uid": "uid-of-edge"},
        "spec": {
            "syncMode": "Pull",
            "apiEndpoint": "https://127.0.0.1:1",
            "secretRef": credentials.then_some(secret),
        },
    }))
}

fn secret(token: &str) -> Secret {
    from(json!({
        "metadata": {"namespace": "karmada-cluster", "name": "edge"},
        "data": {"token": token},
    }))
}

/// Returns a fleet that reads Secret `edge`, and the receiver of its events.
async fn fleet() -> (Process, Fleet, mpsc::Receiver<Event>) {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let process = Process::start(loopback).await.expect("a process");
    let (events, received) = mpsc::channel(1);
    let credentials = Credentials {
        allow_insecure: true,
        secret_namespaces: vec!["karmada-cluster".to_owned()],
        ..Credentials::default()
    };
    let settings = member::Settings::default();
    let mut fleet = Fleet::new(credentials, settings, events, process.tasks.clone());
    fleet.note_secrets("karmada-cluster", Signal::Listed(vec![secret("dG9rZW4=")]));
    (process, fleet, received)
}

#[tokio::test]
async fn record_of_the_reported_uid_does_not_engage_a_member_again() {
    let (_process, mut fleet, _received) = fleet().await;
    let edge = ClusterName::try_from("edge").expect("a name");
    for (recorded, is_reported, expected) in [
        (None, false, Outcome::Engaged(1)),
        (Some("uid"), true, Outcome::Unchanged),
        (Some("uid"), false, Outcome::Unchanged),
        (Some("another"), false, Outcome::Engaged(2)),
        (None, false, Outcome::Engaged(3)),
    ] {
        let mut cluster = pulled(true);
        cluster.spec.id = recorded.map(str::to_owned);
        fleet.note_clusters(&Signal::Applied(cluster));
        if is_reported {
            fleet.note_recorded_uid(&edge);
        }
        assert_eq!(fleet.reconsider(&edge), expected, "{recorded:?}");
    }
}

#[tokio::test]
async fn absent_secret_is_awaited_while_the_watch_fails() {
    let (_process, mut fleet, _received) = fleet().await;
    let edge = ClusterName::try_from("edge").expect("a name");
    fleet.note_secrets("karmada-cluster", Signal::Listed(Vec::new()));
    fleet.note_clusters(&Signal::Applied(pulled(true)));
    let absent = fleet.reconsider(&edge);
    assert!(matches!(absent, Outcome::Refused(_)), "{absent:?}");
    fleet.note_secrets("karmada-cluster", Signal::Failed(Failure::timeout()));
    assert_eq!(fleet.reconsider(&edge), Outcome::Pending);
    let touched = fleet.note_secrets("karmada-cluster", Signal::Connected);
    assert!(touched.contains(&edge));
    assert_eq!(fleet.reconsider(&edge), absent);
    let found = Signal::Applied(secret("dG9rZW4="));
    fleet.note_secrets("karmada-cluster", found);
    assert_eq!(fleet.reconsider(&edge), Outcome::Engaged(1));
}

#[tokio::test]
async fn pull_mode_is_engaged_by_the_credentials_that_its_agent_reports() {
    let (_process, mut fleet, _received) = fleet().await;
    let edge = ClusterName::try_from("edge").expect("a name");
    let lost = ConfigurationError::PullWithoutCredentials;
    for (credentials, expected) in [
        (false, Outcome::LeftOut),
        (true, Outcome::Engaged(1)),
        (false, Outcome::Kept(lost)),
        (true, Outcome::Unchanged),
    ] {
        fleet.note_clusters(&Signal::Applied(pulled(credentials)));
        assert_eq!(
            fleet.reconsider(&edge),
            expected,
            "credentials: {credentials}"
        );
    }
    let renewed = secret("cmVuZXdlZA==");
    fleet.note_secrets("karmada-cluster", Signal::Applied(renewed));
    assert_eq!(fleet.reconsider(&edge), Outcome::Renewed);
    assert_eq!(fleet.reconsider(&edge), Outcome::Unchanged);
}
