//! Metrics of the webhook.

use std::time::{Duration, SystemTime};

use causeway::process::metrics::{ComputedGauge, Labels};
use causeway::process::traces::Exemplar;
use causeway::register_metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds, up to the longest time-out of a webhook configuration.
const DURATIONS: [f64; 16] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 5.0,
    10.0, 30.0,
];

/// Histogram with the trace of a sampled request as exemplar.
type Durations = HistogramWithExemplars<Exemplar>;

/// One of the two webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `/mutate`.
    Mutate,
    /// `/validate`.
    Validate,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The object was accepted, changed or not.
    Allowed,
    /// The object was denied.
    Denied,
    /// The request was rejected before a decision, with a 4xx.
    Rejected,
    /// The webhook failed, with a 5xx.
    Error,
}

impl Call {
    const ALL: [Self; 2] = [Self::Mutate, Self::Validate];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Allowed, Self::Denied, Self::Rejected, Self::Error];

    fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Rejected => "rejected",
            Self::Error => "error",
        }
    }
}

/// Metrics of the webhook. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Histograms by [`Call`] and [`Outcome`], so that no request resolves its labels.
    durations: [[Durations; 4]; 2],
    in_flight: Gauge,
    requests_rejected: Family<Labels<1>, Counter>,
    connections: Gauge,
    connections_rejected: Family<Labels<1>, Counter>,
    certificate_expiry: Gauge,
    certificate_not_before: Gauge,
    certificate_rotations: Counter,
    certificate_rotation_failures: Counter,
    certificate_repairs: Family<Labels<1>, Counter>,
    hub_watch_failures: Family<Labels<1>, Counter>,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let new: fn() -> Durations = || Durations::new(DURATIONS.into_iter());
        let durations = Family::<Labels<2>, Durations, _>::new_with_constructor(new);
        let labels = |webhook: Call, outcome: Outcome| {
            [("webhook", webhook.label()), ("decision", outcome.label())]
        };
        let metrics = Self {
            durations: Call::ALL.map(|webhook| {
                Outcome::ALL.map(|outcome| durations.get_or_create_owned(&labels(webhook, outcome)))
            }),
            in_flight: Gauge::default(),
            requests_rejected: Family::default(),
            connections: Gauge::default(),
            connections_rejected: Family::default(),
            certificate_expiry: Gauge::default(),
            certificate_not_before: Gauge::default(),
            certificate_rotations: Counter::default(),
            certificate_rotation_failures: Counter::default(),
            certificate_repairs: Family::default(),
            hub_watch_failures: Family::default(),
        };
        register_metrics! { registry;
            "causeway_webhook_request_duration_seconds":
                "Duration of admission requests, from head to answer",
                durations;
            "causeway_webhook_requests_in_flight": "Admission requests in flight",
                metrics.in_flight.clone();
            "causeway_webhook_requests_rejected": "Requests rejected before validation",
                metrics.requests_rejected.clone();
            "causeway_webhook_connections": "Open connections", metrics.connections.clone();
            "causeway_webhook_connections_rejected":
                "Connections rejected or closed by the webhook, other than idle ones",
                metrics.connections_rejected.clone();
            "causeway_certificate_expiry_timestamp_seconds":
                "Expiry of the serving certificate, in Unix time",
                metrics.certificate_expiry.clone();
            "causeway_certificate_not_before_timestamp_seconds":
                "Begin of the validity of the serving certificate, in Unix time",
                metrics.certificate_not_before.clone();
            "causeway_certificate_rotations": "New serving certificates loaded",
                metrics.certificate_rotations.clone();
            "causeway_certificate_rotation_failures":
                "Failed attempts to renew or load the serving certificate",
                metrics.certificate_rotation_failures.clone();
            "causeway_certificate_repairs": "Repairs of self-managed certificates, by fault",
                metrics.certificate_repairs.clone();
            "causeway_webhook_hub_watch_failures": "Failed lists and watches of the hub, by resource",
                metrics.hub_watch_failures.clone();
        }
        metrics
    }

    /// Registers the gauge of readiness.
    pub fn register_readiness(registry: &mut Registry, ready: ComputedGauge) {
        registry.register(
            "causeway_webhook_ready",
            "Whether the webhook is ready to serve",
            ready,
        );
    }

    /// Returns the counter of failed lists and watches of this resource of the hub.
    pub(crate) fn hub_watch_failures(&self, resource: &'static str) -> Counter {
        self.hub_watch_failures
            .get_or_create_owned(&[("resource", resource)])
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn answered(
        &self,
        webhook: Call,
        outcome: Outcome,
        took: Duration,
        exemplar: Option<Exemplar>,
    ) {
        let durations = &self.durations[webhook as usize][outcome as usize];
        let at = exemplar.is_some().then(SystemTime::now);
        durations.observe(took.as_secs_f64(), exemplar, at);
    }

    /// Counts a request that is rejected before it is validated.
    pub(crate) fn request_rejected(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.requests_rejected.get_or_create(&labels).inc();
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.inc();
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.dec();
    }

    /// Counts a connection that the webhook rejects or closes.
    pub(crate) fn connection_rejected(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.connections_rejected.get_or_create(&labels).inc();
    }

    /// Records the validity of the serving certificate, in seconds of Unix time.
    pub(crate) fn certificate_is_valid(&self, from: i64, to: i64) {
        self.certificate_not_before.set(from);
        self.certificate_expiry.set(to);
    }

    pub(crate) fn certificate_rotation_failed(&self) {
        self.certificate_rotation_failures.inc();
    }

    pub(crate) fn certificate_rotated(&self) {
        self.certificate_rotations.inc();
    }

    pub(crate) fn certificate_repaired(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.certificate_repairs.get_or_create(&labels).inc();
    }
}

/// Guard of a request in flight.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
