//! What consumers lack of services that Karmada manages, and since when: Karmada lags behind for a
//! moment, and that is not reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::TimePoint;
use crate::model::map::HashMap;

/// Something that a consumer lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// There is no Service.
    Service {
        /// The consumer.
        consumer: ClusterName,
    },
    /// The Service does not fit, and why.
    Fit {
        /// The consumer.
        consumer: ClusterName,
        /// Why, for a person.
        why: String,
    },
    /// Ready endpoints of a slice are in no slice of anybody's.
    Endpoints {
        /// The consumer.
        consumer: ClusterName,
        /// The provider.
        provider: ClusterName,
        /// The name of the slice there.
        slice: Arc<str>,
    },
    /// Karmada's slice does not show the ready endpoints that its source has.
    Behind {
        /// The consumer.
        consumer: ClusterName,
        /// The name of Karmada's slice there.
        slice: Arc<str>,
    },
}

/// Since when consumers lack what they lack, per service.
#[derive(Debug, Default)]
pub struct Gaps(HashMap<ServiceKey, BTreeMap<Gap, TimePoint>>);

impl Gaps {
    /// Since when that is lacked; `None` where it was not noted yet.
    pub fn since(&self, key: &ServiceKey, gap: &Gap) -> Option<TimePoint> {
        self.0.get(key)?.get(gap).copied()
    }

    /// Notes all that is lacked of a service now.
    pub fn note(&mut self, key: &ServiceKey, gaps: BTreeSet<Gap>, now: TimePoint) {
        let before = self.0.remove(key).unwrap_or_default();
        let since = |gap: Gap| {
            let since = before.get(&gap).copied().unwrap_or(now);
            (gap, since)
        };
        if !gaps.is_empty() {
            let gaps = gaps.into_iter().map(since).collect();
            self.0.insert(key.clone(), gaps);
        }
    }
}
