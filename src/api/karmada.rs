//! Objects that Karmada's own MultiClusterService controllers write, and the switches of these
//! controllers.
//!
//! Facts from karmada-io/karmada: `pkg/util/constants.go`, `pkg/controllers/multiclusterservice`.

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
