//! The metrics of a process.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::text;
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
}

#[cfg(test)]
mod tests {
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
}
