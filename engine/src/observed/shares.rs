//! Number of services with shares, by result, and the largest deviation of a share, as of the last
//! plan of each service.

use causeway::domain::ServiceKey;

use super::tally::Tally;
use crate::model::map::HashMap;

/// Result of the shares of a service, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareResult {
    /// All shares are about as wanted.
    Met,
    /// A share deviates from the wanted one by so much that Ready reports it.
    Coarse,
    /// The data plane of a consumer uses no standby endpoints: all ready endpoints are ready there.
    NotApplied,
}

impl ShareResult {
    const ALL: [Self; 3] = [Self::Met, Self::Coarse, Self::NotApplied];

    /// Returns its value of the label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Coarse => "coarse",
            Self::NotApplied => "not_applied",
        }
    }
}

/// Shares of a service in one consumer, or in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedShares {
    pub(crate) result: ShareResult,
    /// Largest deviation from a wanted share, in hundredths of a percent; 0 where shares are not
    /// applied.
    pub(crate) deviation: u64,
}

impl NotedShares {
    /// Returns the worse result and the larger deviation of both.
    pub(crate) fn worst(self, other: Self) -> Self {
        Self {
            result: self.result.max(other.result),
            deviation: self.deviation.max(other.deviation),
        }
    }
}

/// Figures of all services with shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareFigures {
    /// Number of services by result.
    pub services: [(ShareResult, usize); 3],
    /// Largest deviation from a wanted share, in hundredths of a percent.
    pub deviation: u64,
}

/// Shares of all services.
#[derive(Debug, Default)]
pub(crate) struct ShareNotes {
    services: HashMap<ServiceKey, NotedShares>,
    results: Tally<ShareResult>,
    deviations: Tally<u64>,
}

impl ShareNotes {
    /// Notes the shares of a service, or that it has none. Returns the figures if they may have
    /// changed.
    pub(crate) fn note(
        &mut self,
        key: &ServiceKey,
        shares: Option<NotedShares>,
    ) -> Option<ShareFigures> {
        let before = match shares {
            Some(shares) => self.services.insert(key.clone(), shares),
            None => self.services.remove(key),
        };
        if before == shares {
            return None;
        }
        let result = |shares: NotedShares| shares.result;
        self.results.replace(before.map(result), shares.map(result));
        let deviation = |shares: NotedShares| shares.deviation;
        self.deviations
            .replace(before.map(deviation), shares.map(deviation));
        Some(self.figures())
    }

    /// Drops all notes. Returns the figures, which are zero.
    pub(crate) fn clear(&mut self) -> ShareFigures {
        *self = Self::default();
        self.figures()
    }

    fn figures(&self) -> ShareFigures {
        ShareFigures {
            services: ShareResult::ALL.map(|result| (result, self.results.count(&result))),
            deviation: self.deviations.largest().copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ShareResult::{Coarse, Met, NotApplied};
    use super::*;
    use crate::fixtures::key;

    #[test]
    fn services_with_shares_are_counted_with_the_largest_deviation() {
        let mut notes = ShareNotes::default();
        for (service, shares, expected) in [
            ("foo", None, None),
            ("foo", Some((Met, 100)), Some(([1, 0, 0], 100))),
            ("foo", Some((Met, 100)), None),
            ("bar", Some((Coarse, 900)), Some(([1, 1, 0], 900))),
            ("baz", Some((NotApplied, 0)), Some(([1, 1, 1], 900))),
            ("baz", Some((Coarse, 900)), Some(([1, 2, 0], 900))),
            ("bar", Some((Met, 200)), Some(([2, 1, 0], 900))),
            ("baz", None, Some(([2, 0, 0], 200))),
            ("bar", None, Some(([1, 0, 0], 100))),
            ("bar", Some((Met, 200)), Some(([2, 0, 0], 200))),
        ] {
            let shares = shares.map(|(result, deviation)| NotedShares { result, deviation });
            let figures = notes.note(&key(service), shares);
            let found = figures.map(|one| (one.services.map(|(_, count)| count), one.deviation));
            assert_eq!(found, expected, "{service} {shares:?}");
        }
        let none = notes.clear();
        assert_eq!(
            (none.services.map(|(_, count)| count), none.deviation),
            ([0; 3], 0)
        );
    }
}
