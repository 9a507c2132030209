//! Sentences about ClusterProfiles of which no Cluster is made.

use std::fmt;

use causeway::domain::ClusterName;

use super::events::warning;
use crate::model::{ObjectEvent, ProfileProblem};
use crate::reasons::Reason;

/// Reports that no Cluster is made of a ClusterProfile.
pub(crate) fn not_used(note: String) -> ObjectEvent {
    warning(Reason::ProfileNotUsed, note)
}

/// Says that Karmada maintains the Clusters of the hub.
pub(crate) const KARMADA: &str = "no Cluster is made of it: Karmada maintains the Clusters of this hub; \
     register the cluster with Karmada (karmadactl join or register)";

/// Says that another Cluster has the name of a ClusterProfile. `elder` is the namespace of the
/// profile of which that Cluster was made.
pub(crate) fn name_taken(cluster: &ClusterName, elder: Option<&str>) -> String {
    match elder {
        Some(namespace) => format!(
            "no Cluster is made of it: Cluster {cluster} was made of ClusterProfile \
             {namespace}/{cluster}; name the two profiles differently"
        ),
        None => format!(
            "no Cluster is made of it: somebody else made Cluster {cluster}; to have it made of the \
             profile, remove that one (kubectl mcs unjoin {cluster})"
        ),
    }
}

impl fmt::Display for ProfileProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(
                out,
                "no Cluster is made of it: its name is none of a Cluster ({error})"
            ),
            Self::NoProvider { offered, known } if offered.is_empty() => write!(
                out,
                "its status.accessProviders is empty, and causeway-controller needs one of: {}; \
                 its cluster manager fills that field",
                known.join(", ")
            ),
            Self::NoProvider { offered, known } => write!(
                out,
                "its status.accessProviders has {}, and causeway-controller knows {}; name the \
                 provider in the file of --clusterprofile-provider-file",
                offered.join(", "),
                known.join(", ")
            ),
            Self::NoServer { provider } => write!(
                out,
                "its status.accessProviders names no cluster.server for {provider}; its cluster \
                 manager fills that field"
            ),
        }
    }
}
