//! Requirements of real packets on the machine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::binaries::say;

/// A program and Debian's package of it.
const PROGRAMS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("curl", "curl"),
];

/// Debian's package of `dig`.
const DIG: [(&str, &str); 1] = [("dig", "bind9-dnsutils")];

/// Whether packets can be had here. As root on Debian missing packages are installed.
///
/// # Errors
/// What is missing, and how to get it: for a line that says what is skipped.
pub fn prerequisites() -> Result<(), String> {
    static CHECKED: OnceLock<Result<(), String>> = OnceLock::new();
    CHECKED.get_or_init(check).clone()
}

/// Whether there is a `dig`. As root on Debian it is installed.
///
/// # Errors
/// How to get it: for a line that says what is skipped.
pub fn dig() -> Result<(), String> {
    static CHECKED: OnceLock<Result<(), String>> = OnceLock::new();
    CHECKED.get_or_init(|| have(&DIG)).clone()
}

fn check() -> Result<(), String> {
    if !is_root() {
        return Err("network namespaces need root; run it with sudo".to_owned());
    }
    have(&PROGRAMS)?;
    may_make_namespaces()
}

/// Installs what is missing where that can be done.
pub(crate) fn have(programs: &[(&str, &'static str)]) -> Result<(), String> {
    have_packages(|| missing(programs))
}

/// Installs the package of this file where it is missing and that can be done.
pub(crate) fn have_file(file: &str, package: &'static str) -> Result<(), String> {
    have_packages(|| match Path::new(file).exists() {
        true => Vec::new(),
        false => vec![package],
    })
}

/// Installs a program whose package starts a server where there is an init system: not there.
pub(crate) fn have_unstarted(program: &str, package: &'static str) -> Result<(), String> {
    let programs = [(program, package)];
    let starts = Path::new("/run/systemd/system").exists();
    match starts && !missing(&programs).is_empty() {
        true => Err(format!("{program} is missing; apt-get install {package}")),
        false => have(&programs),
    }
}

fn have_packages(missing: impl Fn() -> Vec<&'static str>) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let packages = missing();
    if !packages.is_empty() && is_root() && Path::new("/etc/debian_version").is_file() {
        install(&packages)?;
    }
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    Err(format!(
        "programs are missing; install the packages {}",
        packages.join(", ")
    ))
}

pub(super) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = uids.and_then(|uids| uids.split_whitespace().nth(1));
    effective == Some("0")
}

fn missing(programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |program: &str| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    programs
        .iter()
        .filter(|(program, _)| !found(program))
        .map(|(_, package)| *package)
        .collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    say(&format!(
        "installing Debian packages that tests need: {}",
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
pub(super) fn may_make_namespaces() -> Result<(), String> {
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
