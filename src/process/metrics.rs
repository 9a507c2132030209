//! The metrics of a process.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Registers metrics: the name, the help text and the metric of each.
///
/// ```
/// use prometheus_client::metrics::counter::Counter;
/// use prometheus_client::registry::Registry;
///
/// let (mut registry, writes) = (Registry::default(), Counter::<u64>::default());
/// causeway::register_metrics! { registry; "writes": "Writes", writes.clone(); }
/// ```
#[macro_export]
macro_rules! register_metrics {
    ($registry:expr; $($name:literal: $help:literal, $metric:expr;)+) => {
        $($registry.register($name, $help, $metric);)+
    };
}

/// Labels of a metric: the name and the value of each.
pub type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The registry of a process, shared: components register their metrics at any time, and the admin
/// server writes out what is there. Clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// Lets a component register its metrics.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.0.lock())
    }

    /// The metrics as OpenMetrics text.
    ///
    /// # Errors
    /// [`fmt::Error`] where a metric cannot be written.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.0.lock())?;
        Ok(out)
    }

    /// The metrics in the [text
    /// format](https://prometheus.io/docs/instrumenting/exposition_formats/) of Prometheus, version
    /// 0.0.4.
    ///
    /// # Errors
    /// As [`Metrics::encode`].
    pub fn encode_text(&self) -> Result<String, fmt::Error> {
        as_text(&self.encode()?)
    }
}

/// OpenMetrics as the older text format has it: the name of a counter includes `_total` throughout,
/// and there are no exemplars, no units and no end.
fn as_text(openmetrics: &str) -> Result<String, fmt::Error> {
    let mut out = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text;
        } else if let Some((name, kind)) = type_of(line) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let text = help.strip_prefix(name).unwrap_or_default();
            writeln!(out, "# HELP {name}{suffix}{text}")?;
            writeln!(out, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with('#') {
            // No value of a label holds this.
            let sample = line.split(" # {").next().unwrap_or(line);
            writeln!(out, "{sample}")?;
        }
    }
    Ok(out)
}

fn type_of(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# TYPE ")?.split_once(' ')
}

/// A gauge whose value is computed whenever the metrics are read, so that it is right also where
/// whoever it tells of makes no progress. Clones are the same gauge.
#[derive(Clone)]
pub struct ComputedGauge(Arc<dyn Fn() -> Option<f64> + Send + Sync>);

impl ComputedGauge {
    /// The gauge that shows what `value` returns; nothing is shown where that is `None`.
    pub fn new(value: impl Fn() -> Option<f64> + Send + Sync + 'static) -> Self {
        Self(Arc::new(value))
    }
}

impl fmt::Debug for ComputedGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ComputedGauge").field(&(self.0)()).finish()
    }
}

impl EncodeMetric for ComputedGauge {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        match (self.0)() {
            Some(value) => encoder.encode_gauge(&value),
            None => Ok(()),
        }
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        (self.0)().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::exemplar::CounterWithExemplar;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::registry::Unit;

    use super::*;

    #[test]
    fn what_is_registered_late_is_written_too() {
        let metrics = Metrics::default();
        assert_eq!(metrics.encode().expect("it encodes"), "# EOF\n");
        let counter = Counter::<u64>::default();
        metrics.register(|registry| registry.register("causeway_drops", "Drops", counter.clone()));
        counter.inc();
        let text = metrics.encode().expect("it encodes");
        assert!(text.contains("causeway_drops_total 1\n"), "{text}");
    }

    #[test]
    fn text_format_has_counter_suffixes_and_no_exemplars() {
        let metrics = Metrics::default();
        let counts = CounterWithExemplar::<Vec<(&str, &str)>>::default();
        let age = Gauge::<i64>::default();
        metrics.register(|registry| {
            registry.register("counts", "Counts", counts.clone());
            registry.register_with_unit("age", "Age", Unit::Seconds, age.clone());
        });
        counts.inc_by(2, Some(vec![("trace_id", "4bf9")]), None);
        assert_eq!(
            metrics.encode_text().expect("it encodes"),
            "# HELP counts_total Counts.\n# TYPE counts_total counter\ncounts_total 2\n\
             # HELP age_seconds Age.\n# TYPE age_seconds gauge\nage_seconds 0\n"
        );
    }

    #[test]
    fn computed_gauge_shows_the_current_value_if_any() {
        let (metrics, known) = (Metrics::default(), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&known);
        let gauge = ComputedGauge::new(move || seen.load(Ordering::Relaxed).then_some(1.5));
        metrics.register(|registry| registry.register("causeway_age", "Age", gauge));
        let text = metrics.encode().expect("it encodes");
        assert!(!text.contains("causeway_age"), "{text}");
        known.store(true, Ordering::Relaxed);
        let text = metrics.encode().expect("it encodes");
        assert!(text.contains("causeway_age 1.5\n"), "{text}");
    }
}
