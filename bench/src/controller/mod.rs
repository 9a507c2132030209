//! The controller, as it is delivered, between a hub and members that are imitated light enough for a hundred clusters on one
//! machine; beside it the least that a program could do.

mod crowd;
mod environment;
mod flood;
mod growth;
mod load;
pub(crate) mod overhead;
mod propagation;
mod real;
pub(crate) mod relay;
pub(crate) mod sim;
mod start;

use std::path::PathBuf;
use std::time::Duration;

use causeway_tests::repository;
use clap::ValueEnum;

use self::environment::Environment;
use crate::report::{self, Row};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Which groups of numbers; all if none is given
    groups: Vec<Group>,
    /// A few seconds, to see that it works; the numbers mean little
    #[arg(long)]
    quick: bool,
    /// Where controller.json goes; target/bench of the repository if not given
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Numbers that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// From a provider's change to the consumers' writes
    Propagation,
    /// A start into a hundred clusters, and the memory that they take
    Start,
    /// A hundred consumers, one of them failing
    Crowd,
    /// A provider that rewrites everything all the time
    Flood,
    /// A change among few services and among many
    Growth,
    /// A few changes among real API servers
    Real,
}

/// How much is done.
pub(crate) struct Extent {
    /// Services of one kind.
    services: usize,
    /// Changes a second, and for how many seconds in all.
    rates: &'static [(f64, f64)],
    /// Rounds of the controller and the floor, in turns.
    rounds: usize,
    /// How long nothing happens.
    rest: Duration,
    /// How many members there are where there are many.
    members: usize,
    /// Services that each of these members provides in the group of starts.
    services_each: usize,
    /// Changes among real API servers.
    real_changes: usize,
    /// Slices that a provider rewrites a second.
    flood_per_second: f64,
    /// How long other loads last.
    load_seconds: f64,
    /// How many services there are, from few to many.
    growth: &'static [usize],
}

const FULL: Extent = Extent {
    services: 2000,
    rates: &[(1.0, 20.0), (50.0, 12.0), (500.0, 8.0)],
    rounds: 2,
    rest: Duration::from_secs(20),
    members: 100,
    services_each: 200,
    real_changes: 40,
    flood_per_second: 1000.0,
    load_seconds: 8.0,
    growth: &[1000, 10_000, 100_000],
};

const QUICK: Extent = Extent {
    services: 20,
    rates: &[(20.0, 0.5)],
    rounds: 1,
    rest: Duration::from_secs(1),
    members: 6,
    services_each: 2,
    real_changes: 5,
    flood_per_second: 50.0,
    load_seconds: 0.4,
    growth: &[20, 100],
};

impl Extent {
    fn seconds(&self, per_second: f64) -> f64 {
        let rate = self.rates.iter().find(|(rate, _)| *rate == per_second);
        rate.map_or(0.0, |(_, seconds)| *seconds)
    }
}

/// Measures, prints the table and writes the JSON.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let extent = if args.quick { QUICK } else { FULL };
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
                Group::Crowd => crowd::measure(&env, &extent).await,
                Group::Flood => flood::measure(&mut env, &extent).await,
                Group::Growth => growth::measure(&env, &extent).await,
                Group::Real => real::measure(&extent).await,
            }
        })?;
        eprintln!("{group:?}\n{}", report::table(&measured));
        rows.extend(measured);
    }
    println!("{}", report::table(&rows));
    let output = args.output.clone();
    let output = output.unwrap_or_else(|| repository().join("target/bench"));
    let file = report::write_json(&output, "controller", &rows)?;
    println!("{}", file.display());
    Ok(())
}
