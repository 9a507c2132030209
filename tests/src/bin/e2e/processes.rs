//! Processes of pods on the machine.

use std::collections::BTreeSet;
use std::fs;

/// Returns the process of a program in the pod of that UID.
pub(crate) fn process(pod: &str, program: &str) -> u32 {
    let pod = format!("pod{pod}");
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = all.find(|id: &u32| {
        let read =
            |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        // The kernel keeps fifteen characters of a name.
        let named = program.starts_with(read("comm").trim()) && !read("comm").is_empty();
        named && read("cgroup").contains(&pod)
    });
    found.unwrap_or_else(|| panic!("{program} runs in no {pod}"))
}

/// Returns the ports on which a program listens in the pod of that UID, without those of the
/// loopback.
pub(crate) fn listening(pod: &str, program: &str) -> BTreeSet<u64> {
    let process = process(pod, program);
    let read =
        |table| fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
    let tables = ["tcp", "tcp6"].map(read);
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    // Number, own address, other address, state.
    let ports = lines.filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, port) = fields.get(1)?.split_once(':')?;
        let listens = *fields.get(3)? == "0A" && address != "0100007F";
        listens
            .then(|| u64::from_str_radix(port, 16).ok())
            .flatten()
    });
    ports.collect()
}
