//! `causeway-bench`: the benchmarks of causeway. `make bench` runs them.
//!
//! Every part measures a floor in the same run, the least that the work could cost, so that its ratios mean the same
//! on any machine.

mod controller;
mod cores;
mod overhead;
mod proc;
mod report;
mod ui;
mod webhook;

use clap::{Parser, Subcommand};

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

fn main() -> anyhow::Result<()> {
    causeway::process::kube_client::install_crypto_provider();
    match Args::parse().part {
        None => {
            webhook::run(&webhook::Args::default())?;
            controller::run(&controller::Args::default())?;
            ui::run(&ui::Args::default())?;
            overhead::run(&overhead::Args::default())
        }
        Some(Part::Controller(args)) => controller::run(&args),
        Some(Part::Ui(args)) => ui::run(&args),
        Some(Part::Overhead(args)) => overhead::run(&args),
        Some(Part::Relay(args)) => controller::relay::run(&args),
        Some(Part::Webhook(args)) => webhook::run(&args),
        Some(Part::Noop(args)) => webhook::noop::run(&args),
    }
}
