//! Changes at a rate, and the time until they arrived.

use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

use super::sim::Simulation;
use super::sim::journal::{Change, Journal};
use crate::pairs::percentile;

/// Time after which a change counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Changes at a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) seconds: f64,
}

/// Result of changes.
pub(crate) struct Outcome {
    pub(crate) arrived: Vec<Change>,
    /// Changes that did not arrive at every consumer.
    pub(crate) lost: usize,
}

impl Load {
    pub(crate) const fn new(per_second: f64, seconds: f64) -> Self {
        Self {
            per_second,
            seconds,
        }
    }

    pub(crate) fn changes(&self) -> u32 {
        (self.per_second * self.seconds).round() as u32
    }

    /// Makes the changes, each in the service that `pick` returns.
    pub(crate) async fn make(self, simulation: &Simulation, mut pick: impl FnMut(u32) -> u32) {
        let begun = tokio::time::Instant::now();
        for number in 0..self.changes() {
            sleep_until(begun + Duration::from_secs_f64(f64::from(number) / self.per_second)).await;
            simulation.replace_pod(pick(number));
        }
    }

    /// Makes the changes and waits until they have arrived.
    pub(crate) async fn run(self, simulation: &Simulation, pick: impl Fn(u32) -> u32) -> Outcome {
        simulation.journal.take();
        self.make(simulation, pick).await;
        Outcome::of(&simulation.journal).await
    }
}

impl Outcome {
    /// Waits for the changes that have not arrived yet.
    pub(crate) async fn of(journal: &Journal) -> Self {
        let begun = Instant::now();
        while journal.open() > 0 && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(5)).await;
        }
        Self {
            lost: journal.open(),
            arrived: journal.take(),
        }
    }

    /// Returns the time to the last consumer within which that part of the changes arrived, in
    /// milliseconds. Lost changes took forever.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        let times: Vec<_> = self.arrived.iter().map(Change::last).collect();
        percentile(&times, self.lost, part)
    }
}
