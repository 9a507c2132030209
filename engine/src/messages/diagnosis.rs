//! Reason of a state, with a message and a remedy.

use serde::Serialize;

use crate::reasons::Reason;

/// Reason with a message and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnosis {
    /// Reason, in one word.
    pub reason: Reason,
    /// Message for a person.
    pub message: String,
    /// Command, with the cluster in which to run it unless that is the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Diagnosis {
    /// Returns a diagnosis without a remedy.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            remedy: None,
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn fix(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Whether there is nothing to fix.
    pub fn is_healthy(&self) -> bool {
        self.reason.is_healthy()
    }
}
