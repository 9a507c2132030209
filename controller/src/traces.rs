//! Traces: one from a source's event to the last consumer's write, with a span for each write.
//!
//! A trace is kept beside the keys of the queue, for the engine knows nothing of it. Events that
//! come before all of a service is written belong to the trace of the first of them, and are
//! counted in it: what is written is what is so after all of them.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use causeway::domain::ServiceKey;
use causeway::process::traces::{Exemplar, Span, Tracer};
use causeway_engine::model::{Dispatch, Failure, Item, TimePoint};

/// A trace ends after this time though not all is written, as where a consumer does not answer:
/// what is written then is of no event any more.
const LONGEST: Duration = Duration::from_secs(60);
/// Interval of the search for traces that last too long.
const SWEEP: Duration = Duration::from_secs(10);

/// The traces that have not ended.
#[derive(Debug)]
pub(crate) struct Traces {
    tracer: Tracer,
    open: HashMap<ServiceKey, Trace>,
    swept: Instant,
}

#[derive(Debug)]
struct Trace {
    source: Source,
    since: TimePoint,
    events: i64,
    written: Option<SystemTime>,
    root: Root,
}

/// Source of an event.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The member, or `hub`.
    pub(crate) cluster: String,
    /// Kind of the object.
    pub(crate) kind: Kind,
}

/// Kind of the object of an event that begins a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    EndpointSlice,
    MultiClusterService,
}

/// Nothing is known of an event that leads to no write.
#[derive(Debug)]
enum Root {
    NotBegun,
    NotSampled,
    Begun(Span),
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::EndpointSlice => "EndpointSlice",
            Self::MultiClusterService => "MultiClusterService",
        }
    }

    fn span_name(self) -> &'static str {
        match self {
            Self::EndpointSlice => "propagate EndpointSlice",
            Self::MultiClusterService => "propagate MultiClusterService",
        }
    }
}

impl Traces {
    /// None yet.
    pub(crate) fn new(tracer: Tracer) -> Self {
        Self {
            tracer,
            open: HashMap::new(),
            swept: Instant::now(),
        }
    }

    /// Whether there are traces at all.
    pub(crate) fn is_on(&self) -> bool {
        self.tracer.is_on()
    }

    /// A source of the service changed.
    pub(crate) fn event(
        &mut self,
        key: &ServiceKey,
        now: TimePoint,
        source: impl FnOnce() -> Source,
    ) {
        if !self.tracer.is_on() {
            return;
        }
        if let Some(trace) = self.open.get_mut(key) {
            if trace.is_current(now.instant) {
                trace.events += 1;
                return;
            }
            self.end(key, false);
        }
        let trace = Trace {
            source: source(),
            since: now,
            events: 1,
            written: None,
            root: Root::NotBegun,
        };
        self.open.insert(key.clone(), trace);
    }

    /// Begins the span of a write, if it is part of a trace that is sampled.
    pub(crate) fn write(&mut self, dispatch: &Dispatch, now: Instant) -> Option<Span> {
        let Item::Service(key) = &dispatch.item else {
            return None;
        };
        let trace = self.open.get_mut(key)?;
        if !trace.is_current(now) {
            self.end(key, false);
            return None;
        }
        let root = trace.root(&self.tracer, key)?;
        let (object, verb) = (dispatch.write.object(), dispatch.write.operation().verb());
        let mut span = self
            .tracer
            .client_span(format!("{verb} {}", object.kind()), root)?;
        span.set("cluster", dispatch.target.name().to_owned());
        if let Some(namespace) = object.namespace() {
            span.set("namespace", namespace.to_owned());
        }
        span.set("name", object.name().to_owned());
        span.set("kind", object.kind());
        span.set("verb", verb);
        Some(span)
    }

    /// A write was answered, or was not.
    pub(crate) fn written(
        &mut self,
        item: &Item,
        span: Option<Span>,
        failure: Option<&Failure>,
        now: TimePoint,
    ) {
        let Some(mut span) = span else { return };
        let at = SystemTime::from(now.wall);
        span.set(
            "outcome",
            failure.map_or("ok", |failure| failure.kind.as_str()),
        );
        if let Some(failure) = failure {
            let error = failure.to_string();
            span.fail(&error);
            span.set("error", error);
        }
        span.end_at(at);
        if let Item::Service(key) = item
            && let Some(trace) = self.open.get_mut(key)
        {
            trace.written = Some(at);
        }
    }

    /// Returns the exemplar that leads from a metric to the trace of the service.
    pub(crate) fn exemplar(&self, key: &ServiceKey) -> Option<Exemplar> {
        match &self.open.get(key)?.root {
            Root::Begun(span) => Some(span.exemplar()),
            Root::NotBegun | Root::NotSampled => None,
        }
    }

    /// Nothing is left to be written of the service.
    pub(crate) fn settled(&mut self, key: &ServiceKey) {
        self.end(key, true);
    }

    /// Ends those that last too long.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.open.is_empty() || now.saturating_duration_since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        let too_long = self.open.iter().filter(|(_, trace)| !trace.is_current(now));
        let too_long: Vec<_> = too_long.map(|(key, _)| key.clone()).collect();
        for key in too_long {
            self.end(&key, false);
        }
    }

    /// Another process writes from now on.
    pub(crate) fn clear(&mut self) {
        let keys: Vec<_> = self.open.keys().cloned().collect();
        for key in keys {
            self.end(&key, false);
        }
    }

    fn end(&mut self, key: &ServiceKey, settled: bool) {
        if let Some(trace) = self.open.remove(key)
            && let Root::Begun(mut root) = trace.root
        {
            root.set("events", trace.events);
            root.set("settled", settled);
            root.end_at(trace.written.unwrap_or_else(SystemTime::now));
        }
    }
}

impl Trace {
    fn is_current(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since.instant) < LONGEST
    }

    /// Its first span, which begins with its first write. `None` where it is not sampled.
    fn root(&mut self, tracer: &Tracer, key: &ServiceKey) -> Option<&Span> {
        if let Root::NotBegun = self.root {
            let since = SystemTime::from(self.since.wall);
            self.root = match tracer.root_span(self.source.kind.span_name(), since) {
                None => Root::NotSampled,
                Some(mut span) => {
                    span.set("cluster", self.source.cluster.clone());
                    span.set("namespace", key.namespace.to_string());
                    span.set("name", key.name.to_string());
                    span.set("kind", self.source.kind.as_str());
                    Root::Begun(span)
                }
            };
        }
        match &self.root {
            Root::Begun(span) => Some(span),
            Root::NotBegun | Root::NotSampled => None,
        }
    }
}

#[cfg(test)]
mod tests;
