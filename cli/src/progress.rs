//! Progress of a command that takes long: a line on stderr, if that is a terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time after which a line is shown. Faster work shows none.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a line is shown. Work that begins meanwhile shows none.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// A line such as `reading members: 12 of 100`, removed in the end.
pub(crate) struct Progress {
    line: ProgressBar,
    since: Instant,
    is_shown: bool,
}

impl Progress {
    /// Begins work of so many steps.
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

    /// Counts a step.
    pub(crate) fn step(&mut self) {
        self.line.inc(1);
        self.show();
    }

    /// Shows the line, if the work takes long.
    pub(crate) fn show(&mut self) {
        let is_late = self.since.elapsed() >= PATIENCE;
        if is_late && !self.is_shown && !SHOWN.swap(true, Ordering::Relaxed) {
            self.is_shown = true;
            self.line.set_draw_target(ProgressDrawTarget::stderr());
            self.line.tick();
        }
    }

    /// Returns the time at which the line is shown, though no step is done.
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
