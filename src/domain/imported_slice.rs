//! EndpointSlices that a multi-cluster controller imported: their endpoints are in another cluster,
//! so no cluster provides them.

use crate::api::labels;

/// Name that [`imported_by`] returns for slices of Karmada's own controllers.
pub const KARMADA: &str = "Karmada";

/// Values of [`labels::SLICE_MANAGED_BY`] by which controllers mark what they import, and where
/// that is to be read. Others (the KEP's reference implementation, GKE, Open Cluster Management)
/// set [`labels::SOURCE_CLUSTER`] or write Endpoints of a Service of their own making.
const IMPORTERS: [(&str, &str); 6] = [
    // karmada-io/karmada, pkg/util/constants.go: EndpointSliceDispatchControllerLabelValue.
    // Causeway's copies bear it too.
    (labels::SLICE_DISPATCHER, KARMADA),
    // The same file: EndpointSliceControllerLabelValue, of what Karmada copies for ServiceExports.
    (labels::KARMADA_SLICE_CONTROLLER, KARMADA),
    // cilium/cilium, pkg/k8s/utils/utils.go: EndpointSliceMeshControllerName
    (
        "endpointslice-mesh-controller.cilium.io",
        "Cilium Cluster Mesh",
    ),
    // submariner-io/lighthouse, pkg/constants: LabelValueManagedBy. Old releases set no source
    // cluster of the KEP's.
    ("lighthouse-agent.submariner.io", "Submariner"),
    // aws/aws-cloud-map-mcs-controller-for-k8s, pkg/controllers/multicluster/utils.go:
    // ValueEndpointSliceManagedBy
    ("aws-cloud-map-mcs-controller-for-k8s", "AWS Cloud Map MCS"),
    // liqotech/liqo, pkg/virtualKubelet/forge/endpointslices.go: EndpointSliceManagedBy
    ("endpointslice.reflection.liqo.io", "Liqo"),
];

/// Returns who imported a slice with these labels and annotations, or that it is from another
/// cluster; `None` for endpoints of this cluster, whether Kubernetes, another controller or a
/// person writes them.
pub fn imported_by<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<&'static str> {
    let manager = label(labels::SLICE_MANAGED_BY);
    let mut importers = IMPORTERS.iter();
    if let Some((_, who)) = importers.find(|(value, _)| manager == Some(value)) {
        return Some(who);
    }
    if annotation(labels::PROVISION_CLUSTER).is_some() {
        return Some(KARMADA);
    }
    let from_elsewhere = label(labels::SOURCE_CLUSTER).or_else(|| annotation(labels::SOURCE));
    from_elsewhere.map(|_| "a multi-cluster controller")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_slices_differ_from_own_slices() {
        let unmarked = |_: &str| None;
        assert_eq!(imported_by(unmarked, unmarked), None);
        for (manager, expected) in [
            (labels::SLICE_CONTROLLER, None),
            (labels::SLICE_MIRRORING_CONTROLLER, None),
            ("nfs-helper.example.com", None),
            ("", None),
            (labels::SLICE_DISPATCHER, Some("Karmada")),
            (labels::KARMADA_SLICE_CONTROLLER, Some("Karmada")),
            (
                "endpointslice-mesh-controller.cilium.io",
                Some("Cilium Cluster Mesh"),
            ),
            ("lighthouse-agent.submariner.io", Some("Submariner")),
            (
                "aws-cloud-map-mcs-controller-for-k8s",
                Some("AWS Cloud Map MCS"),
            ),
            ("endpointslice.reflection.liqo.io", Some("Liqo")),
        ] {
            let label = |name: &str| (name == labels::SLICE_MANAGED_BY).then_some(manager);
            assert_eq!(imported_by(label, unmarked), expected, "{manager}");
        }
        let marked = |mark: &'static str| move |name: &str| (name == mark).then_some("b");
        let some_controller = Some("a multi-cluster controller");
        let by_label = imported_by(marked(labels::SOURCE_CLUSTER), unmarked);
        assert_eq!(by_label, some_controller);
        for (annotation, expected) in [
            (labels::SOURCE, some_controller),
            (labels::PROVISION_CLUSTER, Some("Karmada")),
        ] {
            let who = imported_by(unmarked, marked(annotation));
            assert_eq!(who, expected, "{annotation}");
        }
    }
}
