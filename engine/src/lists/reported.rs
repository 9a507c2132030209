//! Facts that only the controller has, as the conditions and copies that it writes report them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway::api::condition;
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{HubLists, MemberLists, Members};
use crate::messages::remarks::{TTL_EXPIRED, reports_expired_ttl};
use crate::model::slice::{Exposure, ObservedSlice, SliceRole};
use crate::observed::Index;
use crate::observed::clusterset::{ExportView, ImportView};
use crate::observed::hub::ClusterView;
use crate::plan::Settings;
use crate::plan::copies::entry_names;
use crate::plan::entry::{EntryUnknown, NoEntry, Site};
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

    /// Applies the addresses of load balancers' hostnames, which the controller alone looks up, as
    /// copies of entries have them. Copies in members that the controller does not reach may be
    /// old.
    pub(super) fn apply_copied_addresses(&mut self, members: &Members) {
        // Saves time: without networks there are no copies of entries.
        if !self.has_networks() {
            return;
        }
        let is_written = |name: &ClusterName| {
            let cluster = self.cluster(name);
            cluster.and_then(ClusterView::recorded_outage).is_none()
        };
        let written = members.iter().filter(|(name, _)| is_written(name));
        let slices = written.flat_map(|(_, lists)| lists.iter().flat_map(|lists| &lists.slices));
        let found = slices.filter_map(|slice| self.copied_addresses(slice));
        let found: Vec<_> = found.collect();
        for (hosts, addresses) in found {
            for host in hosts {
                self.note_copied_addresses(host, &addresses);
            }
        }
    }

    /// Returns the hostnames of the load balancer that a copy leads to, and the addresses of the
    /// copy that may be theirs; `None` for a copy of anything else. A hostname of which Ready
    /// reports that it has no address is left out.
    fn copied_addresses(&self, slice: &EndpointSlice) -> Option<(Vec<Box<str>>, Vec<IpAddr>)> {
        let ObservedSlice { name, role, .. } = ObservedSlice::read(slice);
        let SliceRole::Copy(key, copy) = role else {
            return None;
        };
        let provider = ClusterName::try_from(copy.source_cluster.as_deref()?).ok()?;
        let is_entry = entry_names(copy.exposure, &provider, &key.name).contains(&name);
        if !is_entry || !copy.is_of(self.hub_uid(), copy.exposure) {
            return None;
        }
        let member = self.member(&provider)?;
        let site = Site::of(self, &key, copy.exposure, (&provider, member));
        let service = site.balancer()?;
        // The copy of an entry by node ports has other ports.
        let of_service = service.shape.ports.iter();
        let numbers: Vec<_> = of_service
            .map(|one| i32::from(one.port.id.number))
            .collect();
        let mut ports = slice.ports.iter().flatten();
        if !ports.all(|port| port.port.is_some_and(|number| numbers.contains(&number))) {
            return None;
        }
        // The copy of an entry by virtual addresses has those of the Service or of its companion.
        let services = [member.service(&key), member.companion(&key)].into_iter();
        let own = services.flatten().flat_map(|one| one.cluster_ips.iter());
        let own: BTreeSet<IpAddr> = own.filter_map(|ip| ip.parse().ok()).collect();
        let addresses = slice.endpoints.iter().flat_map(|one| &one.addresses);
        let addresses = addresses.filter_map(|ip| ip.parse::<IpAddr>().ok());
        let addresses = addresses.filter(|address| !own.contains(address));
        let conditions = match copy.exposure {
            Exposure::Native => self.multi_cluster_service(&key).map(|mcs| &mcs.conditions),
            Exposure::Clusterset => member.export(&key).map(|export| &export.conditions),
        };
        let ready = conditions.and_then(|all| condition::find(all, condition::READY));
        let is_unresolved = |host: &&str| {
            let unknown = NoEntry::from(EntryUnknown::Hostname((*host).into()));
            let (sentence, _) = unknown.words(&key, &provider);
            ready.is_some_and(|ready| ready.message.contains(&sentence))
        };
        let hosts = site.hostnames().filter(|host| !is_unresolved(host));
        Some((hosts.map(Into::into).collect(), addresses.collect()))
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
