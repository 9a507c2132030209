//! A process as causeway's are, with a bug: the work on its one request panics. The alert on panics
//! is tested with it.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use causeway::process::args::{AdminArgs, Checks, ConfigErrors, LogArgs};
use causeway::process::logging::LogConfig;
use causeway::process::{self, Process};
use clap::Parser;

/// Panics once, and serves its metrics until it is asked to end
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

impl Args {
    fn check(&self) -> Result<(LogConfig, SocketAddr), ConfigErrors> {
        let mut checks = Checks::default();
        let (log, admin) = (self.log.check(&mut checks), self.admin.check(&mut checks));
        checks.finish(|| Some((log?, admin?)))
    }
}

fn main() -> ExitCode {
    process::main(Args::parse().check(), run)
}

async fn run(admin: SocketAddr) -> anyhow::Result<()> {
    let process = Process::start(admin).await?;
    let request = async { panic!("an assumption does not hold") };
    // It is logged and counted.
    process
        .tasks
        .catch_panic::<_>("request", request)
        .await
        .ok();
    Ok(process.run(Duration::ZERO).await?)
}
