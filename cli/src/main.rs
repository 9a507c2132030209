//! `kubectl mcs`: sets up a hub, joins clusters to it, and shows the services that reach across
//! clusters.

mod args;
mod cluster;
mod commands;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod golden;
mod observe;
mod term;
mod views;

use std::process::ExitCode;

use clap::Parser as _;
use tokio::runtime::Builder;

use self::args::{Command, CommandLine};
use self::commands::{
    adopt, bug_report, check, completion, confirm_deletions, diff, dns, drain, explain, hand_over,
    install, join, shift, status, top, tunnel, ui, uninstall, unjoin, verify, version,
};
use self::term::exit::{CommandError, ExitState, Failure, UNKNOWN};
use self::term::output;

/// Failed start of the program.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    #[error("cannot start: no cryptography for TLS")]
    Cryptography,
}

impl CommandError for StartError {
    fn exit_code(&self) -> u8 {
        UNKNOWN
    }
}

fn main() -> ExitCode {
    if let Some(words) = completion::requested(std::env::args_os()) {
        return complete(&words);
    }
    match run(&CommandLine::parse()) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) => {
            // If stderr is closed too, the exit code still reports the failure.
            output::progress(format_args!("error: {error}")).ok();
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints completions to a shell. Drops errors, which a shell cannot use.
fn complete(words: &[String]) -> ExitCode {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    completion::answer(words).ok();
    ExitCode::SUCCESS
}

/// Runs one command and returns its exit state.
fn run(line: &CommandLine) -> Result<ExitState, Failure> {
    let provider = rustls::crypto::ring::default_provider();
    let installed = provider.install_default();
    installed.map_err(|_| StartError::Cryptography)?;
    let mut runtime = match line.command {
        // The UI reads many clusters concurrently.
        Command::Ui(_) => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build().map_err(StartError::Runtime)?;
    let ended: Result<_, Failure> = runtime.block_on(async {
        match &line.command {
            Command::Install(args) => install::run(&line.hub, args).await?,
            Command::Uninstall(args) => uninstall::run(&line.hub, args).await?,
            Command::Join(args) => join::run(&line.hub, args).await?,
            Command::Unjoin(args) => unjoin::run(&line.hub, args).await?,
            Command::Status(args) => return status::run(&line.hub, args).await,
            Command::Top(args) => return top::run(&line.hub, args).await,
            Command::Tunnel(args) => return tunnel::run(&line.hub, args).await,
            Command::Explain(args) => return explain::run(&line.hub, args).await,
            Command::Verify(args) => return verify::run(&line.hub, args).await,
            Command::Probe(args) => return Ok(verify::probe::run(args).await?),
            Command::Ui(args) => ui::run(&line.hub, args).await?,
            Command::Diff(args) => return Ok(diff::run(&line.hub, args).await?),
            Command::Check(args) => return check::run(&line.hub, args).await,
            Command::BugReport(args) => return bug_report::run(&line.hub, args).await,
            Command::Dns(args) => return dns::run(&line.hub, args).await,
            Command::Adopt(args) => return adopt::run(&line.hub, args).await,
            Command::HandOver(args) => return hand_over::run(&line.hub, args).await,
            Command::Drain(args) => return drain::run(&line.hub, args).await,
            Command::Shift(args) => shift::run(&line.hub, args).await?,
            Command::ConfirmDeletions(args) => confirm_deletions::run(&line.hub, args).await?,
            Command::Version(args) => version::run(&line.hub, args).await?,
            Command::Completion { shell } => completion::script(*shell)?,
        }
        Ok(ExitState::Good)
    });
    // The end of the program does not wait for a credential plugin that hangs.
    runtime.shutdown_background();
    ended
}
