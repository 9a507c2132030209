//! ServiceExports and ServiceImports on a hub that is not one of its own members. Such objects have
//! no effect.

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, ownership};
use causeway::domain::{ClustersetKind, ServiceKey, misplaced};
use kube::Resource;
use serde::Serialize;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::karmada;
use crate::observe::scope::Scope;

/// ServiceExport or ServiceImport without effect on the hub. Programs read this format, and its
/// field names must not change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Misplaced {
    /// Kind of the object: ServiceExport or ServiceImport.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Description of the problem.
    pub message: String,
    /// Command that fixes the problem.
    pub remedy: String,
}

/// Reads the selected objects of the hub, sorted. Returns an empty list if Karmada propagates the
/// objects, or if the hub is or may be one of the clusters.
///
/// # Errors
/// [`RequestError`]; [`RequestError::NotAllowed`] if the user may not list them.
pub(crate) async fn read(
    hub: &ApiServer,
    clusters: &[Cluster],
    selection: &Scope,
) -> Result<Vec<Misplaced>, RequestError> {
    let (exports, imports) = tokio::try_join!(
        selection.served::<ServiceExport>(hub),
        selection.served::<ServiceImport>(hub)
    )?;
    among(hub, clusters, &exports, &imports).await
}

/// Returns the misplaced objects among the given objects of the hub, sorted.
///
/// # Errors
/// [`RequestError`] if the hub does not respond.
pub(crate) async fn among(
    hub: &ApiServer,
    clusters: &[Cluster],
    exports: &[ServiceExport],
    imports: &[ServiceImport],
) -> Result<Vec<Misplaced>, RequestError> {
    let exports = exports.iter().filter_map(of_export);
    let mut found: Vec<_> = exports
        .chain(imports.iter().filter_map(of_import))
        .collect();
    found.sort();
    if found.is_empty() || karmada::is_served(hub).await? || is_member(&hub.uid().await?, clusters)
    {
        return Ok(Vec::new());
    }
    Ok(found)
}

fn of_export(export: &ServiceExport) -> Option<Misplaced> {
    Misplaced::read(ClustersetKind::ServiceExport, export)
}

fn of_import(import: &ServiceImport) -> Option<Misplaced> {
    Misplaced::read(ClustersetKind::ServiceImport, import)
}

impl Misplaced {
    /// Describes a misplaced object. Returns `None` for an object of causeway: this hub is then a
    /// member of another hub.
    fn read<K: Resource>(kind: ClustersetKind, object: &K) -> Option<Self> {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
        let (message, remedy) = misplaced(kind, &ServiceKey::new(namespace, name));
        let is_ours = ownership::managing_hub(meta).is_some();
        (!is_ours).then(|| Self {
            kind: kind.to_string(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            message,
            remedy,
        })
    }
}

/// Whether the hub with the given UID is one of the clusters, or may be because a cluster records
/// no UID.
fn is_member(uid: &str, clusters: &[Cluster]) -> bool {
    let pushed = clusters.iter().filter(|cluster| cluster.takes_part());
    let mut ids = pushed.map(|cluster| cluster.spec.id.as_deref());
    ids.any(|id| id.is_none_or(|id| id == uid))
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::synced;

    fn with_id(id: Option<&str>) -> Cluster {
        let mut cluster = synced("a");
        cluster.spec.id = id.map(ToOwned::to_owned);
        cluster
    }

    #[test]
    fn a_hub_is_a_member_if_a_cluster_records_its_uid_and_may_be_if_one_records_none() {
        for (ids, expected) in [
            (&[][..], false),
            (&[Some("b")], false),
            (&[Some("b"), Some("hub")], true),
            (&[Some("b"), None], true),
        ] {
            let clusters: Vec<_> = ids.iter().map(|id| with_id(*id)).collect();
            assert_eq!(is_member("hub", &clusters), expected, "{ids:?}");
        }
        let mut pull = with_id(Some("hub"));
        pull.spec.sync_mode = Some(causeway::api::SyncMode::Pull);
        assert!(!is_member("hub", &[pull]), "causeway leaves it out");
    }

    #[test]
    fn what_causeway_keeps_is_where_it_belongs() {
        let export = |labels: Value| -> ServiceExport {
            serde_json::from_value(json!({
                "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
                "metadata": {"name": "foo", "namespace": "shop", "labels": labels},
            }))
            .expect("a ServiceExport")
        };
        let found = of_export(&export(json!({}))).expect("a person's");
        assert!(
            found
                .remedy
                .contains("kubectl --context MEMBER -n shop apply")
        );
        assert!(
            found
                .remedy
                .contains("kubectl -n shop delete serviceexport foo")
        );
        assert_eq!(of_export(&export(json!({labels::HUB: "another"}))), None);
    }
}
