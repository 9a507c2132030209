//! Labels, annotations, finalizers and field managers that causeway reads and writes.

/// The label domain of causeway's own labels, annotations and finalizers.
pub const DOMAIN: &str = "mcs.causeway.dev";

/// The field manager, and the value of [`MANAGED_BY`], of all that causeway writes.
pub const MANAGER: &str = "causeway";

/// Says what an object is of (Kubernetes' recommended labels): [`MANAGER`] on all that the
/// manifests and the chart of causeway have.
pub const NAME: &str = "app.kubernetes.io/name";

/// Says who manages an object (Kubernetes' recommended labels).
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The UID of the hub's kube-system namespace, on everything that a controller of this hub wrote
/// into a member.
pub const HUB: &str = "mcs.causeway.dev/hub";

/// Annotation `<kind>/<uid>`: the object on whose behalf causeway wrote this one.
pub const OWNER: &str = "mcs.causeway.dev/owner";

/// Annotation `<uid>/<resourceVersion>` of the source slice that a copy was made from.
pub const SOURCE: &str = "mcs.causeway.dev/source";

/// Annotation on a ServiceImport: the names of its labels that come from exports, joined by commas.
pub const EXPORTED_LABELS: &str = "mcs.causeway.dev/exported-labels";

/// Annotation on a ServiceImport: the names of its annotations that come from exports, joined by
/// commas.
pub const EXPORTED_ANNOTATIONS: &str = "mcs.causeway.dev/exported-annotations";

/// Selector key of a delivered Service in a consumer that provides nothing: it matches no pod.
pub const NO_LOCAL_BACKENDS: &str = "mcs.causeway.dev/no-local-backends";

/// Annotation on a Cluster: `"true"` stops the use of what the member provides.
pub const WITHDRAW: &str = "mcs.causeway.dev/withdraw";

/// Annotation on a Cluster: a time (RFC 3339). It confirms the deletions that are suspended and
/// were so by then; later ones are suspended again.
pub const CONFIRM_DELETIONS: &str = "mcs.causeway.dev/confirm-deletions";

/// Annotation on a Cluster: the namespaces from which the member may export, joined by commas;
/// without it, all.
pub const EXPORT_NAMESPACES: &str = "mcs.causeway.dev/export-namespaces";

/// Annotation on a Cluster: `"true"` if causeway creates a missing namespace of an exported service
/// in it. The account there needs the right to.
pub const CREATE_EXPORTED_NAMESPACES: &str = "mcs.causeway.dev/create-exported-namespaces";

/// Annotation on a Namespace of a member: [`EXPORT_ALL`] if its Services are exported.
pub const EXPORT: &str = "mcs.causeway.dev/export";

/// The one value of [`EXPORT`].
pub const EXPORT_ALL: &str = "all";

/// Annotation on a Cluster: the ranges of its endpoints' addresses, joined by commas; without it,
/// all.
pub const ENDPOINT_CIDRS: &str = "mcs.causeway.dev/endpoint-cidrs";

/// Annotation on a Cluster: the network of its pods, a DNS label. Clusters of one network reach
/// each other's pods; all clusters without it are of one network.
pub const NETWORK: &str = "mcs.causeway.dev/network";

/// Annotation on a Cluster: the way by which clusters of other networks reach its pods; without it
/// they do not. On a MultiClusterService or ServiceExport: the same, for one service.
pub const REACH: &str = "mcs.causeway.dev/reach";

/// Annotation on a companion: the name of the Service that it is the entry to, for clusters of
/// other networks.
pub const COMPANION_OF: &str = "mcs.causeway.dev/companion-of";

/// Annotation on a Cluster: `"true"` if its API server is reached by causeway-tunnel, to which an
/// agent in the member connects.
pub const TUNNEL: &str = "mcs.causeway.dev/tunnel";

/// Annotation on a Cluster with [`TUNNEL`]: [`FROM_AGENT`] if the controller takes the credentials
/// of the member from that agent. The hub stores none then.
pub const CREDENTIALS: &str = "mcs.causeway.dev/credentials";

/// Value of [`CREDENTIALS`].
pub const FROM_AGENT: &str = "agent";

/// Annotation on a Cluster: `"true"` where causeway-agent in the member reports on the paths to
/// other clusters ([`crate::domain::path`]).
pub const PATH_REPORTS: &str = "mcs.causeway.dev/path-reports";

/// Annotation on a Lease of causeway-agent: its report on the path to a cluster, JSON.
pub const PATH: &str = "mcs.causeway.dev/path";

/// Annotation on such a Lease: the time since which the path is as the controller has read it.
pub const PATH_SEEN: &str = "mcs.causeway.dev/path-seen";

/// Annotation on a copy: causeway-agent made its endpoints standby endpoints while no hub answered.
pub const LOWERED: &str = "mcs.causeway.dev/lowered";
/// Annotation on a Cluster: `exposed` if the EndpointSlices of exposed Services alone are watched
/// in it; without it, all.
pub const WATCH: &str = "mcs.causeway.dev/watch";

/// Annotation on a MultiClusterService or ServiceExport: the tiers of its providers, nearest first,
/// joined by commas; without it all are alike.
pub const PREFER: &str = "mcs.causeway.dev/prefer";

/// Annotation beside [`PREFER`]: a tier with a smaller percentage of ready endpoints does not carry
/// alone.
pub const MIN_READY: &str = "mcs.causeway.dev/min-ready";

/// Annotation on a MultiClusterService or ServiceExport: what becomes of the endpoints of a
/// provider that cannot be reached.
pub const UNREACHABLE: &str = "mcs.causeway.dev/unreachable";

/// Annotation on a MultiClusterService or ServiceExport: the shares of its providers' traffic. On a
/// copy: the address family, and the limit below which the hashes of ready endpoints are.
pub const SHARE: &str = "mcs.causeway.dev/share";

/// Annotation on a MultiClusterService of type LoadBalancer: the names, joined by commas, that
/// ExternalDNS publishes for it.
pub const HOSTNAME: &str = "mcs.causeway.dev/hostname";

/// Annotation beside [`HOSTNAME`]: the property of ExternalDNS by which DNS chooses among clusters.
pub const HOSTNAME_ROUTING: &str = "mcs.causeway.dev/hostname-routing";

/// Annotation on a Cluster: its value of the properties in [`HOSTNAME_ROUTING`]; without it, its
/// region.
pub const HOSTNAME_ROUTING_VALUE: &str = "mcs.causeway.dev/hostname-routing-value";

/// Annotation on a DNSEndpoint: the targets of each cluster, JSON.
pub const TARGETS: &str = "mcs.causeway.dev/targets";

/// Annotations of a MultiClusterService that the webhook validates.
pub const VALIDATED: [&str; 7] = [
    PREFER,
    MIN_READY,
    UNREACHABLE,
    SHARE,
    REACH,
    HOSTNAME,
    HOSTNAME_ROUTING,
];

/// Annotation on a ServiceExport: the clusters that import the service, joined by commas; without
/// it all.
pub const CONSUMERS: &str = "mcs.causeway.dev/consumers";

/// Annotations of a MultiClusterService for which an annotation of its Namespace is the default.
pub const OF_SERVICES: [&str; 4] = [PREFER, MIN_READY, UNREACHABLE, REACH];

/// Annotations of a ServiceExport for which an annotation of its Namespace is the default.
pub const OF_EXPORTS: [&str; 6] = [PREFER, MIN_READY, UNREACHABLE, SHARE, CONSUMERS, REACH];

/// Annotation on a Cluster: `"false"` where its data plane does not use standby endpoints. On a
/// copy: `"true"` where its endpoints are standby endpoints.
pub const STANDBY: &str = "mcs.causeway.dev/standby";

/// Annotation that the controller sets on a Cluster: the id of the member in its clusterset, where
/// that is not the Cluster's name (KEP-2149, ClusterProperty [`CLUSTER_ID_PROPERTY`]).
pub const CLUSTER_ID: &str = "mcs.causeway.dev/cluster-id";

/// ClusterProperty of the id of a cluster in its clusterset (KEP-2149).
pub const CLUSTER_ID_PROPERTY: &str = "cluster.clusterset.k8s.io";

/// Label of a Secret with credentials: the Cluster that it serves, where it is not named for it.
pub const CLUSTER: &str = "mcs.causeway.dev/cluster";

/// Label of a Cluster that the controller made of a ClusterProfile: the namespace of the profile,
/// which has the Cluster's name.
pub const PROFILE_NAMESPACE: &str = "mcs.causeway.dev/profile-namespace";

/// Annotation on a MultiClusterService, a time: set by `kubectl mcs adopt` and `hand-over` to see
/// whether Karmada's controllers answer it.
pub const PROBE: &str = "mcs.causeway.dev/probe";

/// The finalizer that lets causeway clean the members before a hub object goes.
pub const FINALIZER: &str = "mcs.causeway.dev/cleanup";

/// Karmada's identity of a MultiClusterService over its life.
pub const PERMANENT_ID: &str = "multiclusterservice.karmada.io/permanent-id";

/// Label of Karmada's Works that belong to a MultiClusterService: its namespace.
pub const WORK_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";

/// Label of Karmada's Works that belong to a MultiClusterService: its name.
pub const WORK_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";

/// Label of Karmada's Works that hold an EndpointSlice collected from its provider: which of
/// Karmada's APIs needs it.
pub const WORK_COLLECTED_BY: &str = "endpointslice.karmada.io/managed-by";

/// The Service that an EndpointSlice belongs to.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Label of EndpointSlices of a headless Service, with an empty value. Kubernetes sets it on its
/// own slices, and kube-proxy does not read slices that have it.
pub const HEADLESS_SERVICE: &str = "service.kubernetes.io/headless";

/// The Service that an imported EndpointSlice or a derived Service belongs to (KEP-1645).
pub const MULTICLUSTER_SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";

/// Annotation on a ServiceImport: the Service of its namespace that stands for it. Gateways that
/// route to ServiceImports follow it (kubernetes-sigs/mcs-api, `controllers/common.go`).
pub const DERIVED_SERVICE: &str = "multicluster.kubernetes.io/derived-service";

/// The id of the cluster that an imported EndpointSlice comes from (KEP-1645).
/// [`super::ownership::source_member`] returns the name of its Cluster.
pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

/// Karmada's annotation for the cluster that provides an EndpointSlice.
pub const PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";

/// Annotation by which `kubectl apply` remembers what it applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Annotation by which Helm remembers which release an object belongs to.
pub const HELM_RELEASE: &str = "meta.helm.sh/release-name";

/// Annotation by which Helm remembers the namespace of that release.
pub const HELM_RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// The value of [`MANAGED_BY`] of all that Helm installs; it replaces any other.
pub const HELM: &str = "Helm";

/// Label that is `true` on what Karmada propagates.
pub const KARMADA_MANAGED: &str = "karmada.io/managed";

/// Labels of what one of Karmada's policies claims on the hub: the identity of the
/// PropagationPolicy or ClusterPropagationPolicy.
pub const POLICY_IDS: [&str; 2] = [
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
];

/// Says which controller manages an EndpointSlice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// [`SLICE_MANAGED_BY`] of every copy: Karmada's name, so that Karmada's collectors leave copies
/// alone.
pub const SLICE_DISPATCHER: &str = "endpointslice-dispatch-controller.karmada.io";

/// [`SLICE_MANAGED_BY`] of the slices that Karmada's own ServiceExport controllers put into
/// members.
pub const KARMADA_SLICE_CONTROLLER: &str = "endpointslice-controller.karmada.io";

/// [`SLICE_MANAGED_BY`] of the slices that Kubernetes makes from pods.
pub const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// [`SLICE_MANAGED_BY`] of the slices that Kubernetes makes from Endpoints objects.
pub const SLICE_MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

/// Prefix of annotations by which Karmada's cloud provider makes load balancers. Causeway makes
/// none.
pub const KARMADA_ELB: &str = "karmada.io/elb.";

/// Prefixes of the annotations by which a Service of type LoadBalancer tells known load balancers
/// what it wants. None of them is of a tool that owns the Service.
pub const OF_LOAD_BALANCERS: [&str; 16] = [
    "cloud.google.com/l4-",
    "io.cilium/lb-ipam-",
    "kube-vip.io/",
    "kubernetes.io/elb.",
    "lb.kubesphere.io/",
    "lbipam.cilium.io/",
    "load-balancer.hetzner.cloud/",
    "loadbalancer.openstack.org/",
    "metallb.io/",
    "metallb.universe.tf/",
    "networking.gke.io/",
    "oci.oraclecloud.com/",
    "purelb.io/",
    "service.beta.kubernetes.io/",
    "service.kubernetes.io/ibm-load-balancer-",
    "service.kubernetes.io/qcloud-",
];

/// Whether an annotation of a Service is addressed to a known load balancer.
pub fn is_of_load_balancer(annotation: &str) -> bool {
    let mut prefixes = OF_LOAD_BALANCERS.iter();
    prefixes.any(|prefix| annotation.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_own_name_is_in_the_one_domain() {
        for name in [
            HUB,
            OWNER,
            SOURCE,
            EXPORTED_LABELS,
            EXPORTED_ANNOTATIONS,
            NO_LOCAL_BACKENDS,
            WITHDRAW,
            CONFIRM_DELETIONS,
            PROBE,
            EXPORT_NAMESPACES,
            CREATE_EXPORTED_NAMESPACES,
            EXPORT,
            ENDPOINT_CIDRS,
            NETWORK,
            REACH,
            WATCH,
            COMPANION_OF,
            TUNNEL,
            CREDENTIALS,
            PATH_REPORTS,
            PATH,
            PATH_SEEN,
            LOWERED,
            PREFER,
            MIN_READY,
            UNREACHABLE,
            SHARE,
            HOSTNAME,
            HOSTNAME_ROUTING,
            HOSTNAME_ROUTING_VALUE,
            CONSUMERS,
            STANDBY,
            CLUSTER,
            CLUSTER_ID,
            PROFILE_NAMESPACE,
            FINALIZER,
        ] {
            assert!(name.starts_with(&format!("{DOMAIN}/")), "{name}");
        }
    }
}
