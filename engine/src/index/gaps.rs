//! What consumers lack of services that Karmada manages: Karmada lags behind for a moment, and that
//! is not reported.

use std::sync::Arc;

use causeway::domain::ClusterName;

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
