//! Karmada's labels, annotations, finalizers and names.
//!
//! Sources: `pkg/util/constants.go`, `pkg/util/names/names.go`,
//! `pkg/apis/work/v1alpha2/well_known_constants.go`,
//! `pkg/apis/networking/v1alpha1/well_known_constants.go`,
//! `pkg/apis/policy/v1alpha1/well_known_constants.go`.

use sha2::{Digest as _, Sha256};

/// Label of everything that Karmada executes in a member.
pub const MANAGED: &str = "karmada.io/managed";
/// Label of Works and of objects in members: the Work's identity.
pub const WORK_ID: &str = "work.karmada.io/permanent-id";
/// Annotation of objects in members: the name of their Work.
pub const WORK_NAME: &str = "work.karmada.io/name";
/// Annotation of objects in members: the namespace of their Work.
pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
/// Annotation of Works and their manifests: `overwrite` or `abort`.
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
/// Annotation of objects in members: the UID of what they were made from.
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Annotation of objects in members: the generation of what they were made from.
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// Annotation of objects in members: the labels that Karmada put there.
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// Annotation of objects in members: the annotations that Karmada put there.
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// Label of a Service on the hub that a MultiClusterService propagates.
pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
/// Label of ResourceBindings, their Works, and what these keep in members.
pub const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
/// Annotation of the Works of a ResourceBinding, and of what they keep in members.
pub const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Annotation of the Works of a ResourceBinding, and of what they keep in members.
pub const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Label of a ResourceBinding that a MultiClusterService made.
pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
/// Label: the identity of a MultiClusterService.
pub const SERVICE_ID: &str = "multiclusterservice.karmada.io/permanent-id";
/// Label of a MultiClusterService's Works, annotation of its Service and ResourceBinding.
pub const SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
/// Label of a MultiClusterService's Works, annotation of its Service and ResourceBinding.
pub const SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
/// Label of a Work that holds a collected EndpointSlice.
pub const COLLECTED_BY: &str = "endpointslice.karmada.io/managed-by";
/// Annotation of a dispatched EndpointSlice and of its Work: the cluster that provides it.
pub const PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";
/// Label of what a PropagationPolicy propagates.
pub const POLICY_ID: &str = "propagationpolicy.karmada.io/permanent-id";
/// Annotation of what a PropagationPolicy propagates.
pub const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
/// Annotation of what a PropagationPolicy propagates.
pub const POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";

/// Kubernetes' label: the Service of an EndpointSlice.
pub const SLICE_SERVICE: &str = "kubernetes.io/service-name";
/// Kubernetes' label: which controller keeps an EndpointSlice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// [`SLICE_MANAGED_BY`] of what the dispatch controller makes.
pub const DISPATCHER: &str = "endpointslice-dispatch-controller.karmada.io";
/// [`SLICE_MANAGED_BY`] of what the ServiceExport controllers make.
pub const IMPORTER: &str = "endpointslice-controller.karmada.io";

/// Value of labels that name the kind.
pub const MULTI_CLUSTER_SERVICE: &str = "MultiClusterService";

/// Finalizer of a MultiClusterService.
pub const SERVICE_FINALIZER: &str = "karmada.io/multiclusterservice-controller";
/// Finalizer of a Work that holds a collected EndpointSlice.
pub const DISPATCH_FINALIZER: &str = "karmada.io/mcs-endpointslice-dispatch-controller";
/// Finalizer of a Work that is executed.
pub const EXECUTION_FINALIZER: &str = "karmada.io/execution-controller";
/// Finalizer of a ResourceBinding.
pub const BINDING_FINALIZER: &str = "karmada.io/binding-controller";

const EXECUTION_SPACE: &str = "karmada-es-";

/// The namespace of a cluster's Works (GenerateExecutionSpaceName).
pub fn execution_space(cluster: &str) -> String {
    format!("{EXECUTION_SPACE}{cluster}")
}

/// The cluster whose Works are in this namespace (GetClusterName).
pub fn cluster_of(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(EXECUTION_SPACE)
}

/// The name of an object's Work (GenerateWorkName). The hash is another than Karmada's: it only has
/// to tell kinds and namespaces apart.
pub fn work_name(kind: &str, name: &str, namespace: &str) -> String {
    let name = name.to_lowercase();
    let digest = Sha256::digest(format!("{namespace}-{name}-{kind}").to_lowercase());
    let hash: String = digest
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{name}-{hash}")
}

/// The name of an object's ResourceBinding (GenerateBindingName).
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{name}-{kind}").to_lowercase()
}
