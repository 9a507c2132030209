//! An object that could not be written: when it is tried again, and from when on that is a problem to be reported.

use std::time::{Duration, Instant};

use crate::model::{Failure, FailureKind};

/// An object that could not be written.
#[derive(Clone, Debug)]
pub struct FailedWrite {
    /// How many times in a row.
    pub attempts: u32,
    /// Why, the last time.
    pub failure: Failure,
    pub(super) retry_at: Instant,
}

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A conflict means that a watch is about to report a change; only one that stays is a failure.
const PATIENCE_WITH_CONFLICTS: u32 = 4;
/// The address of a deleted Service is free soon; three seconds later another has it.
const PATIENCE_WITH_ADDRESSES: u32 = 6;

impl FailedWrite {
    /// Whether it is reported, rather than likely to pass by itself in a moment.
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
