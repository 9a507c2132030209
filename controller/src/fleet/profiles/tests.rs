use std::net::SocketAddr;

use causeway::api::ClusterProfile;
use causeway::process::Process;
use causeway_engine::model::{Failure, FailureKind};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::cluster_profiles::providers::Providers;
use crate::event::Event;
use crate::fleet::tests::from;
use crate::fleet::{Credentials, Outcome};
use crate::member;

const SECRETS: &str = "causeway-members";
const MANAGERS: &str = "fleet-inventory";

/// A fleet with the Cluster `edge`, which was made of a ClusterProfile.
struct Edge {
    fleet: Fleet,
    events: mpsc::Receiver<Event>,
    name: ClusterName,
    _process: Process,
}

impl Edge {
    async fn new(providers: Providers) -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let process = Process::start(loopback).await.expect("a process");
        let (sender, events) = mpsc::channel(8);
        let credentials = Credentials {
            allow_insecure: true,
            secret_namespaces: vec![SECRETS.to_owned(), MANAGERS.to_owned()],
            profile_namespaces: vec![MANAGERS.to_owned()],
            providers,
            ..Credentials::default()
        };
        let settings = member::Settings::default();
        let mut fleet = Fleet::new(credentials, settings, sender, process.tasks.clone());
        for namespace in [SECRETS, MANAGERS] {
            fleet.note_secrets(namespace, Signal::Listed(Vec::new()));
        }
        // The address here is not the profile's, and is never used.
        fleet.note_clusters(&Signal::Applied(from(json!({
            "metadata": {"name": "edge", "uid": "uid-of-edge", "labels": {
                "mcs.causeway.dev/profile-namespace": MANAGERS,
            }},
            "spec": {"apiEndpoint": "https://hostile.example"},
        }))));
        Self {
            fleet,
            events,
            name: ClusterName::try_from("edge").expect("a name"),
            _process: process,
        }
    }

    fn profile(&self, name: &str, provider: &str, server: &str) -> Profile {
        let profile: ClusterProfile = from(json!({
            "metadata": {"name": name, "namespace": MANAGERS, "uid": "uid-of-profile"},
            "spec": {},
            "status": {"accessProviders": [{"name": provider, "cluster": {"server": server}}]},
        }));
        Profile::read(&profile, &self.fleet.credentials.providers.names())
    }

    fn note_profile(&mut self, provider: &str, server: &str) {
        let signal = Signal::Listed(vec![self.profile("edge", provider, server)]);
        let touched = self.fleet.note_profiles(MANAGERS, &signal);
        assert_eq!(touched, BTreeSet::from([self.name.clone()]));
    }

    fn note_secret(&mut self, namespace: &str, mut secret: Value) {
        secret["data"] = json!({"token": "YWJj"});
        secret["metadata"]["namespace"] = json!(namespace);
        let signal = Signal::Applied(from(secret));
        self.fleet.note_secrets(namespace, signal);
    }

    fn reconsider(&mut self) -> Outcome {
        self.fleet.reconsider(&self.name)
    }

    fn engaged_at(&self) -> String {
        self.fleet.engagements[&self.name].target.url.to_string()
    }

    /// Receives what the plugin gave, and uses it.
    async fn hear_plugin(&mut self) -> Outcome {
        loop {
            if let Event::Credentials {
                name,
                round,
                outcome,
            } = self.events.recv().await.expect("an event")
            {
                self.fleet.note_credentials(&name, round, outcome);
                return self.reconsider();
            }
        }
    }
}

fn lacking(provider: &str, namespace: &str, name: &str, exists: bool) -> ConfigurationError {
    ConfigurationError::NoProfileSecret {
        provider: provider.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        exists,
    }
}

#[tokio::test]
async fn the_address_is_the_profiles_and_the_token_that_of_the_clusters_secret() {
    let mut edge = Edge::new(Providers::default()).await;
    assert_eq!(
        edge.reconsider(),
        Outcome::Pending,
        "profiles are being listed"
    );
    edge.note_profile("secretreader", "https://127.0.0.1:1/edge");
    let absent = lacking("secretreader", SECRETS, "edge", false);
    assert_eq!(edge.reconsider(), Outcome::Refused(absent));
    let labels = json!({"mcs.causeway.dev/cluster": "other"});
    edge.note_secret(
        SECRETS,
        json!({"metadata": {"name": "edge", "labels": labels}}),
    );
    let another = lacking("secretreader", SECRETS, "edge", true);
    assert_eq!(edge.reconsider(), Outcome::Refused(another));
    edge.note_secret(SECRETS, json!({"metadata": {"name": "edge"}}));
    assert_eq!(edge.reconsider(), Outcome::Engaged(1));
    assert_eq!(edge.engaged_at(), "https://127.0.0.1:1/edge");
    assert!(
        edge.fleet.secret_of(&edge.name).is_some(),
        "a rejected token is read again"
    );
}

#[tokio::test]
async fn changed_profile_concerns_the_cluster_made_of_it_alone() {
    let mut edge = Edge::new(Providers::default()).await;
    let own = BTreeSet::from([edge.name.clone()]);
    for (profile, touched) in [("edge", own), ("other", BTreeSet::new())] {
        let profile = edge.profile(profile, "secretreader", "https://127.0.0.1:1");
        let signal = Signal::Applied(profile);
        assert_eq!(edge.fleet.note_profiles(MANAGERS, &signal), touched);
    }
}

#[tokio::test]
async fn a_secret_of_open_cluster_management_is_owned_by_the_profile() {
    let mut edge = Edge::new(Providers::default()).await;
    edge.note_profile("open-cluster-management", "https://127.0.0.1:1");
    for (owner, outcome) in [
        (
            "uid-of-another",
            Outcome::Refused(lacking(
                "open-cluster-management",
                MANAGERS,
                "edge-causeway",
                true,
            )),
        ),
        ("uid-of-profile", Outcome::Engaged(1)),
    ] {
        let owner = json!({"apiVersion": "v1", "kind": "x", "name": "x", "uid": owner});
        let metadata = json!({"name": "edge-causeway", "ownerReferences": [owner]});
        edge.note_secret(MANAGERS, json!({"metadata": metadata}));
        assert_eq!(edge.reconsider(), outcome);
    }
}

#[tokio::test]
async fn refusals_of_profiles_never_name_join() {
    let command = "builtin:secretreader";
    let elsewhere = json!([{"name": "NAMESPACE", "value": "elsewhere"}]);
    let file = json!({"providers": [
        {"name": "elsewhere", "execConfig": {"command": command, "env": elsewhere}},
        {"name": "s", "execConfig": {"command": command}},
    ]});
    let without_token = json!({"metadata": {"name": "edge", "namespace": SECRETS}});
    for (provider, server, problem) in [
        (
            "s",
            "http://127.0.0.1:1",
            "the ClusterProfile's certificate-authority-data",
        ),
        (
            "elsewhere",
            "https://127.0.0.1:1",
            "--secret-namespace=elsewhere",
        ),
        ("s", "https://127.0.0.1:1", "has no key token"),
    ] {
        let providers = Providers::read(file.to_string().as_bytes()).expect("providers");
        let mut edge = Edge::new(providers).await;
        edge.fleet.credentials.allow_insecure = false;
        let secret = Signal::Applied(from(without_token.clone()));
        edge.fleet.note_secrets(SECRETS, secret);
        edge.note_profile(provider, server);
        let Outcome::Refused(error) = edge.reconsider() else {
            panic!("{provider} at {server} is not refused")
        };
        let text = error.to_string();
        assert!(
            text.contains(problem) && !text.contains("kubectl mcs join"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_plugin_gives_the_token_and_a_failure_of_it_ends_nothing() {
    let flag = tempfile::NamedTempFile::new().expect("a file");
    let script = format!(
        "test -e {} && echo '{{\"apiVersion\":\"{VERSION}\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"abc\"}}}}'",
        flag.path().display()
    );
    let file = json!({"providers": [{"name": "p", "execConfig": {
        "apiVersion": VERSION, "command": "/bin/sh", "args": ["-c", script],
    }}]});
    let providers = Providers::read(file.to_string().as_bytes()).expect("providers");
    let mut edge = Edge::new(providers).await;
    edge.note_profile("p", "https://127.0.0.1:1");
    assert_eq!(edge.reconsider(), Outcome::Pending);
    assert_eq!(edge.hear_plugin().await, Outcome::Engaged(1));
    assert_eq!(edge.reconsider(), Outcome::Unchanged);
    drop(flag);
    // Its authorities are the profile's: a plugin gives no others.
    for failure in [FailureKind::Tls, FailureKind::Unauthorized] {
        edge.fleet.note_unreachable(&edge.name, Some(failure));
    }
    let Outcome::Kept(ConfigurationError::NoCredentials { provider, failure }) =
        edge.hear_plugin().await
    else {
        panic!("a failure")
    };
    assert_eq!(provider, "p");
    assert_eq!(
        failure.to_string(),
        "plugin /bin/sh failed (exit status: 1)"
    );
    // Another address is another call: the token for the former one is not used for it.
    edge.note_profile("p", "https://127.0.0.1:2");
    assert_eq!(edge.engaged_at(), "https://127.0.0.1:1/");
}

#[tokio::test]
async fn plugin_ends_once_the_profile_does_not_name_it() {
    let script = format!(
        "echo '{{\"apiVersion\":\"{VERSION}\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"abc\"}}}}'"
    );
    let file = json!({"providers": [
        {"name": "p", "execConfig": {
            "apiVersion": VERSION, "command": "/bin/sh", "args": ["-c", script],
        }},
        {"name": "s", "execConfig": {"command": "builtin:secretreader"}},
    ]});
    for is_by_secret in [true, false] {
        let providers = Providers::read(file.to_string().as_bytes()).expect("providers");
        let mut edge = Edge::new(providers).await;
        edge.note_secret(SECRETS, json!({"metadata": {"name": "edge"}}));
        edge.note_profile("p", "https://127.0.0.1:1");
        assert_eq!(edge.reconsider(), Outcome::Pending);
        assert_eq!(edge.hear_plugin().await, Outcome::Engaged(1));
        assert_eq!(edge.fleet.renewals.len(), 1);
        let expected = if is_by_secret {
            edge.note_profile("s", "https://127.0.0.1:1");
            Outcome::Unchanged
        } else {
            edge.fleet.note_clusters(&Signal::Applied(from(json!({
                "metadata": {"name": "edge", "uid": "uid-of-edge"}, "spec": {},
            }))));
            Outcome::Kept(ConfigurationError::NoSecretRef)
        };
        assert_eq!(edge.reconsider(), expected);
        assert!(edge.fleet.renewals.is_empty(), "{is_by_secret}");
    }
}

const VERSION: &str = "client.authentication.k8s.io/v1";

#[tokio::test]
async fn a_profile_that_goes_before_its_cluster_is_known_until_the_member_is_clean() {
    let mut edge = Edge::new(Providers::default()).await;
    edge.note_secret(SECRETS, json!({"metadata": {"name": "edge"}}));
    edge.note_profile("secretreader", "https://127.0.0.1:1");
    assert_eq!(edge.reconsider(), Outcome::Engaged(1));
    edge.fleet
        .note_profiles(MANAGERS, &Signal::Listed(Vec::new()));
    assert_eq!(edge.reconsider(), Outcome::Unchanged);
    edge.fleet.stop_watching(&edge.name.clone());
    assert!(edge.fleet.profiles.is_empty() && edge.fleet.gone_profiles.is_empty());
}

#[tokio::test]
async fn absent_profile_is_awaited_while_the_watch_fails() {
    let mut edge = Edge::new(Providers::default()).await;
    edge.fleet
        .note_profiles(MANAGERS, &Signal::Listed(Vec::new()));
    let unknown = edge.reconsider();
    assert!(matches!(unknown, Outcome::Refused(_)), "{unknown:?}");
    let failed = Signal::Failed(Failure::timeout());
    edge.fleet.note_profiles(MANAGERS, &failed);
    assert_eq!(edge.reconsider(), Outcome::Pending);
    let touched = edge.fleet.note_profiles(MANAGERS, &Signal::Connected);
    assert!(touched.contains(&edge.name));
    assert_eq!(edge.reconsider(), unknown);
}

#[tokio::test]
async fn profiles_that_cannot_be_read_are_reported_until_they_are() {
    let mut edge = Edge::new(Providers::default()).await;
    edge.note_secret(SECRETS, json!({"metadata": {"name": "edge"}}));
    let failure = Failure::new(FailureKind::Forbidden, "clusterprofiles is forbidden");
    let signal = Signal::Failed(failure.clone());
    edge.fleet.note_profiles(MANAGERS, &signal);
    let unreadable = ConfigurationError::ProfilesUnreadable {
        namespace: MANAGERS.to_owned(),
        failure,
    };
    assert_eq!(edge.reconsider(), Outcome::Refused(unreadable));
    edge.note_profile("secretreader", "https://127.0.0.1:1");
    assert_eq!(edge.reconsider(), Outcome::Engaged(1));
    edge.fleet.note_profiles(MANAGERS, &signal);
    assert_eq!(
        edge.reconsider(),
        Outcome::Unchanged,
        "what was listed counts on"
    );
}

#[tokio::test]
async fn a_profile_of_another_namespace_is_unknown() {
    let mut edge = Edge::new(Providers::default()).await;
    edge.fleet.note_profiles_listed(MANAGERS);
    let unknown = ConfigurationError::ProfileUnknown(MANAGERS.to_owned());
    assert_eq!(edge.reconsider(), Outcome::Refused(unknown));
}
