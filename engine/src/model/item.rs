//! Units of planning.

use causeway::domain::{ClusterName, ServiceKey};

/// Unit of planning: a service or a member, which is planned as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// Service, in all clusters.
    Service(ServiceKey),
    /// Member, as the hub shows it.
    Cluster(ClusterName),
}
