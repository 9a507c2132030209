//! `make demo`: the whole way, on real API servers. Every command is one that a person could type,
//! and every answer is the real one.

mod shell;
mod stage;
mod story;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use futures::FutureExt as _;

use crate::story::Story;

/// Shows a Service of one cluster reached from another, from the installation to the clean-up.
#[derive(Debug, Parser)]
struct Args {
    /// Leave everything running afterwards, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let begun = Instant::now();
    let story = Story::default();
    // The testbed panics where it cannot go on: that too is the failure of a step.
    let reported = AssertUnwindSafe(story.tell(args.keep)).catch_unwind().await;
    let failure = match reported {
        Ok(Ok(())) => {
            println!("\nAll of it took {} s.", begun.elapsed().as_secs());
            if !args.keep {
                println!(
                    "To look at it yourself: make demo KEEP=1 leaves it running, and says what to type."
                );
            }
            println!("demo: ok");
            return ExitCode::SUCCESS;
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => said(panic.as_ref()),
    };
    println!("\ndemo: failed at step {}\n{failure}", story.step());
    ExitCode::FAILURE
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}
