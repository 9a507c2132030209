//! Signals by which a user ends a command.

use std::io;

/// Returns on Ctrl-C, and on SIGTERM where the system has signals. On Linux also returns on SIGHUP,
/// as of a closed terminal, unless the process ignores it, as under nohup.
///
/// # Errors
/// The system refuses to report signals.
pub(crate) async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut hangup = match ends_on_hangup(&status) {
            true => Some(signal(SignalKind::hangup())?),
            false => None,
        };
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
            _ = async { hangup.as_mut()?.recv().await }, if hangup.is_some() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// Whether SIGHUP ends the process, according to the content of `/proc/self/status`. False without
/// that file: the disposition is unknown, and a handler would defeat nohup.
#[cfg(unix)]
fn ends_on_hangup(status: &str) -> bool {
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is that of signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::ends_on_hangup;

    #[test]
    fn ignored_hangup_does_not_end_the_process() {
        for (ignored, ends) in [
            ("SigIgn:\t0000000000000000\n", true),
            ("SigIgn:\t0000000000001000\n", true),
            ("SigIgn:\t0000000000001001\n", false),
            ("SigIgn:\tunknown\n", false),
            ("", false),
        ] {
            let status = format!("Name:\tkubectl-mcs\n{ignored}SigCgt:\t0000000000000001\n");
            assert_eq!(ends_on_hangup(&status), ends, "{ignored}");
        }
    }
}
