use std::net::SocketAddr;
use std::time::Duration;

use causeway::process::Process;
use causeway_engine::write_queue::WriteLimits;
use kube::Config;
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
