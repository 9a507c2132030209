//! The controller's connections to real API servers: watches, probes and credentials.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests: what fails in them fails the test"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::{self, crds};
use causeway::target::Target;
use causeway_controller::failure::classify;
use causeway_controller::member;
use causeway_controller::watch::{self, Watch};
use causeway_engine::model::{Failure, FailureKind, Signal};
use causeway_tests::{Cluster, Fleet, SOON, Space, service};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use tokio::sync::{OnceCell, mpsc, watch as channel};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};

use self::said::Reported;

mod clusterset;
mod encodings;
mod said;

/// Each test that breaks an API server has a member of its own.
async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET
        .get_or_init(|| Fleet::builder().members(5).start())
        .await
}

/// Ends a task with the test.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ended<T>(task: &JoinHandle<T>) -> Ended {
    Ended(task.abort_handle())
}

async fn next<T>(events: &mut mpsc::Receiver<T>) -> T {
    timeout(SOON, events.recv())
        .await
        .expect("nothing is reported")
        .expect("nobody tells")
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn patient(page: u32) -> watch::Settings {
    watch::Settings {
        page,
        last_retry: Duration::from_millis(500),
        ..watch::Settings::default()
    }
}

#[tokio::test]
async fn watch_lists_in_pages_and_survives_its_api_server() {
    let fleet = fleet().await;
    let member = fleet.member("member1");
    let space = Space::create(fleet, "pages", &[member]).await;
    let maps = space.api::<ConfigMap>(member);
    let mut names: Vec<String> = (10..35).map(|number| format!("map{number}")).collect();
    for name in &names {
        maps.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    }
    let (tell, mut signals) = mpsc::channel(64);
    let watch = Watch::new(maps.clone(), patient(10));
    let _ended = ended(&tokio::spawn(watch.run(
        |map| map.name_any(),
        |signal| signal,
        tell,
    )));
    let Signal::Listed(mut listed) = next(&mut signals).await else {
        panic!("not listed first")
    };
    listed.retain(|name| name.starts_with("map"));
    assert_eq!(listed, names);
    assert!(matches!(next(&mut signals).await, Signal::Connected));

    member.stop().await;
    while reported_failure(&mut signals).await.kind != FailureKind::Refused {}
    member.start().await;
    maps.delete("map10", &DeleteParams::default())
        .await
        .unwrap();
    maps.create(&PostParams::default(), &config_map("new"))
        .await
        .unwrap();
    names.remove(0);
    names.push("new".to_owned());
    let mut known = listed;
    let (mut connected, deadline) = (false, Instant::now() + SOON);
    while !connected || known != names {
        assert!(Instant::now() < deadline, "not caught up: {known:?}");
        match next(&mut signals).await {
            Signal::Connected => connected = true,
            Signal::Failed(_) => connected = false,
            Signal::Confirmed | Signal::Current(_) => {}
            Signal::DeletionsSuspended(missing) => panic!("{missing} are missing at once"),
            Signal::Listed(all) => {
                known = all
                    .into_iter()
                    .filter(|name| name != "kube-root-ca.crt")
                    .collect()
            }
            Signal::Applied(name) => known.push(name),
            Signal::Deleted(name) => known.retain(|other| *other != name),
        }
    }
}

async fn reported_failure<K>(signals: &mut mpsc::Receiver<Signal<K>>) -> Failure {
    loop {
        if let Signal::Failed(failure) = next(signals).await {
            return failure;
        }
    }
}

#[tokio::test]
async fn a_watch_of_what_is_not_served_says_so_and_begins_when_it_is() {
    let fleet = fleet().await;
    let hub = fleet.hub();
    let clusters = Api::<api::Cluster>::all(hub.client());
    let (tell, mut signals) = mpsc::channel(64);
    let watch = Watch::new(clusters, patient(10));
    let _ended = ended(&tokio::spawn(watch.run(
        |cluster| cluster.name_any(),
        |signal| signal,
        tell,
    )));
    assert_eq!(
        reported_failure(&mut signals).await.kind,
        FailureKind::NotServed
    );
    let definitions = Api::<CustomResourceDefinition>::all(hub.client());
    let definition = crds::hub()
        .into_iter()
        .find(|definition| definition.spec.names.kind == "Cluster")
        .unwrap();
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    loop {
        match next(&mut signals).await {
            Signal::Listed(clusters) => break assert!(clusters.is_empty()),
            Signal::Failed(_) => {}
            other => panic!("{other:?} before a list"),
        }
    }
}

#[tokio::test]
async fn hanging_api_server_is_detected_and_watched_again() {
    let fleet = fleet().await;
    let member = fleet.member("member2");
    let space = Space::create(fleet, "hang", &[member]).await;
    let half = Duration::from_millis(500);
    let settings = member::Settings {
        probe_every: half,
        probe_deadline: half,
        ..member::Settings::default()
    };
    let mut reported = Reported::by(member, member.client(), settings);
    let uid = member.uid().await;

    reported
        .until("all is watched", |said| said.natives_connected() == 3)
        .await;
    let said = &reported.said;
    assert_eq!(said.identities, [uid]);
    assert_eq!(said.probes, [Ok(())]);
    assert!(!said.listed["services"].is_empty() && said.listed["namespaces"].len() >= 4);
    assert!(said.listed.contains_key("slices"));

    member.pause();
    reported
        .until("it hangs", |said| said.probes.len() == 2)
        .await;
    assert_eq!(reported.said.probes[1], Err("no answer in time".to_owned()));
    member.resume();
    reported
        .until("it answers again", |said| said.probes.len() == 3)
        .await;
    assert_eq!(reported.said.probes[2], Ok(()));
    reported
        .until("all is watched on new connections", |said| {
            said.natives_connected() >= 6
        })
        .await;
    service("foo").port("http", 80).create(member, &space).await;
    reported
        .until("a change arrives", |said| said.knows("services", "foo"))
        .await;
    assert_eq!(reported.said.identities.len(), 1);
}

fn cluster_and_secret(
    member: &Cluster,
    endpoint: &str,
    token: &str,
    ca: &str,
) -> (api::Cluster, Secret) {
    let spec = api::ClusterSpec {
        api_endpoint: Some(endpoint.to_owned()),
        ..api::ClusterSpec::default()
    };
    let entries = [("token", token), ("caBundle", ca)];
    let entries =
        entries.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(member.name().to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from(entries)),
        ..Secret::default()
    };
    (api::Cluster::new(member.name(), spec), secret)
}

#[tokio::test]
async fn errors_of_address_and_credentials_are_distinguished() {
    let fleet = fleet().await;
    let (member, other) = (fleet.member("member3"), fleet.member("member4"));
    let space = Space::create(fleet, "target", &[member]).await;
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("nobody".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    space
        .api(member)
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let token = member.token(space.name(), "nobody").await;
    let unused = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = plain.local_addr().unwrap().to_string();
    let cases = [
        (
            member.url(),
            token.as_str(),
            member.ca_pem(),
            FailureKind::Forbidden,
            "forbidden: ",
        ),
        (
            member.url(),
            "stranger",
            member.ca_pem(),
            FailureKind::Unauthorized,
            "unauthorized",
        ),
        (
            member.url(),
            token.as_str(),
            other.ca_pem(),
            FailureKind::Tls,
            "certificate not trusted",
        ),
        (
            unused.as_str(),
            token.as_str(),
            member.ca_pem(),
            FailureKind::Refused,
            "connection refused",
        ),
        (
            silent.as_str(),
            token.as_str(),
            member.ca_pem(),
            FailureKind::Timeout,
            "no answer in time",
        ),
        (
            "https://no-such-host.invalid",
            token.as_str(),
            member.ca_pem(),
            FailureKind::Network,
            "its host name cannot be resolved",
        ),
    ];
    for (endpoint, token, ca, kind, text) in cases {
        let (cluster, secret) = cluster_and_secret(member, endpoint, token, ca);
        let (target, token) = Target::read(&cluster, &secret, false).unwrap();
        let (_renewals, token) = channel::channel(token);
        let agent = member::Settings::default().agent;
        let connector =
            member::Connector::new(&target, token, Duration::from_secs(1), &agent).unwrap();
        let client = connector.client().unwrap();
        let answer = Api::<EndpointSlice>::all(client)
            .list(&ListParams::default())
            .await;
        let failure = classify(&answer.unwrap_err());
        assert_eq!(failure.kind, kind, "{endpoint}: {failure}");
        assert!(
            failure.to_string().starts_with(text),
            "{endpoint}: {failure}"
        );
    }
}
