//! Progress line of a long command, on stderr if it is a terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time after which the line appears. Faster work shows no line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a line is visible. Work that begins meanwhile shows none.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Line such as `reading members: 12 of 100`, removed at the end.
pub(crate) struct Progress {
    line: ProgressBar,
    since: Instant,
    is_shown: bool,
}

impl Progress {
    /// Begins work with the given number of steps.
    pub(crate) fn new(what: &'static str, of: usize) -> Self {
        let line = ProgressBar::with_draw_target(Some(of as u64), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg}: {pos} of {len}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self {
            line: line.with_style(style).with_message(what),
            since: Instant::now(),
            is_shown: false,
        }
    }

    /// Counts one completed step.
    pub(crate) fn step(&mut self) {
        self.line.inc(1);
        self.show();
    }

    /// Shows the line if the work exceeds [`PATIENCE`].
    pub(crate) fn show(&mut self) {
        let is_late = self.since.elapsed() >= PATIENCE;
        if is_late && !self.is_shown && !SHOWN.swap(true, Ordering::Relaxed) {
            self.is_shown = true;
            self.line.set_draw_target(ProgressDrawTarget::stderr());
            self.line.tick();
        }
    }

    /// Returns the time at which the line appears even if no step is complete.
    pub(crate) fn due(&self) -> tokio::time::Instant {
        (self.since + PATIENCE).into()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            self.line.finish_and_clear();
            SHOWN.store(false, Ordering::Relaxed);
        }
    }
}
