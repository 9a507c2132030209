//! Words for the person: results on stdout, progress on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Writes a line of result.
pub(crate) fn result(text: impl Display) -> io::Result<()> {
    unless_nobody_reads(writeln!(io::stdout().lock(), "{text}"))
}

/// Writes a line about what is going on.
pub(crate) fn progress(text: impl Display) -> io::Result<()> {
    unless_nobody_reads(writeln!(io::stderr().lock(), "{text}"))
}

/// `kubectl mcs status | head -1` is no failure.
fn unless_nobody_reads(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
