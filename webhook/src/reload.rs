//! Files that are replaced while the process runs: how often they are read, and what is said where they cannot be used.

use std::time::Duration;

/// How often files are read anew.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// Says once what is wrong, and only when it was so twice in a row: two files that are being replaced do not
/// belong together for a moment.
pub(crate) struct Complaint {
    what_stays: &'static str,
    last: Option<String>,
    said: bool,
}

impl Complaint {
    /// About successors without which the last good ones stay in use.
    pub(crate) fn about(what_stays: &'static str) -> Self {
        Self {
            what_stays,
            last: None,
            said: false,
        }
    }

    pub(crate) fn raise(&mut self, text: String) {
        if self.last.as_ref() != Some(&text) {
            self.last = Some(text);
            self.said = false;
        } else if !self.said {
            tracing::error!("the last good {} in use: {text}", self.what_stays);
            self.said = true;
        }
    }

    pub(crate) fn settle(&mut self) {
        self.last = None;
        self.said = false;
    }
}
