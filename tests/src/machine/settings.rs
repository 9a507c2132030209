//! The settings of containerd, the CNI plugins and the kubelet of a node.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::cgroup::Cgroup;
use crate::control_plane::ControlPlane;
use crate::network::NodeNetwork;
use crate::registry::{self, POD_IMAGE};

/// Directory of Debian's containernetworking-plugins.
const PLUGINS: &str = "/usr/lib/cni";

/// Returns the socket of a node's containerd.
pub(super) fn socket(directory: &Path) -> PathBuf {
    directory.join("containerd.sock")
}

/// The address of the Service by which pods find their DNS.
pub(super) fn dns_address(cluster: &ControlPlane) -> String {
    cluster.service_cidr().replace(".0.0/16", ".0.10")
}

/// Writes all of it into the directory of the node.
pub(super) fn write(
    directory: &Path,
    cluster: &ControlPlane,
    network: &NodeNetwork,
    cgroup: &Cgroup,
    registry: SocketAddr,
) {
    let files = [
        ("containerd.toml".to_owned(), containerd(directory)),
        ("cni/10-pods.conflist".to_owned(), pods(directory, network)),
        (
            format!("registries/{}/hosts.toml", registry::NAME),
            hosts(registry),
        ),
        (
            "kubelet.json".to_owned(),
            kubelet(directory, cluster, network, cgroup),
        ),
        ("resolv.conf".to_owned(), String::new()),
    ];
    for (file, content) in files {
        let file = directory.join(file);
        let parent = file.parent().expect("a directory of a node");
        fs::create_dir_all(parent).expect("a directory of a node");
        fs::write(file, content).expect("a file of a node");
    }
    for made in ["podlogs", "plugins"] {
        fs::create_dir_all(directory.join(made)).expect("a directory of a node");
    }
}

/// Version 2 of the format, which containerd 1.6 and 2 read. Without CAP_SYS_RESOURCE no score can
/// be lowered; the network namespaces of pods stay out of /run/netns, which others use.
fn containerd(directory: &Path) -> String {
    let at = directory.display();
    format!(
        r#"version = 2
root = "{at}/containerd"
state = "{at}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{}/{POD_IMAGE}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{at}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{at}/registries"
"#,
        socket(directory).display(),
        registry::NAME,
    )
}

fn hosts(registry: SocketAddr) -> String {
    format!(
        "server = \"http://{registry}\"\n[host.\"http://{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    )
}

/// A pod is one hop behind its node: no bridge, and no address is rewritten.
fn pods(directory: &Path, network: &NodeNetwork) -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "mtu": 1500,
                "ipam": {
                    "type": "host-local",
                    "dataDir": directory.join("addresses"),
                    "ranges": [[{ "subnet": network.site().pods[0] }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
    .to_string()
}

fn kubelet(
    directory: &Path,
    cluster: &ControlPlane,
    network: &NodeNetwork,
    cgroup: &Cgroup,
) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup.path(),
        "enforceNodeAllocatable": ["pods"],
        "containerRuntimeEndpoint": format!("unix://{}", socket(directory).display()),
        "address": network.node_address(),
        "healthzBindAddress": "127.0.0.1",
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "clusterDomain": "cluster.local",
        "clusterDNS": [dns_address(cluster)],
        "resolvConf": directory.join("resolv.conf"),
        "podLogsDir": directory.join("podlogs"),
        "volumePluginDir": directory.join("plugins"),
        "failSwapOn": false,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "fileCheckFrequency": "0s",
        "httpCheckFrequency": "0s",
    })
    .to_string()
}
