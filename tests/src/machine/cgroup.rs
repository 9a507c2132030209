//! The cgroup of a node: all that runs on it is below, so that all of it can be ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::reaper::{Reaper, Undo};

const ROOT: &str = "/sys/fs/cgroup";

/// containerd's shims and the pods outlive containerd. Their mounts are below the directory of the
/// node.
const END: &str = r#"
processes=$1 directory=$2; shift 2
for attempt in $(seq 100); do
    left=$(find "$processes" -name cgroup.procs -exec cat {} + 2>/dev/null)
    [ -n "$left" ] || break
    kill -KILL $left 2>/dev/null
    sleep 0.1
done
awk -v below="$directory/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do
    umount -l "$mount"
done
for group in "$@"; do find "$group" -depth -type d -exec rmdir {} +; done
"#;

/// A cgroup, in each hierarchy that the machine has.
pub(super) struct Cgroup {
    name: String,
    /// Its directory in the hierarchy that processes are found by.
    processes: PathBuf,
}

impl Cgroup {
    /// Makes it. At the end what runs in it is killed, and what is mounted below `directory` is
    /// unmounted.
    pub(super) fn new(reaper: &Arc<Reaper>, name: &str, directory: &Path) -> Self {
        let groups: Vec<_> = hierarchies().map(|root| root.join(name)).collect();
        let first = Path::new(ROOT).join("pids");
        let first = if first.is_dir() { first } else { ROOT.into() };
        let processes = first.join(name);
        let end = ["sh", "-c", END, "sh"].map(str::to_owned).into_iter();
        let given = [processes.as_path(), directory].into_iter();
        let given = given.chain(groups.iter().map(PathBuf::as_path));
        let given = given.map(|path| path.display().to_string());
        reaper.at_the_end(&Undo::Run(end.chain(given).collect()));
        for group in &groups {
            fs::create_dir_all(group).expect("a cgroup");
        }
        // Version 1: without processors and memory nothing may enter it.
        let cpuset = Path::new(ROOT).join("cpuset");
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read(cpuset.join(file)) {
                fs::write(cpuset.join(name).join(file), value).expect("the processors of a cgroup");
            }
        }
        fs::create_dir_all(processes.join("node")).expect("a cgroup for a node's programs");
        Self {
            name: name.to_owned(),
            processes,
        }
    }

    /// Its path in each hierarchy, for a kubelet.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// The file that a program of the node writes its process id to.
    pub(super) fn processes(&self) -> PathBuf {
        self.processes.join("node/cgroup.procs")
    }
}

/// One in version 2, one for each controller in version 1.
fn hierarchies() -> impl Iterator<Item = PathBuf> {
    let root = Path::new(ROOT);
    let is_one = root.join("cgroup.controllers").is_file();
    let all = fs::read_dir(root).into_iter().flatten().flatten();
    let all = all.filter(move |entry| !is_one && entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let one = is_one.then(|| root.to_owned());
    one.into_iter().chain(all.map(|entry| entry.path()))
}
