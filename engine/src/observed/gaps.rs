//! Objects that consumers lack of services that Karmada manages. Karmada's controllers lag for a
//! moment, which is not reported.

use std::sync::Arc;

use causeway::domain::ClusterName;

/// Object or endpoints that a consumer lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// The consumer has no Service.
    Service {
        /// Name of the consumer.
        consumer: ClusterName,
    },
    /// The Service does not fit.
    Fit {
        /// Name of the consumer.
        consumer: ClusterName,
        /// Reason for a person.
        why: String,
    },
    /// Ready endpoints of a slice are in no slice of the consumer.
    Endpoints {
        /// Name of the consumer.
        consumer: ClusterName,
        /// Name of the provider.
        provider: ClusterName,
        /// Name of the slice in the provider.
        slice: Arc<str>,
    },
    /// Karmada's slice does not show the ready endpoints that its source has.
    Behind {
        /// Name of the consumer.
        consumer: ClusterName,
        /// Name of Karmada's slice in the consumer.
        slice: Arc<str>,
    },
}
