use std::net::SocketAddr;
use std::time::Duration;

use causeway::api::{self, labels};
use causeway::domain::KubernetesVersion;
use causeway::process::Process;
use causeway_engine::model::slice::ObservedSlice;
use causeway_engine::model::{
    Failure, FailureKind, HubEvent, Identity, MemberEvent, MemberState, Signal,
};
use causeway_engine::write_queue::WriteLimits;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Config;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::fleet::Credentials;
use crate::member;

/// A controller of an empty hub that nothing reaches, and its events.
fn controller(
    process: &Process,
    leadership: &watch::Receiver<Leadership>,
) -> (Controller, mpsc::Receiver<Event>) {
    let nowhere = Config::new(http::Uri::from_static("http://127.0.0.1:1"));
    let tasks = process.tasks.clone();
    let (events, received) = mpsc::channel(1);
    let limits = WriteLimits {
        qps: 1.0,
        burst: 1.0,
        width: 1,
        conflict_pause: Duration::ZERO,
    };
    let members = member::Settings::default();
    let parts = Parts {
        index: Index::new("hub-uid"),
        settings: Settings::default(),
        fleet: Fleet::new(
            Credentials::default(),
            members,
            events.clone(),
            tasks.clone(),
        ),
        write_queue: WriteQueue::new(limits),
        hub: Client::try_from(nowhere).expect("a client"),
        hub_relist_requests: watch::channel(RelistRequests::default()).0,
        write_deadline: Duration::ZERO,
        leadership: leadership.clone(),
        heartbeat: Heartbeat::new("loop", STALLED),
        event_recorder: EventRecorder::new(tasks.clone(), String::new(), leadership.clone()),
        tasks,
        metrics: Metrics::default(),
        tracer: Tracer::default(),
        hostnames: watch::channel(BTreeSet::new()).0,
        keeps_clusters: watch::channel(true).1,
    };
    (Controller::new(parts, events), received)
}

#[tokio::test]
async fn dropped_write_does_not_idle_a_renewed_leader() {
    let now = tokio::time::Instant::now();
    let leads = |seconds| Leadership::Leader {
        until: now + Duration::from_secs(seconds),
    };
    let (sender, leadership) = watch::channel(leads(3600));
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let process = Process::start(loopback).await.expect("a process");
    let (mut controller, mut events) = controller(&process, &leadership);
    for (renewed, is_leader) in [(leads(7200), true), (leads(0), false)] {
        controller.turn(&mut events, &leads(3600));
        assert!(controller.leads);
        // The loop has consumed the change of leadership before the answer of the write arrives.
        sender.send_replace(renewed);
        controller.writes.spawn(async { None });
        let dropped = async {
            while !controller.writes.is_empty() {
                controller.turn(&mut events, &leads(3600));
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), dropped)
            .await
            .expect("the answer is applied");
        assert_eq!(controller.leads, is_leader);
    }
}

/// Returns a Cluster of that name and UID.
fn cluster(name: &str, uid: &str) -> api::Cluster {
    let metadata = json!({ "name": name, "uid": uid, "resourceVersion": "1" });
    let cluster = json!({ "metadata": metadata, "spec": { "syncMode": "Push" } });
    serde_json::from_value(cluster).expect("a Cluster")
}

/// Returns a copy of a source of a provider.
fn copy(provider: &str) -> ObservedSlice {
    let copy = json!({
        "metadata": {
            "namespace": "shop",
            "name": format!("foo-{provider}"),
            "uid": provider,
            "resourceVersion": "1",
            "labels": {
                labels::SERVICE_NAME: "foo",
                labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
                labels::HUB: "hub-uid",
                labels::SOURCE_CLUSTER: provider,
            },
            "annotations": { labels::SOURCE: "source/1" },
        },
        "addressType": "IPv4",
        "endpoints": [],
    });
    let copy: EndpointSlice = serde_json::from_value(copy).expect("an EndpointSlice");
    ObservedSlice::read(&copy)
}

/// Takes turns until the metrics show these numbers of suspended deletions.
async fn shows_suspended_deletions(
    controller: &mut Controller,
    events: &mut mpsc::Receiver<Event>,
    expected: &[(&str, usize)],
) {
    let follower = Leadership::Follower { holder: None };
    let (mut registry, mut text) = (Registry::default(), String::new());
    controller.parts.metrics.register(&mut registry);
    let is_shown = |text: &str, (cluster, count): &(&str, usize)| {
        let name = "causeway_controller_deletions_suspended";
        let expected = format!("{name}{{cluster=\"{cluster}\"}} {count}");
        text.lines().any(|line| line == expected)
    };
    let shown = async {
        while !expected.iter().all(|one| is_shown(&text, one)) {
            controller.turn(events, &follower);
            text.clear();
            encode(&mut text, &registry).expect("the metrics");
            tokio::task::yield_now().await;
        }
    };
    let shown = timeout(Duration::from_secs(10), shown).await;
    assert!(shown.is_ok(), "{expected:?} are not in\n{text}");
}

#[tokio::test]
async fn deletions_that_another_members_list_suggests_are_shown() {
    let (_sender, leadership) = watch::channel(Leadership::Follower { holder: None });
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let process = Process::start(loopback).await.expect("a process");
    let (mut controller, mut events) = controller(&process, &leadership);
    let [provider, consumer] =
        ["provider", "consumer"].map(|name| ClusterName::try_from(name).expect("a name"));
    let index = &mut controller.parts.index;
    let clusters = vec![cluster("provider", "a"), cluster("consumer", "b")];
    index.apply_hub(HubEvent::Clusters(Signal::Listed(clusters)), clock::now());
    index.engage(&provider, 1, None);
    index.engage(&consumer, 1, None);
    let copies = vec![copy("provider"), copy("lost")];
    for (name, slices) in [(provider.clone(), Vec::new()), (consumer, copies)] {
        let event = MemberEvent::Slices(Signal::Listed(slices));
        let generation = 1;
        controller.apply(Event::Member {
            name,
            generation,
            event,
        });
    }
    let expected = [("provider", 1), ("consumer", 0), ("hub", 1)];
    shows_suspended_deletions(&mut controller, &mut events, &expected).await;

    let index = &mut controller.parts.index;
    let again = Signal::Applied(cluster("provider", "c"));
    index.apply_hub(HubEvent::Clusters(again), clock::now());
    index.engage(&provider, 2, None);
    let expected = [("provider", 0)];
    shows_suspended_deletions(&mut controller, &mut events, &expected).await;
}

#[tokio::test]
async fn new_leader_notes_expired_provider_ttls_before_it_plans() {
    let (_sender, leadership) = watch::channel(Leadership::Follower { holder: None });
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let process = Process::start(loopback).await.expect("a process");
    let (mut controller, _events) = controller(&process, &leadership);
    controller.parts.settings.provider_ttl = Some(Duration::ZERO);
    let provider = ClusterName::try_from("provider").expect("a name");
    let clusters = vec![cluster("provider", "a")];
    let index = &mut controller.parts.index;
    index.apply_hub(HubEvent::Clusters(Signal::Listed(clusters)), clock::now());
    index.engage(&provider, 1, None);
    let refused = Failure::new(FailureKind::Refused, "connection refused");
    for (answer, is_expired) in [(Err(refused), true), (Ok(()), false)] {
        let index = &mut controller.parts.index;
        index.apply_member(&provider, MemberEvent::Probed(answer), clock::now());
        controller.lead(true);
        let has_expired = controller.parts.index.has_ttl_expired(&provider);
        assert_eq!(has_expired, is_expired);
        controller.lead(false);
    }
}

/// Has the fleet ask the agent of member edge for its credentials, and engages the member.
fn engage_by_agent(controller: &mut Controller) -> ClusterName {
    let credentials = Credentials {
        tunnel_front: Some("http://127.0.0.1:1".parse().expect("a front")),
        ..Credentials::default()
    };
    let (events, tasks) = (controller.events.clone(), controller.parts.tasks.clone());
    controller.parts.fleet = Fleet::new(credentials, member::Settings::default(), events, tasks);
    let mut by_agent = cluster("edge", "a");
    let annotations = [
        (labels::TUNNEL, "true"),
        (labels::CREDENTIALS, labels::FROM_AGENT),
    ];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    by_agent.metadata.annotations = Some(annotations.into());
    let clusters = Signal::Listed(vec![by_agent]);
    controller.apply_hub(HubEvent::Clusters(clusters), clock::now());
    let edge = ClusterName::try_from("edge").expect("a name");
    let recorded_uid = Some("uid-of-edge".to_owned());
    controller.parts.index.engage(&edge, 1, recorded_uid);
    edge
}

#[tokio::test]
async fn failed_probe_of_a_refused_member_rejects_its_token() {
    let (_sender, leadership) = watch::channel(Leadership::Follower { holder: None });
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let process = Process::start(loopback).await.expect("a process");
    let (mut controller, _events) = controller(&process, &leadership);
    let edge = engage_by_agent(&mut controller);
    let another = Identity {
        uid: "uid-of-another".to_owned(),
        version: "v1.36.3".to_owned(),
        release: KubernetesVersion::new(1, 36),
    };
    let failed = |kind| MemberEvent::Probed(Err(Failure::new(kind, "it failed")));
    for (event, is_rejected) in [
        (MemberEvent::Identified(another), false),
        (failed(FailureKind::Network), false),
        (failed(FailureKind::Tls), true),
        (MemberEvent::Probed(Ok(())), false),
        (failed(FailureKind::Unauthorized), true),
    ] {
        let observed = format!("{event:?}");
        controller.apply(Event::Member {
            name: edge.clone(),
            generation: 1,
            event,
        });
        let state = controller.parts.index.member_state(&edge);
        assert!(matches!(state, MemberState::Refused(_)), "{observed}");
        let rejected = controller.parts.fleet.is_rejected(&edge);
        assert_eq!(rejected, is_rejected, "{observed}");
    }
}
