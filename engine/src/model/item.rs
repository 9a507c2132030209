//! What is planned, one at a time.

use causeway::domain::{ClusterName, ServiceKey};

/// Something that may have to be planned again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// A service, in all clusters.
    Service(ServiceKey),
    /// A member, as the hub shows it.
    Cluster(ClusterName),
}
