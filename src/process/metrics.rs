//! The metrics of a process.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The registry of a process, shared: components register their metrics at any time, and the admin server
/// writes out what is there. Clones are the same registry.
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

    /// As [`Metrics::encode`], without what leads from a metric to a trace.
    ///
    /// # Errors
    /// As [`Metrics::encode`].
    pub fn encode_without_exemplars(&self) -> Result<String, fmt::Error> {
        let text = self.encode()?;
        let mut out = String::with_capacity(text.len());
        for line in text.lines() {
            // Help texts stand on lines of their own, and no value of a label holds this.
            let sample = match line.starts_with('#') {
                true => line,
                false => line.split(" # {").next().unwrap_or(line),
            };
            out.push_str(sample);
            out.push('\n');
        }
        Ok(out)
    }
}

/// A gauge whose value is computed whenever the metrics are read, so that it is right also where whoever it tells of makes no
/// progress. Clones are the same gauge.
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
    fn a_computed_gauge_shows_the_value_of_the_moment_and_nothing_while_there_is_none() {
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
