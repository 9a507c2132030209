//! Start of a cluster: its credentials and the flags of its programs.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use causeway_certs::{Authority, Leaf};

use crate::binaries::{self, Testbed};
use crate::kubeconfig::{self, Access};
use crate::reaper::Program;

use super::{Role, secret};

/// Name of the audit log in the directory of a cluster.
pub(crate) const AUDIT_LOG: &str = "audit.log";

/// Every write, when it was answered.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  users: [system:serviceaccount:causeway-system:causeway]
  verbs: [list]
- level: None
";

pub(super) const VALIDITY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The controllers that run in a member: all that make EndpointSlices from workloads, and
/// housekeeping.
const MEMBER_CONTROLLERS: &str = "deployment-controller,replicaset-controller,endpointslice-controller,\
    endpointslice-mirroring-controller,endpoints-controller,namespace-controller,garbage-collector-controller,\
    serviceaccount-controller,serviceaccount-token-controller,clusterrole-aggregation-controller";

/// A hub runs no workloads: only housekeeping.
const HUB_CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
    serviceaccount-token-controller,clusterrole-aggregation-controller";

/// Inputs of a cluster's start.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Additional flags of its API server.
    pub(crate) flags: Vec<String>,
    /// Distinguishes the address ranges of the clusters of a fleet; below 60.
    pub(crate) number: u8,
    /// Second number of the addresses of its pods.
    pub(crate) pod_block: u8,
    pub(crate) dual_stack: bool,
    /// Whether it is a member that takes part in a clusterset: see
    /// [`crate::fleet::Builder::clusterset`].
    pub(crate) clusterset: bool,
    pub(crate) directory: PathBuf,
    pub(crate) etcd: String,
    /// Whether it has a store of its own instead.
    pub(crate) own_store: bool,
    /// The address that the API server listens on.
    pub(crate) address: IpAddr,
    /// Numbers of its nodes with a network; none where there are no packets.
    pub(crate) nodes: Vec<u8>,
    /// Whether the last of them is not there from the start.
    pub(crate) spare_node: bool,
    /// The registry that its real nodes pull from; `None` where its nodes are only objects.
    pub(crate) registry: Option<SocketAddr>,
}

/// Returns the range of pods' addresses that begin with 10 and that number.
pub(crate) fn pod_cidr(block: u8) -> String {
    format!("10.{block}.0.0/16")
}

/// Returns the range of pods' IPv6 addresses, in a cluster that has them.
pub(crate) fn pod_cidr_v6(block: u8) -> String {
    format!("fd00:{block}::/32")
}

/// Returns the second number of the addresses of a cluster's pods that others have a route to.
pub(crate) fn pod_block(number: u8) -> u8 {
    128 + number
}

pub(crate) fn service_cidr(number: u8) -> String {
    format!("10.{}.0.0/16", 64 + number)
}

/// Returns the range of Services' IPv6 addresses, in a cluster that has them.
pub(crate) fn service_cidr_v6(number: u8) -> String {
    format!("fd00:{}::/108", 64 + number)
}

/// The name of a node, by its number in the cluster.
pub(super) fn node_name(cluster: &str, node: u8) -> String {
    match node {
        0 => format!("{cluster}-node"),
        _ => format!("{cluster}-node-{}", node + 1),
    }
}

pub(super) fn write_certificates(plan: &Plan, authority: &Authority, now: SystemTime) {
    let kubernetes_service = IpAddr::from([10, 64 + plan.number, 0, 1]);
    let names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "localhost",
    ];
    let leaf = Leaf {
        common_name: "kube-apiserver".to_owned(),
        organisation: None,
        names: names.map(str::to_owned).to_vec(),
        addresses: vec![plan.address, kubernetes_service],
        validity: VALIDITY,
        ..Leaf::default()
    };
    let serving = authority.issue(&leaf, now).expect("a serving certificate");
    let accounts = Authority::new("service accounts", VALIDITY, now).expect("a signing key");
    for (file, content) in [
        ("ca.crt", authority.pem()),
        ("tls.crt", &serving.certificate),
        ("tls.key", &serving.key),
        ("accounts.crt", accounts.pem()),
        ("accounts.key", &accounts.key_pem()),
        ("audit.yaml", AUDIT_POLICY),
    ] {
        std::fs::write(plan.directory.join(file), content).expect("a file for a cluster");
    }
}

/// Writes the tokens of the cluster's users and a kubeconfig for each; returns the administrator's
/// token.
pub(super) fn write_users(plan: &Plan, url: &str, authority: &Authority) -> String {
    let mut tokens = String::new();
    let mut add = |file: &str, user: &str, group: &str| {
        let token = secret();
        tokens.push_str(&format!("{token},{user},{user},{group}\n"));
        let content = kubeconfig::with_tokens(&[Access {
            cluster: &plan.name,
            url,
            ca_pem: authority.pem(),
            token: &token,
        }]);
        std::fs::write(plan.directory.join(format!("{file}.kubeconfig")), content)
            .expect("a kubeconfig");
        token
    };
    add(
        "manager",
        "system:kube-controller-manager",
        "system:masters",
    );
    add("kube-proxy", "system:kube-proxy", "");
    if plan.registry.is_some() {
        add("kube-scheduler", "system:kube-scheduler", "");
        for node in &plan.nodes {
            let node = node_name(&plan.name, *node);
            add(&node, &format!("system:node:{node}"), "system:nodes");
        }
    }
    add("coredns", "coredns", "");
    let admin = add("admin", "admin", "system:masters");
    std::fs::write(plan.directory.join("tokens.csv"), tokens).expect("the tokens of a cluster");
    admin
}

pub(super) fn api_server(plan: &Plan, port: u16) -> Program {
    let file = |name: &str| plan.directory.join(name).display().to_string();
    let four = service_cidr(plan.number);
    let ranges = match plan.dual_stack {
        true => format!("{four},{}", service_cidr_v6(plan.number)),
        false => four,
    };
    Program::new(
        Testbed::get().program("kube-apiserver"),
        file("kube-apiserver.log"),
    )
    .args([
        format!("--etcd-servers={}", plan.etcd),
        format!("--etcd-prefix=/{}", plan.name),
        format!("--secure-port={port}"),
        format!("--bind-address={}", plan.address),
        format!("--advertise-address={}", plan.address),
        format!("--cert-dir={}", file("generated")),
        format!("--tls-cert-file={}", file("tls.crt")),
        format!("--tls-private-key-file={}", file("tls.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("accounts.crt")),
        format!(
            "--service-account-signing-key-file={}",
            file("accounts.key")
        ),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--anonymous-auth=false".to_owned(),
        format!("--service-cluster-ip-range={ranges}"),
        "--enable-aggregator-routing".to_owned(),
        format!("--audit-policy-file={}", file("audit.yaml")),
        format!("--audit-log-path={}", file(AUDIT_LOG)),
        "--audit-log-maxsize=10000".to_owned(),
        "--profiling=false".to_owned(),
    ])
    .args(for_nodes(plan.registry.is_some()).iter().copied())
    .args(plan.flags.iter().cloned())
}

/// The settings of an API server for the nodes of its cluster.
fn for_nodes(real: bool) -> &'static [&'static str] {
    match real {
        true => &[
            "--endpoint-reconciler-type=lease",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
        ],
        // Nothing mounts the tokens of service accounts, so pods come without.
        false => &[
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
        ],
    }
}

/// Further flags of the controller manager of Kubernetes.
const OF_KUBERNETES: &[&str] = &[
    "--leader-elect=false",
    "--secure-port=0",
    "--profiling=false",
];

/// Returns the controller manager of a cluster: that of Kubernetes where nodes are real, otherwise
/// the testbed's, which has the few controllers that the cluster needs.
pub(super) fn controller_manager(plan: &Plan) -> Program {
    let file = |name: &str| plan.directory.join(name).display().to_string();
    let name = "kube-controller-manager";
    let few = |controllers| (Testbed::get().program(name), controllers, &[] as &[&str]);
    let (program, controllers, more) = match plan.role {
        _ if plan.registry.is_some() => (binaries::node(name), "*", OF_KUBERNETES),
        Role::Hub => few(HUB_CONTROLLERS),
        Role::Member => few(MEMBER_CONTROLLERS),
    };
    Program::new(program, file("kube-controller-manager.log"))
        .args([
            format!("--kubeconfig={}", file("manager.kubeconfig")),
            format!("--controllers={controllers}"),
            format!(
                "--service-account-private-key-file={}",
                file("accounts.key")
            ),
            format!("--root-ca-file={}", file("ca.crt")),
            "--concurrent-endpoint-syncs=1".to_owned(),
        ])
        .args(more.iter().copied())
}
