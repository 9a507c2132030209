//! Alerting rules for Prometheus, and dashboards for Grafana.

mod alerts;
mod dashboards;
mod panels;
mod rules;

use std::time::Duration;

pub(crate) use self::dashboards::dashboards;
pub(crate) use self::rules::rules;

const MINUTE: Duration = Duration::from_secs(60);

/// Times of the rules: as they are, or shorter for tests that cannot wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    divisor: u32,
    /// An alert is pending for so long at least and at most, where it is pending at all.
    holds: (Duration, Duration),
}

impl Times {
    /// The times that people get.
    pub(crate) const REAL: Self = Self {
        divisor: 1,
        holds: (Duration::ZERO, Duration::MAX),
    };
    /// A tenth, and no hold so short that a busy machine is taken for a fault.
    pub(crate) const SHORT: Self = Self {
        divisor: 10,
        holds: (Duration::from_secs(6), Duration::from_secs(8)),
    };

    /// A duration as PromQL has it.
    fn range(self, real: Duration) -> String {
        promql(real / self.divisor)
    }

    /// Time for which an alert is pending before it fires; `None` if it fires at once.
    fn hold(self, real: Duration) -> Option<String> {
        let (least, most) = self.holds;
        let hold = (real / self.divisor).clamp(least, most);
        (!real.is_zero()).then(|| promql(hold))
    }

    /// A number of seconds to compare with.
    fn seconds(self, real: Duration) -> String {
        (real / self.divisor).as_secs_f64().to_string()
    }
}

fn promql(duration: Duration) -> String {
    match duration.as_millis() {
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}
