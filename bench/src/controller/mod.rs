//! The controller, as it is delivered, between a hub and members that are imitated, beside the
//! least that a program can do.

pub(crate) mod environment;
mod isolation;
pub(crate) mod load;
mod propagation;
pub(crate) mod relay;
pub(crate) mod sim;
mod start;

use clap::ValueEnum;

use self::environment::Environment;
use crate::Common;
use crate::report::{self, Row};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Groups of figures; all if none is given
    groups: Vec<Group>,
}

/// Figures that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// From a provider's change to the consumers' writes
    Propagation,
    /// A start into a hundred clusters, and the memory that they take
    Start,
    /// A start into five hundred clusters, and their cost at rest
    Members,
    /// A hundred consumers, one of them failing
    Crowd,
    /// A provider that rewrites everything all the time
    Flood,
    /// A change among few services and among many
    Growth,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let quick = args.common.quick;
    let runtime = crate::runtime()?;
    let env = Environment::new()?;
    let mut rows: Vec<Row> = Vec::new();
    let groups = match args.groups.as_slice() {
        [] => Group::value_variants(),
        some => some,
    };
    for group in groups {
        let measured = runtime.block_on(async {
            match group {
                Group::Propagation => propagation::measure(&env, quick).await,
                Group::Start => start::measure(&env, quick).await,
                Group::Members => start::five_hundred(&env, quick).await,
                Group::Crowd => isolation::crowd(&env, quick).await,
                Group::Flood => isolation::flood(&env, quick).await,
                Group::Growth => propagation::growth(&env, quick).await,
            }
        })?;
        eprintln!("{}", report::table(&measured));
        rows.extend(measured);
    }
    Ok(rows)
}
