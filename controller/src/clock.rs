//! The clocks: the one place where the times come from that the engine is given.

use std::time::Instant;

use causeway_engine::model::TimePoint;
use k8s_openapi::jiff::Timestamp;

/// Reads both clocks.
pub fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
    }
}
