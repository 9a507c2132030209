//! EndpointSlices that a multi-cluster controller imported: their endpoints are in another cluster, so no cluster provides them.

use crate::api::labels;

/// Who imports slices that Karmada's own controllers keep, in what [`imported_by`] says.
pub const KARMADA: &str = "Karmada";

/// Values of [`labels::SLICE_MANAGED_BY`] by which controllers mark what they import, and where that is to be read. Others (the
/// KEP's reference implementation, GKE, Open Cluster Management) set [`labels::SOURCE_CLUSTER`] or write Endpoints of a Service of
/// their own making.
const IMPORTERS: [(&str, &str); 6] = [
    // karmada-io/karmada, pkg/util/constants.go: EndpointSliceDispatchControllerLabelValue. Causeway's copies bear it too.
    (labels::SLICE_DISPATCHER, KARMADA),
    // The same file: EndpointSliceControllerLabelValue, of what Karmada copies for ServiceExports.
    (labels::KARMADA_SLICE_CONTROLLER, KARMADA),
    // cilium/cilium, pkg/k8s/utils/utils.go: EndpointSliceMeshControllerName
    (
        "endpointslice-mesh-controller.cilium.io",
        "Cilium Cluster Mesh",
    ),
    // submariner-io/lighthouse, pkg/constants: LabelValueManagedBy. Old releases set no source cluster of the KEP's.
    ("lighthouse-agent.submariner.io", "Submariner"),
    // aws/aws-cloud-map-mcs-controller-for-k8s, pkg/controllers/multicluster/utils.go: ValueEndpointSliceManagedBy
    ("aws-cloud-map-mcs-controller-for-k8s", "AWS Cloud Map MCS"),
    // liqotech/liqo, pkg/virtualKubelet/forge/endpointslices.go: EndpointSliceManagedBy
    ("endpointslice.reflection.liqo.io", "Liqo"),
];

/// Who imported a slice with these labels and annotations, or that it is from another cluster; `None` for one of this cluster's own
/// endpoints, whoever keeps it: Kubernetes, another controller or a person.
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
    fn what_a_multi_cluster_controller_imported_is_distinguished_from_what_a_cluster_has_itself() {
        let managed = labels::SLICE_MANAGED_BY;
        let cases = [
            (None, None, None),
            (Some((managed, labels::SLICE_CONTROLLER)), None, None),
            (
                Some((managed, labels::SLICE_MIRRORING_CONTROLLER)),
                None,
                None,
            ),
            (Some((managed, "nfs-helper.example.com")), None, None),
            (Some((managed, "")), None, None),
            (
                Some((managed, labels::SLICE_DISPATCHER)),
                None,
                Some("Karmada"),
            ),
            (
                Some((managed, labels::KARMADA_SLICE_CONTROLLER)),
                None,
                Some("Karmada"),
            ),
            (
                Some((managed, "endpointslice-mesh-controller.cilium.io")),
                None,
                Some("Cilium Cluster Mesh"),
            ),
            (
                Some((managed, "lighthouse-agent.submariner.io")),
                None,
                Some("Submariner"),
            ),
            (
                Some((managed, "aws-cloud-map-mcs-controller-for-k8s")),
                None,
                Some("AWS Cloud Map MCS"),
            ),
            (
                Some((managed, "endpointslice.reflection.liqo.io")),
                None,
                Some("Liqo"),
            ),
            (
                Some((labels::SOURCE_CLUSTER, "b")),
                None,
                Some("a multi-cluster controller"),
            ),
            (
                None,
                Some((labels::SOURCE, "u/7")),
                Some("a multi-cluster controller"),
            ),
            (
                None,
                Some((labels::PROVISION_CLUSTER, "b")),
                Some("Karmada"),
            ),
        ];
        for (label, annotation, expected) in cases {
            let value = |pair: Option<(&'static str, &'static str)>| {
                move |name: &str| {
                    pair.filter(|(known, _)| *known == name)
                        .map(|(_, value)| value)
                }
            };
            let who = imported_by(value(label), value(annotation));
            assert_eq!(who, expected, "{label:?} {annotation:?}");
        }
    }
}
