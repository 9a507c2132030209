//! What real packets need of the machine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::binaries::say;

/// A program and Debian's package of it.
const PROGRAMS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("curl", "curl"),
];

/// Whether packets can be had here. As root on Debian missing packages are installed.
///
/// # Errors
/// What is missing, and how to get it: for a line that says what is skipped.
pub fn prerequisites() -> Result<(), String> {
    static CHECKED: OnceLock<Result<(), String>> = OnceLock::new();
    CHECKED.get_or_init(check).clone()
}

fn check() -> Result<(), String> {
    if !is_root() {
        return Err("network namespaces need root; run it with sudo".to_owned());
    }
    let packages = missing();
    if !packages.is_empty() && Path::new("/etc/debian_version").is_file() {
        install(&packages)?;
    }
    let packages = missing();
    if !packages.is_empty() {
        return Err(format!(
            "programs are missing; install the packages {}",
            packages.join(", ")
        ));
    }
    may_make_namespaces()
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = uids.and_then(|uids| uids.split_whitespace().nth(1));
    effective == Some("0")
}

fn missing() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |program: &str| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    PROGRAMS
        .iter()
        .filter(|(program, _)| !found(program))
        .map(|(_, package)| *package)
        .collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    say(&format!(
        "installing Debian packages for real packets: {}",
        packages.join(" ")
    ));
    let apt = |args: &[&str]| {
        Command::new("apt-get")
            .args(["-q", "-y"])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("apt-get cannot be run: {e}"))
    };
    let mut wanted = vec!["install", "--no-install-recommends"];
    wanted.extend(packages);
    if apt(&wanted)?.status.success() {
        return Ok(());
    }
    apt(&["update"])?;
    let output = apt(&wanted)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "apt-get cannot install {}: {}",
        packages.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

/// Root in a container may not, and some kernels cannot: asked by trying.
fn may_make_namespaces() -> Result<(), String> {
    for attempt in [
        &["ip", "link", "add", "probe", "type", "veth"][..],
        &["nft", "add table ip probe"][..],
    ] {
        let output = Command::new("unshare")
            .arg("--net")
            .args(attempt)
            .output()
            .map_err(|e| format!("unshare cannot be run: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "this machine does not let `{}` in a network namespace of its own: {}",
                attempt.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
    }
    Ok(())
}
