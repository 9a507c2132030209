//! Overhead of scraped metrics and of traces. Rounds with a collector and without take turns, and
//! each is compared with its neighbour.

use std::time::Duration;

use crate::collectors::Extent;
use crate::report::Row;
use crate::{Common, controller, webhook};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Rounds of each kind; 8 if not given, and more make the intervals narrower
    #[arg(long, value_name = "NUMBER", conflicts_with = "quick")]
    rounds: Option<usize>,
}

const FULL: Extent = Extent {
    services: 1_000,
    connections: 32,
    turns: 8,
    warm_up: Duration::from_millis(300),
    measured: Duration::from_millis(1500),
    per_second: 100.0,
    seconds: 2.0,
};

const QUICK: Extent = Extent {
    services: 50,
    connections: 2,
    turns: 2,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(100),
    per_second: 20.0,
    seconds: 0.3,
};

/// Measures the webhook and the controller.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let extent = match args.common.quick {
        true => QUICK,
        false => Extent {
            turns: args.rounds.unwrap_or(FULL.turns),
            ..FULL
        },
    };
    let mut rows = webhook::overhead::measure(&extent)?;
    rows.extend(controller::overhead::measure(&extent)?);
    Ok(rows)
}
