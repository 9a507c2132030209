//! Parts that every process needs: validated arguments, logs, the admin server, readiness,
//! supervised tasks and an orderly end.
//!
//! A process reads as follows.
//!
//! ```text
//! fn main() -> ExitCode {
//!     process::main(Args::parse().check(), run)
//! }
//!
//! async fn run(config: Config) -> anyhow::Result<()> {
//!     let process = Process::start(config.admin).await?;
//!     let listed = process.readiness.awaits("services");
//!     process.tasks.spawn("watch", watch(listed, process.tasks.shutdown()));
//!     Ok(process.run(Duration::from_secs(3)).await?)
//! }
//! ```

pub mod admin;
pub mod args;
pub mod backoff;
pub mod certificate;
mod cpu;
pub mod kube_client;
pub mod liveness;
pub mod logging;
pub mod metrics;
pub mod open_files;
pub mod readiness;
pub mod reload;
pub mod shutdown;
pub mod supervise;
pub mod traces;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use args::ConfigErrors;
use logging::LogConfig;
use supervise::with_causes;

pub use shutdown::{Process, ProcessError};

/// The exit code of a wrong configuration.
const EXIT_CONFIGURATION: u8 = 2;

/// Maximum time for which a lookup in a blocking thread holds up the end of the process.
const BLOCKING_THREADS_LINGER: Duration = Duration::from_secs(1);

/// Runs a process from its checked configuration to its exit code: 0 where `run` ends well (an
/// orderly end on SIGTERM), 1 where it fails, 2 where the configuration is wrong, with every error
/// on stderr.
///
/// Sets up the logs, the TLS crypto provider and the runtime before `run` is called.
pub fn main<C, F, E>(
    config: Result<(LogConfig, C), ConfigErrors>,
    run: impl FnOnce(C) -> F,
) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: AsRef<dyn Error + Send + Sync>,
{
    let (log, config) = match config {
        Ok(checked) => checked,
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(EXIT_CONFIGURATION);
        }
    };
    let runtime = match prepare(log) {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(config));
    runtime.shutdown_timeout(BLOCKING_THREADS_LINGER);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = with_causes(error.as_ref()), "process failed");
            ExitCode::FAILURE
        }
    }
}

fn prepare(log: LogConfig) -> Result<tokio::runtime::Runtime, Box<dyn Error + Send + Sync>> {
    logging::init(log)?;
    kube_client::install_crypto_provider();
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}
