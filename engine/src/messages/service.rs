//! Sentences about the Service of a member, and about clients that it does not lead to the copies.

use causeway::domain::ServiceKey;

use super::names;
use crate::plan::hostnames::Ambiguous;
use crate::plan::ignored::Ignored;

impl Ignored {
    /// Returns a sentence that describes the Service in these clusters.
    pub(crate) fn sentence(&self, service: &ServiceKey, clusters: &str) -> String {
        match self {
            Self::LocalPolicy => format!(
                "in {clusters} Service {service} has internalTrafficPolicy Local, so its clients reach no other cluster's pods"
            ),
            Self::Families {
                has,
                offered,
                providers,
            } => {
                let offered: Vec<_> = offered.iter().copied().collect();
                format!(
                    "in {clusters} Service {service} has {} alone, and the endpoints of {} have {}, so its clients do not reach them",
                    has.join(" and "),
                    names(providers),
                    offered.join(" and ")
                )
            }
        }
    }

    /// Returns the remedy for a person.
    pub(crate) fn remedy(&self, service: &ServiceKey, clusters: &str) -> String {
        match self {
            Self::LocalPolicy => format!(
                "in {clusters}: kubectl -n {} patch service {} --type=merge -p \
                 '{{\"spec\":{{\"internalTrafficPolicy\":\"Cluster\"}}}}'",
                service.namespace, service.name
            ),
            Self::Families { .. } => {
                "set spec.ipFamilyPolicy: PreferDualStack on these Services, where the clusters have both families".to_owned()
            }
        }
    }
}

impl Ambiguous {
    /// Returns a sentence that names one hostname and two of its clusters.
    pub(crate) fn sentence(&self, key: &ServiceKey) -> String {
        let [first, other] = &self.clusters;
        let more = match self.count {
            1 => String::new(),
            count => format!(" (one of {count} such hostnames)"),
        };
        format!(
            "{}.{}.{}.svc leads to pods of {first} and of {other}{more}",
            self.hostname, key.name, key.namespace
        )
    }

    /// Returns a remedy: a name that leads to the pod of one cluster, and its precondition.
    pub(crate) fn remedy(&self, key: &ServiceKey) -> String {
        format!(
            "use {}.{}.{}.{}.svc.clusterset.local, with a ServiceExport {key} in each of these clusters",
            self.hostname, self.clusters[0], key.name, key.namespace
        )
    }
}
