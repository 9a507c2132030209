//! Tests with a long form.

use std::time::Duration;

const SECONDS: &str = "CAUSEWAY_SOAK";

/// For how long the long form of a test is to run, where it is asked for (`make soak T=600`, `make long`): `CAUSEWAY_SOAK`, in seconds.
pub fn soak() -> Option<Duration> {
    let seconds = std::env::var(SECONDS).ok()?;
    let parsed = seconds.parse().map(Duration::from_secs);
    Some(parsed.unwrap_or_else(|_| panic!("{SECONDS}={seconds:?} is no number of seconds")))
}
