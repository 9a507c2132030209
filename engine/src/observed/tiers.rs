//! Active tiers of services in their consumers as of the last plan, and the time since which fewer
//! would have been enough.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey, Tier};

use super::tally::Tally;
use crate::model::TimePoint;
use crate::model::map::HashMap;
use crate::model::slice::Exposure;

/// Tiers of a service in one consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct NotedTiers {
    /// Farthest active tier; `None` where all providers are alike.
    pub farthest: Option<Tier>,
    /// Time since which nearer tiers have had enough ready endpoints.
    pub(crate) enough_since: Option<TimePoint>,
    /// Time since which its shares let more endpoints be ready.
    pub(crate) spare_since: Option<TimePoint>,
}

/// Consumers of a service, by exposure.
pub(crate) type TiersOfService = BTreeMap<(Exposure, ClusterName), NotedTiers>;

/// Consumer and kind of the farthest active tier, and the number of services that the consumer gets
/// by such a tier.
pub(crate) type TierCount = ((ClusterName, &'static str), usize);

/// Tiers of all services in their consumers.
#[derive(Debug, Default)]
pub(crate) struct TierNotes {
    services: HashMap<ServiceKey, TiersOfService>,
    counts: Tally<(ClusterName, &'static str)>,
}

impl TierNotes {
    /// Returns the tiers and shares of a service in a consumer as of the last plan.
    pub(crate) fn of(
        &self,
        key: &ServiceKey,
        exposure: Exposure,
        consumer: &ClusterName,
    ) -> Option<&NotedTiers> {
        let of_service = self.services.get(key)?;
        of_service.get(&(exposure, consumer.clone()))
    }

    /// Notes the active tiers of a service in all its consumers. Returns the counts that changed.
    pub(crate) fn note(&mut self, key: &ServiceKey, tiers: TiersOfService) -> Vec<TierCount> {
        let before = match tiers.is_empty() {
            true => self.services.remove(key),
            false => self.services.insert(key.clone(), tiers),
        };
        self.counts
            .replace(farthest(before.as_ref()), farthest(self.services.get(key)))
    }

    /// Drops all notes. Returns the counts that changed.
    pub(crate) fn clear(&mut self) -> Vec<TierCount> {
        std::mem::take(self).counts.clear()
    }
}

/// Lists the consumers of a service that do not use all providers alike, each with the kind of its
/// farthest active tier.
fn farthest(tiers: Option<&TiersOfService>) -> impl Iterator<Item = (ClusterName, &'static str)> {
    let tiers = tiers.into_iter().flatten();
    tiers.filter_map(|((_, consumer), noted)| {
        let farthest = noted.farthest.as_ref()?;
        Some((consumer.clone(), farthest.kind()))
    })
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use causeway::domain::Failover;

    use super::*;
    use crate::fixtures::{key, name};

    fn tiers(farthest: &[(&str, Tier)]) -> TiersOfService {
        let noted = farthest.iter().map(|(consumer, tier)| {
            let noted = NotedTiers {
                farthest: Some(tier.clone()),
                enough_since: None,
                spare_since: None,
            };
            ((Exposure::Native, name(consumer)), noted)
        });
        noted.collect()
    }

    #[test]
    fn services_are_counted_by_consumer_and_farthest_tier() {
        let mut notes = TierNotes::default();
        let count = |consumer: &str, tier: &'static str, count| ((name(consumer), tier), count);
        let local = tiers(&[("a", Tier::Local), ("b", Tier::Local)]);
        let both = [count("a", "local", 1), count("b", "local", 1)];
        assert_eq!(notes.note(&key("foo"), local.clone()), both);
        assert_eq!(notes.note(&key("foo"), local.clone()), []);
        let again = [count("a", "local", 2), count("b", "local", 2)];
        assert_eq!(notes.note(&key("bar"), local), again);
        let promoted = tiers(&[("a", Tier::Any), ("b", Tier::Local)]);
        let moved = [count("a", "any", 1), count("a", "local", 1)];
        assert_eq!(notes.note(&key("foo"), promoted), moved);
        let gone = [count("a", "any", 0), count("b", "local", 1)];
        assert_eq!(notes.note(&key("foo"), TiersOfService::new()), gone);
        let rest = [count("a", "local", 0), count("b", "local", 0)];
        assert_eq!(notes.clear(), rest);
        assert_eq!(notes.clear(), []);
    }

    #[test]
    fn services_are_counted_by_the_kind_of_the_tier_alone() {
        let mut notes = TierNotes::default();
        let read = |text: &str| {
            let prefer = |name: &str| (name == labels::PREFER).then_some(text);
            let read = Failover::read(prefer, &mut |error| panic!("{error}"));
            read.preference.expect("a preference").tiers()[0].clone()
        };
        for (key, word) in [
            (key("foo"), "property(team)=a"),
            (key("bar"), "property(team)=b"),
        ] {
            notes.note(&key, tiers(&[("a", read(word))]));
        }
        let cluster = tiers(&[("a", read("cluster/b"))]);
        let counts = notes.note(&key("web"), cluster);
        assert_eq!(counts, [((name("a"), "cluster"), 1)]);
        let counts = notes.clear();
        assert_eq!(
            counts,
            [((name("a"), "cluster"), 0), ((name("a"), "property"), 0)]
        );
    }
}
