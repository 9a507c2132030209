//! Packs the Helm chart as it is published. `make release` runs it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use causeway_tests::chart;
use clap::Parser;

/// Packs the Helm chart with Helm, the same bytes each time, and prints the path of the archive
#[derive(Debug, Parser)]
struct Args {
    /// Directory that the archive is written to
    directory: PathBuf,

    /// Time of the files in it, in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH")]
    time: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(args.time);
    let archive = chart::package(&args.directory, time).context("the chart cannot be packed")?;
    println!("{}", archive.display());
    Ok(())
}
