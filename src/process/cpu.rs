//! The CPU time of this process, by the name that Prometheus gives it in every program.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// `process_cpu_seconds_total` in OpenMetrics.
const NAME: &str = "process_cpu_seconds";

/// Linux counts CPU time in hundredths of a second, for programs (`USER_HZ`, proc_pid_stat(5)).
const TICK: Duration = Duration::from_millis(10);

/// A counter that is read from the system whenever the metrics are read.
#[derive(Debug, Default)]
struct CpuSeconds(Counter<f64, AtomicU64>);

impl EncodeMetric for CpuSeconds {
    fn encode(&self, encoder: MetricEncoder) -> fmt::Result {
        let used = cpu_used().unwrap_or_default().as_secs_f64();
        self.0.inc_by((used - self.0.get()).max(0.0));
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// Has the registry show the CPU time.
pub(super) fn register(registry: &mut Registry) {
    registry.register(
        NAME,
        "CPU time that this process used",
        CpuSeconds::default(),
    );
}

/// Returns the CPU time of the threads of this process; `None` if the system does not report it.
fn cpu_used() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, in parentheses, may hold blanks; user and system time are the 14th and the
    // 15th.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u32>().ok();
    let ticks = next()?.checked_add(next()?)?;
    Some(TICK * ticks)
}

#[cfg(test)]
mod tests {
    use crate::process::metrics::Metrics;

    use super::*;

    #[test]
    fn the_cpu_time_of_this_process_is_shown_and_grows() {
        let metrics = Metrics::default();
        metrics.register(register);
        let shown = || {
            let text = metrics.encode().expect("it encodes");
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
            line.and_then(|value| value.parse::<f64>().ok())
        };
        let before = shown().expect("a number");
        while shown().expect("a number") <= before {}
    }
}
