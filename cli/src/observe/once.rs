//! Lists objects once: those of one service on the hub and in the members, or those of the
//! clusterset.

use std::collections::BTreeMap;
use std::fmt::Debug;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, DNSEndpoint, MultiClusterService, labels};
use causeway::domain::path::{self, PathLease};
use causeway::domain::{KubernetesVersion, ServiceKey};
use causeway_engine::lists::{NameLists, need_nodes};
use causeway_engine::model::{Failure, FailureKind, HubNamespace, Identity};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{ListParams, ObjectList};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::connect::{self, ConnectError};
use super::scope::Scope;
use super::service::{self, Held, HubImports, HubNamespaces, MemberRead, Readings, Snapshot};
use crate::cluster::access::Side;
use crate::cluster::api_server::{ApiServer, RequestError, allowed, or_refused};
use crate::cluster::karmada::{self, binding};

/// Reads hub and members. An unreadable member has the error in place of its objects. With
/// `allow_insecure` the certificates of members are not verified.
pub(crate) async fn read(
    hub: &ApiServer,
    key: &ServiceKey,
    allow_insecure: bool,
) -> Result<Snapshot, RequestError> {
    let stored = multi_cluster_service(hub, key);
    read_with(hub, key, stored, allow_insecure).await
}

/// Reads as [`read`] does, with `object` in place of the stored MultiClusterService.
pub(crate) async fn read_with_object(
    hub: &ApiServer,
    key: &ServiceKey,
    object: MultiClusterService,
    allow_insecure: bool,
) -> Result<Snapshot, RequestError> {
    read_with(hub, key, async { Ok(Some(object)) }, allow_insecure).await
}

async fn read_with(
    hub: &ApiServer,
    key: &ServiceKey,
    object: impl Future<Output = Result<Option<MultiClusterService>, RequestError>>,
    allow_insecure: bool,
) -> Result<Snapshot, RequestError> {
    let derived = key.derived();
    let (mcs, clusters, service, derived, imports, namespaces, works, unapplied) = tokio::try_join!(
        object,
        served_clusters(hub),
        hub.get::<Service>(hub.within(&key.namespace), &key.name),
        hub.get::<Service>(hub.within(&key.namespace), &derived.name),
        imports(hub, key),
        namespaces(hub, key),
        karmada::works(hub, Some(key)),
        binding::unapplied(hub, key),
    )?;
    // Without the hub's UID only objects of other hubs become indistinguishable.
    let hub_uid = hub.uid().await.ok();
    let members = connect::read_each(hub, clusters.iter(), allow_insecure, |member| {
        held(member, key)
    });
    let (members, names) = tokio::join!(members, names(hub, key, mcs.as_ref()));
    let snapshot = Snapshot {
        hub_uid,
        mcs,
        service,
        derived,
        imports,
        namespaces,
        clusters: clusters.into(),
        works,
        unapplied,
        names,
        members: BTreeMap::new(),
        key: key.clone(),
    };
    let mut snapshot = snapshot.with_members(members);
    read_nodes(&mut snapshot, hub, allow_insecure).await;
    Ok(snapshot)
}

/// Reads the Nodes of the members whose Nodes are required.
async fn read_nodes(snapshot: &mut Snapshot, hub: &ApiServer, allow_insecure: bool) {
    let (lists, members) = snapshot.lists();
    let needed = need_nodes(&lists, &members, service::now());
    let clusters = snapshot.clusters.clone();
    let is_needed = |cluster: &&Cluster| {
        let name = cluster.name_any();
        needed.iter().any(|one| one.as_str() == name)
    };
    let clusters = clusters.iter().filter(is_needed);
    let read = connect::read_each(hub, clusters, allow_insecure, async |member| {
        let nodes = member.all::<Node>();
        let nodes = member.list(nodes, &ListParams::default()).await;
        Ok(nodes.map_err(|why| failure(&why)))
    });
    for (name, nodes) in read.await {
        if let Some(Ok(held)) = snapshot.members.get_mut(&name) {
            let unread = |why: ConnectError| Failure::new(FailureKind::Other, why.to_string());
            held.nodes = Some(nodes.map_err(unread).flatten());
        }
    }
}

fn failure(why: &RequestError) -> Failure {
    let kind = match why {
        RequestError::NotAllowed { .. } => FailureKind::Forbidden,
        _ => FailureKind::Other,
    };
    Failure::new(kind, why.to_string())
}

/// Reads the DNSEndpoints of the hub. If the object requests names, reads the other
/// MultiClusterServices too: they may have the same names.
async fn names(
    hub: &ApiServer,
    key: &ServiceKey,
    object: Option<&MultiClusterService>,
) -> NameLists {
    match readable_names(hub, key, object).await {
        Ok(names) => names,
        Err(why) => {
            let failure = unread_names(hub, &why).await;
            failure.map_or(NameLists::NotServed, NameLists::Unreadable)
        }
    }
}

/// Returns the failure to read names in DNS, or `None` if the hub does not serve DNSEndpoints. A
/// user without the right is refused, whether or not the hub serves the kind.
pub(super) async fn unread_names(hub: &ApiServer, why: &RequestError) -> Option<Failure> {
    match hub.serves_kind::<DNSEndpoint>().await {
        Ok(false) => None,
        _ => Some(failure(why)),
    }
}

async fn readable_names(
    hub: &ApiServer,
    key: &ServiceKey,
    object: Option<&MultiClusterService>,
) -> Result<NameLists, RequestError> {
    let (namespace, name) = (&*key.namespace, &*key.name);
    let own = hub.within::<DNSEndpoint>(namespace);
    let Some(own) = list(hub, own, &named(name)).await? else {
        return Ok(NameLists::NotServed);
    };
    if object.is_none_or(|object| !object.annotations().contains_key(labels::HOSTNAME)) {
        return Ok(NameLists::Listed {
            endpoints: own,
            rivals: Vec::new(),
        });
    }
    let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGER);
    let managed = ListParams::default().labels(&managed);
    let (others, rivals) = tokio::try_join!(
        list(hub, hub.all::<DNSEndpoint>(), &managed),
        all::<MultiClusterService>(hub),
    )?;
    let is_other = |meta: &ObjectMeta| {
        meta.namespace.as_deref() != Some(namespace) || meta.name.as_deref() != Some(name)
    };
    let (mut others, mut rivals) = (others.unwrap_or_default(), rivals.unwrap_or_default());
    others.retain(|one| is_other(&one.metadata));
    rivals.retain(|one| is_other(&one.metadata));
    Ok(NameLists::Listed {
        endpoints: [own, others].concat(),
        rivals,
    })
}

/// Lists the ServiceImports of the service's name on the hub. The reason that the user may not list
/// them is a value.
async fn imports(hub: &ApiServer, key: &ServiceKey) -> Result<HubImports, RequestError> {
    let imports = of(key).served::<ServiceImport>(hub).await;
    let imports = imports.map(|all| all.iter().map(|_| key.clone()).collect());
    or_refused(imports, |why| why.to_string())
}

/// Reads the Namespace of a service on the hub. The reason that the user may not read it is a
/// value.
pub(crate) async fn namespaces(
    hub: &ApiServer,
    key: &ServiceKey,
) -> Result<HubNamespaces, RequestError> {
    let found = hub.namespace(&key.namespace).await;
    let found = found.map(|one| one.into_iter().map(HubNamespace::read).collect());
    or_refused(found, |why| why.to_string())
}

/// Returns the scope of one service.
fn of(key: &ServiceKey) -> Scope {
    Scope {
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        ..Scope::default()
    }
}

/// Reads the exports and imports of all members concurrently, each within 5 seconds.
pub(crate) async fn clusterset(hub: &ApiServer, clusters: &[Cluster], scope: &Scope) -> Readings {
    let parts = clusters.iter().filter(|cluster| scope.takes_part(cluster));
    let read = connect::read_each(hub, parts, scope.allow_insecure, |member| {
        exported_by(scope, member)
    });
    read.await
}

/// Reads the exports and imports of a member. For one service also reads derived Services and
/// slices.
async fn exported_by(scope: &Scope, member: ApiServer) -> Result<Held, RequestError> {
    let member = &member;
    let (exports, imports) = tokio::try_join!(scope.served(member), scope.served(member))?;
    let mut held = Held {
        exports,
        imports,
        ..Held::default()
    };
    if let Some(name) = &scope.name
        && !held.imports.is_empty()
    {
        let labelled = format!("{}={name}", labels::MULTICLUSTER_SERVICE_NAME);
        let parameters = ListParams::default().labels(&labelled);
        let namespace = scope.namespace.as_deref();
        (held.services, held.slices) = tokio::try_join!(
            member.list(member.api(namespace), &parameters),
            member.list(member.api(namespace), &parameters)
        )?;
    }
    Ok(held)
}

/// Returns the MultiClusterService of the service, if it exists.
pub(crate) async fn multi_cluster_service(
    hub: &ApiServer,
    key: &ServiceKey,
) -> Result<Option<MultiClusterService>, RequestError> {
    let found = multi_cluster_services(hub, &of(key)).await?;
    Ok(found.into_iter().next())
}

/// Lists objects. Returns `None` if the API server does not serve their kind.
pub(crate) async fn list<K>(
    server: &ApiServer,
    api: Api<K>,
    parameters: &ListParams,
) -> Result<Option<Vec<K>>, RequestError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let list = server.found(api.list(parameters)).await?;
    Ok(list.map(|list| list.items))
}

/// Lists the MultiClusterServices of a scope.
pub(crate) async fn multi_cluster_services(
    hub: &ApiServer,
    scope: &Scope,
) -> Result<Vec<MultiClusterService>, RequestError> {
    let api = hub.api(scope.namespace.as_deref());
    let parameters = ListParams {
        field_selector: scope.by_name(),
        ..ListParams::default()
    };
    let found = list(hub, api, &parameters).await?;
    found.ok_or_else(|| hub.not_served("MultiClusterService"))
}

/// Lists all objects of a kind. Returns `None` if the API server does not serve the kind.
pub(crate) async fn all<K>(server: &ApiServer) -> Result<Option<Vec<K>>, RequestError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    list(server, server.all(), &ListParams::default()).await
}

/// Lists the Clusters of the hub. Returns `None` if the hub does not serve the kind.
pub(crate) async fn clusters(hub: &ApiServer) -> Result<Option<Vec<Cluster>>, RequestError> {
    all(hub).await
}

/// Lists the Clusters of a hub that serves them.
pub(crate) async fn served_clusters(hub: &ApiServer) -> Result<Vec<Cluster>, RequestError> {
    let clusters = clusters(hub).await?;
    clusters.ok_or_else(|| hub.not_served("Cluster"))
}

/// Reads the objects of a service in a member. The requests need no other rights than the
/// controller's. A refused list of exports or imports is a value.
pub(crate) async fn held(member: ApiServer, key: &ServiceKey) -> Result<MemberRead, RequestError> {
    let derived = key.derived();
    let services = || member.within::<Service>(&key.namespace);
    let of_both = format!(
        "{} in ({},{})",
        labels::SERVICE_NAME,
        key.name,
        derived.name
    );
    let of_both = ListParams::default().labels(&of_both);
    let (by_name, by_derived) = (named(&key.name), named(&derived.name));
    let by_companion = named(&key.companion().name);
    let selection = of(key);
    let refusal = ConnectError::from;
    let (identity, namespace, own, derived, companion, slices, exports, imports, paths) = tokio::try_join!(
        identify(&member),
        member.get::<Namespace>(member.all(), &key.namespace),
        member.list(services(), &by_name),
        member.list(services(), &by_derived),
        member.list(services(), &by_companion),
        member.list(member.within(&key.namespace), &of_both),
        async { or_refused(selection.served_in::<ServiceExport>(&member).await, refusal) },
        async { or_refused(selection.served_in::<ServiceImport>(&member).await, refusal) },
        paths(&member),
    )?;
    let refused = exports.as_ref().err().or(imports.as_ref().err());
    let clusterset_unread = refused.cloned();
    let (exports, imports) = (exports.ok().flatten(), imports.ok().flatten());
    let served = service::served(
        exports.as_ref().map(|(version, _)| *version),
        imports.as_ref().map(|(version, _)| *version),
    );
    let held = Held {
        identity,
        served,
        namespaces: namespace.into_iter().collect(),
        services: [own, derived, companion].concat(),
        slices,
        exports: exports.map(|(_, all)| all).unwrap_or_default(),
        imports: imports.map(|(_, all)| all).unwrap_or_default(),
        nodes: None,
        paths,
    };
    Ok(MemberRead {
        held,
        clusterset_unread,
    })
}

/// Reads the reports of causeway-agent on paths from a member. Without the right to read them,
/// paths are unknown.
///
/// # Errors
/// [`RequestError::TooMany`] beyond [`path::REPORTS_MAX`] Leases.
pub(super) async fn paths(member: &ApiServer) -> Result<Vec<PathLease>, RequestError> {
    let leases = member.within::<Lease>(path::NAMESPACE);
    let own = format!("{}={}", labels::MANAGED_BY, path::REPORTER);
    let own = ListParams::default().labels(&own);
    let own = own.limit(path::REPORTS_MAX.into());
    let leases = allowed(member.request(leases.list(&own)).await)?;
    leases.map_or_else(|| Ok(Vec::new()), reports)
}

/// Reads a complete list of Leases.
fn reports(leases: ObjectList<Lease>) -> Result<Vec<PathLease>, RequestError> {
    let most = usize::from(path::REPORTS_MAX);
    if leases.metadata.continue_.is_some() || leases.items.len() > most {
        return Err(RequestError::TooMany {
            side: Side::Member,
            message: format!(
                "namespace {} has more than {most} Leases of {}; \
                 delete those of clusters that are gone",
                path::NAMESPACE,
                path::REPORTER
            ),
        });
    }
    Ok(leases.iter().filter_map(PathLease::read).collect())
}

/// Reads the identity of a member.
pub(super) async fn identify(server: &ApiServer) -> Result<Identity, RequestError> {
    let version = server.request(server.client.apiserver_version());
    let (uid, version) = tokio::try_join!(server.uid(), version)?;
    Ok(Identity {
        uid,
        release: release(&version)?,
        version: version.git_version,
    })
}

/// Parses the Kubernetes version of a member. An unparsable version is an error, never an old
/// version.
fn release(version: &Info) -> Result<KubernetesVersion, RequestError> {
    KubernetesVersion::of(version).ok_or_else(|| RequestError::Busy {
        side: Side::Member,
        message: "its /version names no release".to_owned(),
    })
}

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

#[cfg(test)]
mod tests {
    use causeway::api::multicluster::Version;
    use causeway::domain::ClusterName;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
    use kube::core::TypeMeta;
    use serde_json::json;

    use super::*;
    use crate::fixtures::answering;
    use crate::term::exit::{CommandError as _, UNKNOWN};

    fn listed(number: usize, token: Option<&str>) -> ObjectList<Lease> {
        let lease = |number| {
            let source = format!("c{number}");
            let source = ClusterName::try_from(source.as_str()).expect("a name");
            let mut lease = Lease::default();
            lease.metadata.name = Some(path::lease_name(&source));
            lease
        };
        ObjectList {
            types: TypeMeta::default(),
            metadata: ListMeta {
                continue_: token.map(ToOwned::to_owned),
                ..ListMeta::default()
            },
            items: (0..number).map(lease).collect(),
        }
    }

    #[test]
    fn more_reports_than_are_read_are_unknown() {
        let most = usize::from(path::REPORTS_MAX);
        for (number, token, read) in [
            (0, None, Some(0)),
            (most, None, Some(most)),
            (most, Some("more"), None),
            (most + 1, None, None),
        ] {
            let reports = reports(listed(number, token));
            let number = reports.as_ref().map(Vec::len).ok();
            assert_eq!(number, read);
            if let Err(why) = reports {
                assert_eq!(why.exit_code(), UNKNOWN);
                assert!(why.to_string().contains("more than 4096 Leases"), "{why}");
            }
        }
    }

    #[tokio::test]
    async fn refused_imports_of_the_hub_name_its_rights() {
        let hub = answering(Side::Hub, |request| {
            if request.uri().path().ends_with("/serviceimports") {
                let status = json!({"status": "Failure", "message": "no imports", "code": 403});
                return (403, status);
            }
            let served = json!({
                "name": "serviceimports", "singularName": "serviceimport",
                "namespaced": true, "kind": "ServiceImport", "verbs": ["list"],
            });
            let version = Version::ALL[0].api_version();
            (200, json!({"groupVersion": version, "resources": [served]}))
        });
        let imports = imports(&hub, &ServiceKey::new("shop", "foo")).await;
        let why = "forbidden by the hub: no imports; use a kubeconfig with administrator rights";
        assert_eq!(imports.expect("a value"), Err(why.to_owned()));
    }
}
