//! Changes at a rate, and the time until they arrived.

use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

use super::environment::Subject;
use super::sim::Simulation;
use super::sim::journal::{Change, Journal};
use crate::pairs::{Pairs, both, percentile};

/// Time after which a change counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Changes before those that are measured.
const WARM_UP: Load = Load::new(100.0, 0.2);

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

/// Clusters, and the program that copies there.
pub(crate) struct Side {
    pub(crate) served: Simulation,
    pub(crate) program: Subject,
}

/// Changes of one side, with their cost.
pub(crate) struct Round {
    pub(crate) outcome: Outcome,
    cpu: Duration,
    pub(crate) writes: usize,
    pub(crate) hub_writes: usize,
}

/// Rounds of two sides.
pub(crate) struct Rounds(pub(crate) Vec<[Round; 2]>);

impl Load {
    pub(crate) const fn new(per_second: f64, seconds: f64) -> Self {
        Self {
            per_second,
            seconds,
        }
    }

    fn changes(self) -> u32 {
        (self.per_second * self.seconds).round() as u32
    }

    /// Makes the changes, each in the service that `pick` returns.
    pub(crate) async fn make(self, simulation: &Simulation, pick: impl Fn(u32) -> u32) {
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

    /// Makes the changes on two sides in turns, after others that warm up. `pick` returns the
    /// service of a change on a side; numbers go on from round to round, as a copy is written ten
    /// times a second at most.
    pub(crate) async fn compare(
        self,
        sides: [&Side; 2],
        rounds: usize,
        pick: impl Fn(usize, u32) -> u32,
    ) -> anyhow::Result<Rounds> {
        let (mut compared, mut first) = (Vec::new(), 0);
        for round in 0..rounds {
            let warm = first + WARM_UP.changes();
            let both = both(round, async |turn| {
                let Side { served, program } = sides[turn];
                WARM_UP.run(served, |one| pick(turn, first + one)).await;
                let (since, before) = (Instant::now(), program.cpu()?);
                let outcome = self.run(served, |one| pick(turn, warm + one)).await;
                let cpu = program.cpu()? - before;
                let writes = served.journal.writes_since(since);
                Ok(Round {
                    outcome,
                    cpu,
                    writes: writes.iter().filter(|write| write.is_slice).count(),
                    hub_writes: writes.iter().filter(|write| write.on_hub).count(),
                })
            });
            compared.push(both.await?);
            first = warm + self.changes();
        }
        Ok(Rounds(compared))
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

impl Rounds {
    /// Returns a figure of each round, of both sides.
    pub(crate) fn pairs(&self, of: impl Fn(&Round) -> f64) -> Pairs {
        let pairs = self.0.iter();
        pairs
            .map(|[first, second]| (of(first), of(second)))
            .collect()
    }

    /// Returns the CPU of so many changes, in seconds.
    pub(crate) fn cpu_of(&self, changes: f64) -> Pairs {
        let arrived = |round: &Round| round.outcome.arrived.len() as f64;
        self.pairs(|round| round.cpu.as_secs_f64() / arrived(round) * changes)
    }

    /// Returns the time within which that part of the changes arrived, in milliseconds.
    pub(crate) fn percentile(&self, part: f64) -> Pairs {
        self.pairs(|round| round.outcome.percentile(part))
    }
}
