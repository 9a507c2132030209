//! The controller's traces.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use causeway_tests::otlp::{Collector, ReceivedSpan};
use causeway_tests::{Environment, Fleet};

use super::{exemplars, traced};

const OF_SLICE: &str = "propagate EndpointSlice";
const OF_SERVICE: &str = "propagate MultiClusterService";

/// The trace that begins with that span, and all its writes.
async fn trace(
    collector: &Collector,
    root: impl Fn(&ReceivedSpan) -> bool,
) -> (ReceivedSpan, Vec<ReceivedSpan>) {
    let roots = collector.received("a trace", 1, root).await;
    let [root] = roots.as_slice() else {
        panic!("{roots:#?}");
    };
    assert_eq!(
        (root.service.as_str(), root.get("name")),
        ("causeway-controller", "foo")
    );
    assert_eq!(root.get("settled"), "true", "{root:#?}");
    // What is within a span ends before it, and arrives before it.
    let mut writes = collector.trace(&root.trace);
    writes.retain(|span| span.id != root.id);
    for write in &writes {
        assert_eq!(
            (&write.parent, write.get("outcome")),
            (&root.id, "ok"),
            "{write:#?}"
        );
        let within = root.time.0 <= write.time.0 && write.time.1 <= root.time.1;
        assert!(within, "{root:#?} {write:#?}");
    }
    (root.clone(), writes)
}

fn clusters<'a>(writes: &'a [ReceivedSpan], verb: &str, kind: &str) -> BTreeSet<&'a str> {
    let of_kind = writes
        .iter()
        .filter(|span| span.get("verb") == verb && span.get("kind") == kind);
    of_kind.map(|span| span.get("cluster")).collect()
}

#[tokio::test]
async fn changed_slice_is_one_trace_with_a_span_per_consumer() {
    let collector = Collector::start().await;
    let fleet = Fleet::builder().members(3).start().await;
    let env = traced(Environment::builder(), &collector)
        .start(fleet)
        .await;
    let space = env.space("traces").await;
    let pod = space.pod("foo", "member1").await;
    space
        .expose("foo", ["member1"], ["member2", "member3"])
        .await;
    let reached = async |addresses: &[&str]| {
        for consumer in ["member2", "member3"] {
            space.reaches(consumer, "foo", addresses).await;
        }
    };
    reached(&[pod.ip()]).await;

    // What was applied on the hub is a trace, with the Services that came of it.
    let of_space = |span: &ReceivedSpan| span.get("namespace") == space.name();
    let roots = |name: &'static str, since: u64| {
        move |span: &ReceivedSpan| {
            of_space(span) && span.name == name && span.parent.is_empty() && span.time.0 >= since
        }
    };
    let (root, writes) = trace(&collector, roots(OF_SERVICE, 0)).await;
    assert_eq!(root.get("cluster"), "hub");
    let made = clusters(&writes, "create", "Service");
    assert!(
        made.contains("member2") && made.contains("member3"),
        "{writes:#?}"
    );

    // The provider's slice may have come later, in a trace of its own: another change would belong
    // to it until it ends.
    let copies = |span: &ReceivedSpan| of_space(span) && span.name == "create EndpointSlice";
    for copy in collector.received("the copies", 2, copies).await {
        let root = |span: &ReceivedSpan| span.trace == copy.trace && span.parent.is_empty();
        collector.received("their traces' ends", 1, root).await;
    }

    // So is a change of the provider's slice.
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let since = u64::try_from(since.as_nanos()).expect("before 2500");
    pod.set_ready(false).await;
    reached(&[]).await;
    let (root, writes) = trace(&collector, roots(OF_SLICE, since)).await;
    assert_eq!((root.get("cluster"), root.get("events")), ("member1", "1"));
    let consumers = BTreeSet::from(["member2", "member3"]);
    assert_eq!(
        clusters(&writes, "update", "EndpointSlice"),
        consumers,
        "{writes:#?}"
    );
    // The rest is the status on the hub, which says that no endpoint is ready.
    let into_members = writes.iter().filter(|write| write.get("cluster") != "hub");
    assert_eq!(into_members.count(), 2, "{writes:#?}");
    let last = writes.iter().map(|write| write.time.1).max();
    assert_eq!(Some(root.time.1), last, "it ends with the last write");

    let text = env.controller.openmetrics().await;
    let wanted = format!("{{trace_id=\"{}\"}}", root.trace);
    let name = "causeway_controller_propagation_seconds_bucket";
    assert!(
        exemplars(&text, name).any(|exemplar| exemplar.starts_with(&wanted)),
        "{text}"
    );
}
