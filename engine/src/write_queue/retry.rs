//! Retries of an object that could not be written, and the number of failures after which they are
//! reported.

use std::time::{Duration, Instant};

use crate::model::{Failure, FailureKind};

/// Object that could not be written.
#[derive(Clone, Debug)]
pub(crate) struct FailedWrite {
    /// Number of failures in a row.
    pub attempts: u32,
    /// Reason of the last failure.
    pub failure: Failure,
    pub(super) retry_at: Instant,
}

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// Number of conflicts that count as a failure. One conflict means that a watch is about to report
/// a change.
const PATIENCE_WITH_CONFLICTS: u32 = 4;
/// Number of refused addresses that count as a failure. The address of a deleted Service is free
/// soon; three seconds later another one has it.
const PATIENCE_WITH_ADDRESSES: u32 = 6;

impl FailedWrite {
    /// Whether the failure is reported, rather than likely to pass by itself in a moment.
    pub(super) fn counts(&self) -> bool {
        let patience = match self.failure.kind {
            FailureKind::Conflict | FailureKind::AlreadyExists => PATIENCE_WITH_CONFLICTS,
            FailureKind::AddressTaken => PATIENCE_WITH_ADDRESSES,
            _ => 0,
        };
        self.attempts >= patience
    }
}

pub(super) fn backoff(attempts: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << attempts.saturating_sub(1).min(16))
        .min(LAST_RETRY)
}
