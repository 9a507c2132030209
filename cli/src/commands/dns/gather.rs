//! Reads the objects that a member's DNS depends on, and records each refused read.

use std::collections::BTreeMap;

use causeway::api::multicluster::{GROUP, ServiceImport, Version};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource as _;
use kube::api::ListParams;

use super::site::{ConfigMaps, CoreDns, NAMESPACE};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::installation::rights::{self, Account, MissingRight, Needed};
use crate::observe::installation::{Readable, allowed};

/// Resources that CoreDNS lists and watches for the clusterset's zone.
const WATCHED: [(&str, &str); 2] = [
    (GROUP, "serviceimports"),
    ("discovery.k8s.io", "endpointslices"),
];
/// Name of NodeLocal DNSCache in Kubernetes' manifests.
const NODE_LOCAL: &str = "node-local-dns";

/// Objects of a member that its DNS depends on.
#[derive(Debug)]
pub(super) struct MemberDns {
    /// Version and address of the member.
    pub title: String,
    /// Served versions of ServiceImport.
    pub imports: Readable<Vec<Version>>,
    /// CoreDNS of the member. `None` if no Deployment is CoreDNS.
    pub coredns: Readable<Option<Server>>,
    /// Corefile of NodeLocal DNSCache, if the member runs it.
    pub node_local: Readable<Option<String>>,
}

/// CoreDNS of a member with its ConfigMaps, missing rights and pods.
#[derive(Debug)]
pub(super) struct Server {
    pub site: CoreDns,
    pub maps: Readable<ConfigMaps>,
    pub missing_rights: Readable<Vec<MissingRight>>,
    pub pods: Readable<Vec<Pod>>,
}

pub(super) async fn read(member: &ApiServer) -> Result<MemberDns, RequestError> {
    let info = member.request(member.client.apiserver_version()).await?;
    let all = ListParams::default();
    let deployments = member.list(member.within(NAMESPACE), &all).await;
    let coredns = match allowed(deployments)? {
        Ok(deployments) => match CoreDns::among(&deployments) {
            Some(site) => Ok(Some(server(member, site).await?)),
            None => Ok(None),
        },
        Err(why) => Err(why),
    };
    Ok(MemberDns {
        title: format!("Kubernetes {} at {}", info.git_version, member.url()),
        imports: allowed(imports(member).await)?,
        coredns,
        node_local: allowed(node_local(member).await)?,
    })
}

async fn server(member: &ApiServer, site: CoreDns) -> Result<Server, RequestError> {
    let labels = site.selector.iter();
    let labels: Vec<_> = labels
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let of_server = ListParams::default().labels(&labels.join(","));
    let pods = member.list(member.within(NAMESPACE), &of_server).await;
    Ok(Server {
        maps: allowed(config_maps(member, &site).await)?,
        missing_rights: allowed(missing_rights(member, &site.account).await)?,
        pods: allowed(pods)?,
        site,
    })
}

async fn config_maps(member: &ApiServer, site: &CoreDns) -> Result<ConfigMaps, RequestError> {
    let mut maps = BTreeMap::new();
    for name in site.config_maps() {
        if let Some(map) = member.get(member.within(NAMESPACE), name).await? {
            maps.insert(name.to_owned(), map);
        }
    }
    Ok(maps)
}

/// Returns the rights that CoreDNS' account lacks on the watched resources.
pub(super) async fn missing_rights(
    member: &ApiServer,
    account: &str,
) -> Result<Vec<MissingRight>, RequestError> {
    let account = Account {
        namespace: NAMESPACE,
        name: account,
    };
    let mut missing = Vec::new();
    for (group, resource) in WATCHED {
        let what = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            ..ResourceAttributes::default()
        };
        let verbs = ["list", "watch"].map(str::to_owned).to_vec();
        let needed = Needed { what, verbs };
        missing.extend(rights::lacking(member, account, needed).await?);
    }
    Ok(missing)
}

async fn imports(member: &ApiServer) -> Result<Vec<Version>, RequestError> {
    let mut served = Vec::new();
    for version in Version::ALL {
        let plural = ServiceImport::plural(&version);
        if member.serves(&version.api_version(), &plural).await? {
            served.push(version);
        }
    }
    Ok(served)
}

async fn node_local(member: &ApiServer) -> Result<Option<String>, RequestError> {
    let sets = member.within::<DaemonSet>(NAMESPACE);
    if member.get_metadata(sets, NODE_LOCAL).await?.is_none() {
        return Ok(None);
    }
    let maps = member.within::<ConfigMap>(NAMESPACE);
    let map = member.get(maps, NODE_LOCAL).await?;
    let text = map.and_then(|map| map.data?.remove("Corefile"));
    Ok(Some(text.unwrap_or_default()))
}
