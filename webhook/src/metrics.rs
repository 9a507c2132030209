//! What the webhook counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds: from an answer out of the cache to the hub's deadline for a webhook.
const DURATIONS: [f64; 14] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 5.0,
];

/// Which of the two webhooks was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `/mutate`.
    Mutate,
    /// `/validate`.
    Validate,
}

/// How a call was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The object is accepted, changed or not.
    Allowed,
    /// The object is refused.
    Denied,
    /// There was no request to answer, or no way to answer it.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    webhook: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RepairLabels {
    reason: &'static str,
}

impl Call {
    fn label(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }
}

/// The metrics of the webhook. Clones are the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    certificate_expiry: Gauge,
    certificate_rotations: Counter,
    certificate_repairs: Family<RepairLabels, Counter>,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(DURATIONS);
        let metrics = Self {
            durations: Family::new_with_constructor(durations),
            in_flight: Gauge::default(),
            certificate_expiry: Gauge::default(),
            certificate_rotations: Counter::default(),
            certificate_repairs: Family::default(),
        };
        registry.register(
            "causeway_webhook_request_duration_seconds",
            "How long admission requests took, from their head to their answer",
            metrics.durations.clone(),
        );
        registry.register(
            "causeway_webhook_requests_in_flight",
            "Admission requests that are being answered",
            metrics.in_flight.clone(),
        );
        registry.register(
            "causeway_certificate_expiry_timestamp_seconds",
            "When the serving certificate ends, in Unix time",
            metrics.certificate_expiry.clone(),
        );
        registry.register(
            "causeway_certificate_rotations",
            "How often a new serving certificate was taken up",
            metrics.certificate_rotations.clone(),
        );
        registry.register(
            "causeway_certificate_repairs",
            "What was found wrong with the self-managed certificates, and put right",
            metrics.certificate_repairs.clone(),
        );
        metrics
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn answered(&self, webhook: Call, verdict: Outcome, took: Duration) {
        let labels = RequestLabels {
            webhook: webhook.label(),
            verdict: verdict.label(),
        };
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn certificate_ends(&self, unix_seconds: i64) {
        self.certificate_expiry.set(unix_seconds);
    }

    pub(crate) fn certificate_rotated(&self) {
        self.certificate_rotations.inc();
    }

    pub(crate) fn certificate_repaired(&self, reason: &'static str) {
        let labels = RepairLabels { reason };
        self.certificate_repairs.get_or_create(&labels).inc();
    }
}

/// A request that is being answered.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
