//! The commit that images are made from.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use jiff::Timestamp;

use crate::command;

/// A state of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The hash of the commit, with `-dirty` behind it if the work tree differs from it.
    pub revision: String,
    /// Time of the commit: the SOURCE_DATE_EPOCH of all that is made from it.
    pub time: Timestamp,
}

impl Commit {
    /// The commit that is checked out there.
    pub(crate) fn of(repository: &Path) -> anyhow::Result<Self> {
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            let answer = command::output(command.arg("-C").arg(repository).args(args));
            answer.context("images are made from a commit, and git does not name one")
        };
        let head = git(&["log", "--max-count=1", "--format=%H %ct"])?;
        let changes = git(&["status", "--porcelain"])?;
        Self::read(&head, &changes)
    }

    fn read(head: &str, changes: &str) -> anyhow::Result<Self> {
        let read = || {
            let (hash, seconds) = head.split_once(' ')?;
            let time = Timestamp::from_second(seconds.parse().ok()?).ok()?;
            let dirty = if changes.is_empty() { "" } else { "-dirty" };
            Some(Self {
                revision: format!("{hash}{dirty}"),
                time,
            })
        };
        read().with_context(|| {
            format!("git describes the commit as {head:?}, and not as its hash and its time")
        })
    }

    /// Whether the work tree differs from the commit, so that nobody else can make the same images.
    pub(crate) fn is_dirty(&self) -> bool {
        self.revision.ends_with("-dirty")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_its_hash_and_its_time() {
        let commit = Commit::read("0123abcd 1700000000", "").expect("a commit");
        assert_eq!(commit.revision, "0123abcd");
        assert_eq!(commit.time.to_string(), "2023-11-14T22:13:20Z");
        assert!(!commit.is_dirty());
    }

    #[test]
    fn a_work_tree_that_differs_is_no_commit() {
        let commit = Commit::read("0123abcd 1700000000", " M Makefile").expect("a commit");
        assert_eq!(commit.revision, "0123abcd-dirty");
        assert!(commit.is_dirty());
    }

    #[test]
    fn what_is_no_commit_is_refused() {
        for head in ["", "0123abcd", "0123abcd yesterday"] {
            let error = Commit::read(head, "").expect_err(head);
            assert_eq!(
                error.to_string(),
                format!("git describes the commit as {head:?}, and not as its hash and its time")
            );
        }
    }
}
