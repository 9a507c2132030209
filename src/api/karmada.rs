//! Objects that Karmada's own MultiClusterService controllers write, and the switches of these
//! controllers.
//!
//! Facts from karmada-io/karmada: `pkg/util/constants.go`, `pkg/controllers/multiclusterservice`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Objects that Karmada maintains in one member. Causeway reads nothing but the metadata of a Work.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha1",
    kind = "Work",
    plural = "works",
    namespaced,
    schema = "disabled"
)]
pub struct WorkSpec {}

/// Prefix of execution namespaces: Karmada executes Works in namespaces of this prefix and the
/// cluster's name (`pkg/util/names`, GenerateExecutionSpaceName). Other namespaces may belong to
/// anybody, who must not influence causeway.
pub const EXECUTION_SPACE: &str = "karmada-es-";

/// The finalizers of Karmada's on a MultiClusterService: MCSControllerFinalizer, and two that
/// earlier releases set.
pub const FINALIZERS: [&str; 3] = [
    "karmada.io/multiclusterservice-controller",
    "karmada.io/mcs-endpointslice-collect-controller",
    "karmada.io/mcs-endpointslice-dispatch-controller",
];

/// The flag by which karmada-controller-manager leaves MultiClusterServices alone.
pub const GATE_OFF: &str = "--feature-gates=MultiClusterService=false";
/// The flag by which it manages them.
pub const GATE_ON: &str = "--feature-gates=MultiClusterService=true";
