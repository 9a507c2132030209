//! The controller, as it is delivered, between a hub and members that are imitated light enough for a hundred clusters on one
//! machine; beside it the least that a program could do.

mod crowd;
mod environment;
mod flood;
mod growth;
mod load;
mod members;
pub(crate) mod overhead;
mod pages;
mod propagation;
mod real;
pub(crate) mod relay;
pub(crate) mod sim;
mod start;

use std::time::Duration;

use clap::ValueEnum;

use self::environment::Environment;
use crate::Common;
use crate::report::{self, Row};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which groups of numbers; all if none is given
    groups: Vec<Group>,
}

/// Numbers that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// From a provider's change to the consumers' writes
    Propagation,
    /// A start into a hundred clusters, and the memory that they take
    Start,
    /// A start into five hundred clusters, and what they cost at rest
    Members,
    /// A hundred consumers, one of them failing
    Crowd,
    /// A provider that rewrites everything all the time
    Flood,
    /// A change among few services and among many
    Growth,
    /// Changes, lists and starts among a few real API servers
    Real,
}

/// How much is done.
pub(crate) struct Extent {
    /// Services of one kind.
    services: usize,
    /// How often changes are made.
    rates: &'static [Rate],
    /// How long nothing happens: as long as two probes of each member, or a multiple of that.
    rest: Duration,
    /// How many members there are where there are many.
    members: usize,
    /// Services that each of these members provides in the group of starts.
    services_each: usize,
    /// How often the controller is started into each.
    starts: usize,
    /// Where they are more than that: how many, and how many services each of them provides.
    wide: (usize, usize),
    /// Among real API servers.
    real: real::Extent,
    /// Slices that a provider rewrites a second, in how many rounds, and for how long in each.
    flood_per_second: f64,
    flood_rounds: usize,
    flood_seconds: f64,
    /// How long other loads last.
    load_seconds: f64,
    /// How many services there are, from few to many.
    growth: &'static [usize],
    /// Rounds of changes among them, and how long each lasts.
    growth_rounds: usize,
    growth_seconds: f64,
}

/// How often changes are made, and for how long.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    /// How long a round lasts.
    seconds: f64,
    /// Rounds of the controller and the floor, in turns.
    rounds: usize,
}

const FULL: Extent = Extent {
    services: 2000,
    rates: &[
        Rate::new(1.0, 3.0, 3),
        Rate::new(50.0, 2.0, 5),
        Rate::new(500.0, 1.0, 7),
    ],
    rest: Duration::from_secs(20),
    members: 100,
    services_each: 200,
    starts: 2,
    wide: (500, 40),
    real: real::FULL,
    flood_per_second: 1000.0,
    flood_rounds: 3,
    flood_seconds: 3.0,
    load_seconds: 6.0,
    growth: &[1000, 100_000],
    growth_rounds: 9,
    growth_seconds: 0.8,
};

const QUICK: Extent = Extent {
    services: 20,
    rates: &[Rate::new(20.0, 0.5, 1)],
    rest: Duration::from_secs(1),
    members: 6,
    services_each: 2,
    starts: 1,
    wide: (8, 1),
    real: real::QUICK,
    flood_per_second: 50.0,
    flood_rounds: 1,
    flood_seconds: 0.4,
    load_seconds: 0.4,
    growth: &[20, 100],
    growth_rounds: 1,
    growth_seconds: 0.4,
};

impl Rate {
    const fn new(per_second: f64, seconds: f64, rounds: usize) -> Self {
        Self {
            per_second,
            seconds,
            rounds,
        }
    }
}

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let extent = if args.common.quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut env = Environment::new()?;
    let mut rows: Vec<Row> = Vec::new();
    let groups = match args.groups.as_slice() {
        [] => Group::value_variants(),
        some => some,
    };
    for group in groups {
        let measured = runtime.block_on(async {
            match group {
                Group::Propagation => propagation::measure(&env, &extent).await,
                Group::Start => start::measure(&env, &extent).await,
                Group::Members => members::measure(&env, &extent).await,
                Group::Crowd => crowd::measure(&env, &extent).await,
                Group::Flood => flood::measure(&mut env, &extent).await,
                Group::Growth => growth::measure(&env, &extent).await,
                Group::Real => real::measure(&env, &extent.real).await,
            }
        })?;
        eprintln!("{group:?}\n{}", report::table(&measured));
        rows.extend(measured);
    }
    Ok(rows)
}
