//! How far a command is that takes long, on stderr, where that is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is done sooner is not shown.
const PATIENCE: Duration = Duration::from_millis(500);

/// One line is shown at a time; what begins meanwhile shows none.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// A line that is written again and again, `reading members: 12 of 100`, and removed in the end.
pub(crate) struct Progress {
    what: &'static str,
    of: usize,
    done: usize,
    since: Instant,
    is_shown: bool,
    is_terminal: bool,
}

impl Progress {
    /// Begins to do that so many times.
    pub(crate) fn new(what: &'static str, of: usize) -> Self {
        Self {
            what,
            of,
            done: 0,
            since: Instant::now(),
            is_shown: false,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// It is done once more.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        self.show();
    }

    /// Shows how far it is, if it takes long.
    pub(crate) fn show(&mut self) {
        let is_late = self.is_shown || self.since.elapsed() >= PATIENCE;
        if !self.is_terminal || !is_late {
            return;
        }
        self.is_shown = self.is_shown || !SHOWN.swap(true, Ordering::Relaxed);
        if self.is_shown {
            let (what, done, of) = (self.what, self.done, self.of);
            write(format_args!("\r{what}: {done} of {of}\u{1b}[K"));
        }
    }

    /// When there is something to show though nothing was done.
    pub(crate) fn due(&self) -> tokio::time::Instant {
        (self.since + PATIENCE).into()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write(format_args!("\r\u{1b}[K"));
            SHOWN.store(false, Ordering::Relaxed);
        }
    }
}

/// Who does not see it misses no result.
fn write(text: std::fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    stderr.write_fmt(text).and_then(|()| stderr.flush()).ok();
}
