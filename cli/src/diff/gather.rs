//! Reads what the engine goes by: complete lists of one service, from the hub and from every member.

use std::time::Instant;

use causeway::domain::{ClusterName, ServiceKey};
use causeway_engine::model::served::Served;
use causeway_engine::model::{Failure, FailureKind, Identity, ServiceWork, TimePoint};
use causeway_engine::preview::{HubLists, MemberLists, Members};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt as _};

use super::DiffError;
use crate::args::DiffArgs;
use crate::ask::{ApiServer, AskError};
use crate::explain::gather::{clusters, held};
use crate::kubernetes_version::KubernetesVersion;
use crate::{karmada, reach, say};

/// Reads the hub and all members at once; a member that cannot be read has the reason in its place.
pub(super) async fn lists(
    hub: &ApiServer,
    key: &ServiceKey,
    args: &DiffArgs,
) -> Result<(HubLists, Members), DiffError> {
    let services: Api<Service> = Api::namespaced(hub.client.clone(), &key.namespace);
    let (uid, service, clusters, works) = tokio::try_join!(
        async { Ok(hub.uid().await?) },
        async { Ok(hub.ask(services.get_opt(&key.name)).await?) },
        async { Ok::<_, DiffError>(clusters(hub).await?) },
        async { Ok(karmada::works(hub, Some(key)).await?) },
    )?;
    if works.is_none() {
        say::progress(
            "note: whether Karmada's own controllers manage it is not known, because you may not list Works on the hub",
        )?;
    }
    let read = reach::each(
        hub,
        clusters.iter(),
        args.allow_insecure_members,
        |member| lists_of(member, key),
    );
    let members = read.await.into_iter().filter_map(|(name, lists)| {
        let lists = lists.map_err(|why| Failure::new(FailureKind::Other, why.to_string()));
        Some((ClusterName::try_from(name.as_str()).ok()?, lists))
    });
    let members = members.collect();
    let works = works
        .unwrap_or_default()
        .into_iter()
        .map(|work| ServiceWork {
            id: work.id().into(),
            service: work.carries().then(|| work.service()).flatten(),
        });
    let hub = HubLists {
        uid,
        multi_cluster_services: Vec::new(),
        services: service.into_iter().collect(),
        clusters,
        works: Some(works.collect()),
    };
    Ok((hub, members))
}

/// What a member holds under the service's own name. What ServiceExports ask for there is not read, and so it stays.
async fn lists_of(member: ApiServer, key: &ServiceKey) -> Result<MemberLists, AskError> {
    let version = member.ask(member.client.apiserver_version());
    let (uid, version) = tokio::try_join!(member.uid(), version)?;
    let held = held(member, key).await?;
    let slices = held.slices_of(&key.name).cloned().collect();
    let services = held.services.into_iter();
    Ok(MemberLists {
        identity: Identity {
            uid,
            release: KubernetesVersion::told(&version).map_or((0, 0), KubernetesVersion::release),
            version: version.git_version,
        },
        served: Served::default(),
        namespaces: held.namespace.into_iter().collect(),
        services: services.filter(|one| one.name_any() == *key.name).collect(),
        slices,
        exports: Vec::new(),
        imports: Vec::new(),
    })
}

/// The time, by both clocks.
pub(super) fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
    }
}
