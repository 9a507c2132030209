//! Whether the hub is believed to serve Works, from what was seen.

use std::time::Duration;

use crate::failure::Failure;

/// When the hub is asked again, for definitions come and go while it runs.
const EVERY: Duration = Duration::from_secs(15);
/// When it is asked again about what is in doubt, or not known yet.
const SOON: Duration = Duration::from_secs(1);

/// What is believed, and what is in doubt. That Works are not served any more, whereupon causeway would take over what Karmada carries, is
/// believed when it was seen twice in a row. At first it is believed at once, so that no hub without Karmada waits, and asked again soon:
/// an API server that has just started may not know all its definitions.
#[derive(Debug, Default)]
pub(super) struct Belief {
    served: Option<bool>,
    is_in_doubt: bool,
    outage: Option<Failure>,
    pause: Duration,
}

impl Belief {
    /// After which time to ask next.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Notes an answer; gives whether Works are served, where that is news.
    pub(super) fn note(&mut self, seen: Result<bool, Failure>) -> Option<bool> {
        let was_in_doubt = std::mem::replace(&mut self.is_in_doubt, false);
        let before = self.served;
        match seen {
            Ok(false) if before == Some(true) && !was_in_doubt => self.is_in_doubt = true,
            Ok(served) => self.served = Some(served),
            Err(failure) => self.note_outage(failure),
        }
        let is_new = before.is_none() && self.served != Some(true);
        self.pause = match self.is_in_doubt || is_new {
            true => SOON,
            false => EVERY,
        };
        self.served.filter(|_| self.served != before)
    }

    fn note_outage(&mut self, failure: Failure) {
        if self.outage.as_ref() != Some(&failure) {
            tracing::warn!(%failure, "the hub cannot be asked whether it serves Karmada's Works");
            self.outage = Some(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_works_are_not_served_any_more_is_seen_twice_before_it_is_believed() {
        let silent = || Err(Failure::timeout());
        let mut belief = Belief::default();
        assert_eq!(belief.pause(), Duration::ZERO);
        for (step, (seen, news, pause)) in [
            (silent(), None, SOON),
            (Ok(false), Some(false), SOON),
            (Ok(false), None, EVERY),
            (Ok(true), Some(true), EVERY),
            (Ok(false), None, SOON),
            (Ok(true), None, EVERY),
            (Ok(false), None, SOON),
            (silent(), None, EVERY),
            (Ok(false), None, SOON),
            (Ok(false), Some(false), EVERY),
            (silent(), None, EVERY),
            (Ok(true), Some(true), EVERY),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!((belief.note(seen), belief.pause()), (news, pause), "{step}");
        }
        assert_eq!(Belief::default().note(Ok(true)), Some(true));
    }
}
