//! Whether the hub serves a kind, and in which version.

use std::time::Duration;

use causeway_engine::evidence::discovery::DebouncedDiscovery;
use causeway_engine::model::Failure;

/// Interval of the requests: definitions are made and deleted while the hub runs.
const EVERY: Duration = Duration::from_secs(15);
/// Interval while nothing is known yet.
const SOON: Duration = Duration::from_secs(1);

/// Discovery of a kind on the hub. That the hub no longer serves the kind, after which causeway
/// would take over what Karmada manages, is debounced. The first answer counts at once, so that no
/// hub without Karmada waits, and is verified soon: an API server that has just started may not
/// know all its definitions.
#[derive(Debug)]
pub(super) struct Discovery {
    plural: &'static str,
    debounced: DebouncedDiscovery<Option<&'static str>>,
    /// The version that is served; none where none is.
    served: Option<Option<&'static str>>,
    outage: Option<Failure>,
    pause: Duration,
}

impl Discovery {
    /// Returns the discovery of the kind with that plural, of which nothing is known yet.
    pub(super) fn new(plural: &'static str) -> Self {
        Self {
            plural,
            debounced: DebouncedDiscovery::new(None, |now, before| {
                now.is_none() && before.is_some()
            }),
            served: None,
            outage: None,
            pause: Duration::ZERO,
        }
    }

    /// After which time to ask next.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Whether the hub is known not to serve the kind.
    pub(super) fn is_unserved(&self) -> bool {
        self.served == Some(None)
    }

    /// Notes an answer; gives the version that is served, where that is news.
    pub(super) fn note(
        &mut self,
        observed: Result<Option<&'static str>, Failure>,
    ) -> Option<Option<&'static str>> {
        let before = self.served;
        match observed {
            Ok(observed) => {
                self.outage = None;
                self.served = self.debounced.observe(observed).or(before);
            }
            Err(failure) => {
                self.debounced.observe_failure();
                self.note_outage(failure);
            }
        }
        let is_new = before.is_none() && !matches!(self.served, Some(Some(_)));
        self.pause = match (is_new, self.outage.is_some()) {
            (true, true) => (self.pause * 2).clamp(SOON, EVERY),
            (true, false) => SOON,
            (false, _) => EVERY,
        };
        self.served.filter(|_| self.served != before)
    }

    fn note_outage(&mut self, failure: Failure) {
        if self.outage.as_ref() != Some(&failure) {
            tracing::warn!(cluster = "hub", resource = self.plural, error = %failure, "discovery failed, retrying");
            self.outage = Some(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_kind_counts_after_two_looks() {
        let silent = || Err(Failure::timeout());
        let served = Some("v1");
        let mut discovery = Discovery::new("works");
        assert_eq!(discovery.pause(), Duration::ZERO);
        for (step, (observed, news, pause)) in [
            (silent(), None, SOON),
            (silent(), None, 2 * SOON),
            (Ok(None), Some(None), SOON),
            (Ok(None), None, EVERY),
            (Ok(served), Some(served), EVERY),
            (Ok(None), None, EVERY),
            (Ok(served), None, EVERY),
            (Ok(None), None, EVERY),
            (silent(), None, EVERY),
            (Ok(None), None, EVERY),
            (Ok(None), Some(None), EVERY),
            (silent(), None, EVERY),
            (Ok(served), Some(served), EVERY),
            (Ok(Some("v2")), Some(Some("v2")), EVERY),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(
                (discovery.note(observed), discovery.pause()),
                (news, pause),
                "{step}"
            );
        }
        assert_eq!(Discovery::new("works").note(Ok(served)), Some(served));
    }

    #[test]
    fn answer_ends_the_outage_of_discovery() {
        let mut discovery = Discovery::new("works");
        discovery.note(Err(Failure::timeout()));
        assert_eq!(discovery.outage, Some(Failure::timeout()));
        discovery.note(Ok(None));
        assert_eq!(discovery.outage, None, "the next one is logged again");
    }
}
