//! Requirements of real nodes on the machine.

use crate::network;

/// A program and Debian's package of it.
const PROGRAMS: [(&str, &str); 5] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("skopeo", "skopeo"),
    ("nsenter", "util-linux"),
];

/// The CNI plugins, which are in no PATH.
const PLUGIN: &str = "/usr/lib/cni/ptp";

/// Whether real nodes can be had here. As root on Debian missing packages are installed.
///
/// # Errors
/// What is missing, and how to get it.
pub fn prerequisites() -> Result<(), String> {
    network::prerequisites()?;
    network::have(&PROGRAMS)?;
    network::have_file(PLUGIN, "containernetworking-plugins")
}
