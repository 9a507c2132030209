//! Leader election: candidates for one Lease of a real API server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests: what fails in them fails the test"
)]

use std::sync::mpsc;
use std::time::Duration;

use causeway::process::liveness::Heartbeat;
use causeway_controller::lease::{self, Leadership, Lease};
use causeway_tests::eventually::throughout;
use causeway_tests::{Cluster, Fleet, SOON, Space};
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::Api;
use tokio::sync::{OnceCell, oneshot, watch as channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET
        .get_or_init(|| Fleet::builder().members(1).start())
        .await
}

struct Candidate {
    leadership: channel::Receiver<Leadership>,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(cluster: &Cluster, namespace: &str, identity: &str) -> Self {
        Self::with_progress(cluster, namespace, identity, None)
    }

    fn with_progress(
        cluster: &Cluster,
        namespace: &str,
        identity: &str,
        progress: Option<Heartbeat>,
    ) -> Self {
        let settings = lease::Settings {
            identity: identity.to_owned(),
            duration: Duration::from_secs(5),
            renew_deadline: Duration::from_secs(3),
            period: Duration::from_millis(400),
            look: Duration::from_millis(400),
            request_deadline: Duration::from_secs(1),
            progress,
            ..lease::Settings::default()
        };
        let (lease, leadership) = Lease::new(cluster.client(), namespace, "controller", settings);
        let (shutdown, asked) = oneshot::channel::<()>();
        let task = tokio::spawn(lease.run(async move {
            asked.await.ok();
        }));
        Self {
            leadership,
            shutdown,
            task,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().may_write(Instant::now())
    }

    async fn until_leading(&mut self) {
        let led = self
            .leadership
            .wait_for(|leadership| matches!(leadership, Leadership::Leader { .. }));
        timeout(SOON, led)
            .await
            .expect("it does not come to lead")
            .expect("the candidate ended");
    }

    async fn until_following(&mut self) {
        let followed = self
            .leadership
            .wait_for(|leadership| matches!(leadership, Leadership::Follower { .. }));
        timeout(SOON, followed)
            .await
            .expect("it does not stop to lead")
            .expect("the candidate ended");
    }
}

#[tokio::test]
async fn another_candidate_takes_over_when_the_leader_ends() {
    let fleet = fleet().await;
    let hub = fleet.hub();
    let space = Space::create(fleet, "lease", &[hub]).await;
    let mut first = Candidate::start(hub, space.name(), "first");
    first.until_leading().await;
    let mut second = Candidate::start(hub, space.name(), "second");
    let known = Leadership::Follower {
        holder: Some("first".to_owned()),
    };
    timeout(
        SOON,
        second
            .leadership
            .wait_for(|leadership| *leadership == known),
    )
    .await
    .unwrap()
    .unwrap();
    assert!(first.leads() && !second.leads());

    let asked = Instant::now();
    first.shutdown.send(()).unwrap();
    first.task.await.unwrap();
    assert_eq!(
        *first.leadership.borrow(),
        Leadership::Follower { holder: None }
    );
    second.until_leading().await;
    assert!(
        asked.elapsed() < Duration::from_secs(4),
        "the lease was not released: {:?}",
        asked.elapsed()
    );

    let mut third = Candidate::start(hub, space.name(), "third");
    second.task.abort();
    let died = Instant::now();
    third.until_leading().await;
    assert!(
        died.elapsed() > Duration::from_secs(3),
        "the second may still have been writing"
    );
    let lease = space
        .api::<LeaseObject>(hub)
        .get("controller")
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        (lease.holder_identity.as_deref(), lease.lease_transitions),
        (Some("third"), Some(2))
    );
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_and_leads_again_when_it_can() {
    let fleet = fleet().await;
    let member = fleet.member("member1");
    let space = Space::create(fleet, "renew", &[member]).await;
    let mut candidate = Candidate::start(member, space.name(), "only");
    candidate.until_leading().await;
    let Leadership::Leader { until } = *candidate.leadership.borrow() else {
        panic!("it does not lead")
    };
    assert!(until <= Instant::now() + Duration::from_secs(3));
    member.pause();
    candidate.until_following().await;
    assert!(!candidate.leads());
    member.resume();
    candidate.until_leading().await;
}

#[tokio::test]
async fn leader_without_progress_is_followed_by_another() {
    let fleet = fleet().await;
    let hub = fleet.hub();
    let space = Space::create(fleet, "wedged", &[hub]).await;
    let progress = Heartbeat::new("loop", Duration::from_secs(2));
    let mut first = Candidate::with_progress(hub, space.name(), "first", Some(progress.clone()));
    // A thread of its own: the loop that beats and then wedges.
    let (wedge, wedged) = mpsc::channel::<()>();
    let beats = progress.clone();
    let work = std::thread::spawn(move || {
        while wedged.recv_timeout(Duration::from_millis(100)).is_err() {
            beats.beat();
        }
    });
    first.until_leading().await;
    let mut second = Candidate::start(hub, space.name(), "second");
    let longer = Duration::from_secs(3);
    throughout("the first leads", longer, async || first.leads()).await;
    assert!(!second.leads());
    wedge.send(()).expect("the thread runs");
    work.join().expect("the thread ends");
    first.until_following().await;
    second.until_leading().await;
    assert!(!first.leads());

    // It stands for election again once it makes progress.
    let own = Heartbeat::new("loop", Duration::from_secs(3600));
    let mut third = Candidate::with_progress(hub, space.name(), "third", Some(own));
    second.shutdown.send(()).expect("it runs");
    third.until_leading().await;
    assert!(!first.leads(), "it still makes no progress");
    third.shutdown.send(()).expect("it runs");
    let beats = async {
        loop {
            progress.beat();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = first.until_leading() => {}
        () = beats => {}
    }
}

#[tokio::test]
async fn a_missing_namespace_is_waited_for() {
    let fleet = fleet().await;
    let hub = fleet.hub();
    let name = format!("{}-late", Space::create(fleet, "late", &[hub]).await.name());
    let mut candidate = Candidate::start(hub, &name, "only");
    let leases = Api::<LeaseObject>::namespaced(hub.client(), &name);
    assert!(leases.get_opt("controller").await.unwrap().is_none());
    hub.create_namespace(&name).await;
    candidate.until_leading().await;
}
