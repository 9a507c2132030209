//! Whether the hub is believed to serve a kind, and in which version, from what was seen.

use std::time::Duration;

use causeway_engine::model::Failure;

/// When the hub is asked again, for definitions come and go while it runs.
const EVERY: Duration = Duration::from_secs(15);
/// When it is asked again about what is in doubt, or not known yet.
const SOON: Duration = Duration::from_secs(1);

/// What is believed, and what is in doubt. That a kind is not served any more, whereupon causeway would take over what Karmada carries, is
/// believed when it was seen twice in a row. At first it is believed at once, so that no hub without Karmada waits, and asked again soon:
/// an API server that has just started may not know all its definitions.
#[derive(Debug)]
pub(super) struct Belief {
    plural: &'static str,
    /// The version that is served; none where none is.
    served: Option<Option<&'static str>>,
    is_in_doubt: bool,
    outage: Option<Failure>,
    pause: Duration,
}

impl Belief {
    /// Of the kind with that plural nothing is known.
    pub(super) fn new(plural: &'static str) -> Self {
        Self {
            plural,
            served: None,
            is_in_doubt: false,
            outage: None,
            pause: Duration::ZERO,
        }
    }

    /// After which time to ask next.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Notes an answer; gives the version that is served, where that is news.
    pub(super) fn note(
        &mut self,
        seen: Result<Option<&'static str>, Failure>,
    ) -> Option<Option<&'static str>> {
        let was_in_doubt = std::mem::replace(&mut self.is_in_doubt, false);
        let before = self.served;
        let was_served = matches!(before, Some(Some(_)));
        match seen {
            Ok(None) if was_served && !was_in_doubt => self.is_in_doubt = true,
            Ok(served) => self.served = Some(served),
            Err(failure) => self.note_outage(failure),
        }
        let is_new = before.is_none() && !matches!(self.served, Some(Some(_)));
        self.pause = match self.is_in_doubt || is_new {
            true => SOON,
            false => EVERY,
        };
        self.served.filter(|_| self.served != before)
    }

    fn note_outage(&mut self, failure: Failure) {
        if self.outage.as_ref() != Some(&failure) {
            tracing::warn!(resource = self.plural, %failure, "hub discovery failed, retrying");
            self.outage = Some(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_kind_is_not_served_any_more_is_seen_twice_before_it_is_believed() {
        let silent = || Err(Failure::timeout());
        let served = Some("v1");
        let mut belief = Belief::new("works");
        assert_eq!(belief.pause(), Duration::ZERO);
        for (step, (seen, news, pause)) in [
            (silent(), None, SOON),
            (Ok(None), Some(None), SOON),
            (Ok(None), None, EVERY),
            (Ok(served), Some(served), EVERY),
            (Ok(None), None, SOON),
            (Ok(served), None, EVERY),
            (Ok(None), None, SOON),
            (silent(), None, EVERY),
            (Ok(None), None, SOON),
            (Ok(None), Some(None), EVERY),
            (silent(), None, EVERY),
            (Ok(served), Some(served), EVERY),
            (Ok(Some("v2")), Some(Some("v2")), EVERY),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!((belief.note(seen), belief.pause()), (news, pause), "{step}");
        }
        assert_eq!(Belief::new("works").note(Ok(served)), Some(served));
    }
}
