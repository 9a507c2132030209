//! Observations of a client that sent requests all the time.

use std::fmt;
use std::time::{Duration, Instant};

/// The requests of one who sends them, and those that went wrong.
#[derive(Debug, Default)]
pub struct Seen {
    /// Duration of each request.
    pub took: Vec<Duration>,
    /// Requests that failed, and why.
    pub errors: Vec<String>,
}

impl Seen {
    /// Sends a request and notes how long it takes.
    pub async fn time<T>(&mut self, request: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let answer = request.await;
        self.took.push(begun.elapsed());
        answer
    }

    /// Adds what another saw.
    pub fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.errors.extend(other.errors);
    }

    fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a position in a list that fits into memory"
        )]
        let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
        sorted.get(at).copied().unwrap_or_default()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} requests, {} errors, p50 {:.1?}, p99 {:.1?}, longest {:.1?}",
            self.took.len(),
            self.errors.len(),
            self.quantile(0.5),
            self.quantile(0.99),
            self.quantile(1.0)
        )
    }
}
