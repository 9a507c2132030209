//! `causeway-bench`: the benchmarks of causeway. `make bench` runs them.
//!
//! Every part measures a floor in the same run, so that its ratios mean the same on any machine.

mod controller;
mod machine;
mod pairs;
mod report;
mod serving;
mod tunnel;
mod ui;
mod webhook;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use self::machine::Observed;
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
    Webhook(Common),
    /// The controller, beside a program that makes one write for each event
    Controller(controller::Args),
    /// `kubectl mcs ui`, from a change in a member to the event of the page
    Ui(Common),
    /// causeway-tunnel and causeway-agent, beside TCP and beside members that are dialled
    Tunnel(Common),
    /// The program that makes one write for each event, which `controller` starts
    #[command(hide = true)]
    Relay(controller::relay::Args),
    /// Agents of many members, which `tunnel` starts
    #[command(hide = true)]
    Agents(tunnel::agents::Args),
    /// The bare TLS server, which `webhook` starts
    #[command(hide = true)]
    Noop(webhook::noop::Args),
}

/// Options of every part.
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
    if let Some(part) = Args::parse().part {
        return run(part);
    }
    run(Part::Webhook(Common::default()))?;
    run(Part::Controller(controller::Args::default()))?;
    run(Part::Ui(Common::default()))?;
    run(Part::Tunnel(Common::default()))
}

fn run(part: Part) -> anyhow::Result<()> {
    match part {
        Part::Webhook(common) => measure("webhook", &common, webhook::run),
        Part::Controller(args) => measure("controller", &args.common, |_| controller::run(&args)),
        Part::Ui(common) => measure("ui", &common, ui::run),
        Part::Tunnel(common) => measure("tunnel", &common, tunnel::run),
        Part::Agents(args) => tunnel::agents::run(&args),
        Part::Relay(args) => controller::relay::run(&args),
        Part::Noop(args) => webhook::noop::run(&args),
    }
}

/// Measures a part, prints its table and writes its JSON. Goals are evaluated if the machine was
/// quiet meanwhile.
fn measure(
    name: &str,
    common: &Common,
    run: impl FnOnce(bool) -> anyhow::Result<Vec<Row>>,
) -> anyhow::Result<()> {
    let observed = Observed::start()?;
    let rows = run(common.quick)?;
    report::finish(name, rows, observed.taken()?, common.output.as_deref())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build()
}
