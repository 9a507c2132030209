//! What an event of the hub changed.

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::map::HashSet;

/// What a fold changed.
#[derive(Debug, Default)]
pub struct Change {
    /// Services to plan again.
    pub services: HashSet<ServiceKey>,
    /// Members to look at.
    pub clusters: HashSet<ClusterName>,
    /// Whether clusters came, went or changed: every service is to be planned again.
    pub placement: bool,
}
