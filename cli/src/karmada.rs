//! What Karmada's own controllers keep of MultiClusterServices: Works on the hub, EndpointSlices in consumers, finalizers.
//!
//! Facts from karmada-io/karmada: `pkg/util/constants.go`, `pkg/util/names/names.go`, `pkg/controllers/multiclusterservice`.

pub(crate) mod binding;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::karmada::FINALIZERS;
pub(crate) use causeway::api::karmada::{GATE_OFF, GATE_ON};
use causeway::api::{MultiClusterService, labels};
use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};

use crate::api_server::{ApiServer, RequestError, allowed};

/// Karmada executes the Works of a member in the namespace of this name and the member's (ExecutionSpacePrefix).
const EXECUTION_SPACE: &str = "karmada-es-";
/// What [`labels::WORK_COLLECTED_BY`] holds of a Work that is collected for a MultiClusterService, joined by dots to other kinds.
const COLLECTED_FOR: &str = "MultiClusterService";
/// MCSEndpointSliceDispatchControllerFinalizer, on a collected Work.
const DISPATCH_FINALIZER: &str = "karmada.io/mcs-endpointslice-dispatch-controller";

/// Error of a caller that may not list Works.
#[derive(Debug, thiserror::Error)]
#[error(
    "you may not list works.work.karmada.io on the hub, which show what Karmada manages; \
     use a kubeconfig that may"
)]
pub(crate) struct WorksForbidden;

/// The metadata of a Work that belongs to a MultiClusterService.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work(pub ObjectMeta);

impl Work {
    /// Its namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.0.namespace.as_deref().unwrap_or_default()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.0.name.as_deref().unwrap_or_default()
    }

    /// `namespace/name`.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// Its UID.
    pub(crate) fn uid(&self) -> &str {
        self.0.uid.as_deref().unwrap_or_default()
    }

    /// The member that it is executed in.
    pub(crate) fn member(&self) -> &str {
        let namespace = self.namespace();
        namespace.strip_prefix(EXECUTION_SPACE).unwrap_or(namespace)
    }

    /// The service that it belongs to.
    pub(crate) fn service(&self) -> Option<ServiceKey> {
        let namespace = label(&self.0, labels::WORK_SERVICE_NAMESPACE)?;
        let name = label(&self.0, labels::WORK_SERVICE_NAME)?;
        Some(ServiceKey::new(namespace, name))
    }

    /// Whether Karmada manages the service by it, as the controller reads it: what was collected alone manages nothing.
    pub(crate) fn manages_service(&self) -> bool {
        label(&self.0, labels::WORK_COLLECTED_BY).is_none()
    }

    /// Whether it holds the MultiClusterService, by which Karmada collects the endpoints of the member.
    pub(crate) fn holds_service(&self) -> bool {
        let annotations = self.0.annotations.as_ref();
        let dispatched = annotations.is_some_and(|all| all.contains_key(labels::PROVISION_CLUSTER));
        self.manages_service() && !dispatched
    }

    /// For what else it is collected, where Karmada's ServiceExport controllers keep it too: then it is theirs to delete
    /// (endpointslice_collect_controller.go, cleanProviderClustersEndpointSliceWork).
    pub(crate) fn others(&self) -> Option<String> {
        let kinds = label(&self.0, labels::WORK_COLLECTED_BY)?.split('.');
        let others: Vec<_> = kinds.filter(|kind| *kind != COLLECTED_FOR).collect();
        (!others.is_empty()).then(|| others.join("."))
    }

    /// Its finalizers but for the one of the MultiClusterService controllers.
    pub(crate) fn others_finalizers(&self) -> Vec<String> {
        let finalizers = self.0.finalizers.iter().flatten();
        finalizers
            .filter(|one| *one != DISPATCH_FINALIZER)
            .cloned()
            .collect()
    }
}

/// Karmada's Work.
pub(crate) fn work_kind() -> ApiResource {
    ApiResource {
        group: "work.karmada.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        plural: "works".to_owned(),
    }
}

/// Whether the hub is Karmada's control plane, which serves Works and propagates exports and imports.
pub(crate) async fn is_served(hub: &ApiServer) -> Result<bool, RequestError> {
    let works = work_kind();
    hub.serves(&works.api_version, &works.plural).await
}

/// Which Works belong to a MultiClusterService: to that one, or to any.
pub(crate) fn selector(of: Option<&ServiceKey>) -> String {
    let (namespace, name) = (labels::WORK_SERVICE_NAMESPACE, labels::WORK_SERVICE_NAME);
    match of {
        Some(key) => format!("{namespace}={},{name}={}", key.namespace, key.name),
        None => format!("{namespace},{name}"),
    }
}

/// The Works of a MultiClusterService, or of all; none where the hub serves none, `None` where the person may not see them.
pub(crate) async fn works(
    hub: &ApiServer,
    of: Option<&ServiceKey>,
) -> Result<Option<Vec<Work>>, RequestError> {
    works_selected(hub, &ListParams::default().labels(&selector(of))).await
}

async fn works_selected(
    hub: &ApiServer,
    parameters: &ListParams,
) -> Result<Option<Vec<Work>>, RequestError> {
    let api: Api<DynamicObject> = Api::all_with(hub.client.clone(), &work_kind());
    let listed = allowed(hub.found(api.list_metadata(parameters)).await)?;
    Ok(listed.map(|list| {
        let works = list.into_iter().flat_map(|list| list.items);
        let works = works.map(|one| Work(one.metadata));
        works.filter(is_executed).collect()
    }))
}

/// Members into which Karmada propagates a namespace of the hub. Its Works are owned by the namespace, so that deleting the
/// namespace deletes it in these members too. `None` if the person may not list Works.
pub(crate) async fn members_with_namespace(
    hub: &ApiServer,
    namespace: &str,
) -> Result<Option<Vec<String>>, RequestError> {
    let Some(works) = works_selected(hub, &ListParams::default()).await? else {
        return Ok(None);
    };
    let is_owned = |work: &Work| {
        let mut owners = work.0.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "Namespace" && owner.name == namespace)
    };
    let owned = works.iter().filter(|work| is_owned(work));
    let members: BTreeSet<_> = owned.map(|work| work.member().to_owned()).collect();
    Ok(Some(members.into_iter().collect()))
}

/// Whether it is in a namespace in which Karmada executes; others may belong to anybody.
pub(crate) fn is_executed(work: &Work) -> bool {
    work.namespace().starts_with(EXECUTION_SPACE)
}

/// The finalizers of Karmada's that a MultiClusterService bears.
pub(crate) fn finalizers(service: &MultiClusterService) -> Vec<&str> {
    let all = service.finalizers().iter().map(String::as_str);
    all.filter(|one| FINALIZERS.contains(one)).collect()
}

/// A label selector of the slices that Karmada dispatches into consumers; also of some of causeway's, which bear its hub's label.
pub(crate) fn dispatched() -> String {
    format!(
        "{}={},{}=true,!{}",
        labels::SLICE_MANAGED_BY,
        labels::SLICE_DISPATCHER,
        labels::KARMADA_MANAGED,
        labels::HUB
    )
}

/// Whether Karmada dispatched the slice into the cluster that it is in (endpointslice_dispatch_controller.go, ensureEndpointSliceWork).
pub(crate) fn is_dispatched(slice: &EndpointSlice) -> bool {
    let has = |name: &str, value: &str| {
        let found = slice.labels().get(name);
        found.is_some_and(|found| found == value)
    };
    has(labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER)
        && has(labels::KARMADA_MANAGED, "true")
        && !slice.labels().contains_key(labels::HUB)
}

/// Where a slice that Karmada dispatched comes from: the provider and the name of its slice there.
pub(crate) fn source(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let provider = slice.annotations().get(labels::PROVISION_CLUSTER)?;
    let name = slice.metadata.name.as_deref()?;
    let source = name.strip_prefix(provider.as_str())?.strip_prefix('-')?;
    Some((provider, source))
}

fn label<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let all: &BTreeMap<String, String> = meta.labels.as_ref()?;
    all.get(name)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
pub(crate) mod tests;
