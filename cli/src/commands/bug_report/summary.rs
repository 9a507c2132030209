//! README of the archive, and final message of the command.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::jiff::Timestamp;

use super::archive::{Archive, Missing};

/// Descriptions of the parts of the archive, by path.
const PARTS: [(&str, &str); 11] = [
    ("versions.txt", "versions of kubectl-mcs and of the hub"),
    ("check.txt", "what kubectl mcs check says"),
    (
        "status",
        "what kubectl mcs status says, as a text and as JSON",
    ),
    (
        "explain/",
        "what kubectl mcs explain says of the services that are not ready",
    ),
    ("verify/", "last results of kubectl mcs verify"),
    ("hub/objects/", "objects of the hub"),
    ("hub/events.yaml", "Events of the hub"),
    ("hub/logs/", "logs of webhook and controller"),
    (
        "hub/admin/",
        "metrics and readiness of webhook and controller",
    ),
    ("hub/images.txt", "images of webhook and controller"),
    (
        "members/",
        "versions, exports, imports and what causeway wrote, of each member",
    ),
];

const SCOPE: &str = "\
Left out are tokens, private keys, passwords, the data of Secrets and ConfigMaps except results of verify, annotations of others, and the values \
of environment variables and headers. Names, addresses and messages are there as they are. What is secret and does not look like it, in a message of a log say, \
is not recognised: look through all of it before you send it.";

/// Adds README.txt.
pub(super) fn add(archive: &mut Archive, now: Timestamp) {
    let mut text = format!(
        "A bug report of causeway, made at {now:.0} by kubectl-mcs v{}.\n\n",
        env!("CARGO_PKG_VERSION")
    );
    for line in parts(archive) {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&format!("\n{SCOPE}\n"));
    text.push_str(&left_out(archive));
    text.push_str(&missing(archive.all_missing()));
    archive.text("README.txt", &text);
}

/// Returns the final message for the user.
pub(super) fn closing(archive: &Archive, file: &Path, size: u64) -> String {
    let file = file.display();
    let kib = size.div_ceil(1024);
    let mut text = format!(
        "Gathered in {file} ({} files, {kib} KiB):\n",
        archive.paths().count()
    );
    for line in parts(archive) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&left_out(archive));
    text.push_str(&missing(archive.all_missing()));
    text.push_str(&format!(
        "\nNames, addresses and messages of your clusters are in it. Look through it before you send it: tar -xzf {file}\n"
    ));
    text
}

/// Returns a line for each part of the archive, with the number of its files.
fn parts(archive: &Archive) -> Vec<String> {
    let files = |prefix: &str| {
        archive
            .paths()
            .filter(|path| path.starts_with(prefix))
            .count()
    };
    let parts = PARTS
        .iter()
        .map(|(prefix, what)| (*prefix, *what, files(prefix)));
    let there = parts.filter(|(_, _, files)| *files > 0);
    there
        .map(|(prefix, what, files)| match prefix.ends_with('/') {
            true => format!("{prefix}: {what} ({files} files)"),
            false => format!("{prefix}: {what}"),
        })
        .collect()
}

fn left_out(archive: &Archive) -> String {
    let counts = archive.redactor().counts().iter();
    let counts: Vec<_> = counts
        .map(|(what, count)| format!("{count} {}", what.title()))
        .collect();
    match counts.is_empty() {
        true => "\nNothing had to be left out.\n".to_owned(),
        false => format!("\nLeft out: {}.\n", counts.join(", ")),
    }
}

/// Returns the failed reads, a line for each error.
fn missing(all: &[Missing]) -> String {
    if all.is_empty() {
        return "\nEverything could be read.\n".to_owned();
    }
    let mut causes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in all {
        causes.entry(&one.why).or_default().push(&one.what);
    }
    let lines = causes
        .iter()
        .map(|(why, what)| format!("  {}: {why}\n", what.join(", ")));
    format!("\nNot in it:\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bug_report::redact::Redactor;

    #[test]
    fn what_is_there_what_is_left_out_and_what_is_missing_is_said() {
        let mut archive = Archive::new(Redactor::new().expect("patterns"));
        archive.text("versions.txt", "kubectl-mcs: v1\n");
        archive.text("hub/logs/a/controller.log", "token=abc\n");
        archive.text("hub/logs/b/controller.log", "");
        archive.missing("Events of the hub", "forbidden");
        archive.missing("pods of causeway", "forbidden");
        add(&mut archive, Timestamp::UNIX_EPOCH);
        let expected = "\
Gathered in a.tar.gz (4 files, 2 KiB):
  versions.txt: versions of kubectl-mcs and of the hub
  hub/logs/: logs of webhook and controller (2 files)

Left out: 1 passwords and the like.

Not in it:
  Events of the hub, pods of causeway: forbidden

Names, addresses and messages of your clusters are in it. Look through it before you send it: tar -xzf a.tar.gz
";
        assert_eq!(closing(&archive, Path::new("a.tar.gz"), 1500), expected);
    }
}
