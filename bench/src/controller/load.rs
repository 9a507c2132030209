//! Changes at a rate, and how long they took.

use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

use super::sim::journal::{Arrived, Journal};
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;

/// How long a change may take before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Changes at a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
}

/// What became of changes.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) arrived: Vec<Arrived>,
    /// Changes that did not arrive everywhere.
    pub(crate) lost: usize,
}

impl Load {
    pub(crate) fn new(per_second: f64, seconds: f64) -> Self {
        Self {
            per_second,
            duration: Duration::from_secs_f64(seconds),
        }
    }

    pub(crate) fn changes(&self) -> u32 {
        (self.per_second * self.duration.as_secs_f64()).round() as u32
    }

    /// Makes the changes, one slice after the other.
    pub(crate) async fn make(self, simulation: &Simulation, pick: impl Fn(u32) -> SliceId) {
        let begun = tokio::time::Instant::now();
        for number in 0..self.changes() {
            sleep_until(begun + Duration::from_secs_f64(f64::from(number) / self.per_second)).await;
            simulation.replace_pod(pick(number));
        }
    }

    /// Makes the changes and waits until they have arrived.
    pub(crate) async fn run(
        self,
        simulation: &Simulation,
        pick: impl Fn(u32) -> SliceId,
    ) -> Outcome {
        simulation.journal.give_up();
        simulation.journal.take_arrived();
        self.make(simulation, pick).await;
        settle(simulation).await
    }
}

/// Waits until nothing is on its way any more.
pub(crate) async fn settle(simulation: &Simulation) -> Outcome {
    Outcome::of(&simulation.journal).await
}

impl Outcome {
    /// What becomes of the changes that are on their way.
    pub(crate) async fn of(journal: &Journal) -> Self {
        let begun = Instant::now();
        while journal.open() > 0 && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(5)).await;
        }
        let lost = journal.open();
        journal.give_up();
        Self {
            arrived: journal.take_arrived(),
            lost,
        }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.arrived.extend(other.arrived);
        self.lost += other.lost;
    }

    /// The time to the last consumer within which that part of the changes arrived, in milliseconds. Lost ones took for ever.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        let mut all: Vec<_> = self.arrived.iter().map(Arrived::last).collect();
        all.sort_unstable();
        let count = all.len() + self.lost;
        let place = (part * count as f64).ceil() as usize;
        all.get(place.saturating_sub(1))
            .map_or(f64::INFINITY, |after| after.as_secs_f64() * 1e3)
    }

    /// Takes out the changes of some services.
    pub(crate) fn take_services(&mut self, services: Range<u32>) -> Self {
        let arrived = std::mem::take(&mut self.arrived);
        let (taken, rest) = arrived
            .into_iter()
            .partition(|one| services.contains(&one.id.service));
        self.arrived = rest;
        Self {
            arrived: taken,
            lost: 0,
        }
    }

    /// How many changes a later one was written for instead.
    pub(crate) fn count_superseded(&self) -> usize {
        let superseded = self.arrived.iter().filter(|one| one.superseded > 0);
        superseded.count()
    }

    /// The part of the changes for which a later one was written instead.
    pub(crate) fn superseded(&self) -> f64 {
        self.count_superseded() as f64 / self.arrived.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_occurred_and_lost_changes_are_slower_than_all() {
        let arrived = |milliseconds| Arrived {
            id: SliceId {
                service: 0,
                slice: 0,
            },
            changed_at: Instant::now(),
            after: vec![Duration::ZERO, Duration::from_millis(milliseconds)],
            superseded: 0,
        };
        let mut outcome = Outcome {
            arrived: (1..=100).rev().map(arrived).collect(),
            lost: 0,
        };
        assert_eq!(
            [0.5, 0.99, 1.0].map(|part| outcome.percentile(part)),
            [50.0, 99.0, 100.0]
        );
        outcome.lost = 2;
        assert_eq!(outcome.percentile(0.99), f64::INFINITY);
    }
}
