//! Facts that only the controller has, as the conditions that it writes report them.

use causeway::api::condition;
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};
use causeway::domain::{ClusterName, ServiceKey};

use super::{HubLists, MemberLists, Members};
use crate::messages::remarks::{TTL_EXPIRED, reports_expired_ttl};
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::clusterset::{ExportView, ImportView};
use crate::plan::Settings;
use crate::reasons::Reason;

impl Index {
    /// Whether the controller reports that the endpoints of a member are not used because the
    /// member has been unreachable for too long.
    pub(crate) fn reports_expired_ttl(&self, name: &ClusterName) -> bool {
        let ready = |conditions| condition::find(conditions, condition::READY);
        let of_cluster = self
            .cluster(name)
            .and_then(|cluster| ready(&cluster.conditions));
        let services = self.multi_cluster_services();
        let mut of_services = services.filter_map(|mcs| ready(&mcs.conditions));
        of_cluster.is_some_and(|of_cluster| {
            of_cluster.status != condition::TRUE
                && (of_cluster.message.contains(TTL_EXPIRED)
                    || of_services.any(|one| reports_expired_ttl(name, one)))
        })
    }
}

impl Settings {
    /// Returns the controller's settings, as far as the objects of a service show the flags with
    /// which it was started.
    pub fn reported(hub: &HubLists, members: &Members, key: &ServiceKey) -> Self {
        let settings = Self::default();
        let lists: Vec<_> = members.values().flatten().collect();
        let allowed = settings
            .protection
            .check(&key.namespace, &key.name)
            .is_err_and(|protected| serves_nevertheless(hub, &lists, &protected.to_string()));
        let allowed = allowed.then(|| key.namespace.to_string());
        Self {
            protection: Protection::new(DEFAULT_NAMESPACE, allowed),
            publish_exports: lists.iter().any(|lists| has_published(lists, &hub.uid)),
            ..settings
        }
    }
}

/// Whether the controller has processed the service and does not report it as protected.
fn serves_nevertheless(hub: &HubLists, lists: &[&MemberLists], protected: &str) -> bool {
    let services = hub.multi_cluster_services.iter();
    let services = services.filter_map(|mcs| mcs.status.as_ref()?.conditions.as_deref());
    let exports = lists.iter().flat_map(|lists| &lists.exports);
    let exports = exports.filter_map(|export| Some(export.status.as_ref()?.conditions.as_slice()));
    let mut ready = services
        .chain(exports)
        .filter_map(|all| condition::find(all, condition::READY));
    ready.any(|one| !one.message.contains(protected) && one.reason != Reason::Pending)
}

/// Whether a member holds an export or an import that represents a MultiClusterService.
fn has_published(lists: &MemberLists, hub: &str) -> bool {
    let exports = lists
        .exports
        .iter()
        .filter_map(|export| ExportView::read(export, None));
    let imports = lists.imports.iter().filter_map(ImportView::read);
    let exports = exports.map(|export| export.exposure(hub));
    let mut paths = exports.chain(imports.map(|import| import.exposure(hub)));
    paths.any(|path| path == Some(Exposure::Native))
}
