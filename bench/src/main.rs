//! `causeway-bench`: the benchmarks of causeway. `make bench` runs them.
//!
//! Every part measures a floor in the same run, the least that the work could cost, so that its ratios mean the same
//! on any machine.

mod collectors;
mod controller;
mod cores;
mod overhead;
mod pairs;
mod proc;
mod quiet;
mod report;
mod ui;
mod webhook;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use self::quiet::Beside;
use self::report::Row;

/// As in causeway's own programs, so that no difference to a floor is the allocator's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures causeway, and a floor beside it: all parts, or one
#[derive(Debug, Parser)]
#[command(name = "causeway-bench", version)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// The webhook, beside a bare TLS server
    Webhook(webhook::Args),
    /// The controller, beside a program that makes one write for each event
    Controller(controller::Args),
    /// `kubectl mcs ui`, from a change in a member to the event that the page is sent
    Ui(ui::Args),
    /// What scraped metrics and traces cost
    Overhead(overhead::Args),
    /// The program that makes one write for each event, which `controller` starts
    #[command(hide = true)]
    Relay(controller::relay::Args),
    /// The bare TLS server, which `webhook` starts
    #[command(hide = true)]
    Noop(webhook::noop::Args),
}

/// What every part that measures knows.
#[derive(Clone, Debug, Default, clap::Args)]
struct Common {
    /// A few seconds, to see that it works; the numbers mean little
    #[arg(long)]
    quick: bool,
    /// The directory of the JSON files; target/bench of the repository if not given
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    causeway::process::kube_client::install_crypto_provider();
    match Args::parse().part {
        None => all(),
        Some(Part::Webhook(args)) => part("webhook", &args.common, || webhook::run(&args)),
        Some(Part::Controller(args)) => part("controller", &args.common, || controller::run(&args)),
        Some(Part::Ui(args)) if args.serve => ui::serve_page(&args),
        Some(Part::Ui(args)) => part("ui", &args.common, || ui::run(&args)),
        Some(Part::Overhead(args)) => part("overhead", &args.common, || overhead::run(&args)),
        Some(Part::Relay(args)) => controller::relay::run(&args),
        Some(Part::Noop(args)) => webhook::noop::run(&args),
    }
}

fn all() -> anyhow::Result<()> {
    let common = Common::default();
    part("webhook", &common, || webhook::run(&Default::default()))?;
    part("controller", &common, || {
        controller::run(&Default::default())
    })?;
    part("ui", &common, || ui::run(&Default::default()))?;
    part("overhead", &common, || overhead::run(&Default::default()))
}

/// Measures a part, prints its table and writes its JSON. How quiet the machine is is said before it; after it, that decides whether its goals
/// are evaluated.
fn part(
    name: &str,
    common: &Common,
    measure: impl FnOnce() -> anyhow::Result<Vec<Row>>,
) -> anyhow::Result<()> {
    quiet::look()?;
    let beside = Beside::start()?;
    let rows = measure()?;
    let took = beside.elapsed();
    report::finish(name, rows, beside.quietness()?, common.output.as_deref())?;
    println!("{name} took {:.0} s", took.as_secs_f64());
    Ok(())
}
