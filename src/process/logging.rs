//! Log lines, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Selection and format of log lines.
#[derive(Debug)]
pub struct LogConfig {
    /// The shape of a line.
    pub format: LogFormat,
    /// Events that are written.
    pub filter: EnvFilter,
}

/// Sets up the logs of this process.
///
/// # Errors
/// [`TryInitError`] where they are set up already.
pub fn init(config: LogConfig) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(config.filter)
        .with_writer(std::io::stderr)
        // Where stderr is gone, it would say so on stderr, and panic.
        .log_internal_errors(false);
    match config.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .finish()
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    }
}
