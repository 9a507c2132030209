//! Objects that Karmada's controllers create for MultiClusterServices: Works on the hub,
//! EndpointSlices in consumers, finalizers.
//!
//! Source in karmada-io/karmada: `pkg/util/constants.go`, `pkg/util/names/names.go`,
//! `pkg/controllers/multiclusterservice`.

pub(crate) mod binding;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::karmada::{self, EXECUTION_SPACE, FINALIZERS};
pub(crate) use causeway::api::karmada::{GATE_OFF, GATE_ON};
use causeway::api::{MultiClusterService, labels};
use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};

use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::term::exit::{CommandError, UNKNOWN};

/// Kind in [`labels::WORK_COLLECTED_BY`] of a Work that Karmada collects for a MultiClusterService.
/// Dots separate multiple kinds.
const COLLECTED_FOR: &str = "MultiClusterService";
/// MCSEndpointSliceDispatchControllerFinalizer, the finalizer of a collected Work.
const DISPATCH_FINALIZER: &str = "karmada.io/mcs-endpointslice-dispatch-controller";

/// Error of a user who may not list Works.
#[derive(Debug, thiserror::Error)]
#[error(
    "you may not list works.work.karmada.io on the hub, which show what Karmada manages; \
     use a kubeconfig that may"
)]
pub(crate) struct WorksForbidden;

impl CommandError for WorksForbidden {
    fn exit_code(&self) -> u8 {
        UNKNOWN
    }
}

/// Metadata of a Work that belongs to a MultiClusterService.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work(pub ObjectMeta);

impl Work {
    /// Returns the namespace of the Work.
    pub(crate) fn namespace(&self) -> &str {
        self.0.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the name of the Work.
    pub(crate) fn name(&self) -> &str {
        self.0.name.as_deref().unwrap_or_default()
    }

    /// Returns `namespace/name` of the Work.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// Returns the UID of the Work.
    pub(crate) fn uid(&self) -> &str {
        self.0.uid.as_deref().unwrap_or_default()
    }

    /// Returns the member in which Karmada executes the Work.
    pub(crate) fn member(&self) -> &str {
        let namespace = self.namespace();
        namespace.strip_prefix(EXECUTION_SPACE).unwrap_or(namespace)
    }

    /// Returns the service that the Work belongs to.
    pub(crate) fn service(&self) -> Option<ServiceKey> {
        let namespace = label(&self.0, labels::WORK_SERVICE_NAMESPACE)?;
        let name = label(&self.0, labels::WORK_SERVICE_NAME)?;
        Some(ServiceKey::new(namespace, name))
    }

    /// Whether Karmada manages the service with this Work. Collected Works do not count, as in the
    /// controller.
    pub(crate) fn manages_service(&self) -> bool {
        label(&self.0, labels::WORK_COLLECTED_BY).is_none()
    }

    /// Whether the Work holds the MultiClusterService, which makes Karmada collect the endpoints of
    /// the member.
    pub(crate) fn holds_service(&self) -> bool {
        let annotations = self.0.annotations.as_ref();
        let dispatched = annotations.is_some_and(|all| all.contains_key(labels::PROVISION_CLUSTER));
        self.manages_service() && !dispatched
    }

    /// Returns the other kinds for which Karmada collects the Work. A Work with other kinds also
    /// belongs to Karmada's ServiceExport controllers, which delete it
    /// (endpointslice_collect_controller.go, cleanProviderClustersEndpointSliceWork).
    pub(crate) fn others(&self) -> Option<String> {
        let kinds = label(&self.0, labels::WORK_COLLECTED_BY)?.split('.');
        let others: Vec<_> = kinds.filter(|kind| *kind != COLLECTED_FOR).collect();
        (!others.is_empty()).then(|| others.join("."))
    }

    /// Returns the finalizers of the Work except that of the MultiClusterService controllers.
    pub(crate) fn others_finalizers(&self) -> Vec<String> {
        let finalizers = self.0.finalizers.iter().flatten();
        finalizers
            .filter(|one| *one != DISPATCH_FINALIZER)
            .cloned()
            .collect()
    }
}

/// Returns the resource of Karmada's Work.
pub(crate) fn work_kind() -> ApiResource {
    ApiResource::erase::<karmada::Work>(&())
}

/// Whether the hub is a Karmada control plane, which serves Works and propagates exports and
/// imports.
pub(crate) async fn is_served(hub: &ApiServer) -> Result<bool, RequestError> {
    hub.serves_kind::<karmada::Work>().await
}

/// Returns a label selector of the Works of one MultiClusterService, or of any.
pub(crate) fn selector(of: Option<&ServiceKey>) -> String {
    let (namespace, name) = (labels::WORK_SERVICE_NAMESPACE, labels::WORK_SERVICE_NAME);
    match of {
        Some(key) => format!("{namespace}={},{name}={}", key.namespace, key.name),
        None => format!("{namespace},{name}"),
    }
}

/// Lists the Works of one MultiClusterService, or of all. Returns an empty list if the hub does not
/// serve Works, and `None` if the user may not list them.
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
    let api: Api<DynamicObject> = hub.api_of(&work_kind(), None);
    let listed = allowed(hub.found(api.list_metadata(parameters)).await)?;
    Ok(listed.map(|list| {
        let works = list.into_iter().flat_map(|list| list.items);
        let works = works.map(|one| Work(one.metadata));
        works.filter(is_executed).collect()
    }))
}

/// Returns the members to which Karmada propagates a namespace of the hub, or `None` if the user
/// may not list Works. The namespace owns its Works, and deleting it deletes the namespace in these
/// members too.
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

/// Whether a Work is in a namespace in which Karmada executes Works. Works in other namespaces may
/// belong to other programs.
pub(crate) fn is_executed(work: &Work) -> bool {
    work.namespace().starts_with(EXECUTION_SPACE)
}

/// Returns Karmada's finalizers of a MultiClusterService.
pub(crate) fn finalizers(service: &MultiClusterService) -> Vec<&str> {
    let all = service.finalizers().iter().map(String::as_str);
    all.filter(|one| FINALIZERS.contains(one)).collect()
}

/// Returns a label selector of the slices that Karmada dispatches to consumers. Excludes causeway's
/// slices by the hub label.
pub(crate) fn dispatched() -> String {
    format!(
        "{}={},{}=true,!{}",
        labels::SLICE_MANAGED_BY,
        labels::SLICE_DISPATCHER,
        labels::KARMADA_MANAGED,
        labels::HUB
    )
}

/// Whether Karmada dispatched the slice into its cluster (endpointslice_dispatch_controller.go,
/// ensureEndpointSliceWork).
pub(crate) fn is_dispatched(slice: &EndpointSlice) -> bool {
    let has = |name: &str, value: &str| {
        let found = slice.labels().get(name);
        found.is_some_and(|found| found == value)
    };
    has(labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER)
        && has(labels::KARMADA_MANAGED, "true")
        && !slice.labels().contains_key(labels::HUB)
}

/// Returns the provider of a slice that Karmada dispatched, and the name of the source slice.
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
