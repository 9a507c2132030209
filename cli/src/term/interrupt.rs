//! Signals by which a user ends a command.

use std::io;

/// Returns on Ctrl-C, and on SIGTERM where the system has signals.
///
/// # Errors
/// The system refuses to report signals.
pub(crate) async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
