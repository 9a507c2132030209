//! Id of a member in its clusterset: its ClusterProperty `cluster.clusterset.k8s.io` (KEP-2149).

use std::time::Duration;

use causeway::api::labels::CLUSTER_ID_PROPERTY;
use causeway_engine::model::{Failure, ReportedId};
use kube::Client;
use serde::Deserialize;

use crate::lookup::{self, Found, UnservedResources};

const GROUP: &str = "about.k8s.io";
const PLURAL: &str = "clusterproperties";

/// Versions of the kind, in the order in which they are tried. kubernetes-sigs/about-api serves the
/// first two; the KEP writes the last.
const VERSIONS: [&str; 3] = ["v1beta1", "v1alpha1", "v1"];

/// ClusterProperty, as far as it is read.
#[derive(Debug, Deserialize)]
struct ClusterProperty {
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    value: String,
}

/// Reads the id of the cluster with this kube-system UID. A request may take as long as `deadline`.
///
/// # Errors
/// [`Failure`] where the object cannot be read. Only an API server that answers for the object, or
/// that provably serves no version of the kind, proves that the cluster has no id.
pub(super) async fn read(
    client: &Client,
    uid: &str,
    deadline: Duration,
) -> Result<ReportedId, Failure> {
    for version in VERSIONS {
        let path = format!("/apis/{GROUP}/{version}/{PLURAL}/{CLUSTER_ID_PROPERTY}");
        match lookup::object::<ClusterProperty>(client, &path, CLUSTER_ID_PROPERTY, deadline)
            .await?
        {
            Found::Object(property) => return Ok(ReportedId::read(&property.spec.value)),
            Found::Absent => return Ok(ReportedId::Absent),
            Found::Unserved => {}
        }
    }
    let unserved = UnservedResources {
        group: GROUP,
        versions: &VERSIONS,
        plurals: &[PLURAL],
    };
    lookup::prove_unserved(client, uid, unserved, deadline).await?;
    Ok(ReportedId::Absent)
}

/// Id of a member as last reported.
#[derive(Debug, Default)]
pub(super) struct LastId {
    reported: Option<ReportedId>,
    is_absent: bool,
}

impl LastId {
    /// Notes what was read. Returns the id if that is news. Absence counts once it was read twice
    /// in a row: an API server that has just started does not serve all definitions.
    pub(super) fn note(&mut self, read: ReportedId) -> Option<ReportedId> {
        let was_absent = std::mem::replace(&mut self.is_absent, read == ReportedId::Absent);
        if (self.is_absent && !was_absent) || self.reported.as_ref() == Some(&read) {
            return None;
        }
        Some(self.reported.insert(read).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_reported_at_the_second_reading() {
        let mut last = LastId::default();
        let id = || ReportedId::read("eu-1");
        assert_eq!(last.note(ReportedId::Absent), None);
        assert_eq!(last.note(id()), Some(id()));
        assert_eq!(last.note(id()), None);
        assert_eq!(last.note(ReportedId::Absent), None);
        assert_eq!(last.note(id()), None);
        assert_eq!(last.note(ReportedId::Absent), None);
        assert_eq!(last.note(ReportedId::Absent), Some(ReportedId::Absent));
        assert_eq!(last.note(ReportedId::Absent), None);
        let other = ReportedId::read("eu-2");
        assert_eq!(last.note(other.clone()), Some(other));
    }
}
