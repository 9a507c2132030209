use std::sync::{Arc, Mutex};

use causeway::domain::ClusterName;
use causeway_engine::model::{FailureKind, ObjectId, Operation, TargetCluster, Write};
use opentelemetry::Value;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};

use super::*;
use crate::clock::now;

#[derive(Clone, Debug, Default)]
struct Ended(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Ended {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

impl Ended {
    /// The spans that have ended since the last time.
    fn take(&self) -> Vec<SpanData> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn traces(sampler: Sampler) -> (Traces, Ended) {
    let ended = Ended::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_simple_exporter(ended.clone())
        .build();
    let tracer = BoxedTracer::new(Box::new(provider.tracer("test")));
    let tracer = Tracer::new(tracer, TraceContextPropagator::new(), true);
    (Traces::new(tracer), ended)
}

/// So many seconds after the test began.
fn after(start: TimePoint, seconds: u64) -> TimePoint {
    start.after(Duration::from_secs(seconds))
}

fn key() -> ServiceKey {
    ServiceKey::new("shop", "foo")
}

fn source() -> Source {
    Source {
        cluster: "member1".to_owned(),
        kind: Kind::EndpointSlice,
    }
}

fn dispatch(cluster: &str) -> Dispatch {
    Dispatch {
        target: TargetCluster::Member(ClusterName::try_from(cluster).unwrap()),
        generation: 0,
        item: Item::Service(key()),
        write: Write::new(
            ObjectId::Service(key()),
            Operation::Create(serde_json::Value::Null),
        ),
    }
}

fn text(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|one| one.key.as_str() == key);
    match found.map(|one| &one.value) {
        Some(Value::String(text)) => text.to_string(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

#[test]
fn events_before_the_last_write_share_one_trace() {
    let (mut traces, ended) = traces(Sampler::AlwaysOn);
    let start = now();
    for seconds in 0..3 {
        traces.event(&key(), after(start, seconds), source);
    }
    let item = Item::Service(key());
    for (cluster, seconds, failure) in [
        ("member2", 4, None),
        (
            "member3",
            5,
            Some(Failure::new(FailureKind::Conflict, "modified")),
        ),
    ] {
        let span = traces.write(&dispatch(cluster), after(start, 3).instant);
        assert!(span.is_some());
        traces.written(&item, span, failure.as_ref(), after(start, seconds));
    }
    let exemplar = traces.exemplar(&key());
    traces.settled(&key());
    assert!(exemplar.is_some() && traces.exemplar(&key()).is_none());

    let spans = ended.take();
    let [first, second, root] = spans.as_slice() else {
        panic!("{spans:#?}");
    };
    for (span, cluster, outcome) in [(first, "member2", "ok"), (second, "member3", "conflict")] {
        assert_eq!(span.span_context.trace_id(), root.span_context.trace_id());
        assert_eq!(span.parent_span_id, root.span_context.span_id());
        assert_eq!(span.name, "create Service");
        assert_eq!(
            (text(span, "cluster"), text(span, "outcome")),
            (cluster.into(), outcome.into())
        );
        assert_eq!(
            (text(span, "namespace"), text(span, "name")),
            ("shop".into(), "foo".into())
        );
    }
    assert_eq!(first.status, Status::Unset);
    assert!(
        matches!(&second.status, Status::Error { description } if description.contains("modified"))
    );
    assert_eq!(root.name, "propagate EndpointSlice");
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    assert_eq!(
        (text(root, "events"), text(root, "settled")),
        ("3".into(), "true".into())
    );
    let times = [start, after(start, 5)].map(|time| SystemTime::from(time.wall));
    assert_eq!([root.start_time, root.end_time], times);
}

#[test]
fn an_event_that_leads_to_no_write_is_no_trace() {
    let (mut traces, ended) = traces(Sampler::AlwaysOn);
    traces.event(&key(), now(), source);
    traces.settled(&key());
    assert_eq!(
        traces
            .write(&dispatch("member2"), Instant::now())
            .map(|_| ()),
        None
    );
    assert_eq!(ended.take(), []);
}

#[test]
fn a_trace_of_which_not_all_is_written_ends_after_a_minute() {
    let (mut traces, ended) = traces(Sampler::AlwaysOn);
    let start = now();
    let late = after(start, 61);
    let begin = |traces: &mut Traces| {
        traces.event(&key(), start, source);
        drop(traces.write(&dispatch("member2"), start.instant));
        assert_eq!(ended.take().len(), 1);
    };
    let root = || {
        let spans = ended.take();
        assert_eq!(spans.len(), 1, "{spans:#?}");
        assert_eq!(text(&spans[0], "settled"), "false");
    };

    begin(&mut traces);
    assert!(traces.write(&dispatch("member3"), late.instant).is_none());
    root();
    begin(&mut traces);
    traces.event(&key(), late, source);
    root();
    assert!(traces.write(&dispatch("member3"), late.instant).is_some());
    traces.clear();
    assert_eq!(ended.take().len(), 2);
    begin(&mut traces);
    traces.sweep(after(start, 30).instant);
    assert_eq!(ended.take(), []);
    traces.sweep(late.instant);
    root();
}

#[test]
fn of_a_trace_that_is_not_sampled_nothing_is_kept() {
    let (mut traces, ended) = traces(Sampler::AlwaysOff);
    traces.event(&key(), now(), source);
    for _ in 0..2 {
        assert!(traces.write(&dispatch("member2"), Instant::now()).is_none());
    }
    assert_eq!(traces.exemplar(&key()), None);
    traces.settled(&key());
    assert_eq!(ended.take(), []);
}
