//! Somebody changes what causeway wrote back, again and again.

use std::cell::Cell;
use std::time::{Duration, Instant};

use causeway_tests::causeway::Lent;
use causeway_tests::{Cluster, SOON, Space, eventually};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

/// Pause of the tests' controller after a write conflict.
const PAUSE: Duration = Duration::from_secs(10);
/// Two pauses, each longer than the one before, and the minute for which what is written has to
/// stay.
const OVER: Duration = Duration::from_secs(150);

/// Has the selector of foo be another whenever it is not, until `stop`; how often that was.
async fn flip(space: &Space<'_>, member: &Cluster, stop: &Cell<bool>) -> usize {
    let services = space.api::<Service>(member);
    let params = PatchParams {
        field_manager: Some("flipper".to_owned()),
        ..PatchParams::default()
    };
    let theirs = json!({"spec": {"selector": {"mcs.causeway.dev/no-local-backends": null, "app": "theirs"}}});
    let mut flips = 0;
    while !stop.get() {
        let service = services.get("foo").await.expect("the Service");
        let selector = service.spec.and_then(|spec| spec.selector);
        if selector.is_some_and(|selector| !selector.contains_key("app")) {
            let patch = Patch::Merge(&theirs);
            services
                .patch("foo", &params, &patch)
                .await
                .expect("it is flipped");
            flips += 1;
        }
        tokio::task::yield_now().await;
    }
    flips
}

/// Returns the maximum number of pauses that ended: each is twice as long as the one before, and is
/// followed by one write.
fn pauses_within(elapsed: Duration) -> usize {
    let pauses = std::iter::successors(Some(PAUSE), |pause| Some(*pause * 2));
    let ends = pauses.scan(Duration::ZERO, |end, pause| {
        *end += pause;
        Some(*end)
    });
    ends.take_while(|end| *end <= elapsed).count()
}

async fn selector(space: &Space<'_>, member: &Cluster) -> Value {
    let service = space.api::<Service>(member).get("foo").await;
    json!(
        service
            .expect("the Service")
            .spec
            .and_then(|spec| spec.selector)
    )
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn repeatedly_reverted_service_is_paused_until_the_writer_stops() {
    let pause = format!("--write-conflict-pause={}s", PAUSE.as_secs());
    let env = Lent::with_flags(&[&pause]).await;
    let (space, addresses) = env.foo("fight").await;
    let consumer = env.member("member2");
    let stop = Cell::new(false);
    let begun = Instant::now();
    let reported = async {
        let message = space.says("foo", "Ready", "False|WriteConflict|").await;
        assert!(
            message.contains("member2 has a write conflict: Service foo"),
            "{message}"
        );
        space.says("foo", "Ready", "False|WriteConflict|").await;
        let by = eventually("who it is is reported", SOON, async || {
            let message = space.says("foo", "Ready", "False|WriteConflict|").await;
            let known = message.contains("is changed by flipper");
            known.then_some(()).ok_or(message)
        });
        by.await;
        // What else there is to do is done meanwhile.
        assert_eq!(space.ready_addresses(consumer, "foo").await, addresses);
        stop.set(true);
    };
    let (flips, ()) = tokio::join!(flip(&space, consumer, &stop), reported);
    let most = 8 + pauses_within(begun.elapsed());
    assert!(
        (6..=most).contains(&flips),
        "{flips} flips before it was noticed and reported"
    );

    let path = "-o=jsonpath={range .items[?(@.reason==\"WriteConflict\")]}{.type} {.note}{.message}{\"\\n\"}{end}";
    let events = ["get", "events", path, "-n", space.name()];
    let events = eventually("the Event is there", SOON, async || {
        let seen = env.hub().kubectl(events).await.stdout;
        (!seen.is_empty()).then_some(seen.clone()).ok_or(seen)
    });
    let events = events.await;
    assert_eq!(events.lines().count(), 1, "{events}");
    assert!(
        events.starts_with("Warning member2: Service foo"),
        "{events}"
    );

    let own = json!({"mcs.causeway.dev/no-local-backends": "true"});
    eventually("causeway puts it right", OVER, async || {
        let selector = selector(&space, consumer).await;
        (selector == own).then_some(()).ok_or(selector.to_string())
    })
    .await;
    space.says("foo", "Ready", "True|Ready|").await;
}

/// Changes the endpoints of the copy of foo whenever causeway has restored them, until `stop`.
async fn flip_copy(space: &Space<'_>, member: &Cluster, stop: &Cell<bool>) {
    let slices = space.api::<EndpointSlice>(member);
    let copies = "kubernetes.io/service-name=foo,multicluster.kubernetes.io/source-cluster=member1";
    let copies = ListParams::default().labels(copies);
    let params = PatchParams {
        field_manager: Some("flipper".to_owned()),
        ..PatchParams::default()
    };
    let theirs = json!({"endpoints": [{"addresses": ["10.129.66.6"]}]});
    while !stop.get() {
        for copy in slices.list(&copies).await.expect("the copies") {
            let is_theirs = json!(copy.endpoints).to_string().contains("10.129.66.6");
            if !is_theirs {
                let patch = Patch::Merge(&theirs);
                let flipped = slices.patch(&copy.name_any(), &params, &patch).await;
                flipped.expect("it is flipped");
            }
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn write_conflict_over_a_copy_names_the_other_writer() {
    let pause = format!("--write-conflict-pause={}s", PAUSE.as_secs());
    let env = Lent::with_flags(&[&pause]).await;
    let (space, _) = env.foo("copies").await;
    let stop = Cell::new(false);
    let reported = async {
        let by = eventually("Ready names the writer", SOON, async || {
            let message = space.says("foo", "Ready", "False|WriteConflict|").await;
            let known = message.contains("is changed by flipper");
            known.then_some(()).ok_or(message)
        });
        by.await;
        let path = "-o=jsonpath={range .items[?(@.reason==\"WriteConflict\")]}{.note}{.message}{\"\\n\"}{end}";
        let events = ["get", "events", path, "-n", space.name()];
        let event = eventually("the Event is there", SOON, async || {
            let seen = env.hub().kubectl(events).await.stdout;
            (!seen.is_empty()).then_some(seen.clone()).ok_or(seen)
        });
        let event = event.await;
        assert!(event.contains("EndpointSlice member1-foo"), "{event}");
        assert!(event.contains("is changed by flipper"), "{event}");
        assert_eq!(event.lines().count(), 1, "{event}");
        stop.set(true);
    };
    let member = env.member("member2");
    tokio::join!(flip_copy(&space, member, &stop), reported);
}

#[tokio::test]
async fn service_taken_over_by_karmada_outlives_its_exposure() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("adopted").await;
    let consumer = env.member("member2");
    let services = space.api::<Service>(consumer);
    let before = services.get("foo").await.expect("the Service");

    // An update, as Karmada's objectwatcher makes it: its label comes, and those that are there are
    // kept.
    let theirs = json!({
        "metadata": {"labels": {"karmada.io/managed": "true"}},
        "spec": {"selector": {"mcs.causeway.dev/no-local-backends": null, "app": "theirs"}},
    });
    let params = PatchParams {
        field_manager: Some("karmada-controller-manager".to_owned()),
        ..PatchParams::default()
    };
    let patched = services.patch("foo", &params, &Patch::Merge(&theirs)).await;
    patched.expect("Karmada's update");
    let marks = ["mcs.causeway.dev/hub", "app.kubernetes.io/managed-by"];
    eventually("causeway's marks go", SOON, async || {
        let labels = services
            .get("foo")
            .await
            .expect("the Service")
            .metadata
            .labels;
        let labels = labels.unwrap_or_default();
        let left = marks.iter().any(|mark| labels.contains_key(*mark));
        (!left).then_some(()).ok_or(format!("{labels:?}"))
    })
    .await;
    assert_eq!(selector(&space, consumer).await, json!({"app": "theirs"}));
    space.says("foo", "Ready", "True|Ready|").await;
    assert_eq!(space.ready_addresses(consumer, "foo").await, addresses);

    space.delete("foo").await;
    assert_eq!(space.own_objects("member2").await, Vec::<String>::new());
    let after = services
        .get("foo")
        .await
        .expect("the Service is there still");
    let identity = |service: Service| {
        let address = service.spec.and_then(|spec| spec.cluster_ip);
        (service.metadata.uid, address)
    };
    assert_eq!(identity(after), identity(before));
}
