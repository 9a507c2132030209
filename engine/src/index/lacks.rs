//! What consumers lack of services that Karmada's own controllers carry, and since when: it lags behind for a moment, and that is not told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::TimePoint;

/// Something that a consumer lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
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
pub struct Lacks(HashMap<ServiceKey, BTreeMap<Lack, TimePoint>>);

impl Lacks {
    /// Since when that is lacked; `None` where it was not noted yet.
    pub fn since(&self, key: &ServiceKey, lack: &Lack) -> Option<TimePoint> {
        self.0.get(key)?.get(lack).copied()
    }

    /// Notes all that is lacked of a service now.
    pub fn note(&mut self, key: &ServiceKey, lacks: BTreeSet<Lack>, now: TimePoint) {
        let before = self.0.remove(key).unwrap_or_default();
        let since = |lack: Lack| {
            let since = before.get(&lack).copied().unwrap_or(now);
            (lack, since)
        };
        if !lacks.is_empty() {
            let lacks = lacks.into_iter().map(since).collect();
            self.0.insert(key.clone(), lacks);
        }
    }
}
