//! Waiting for something to hold.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::time::{Duration, Instant};

/// Deadline for what takes well under a second on an idle machine. Two test programs, each with
/// some twenty API servers, slow each other down by as much as this. A test that passes ends at
/// once.
pub const SOON: Duration = Duration::from_secs(60);

/// Deadline for what waits for a probe, a lease or a back-off, on a busy machine.
pub const LONG: Duration = Duration::from_secs(180);

/// A deadline for the start of a program of the env.
pub(crate) const START: Duration = LONG;

/// Result of a probe of [`eventually`]: a value, or the observation that does not hold yet.
pub trait Probed {
    /// Value of a probe that holds.
    type Value;
    /// The value, or what was seen instead.
    fn held(self) -> Result<Self::Value, String>;
}

impl Probed for bool {
    type Value = ();
    fn held(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "false".to_owned())
    }
}

impl<T> Probed for Option<T> {
    type Value = T;
    fn held(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: std::fmt::Display> Probed for Result<T, E> {
    type Value = T;
    fn held(self) -> Result<T, String> {
        self.map_err(|seen| seen.to_string())
    }
}

/// Asks `probe` until it holds, and returns its value. Panics after `within` with what was seen
/// last.
///
/// Probes take at most a third of the time, so that they leave a slow machine to what they wait
/// for.
///
/// A [`crate::Space`] in scope then prints its objects in every cluster, and the logs.
#[track_caller]
pub fn eventually<P, F>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> F,
) -> impl Future<Output = P::Value>
where
    P: Probed,
    F: Future<Output = P>,
{
    let caller = Location::caller();
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(5);
    let mut last = "no answer".to_owned();
    async move {
        loop {
            let asked = Instant::now();
            let left = deadline.saturating_duration_since(asked);
            match tokio::time::timeout(left, probe()).await.map(Probed::held) {
                Ok(Ok(value)) => return value,
                Ok(Err(seen)) => last = seen,
                Err(_) => {}
            }
            // A probe that waits for nothing has its answer even when no time is left.
            if Instant::now() >= deadline {
                panic!("{caller}: not within {within:?}: {what}; last seen: {last}");
            }
            tokio::time::sleep(pause.max(2 * asked.elapsed())).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

/// Asks `probe` again and again for this long, and panics at once when it does not hold: for what
/// must stay as it is. The last time is at the end. Probes take at most a fifth of the time: many
/// at once would slow down what they look at.
#[track_caller]
pub fn throughout<P, F>(
    what: &str,
    period: Duration,
    mut probe: impl FnMut() -> F,
) -> impl Future<Output = ()>
where
    P: Probed,
    F: Future<Output = P>,
{
    let caller = Location::caller();
    let end = Instant::now() + period;
    async move {
        loop {
            let asked = Instant::now();
            if let Err(seen) = probe().await.held() {
                panic!("{caller}: did not stay so: {what}; seen: {seen}");
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let pause = Duration::from_millis(50).max(4 * asked.elapsed());
            tokio::time::sleep(pause.min(left)).await;
        }
    }
}

/// Compares what is seen with what is expected, as the result of a probe of [`eventually`].
///
/// # Errors
/// The seen value, if it differs.
pub fn same<T: PartialEq<U> + Debug, U: ?Sized>(seen: T, expected: &U) -> Result<(), String> {
    match seen == *expected {
        true => Ok(()),
        false => Err(format!("{seen:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "not within 20ms: it holds; last seen: no")]
    async fn a_probe_that_waits_for_nothing_has_a_deadline_too() {
        let within = Duration::from_millis(20);
        eventually("it holds", within, || async { Err::<(), _>("no") }).await;
    }
}
