//! Version of causeway that runs: that of the sources, or the previous release, built from its
//! commit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{binaries, paths};

/// The programs of a version that are built.
const PROGRAMS: [&str; 3] = ["causeway-webhook", "causeway-controller", "kubectl-mcs"];
const CHANGES: &str = "CHANGELOG.md";

/// A version of causeway: its programs and its manifests.
#[derive(Clone, Copy, Debug, Default)]
pub enum Release {
    /// That of the sources as they are.
    #[default]
    This,
    /// The one before.
    Base(&'static Base),
}

impl Release {
    /// Its version.
    pub fn version(self) -> &'static str {
        match self {
            Self::This => env!("CARGO_PKG_VERSION"),
            Self::Base(base) => &base.version,
        }
    }

    /// One of its programs, for instance `causeway-webhook`.
    pub fn program(self, name: &str) -> PathBuf {
        match self {
            Self::This => binaries::causeway(name),
            Self::Base(base) => base.programs.join(name),
        }
    }

    /// The path of one of its manifests.
    pub fn manifest(self, path: &str) -> String {
        let root = match self {
            Self::This => paths::repository(),
            Self::Base(base) => base.source.clone(),
        };
        root.join("manifests").join(path).display().to_string()
    }
}

/// The version that was released last, built.
#[derive(Debug)]
pub struct Base {
    version: String,
    source: PathBuf,
    programs: PathBuf,
}

/// The version that was released last, as `CHANGELOG.md` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// For instance `0.1.0`.
    pub version: String,
    /// The whole name of its commit.
    pub commit: String,
}

/// The repository does not have the commit of the version before.
#[derive(Debug, thiserror::Error)]
pub enum NoBase {
    /// It is not in the clone.
    #[error(
        "the version before, {version}, is commit {commit}, which this clone does not have ({why}); get the whole history: \
         git fetch --unshallow"
    )]
    NotFetched {
        /// Previous version.
        version: String,
        /// Its commit.
        commit: String,
        /// Output of git.
        why: String,
    },
    /// git does not run.
    #[error("git cannot be run ({0}); on Debian: apt-get install git")]
    NoGit(#[from] io::Error),
}

impl Released {
    /// The newest version of `CHANGELOG.md` that names its commit.
    pub fn newest() -> Self {
        let text = fs::read_to_string(paths::repository().join(CHANGES));
        let text = text.unwrap_or_else(|e| panic!("cannot read {CHANGES}: {e}"));
        Self::first_in(&text)
            .unwrap_or_else(|| panic!("{CHANGES} has no version with a line `Commit <40 digits>.`"))
    }

    fn first_in(changes: &str) -> Option<Self> {
        let mut version = None;
        for line in changes.lines() {
            if let Some(heading) = line.strip_prefix("## [") {
                version = heading.split(']').next();
            }
            let commit = line.strip_prefix("Commit ");
            let commit = commit.and_then(|rest| rest.strip_suffix('.'));
            let is_whole = |commit: &&str| {
                commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            if let (Some(version), Some(commit)) = (version, commit.filter(is_whole)) {
                return Some(Self {
                    version: version.to_owned(),
                    commit: commit.to_owned(),
                });
            }
        }
        None
    }

    /// Whether the repository has its commit.
    ///
    /// # Errors
    /// The commit is missing, and how it is fetched.
    pub fn check(&self) -> Result<(), NoBase> {
        let object = format!("{}^{{commit}}", self.commit);
        self.git(&["cat-file", "-e", &object]).map(drop)
    }

    /// The paths of its files below that directory.
    ///
    /// # Errors
    /// The commit is missing.
    pub fn files(&self, directory: &str) -> Result<Vec<String>, NoBase> {
        let list = self.git(&["ls-tree", "-r", "--name-only", &self.commit, directory])?;
        let list = String::from_utf8_lossy(&list).into_owned();
        Ok(list.lines().map(str::to_owned).collect())
    }

    /// The text of one of its files.
    ///
    /// # Errors
    /// The commit is missing.
    pub fn read(&self, path: &str) -> Result<String, NoBase> {
        let text = self.git(&["show", &format!("{}:{path}", self.commit)])?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn git(&self, args: &[&str]) -> Result<Vec<u8>, NoBase> {
        let output = Command::new("git")
            .current_dir(paths::repository())
            .args(args)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(NoBase::NotFetched {
            version: self.version.clone(),
            commit: self.commit.clone(),
            why: why.trim().to_owned(),
        })
    }
}

impl Base {
    /// The version that was released last, with this program's profile, built if it was not yet.
    /// That takes minutes, and is reported on standard error.
    ///
    /// # Errors
    /// The repository does not have its commit.
    pub fn get() -> Result<&'static Self, NoBase> {
        static BASE: OnceLock<Base> = OnceLock::new();
        if let Some(base) = BASE.get() {
            return Ok(base);
        }
        let base = Self::built(&Released::newest())?;
        Ok(BASE.get_or_init(|| base))
    }

    fn built(released: &Released) -> Result<Self, NoBase> {
        released.check()?;
        let all = paths::target().join("base");
        let directory = all.join(&released.commit);
        fs::create_dir_all(&directory)
            .unwrap_or_else(|e| panic!("cannot make {}: {e}", directory.display()));
        let lock = fs::File::create(all.join("lock")).expect("a lock file for the version before");
        lock.lock().expect("the lock of the version before");
        let base = Self {
            version: released.version.clone(),
            source: directory.join("source"),
            programs: directory.join("target").join(paths::profile_name()),
        };
        if !directory.join("source-complete").is_file() {
            base.unpack(released)?;
            fs::File::create(directory.join("source-complete")).expect("a mark of the sources");
        }
        let complete = base.programs.join("complete");
        if !complete.is_file() {
            base.build(&directory);
            remove_intermediate(&base.programs);
            fs::File::create(&complete).expect("a mark that all is built");
        }
        remove_others(&all, &directory);
        Ok(base)
    }

    /// Writes the sources of its commit.
    fn unpack(&self, released: &Released) -> Result<(), NoBase> {
        if self.source.exists() {
            fs::remove_dir_all(&self.source).expect("what is left of an earlier attempt goes");
        }
        let archive = released.git(&["archive", "--format=tar", &released.commit])?;
        let unpacked = tar::Archive::new(archive.as_slice()).unpack(&self.source);
        unpacked.unwrap_or_else(|e| panic!("cannot write {}: {e}", self.source.display()));
        Ok(())
    }

    fn build(&self, directory: &Path) {
        let mut command = binaries::cargo();
        command
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", directory.join("target"))
            .env("CARGO_INCREMENTAL", "0")
            .args(["build", "--locked", "--workspace", "--profile"])
            .arg(paths::profile())
            .args(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
        let title = format!(
            "causeway {}, the version before, some 5 minutes on 2 cores the first time",
            self.version
        );
        let log = directory.join("build.log");
        binaries::build(&mut command, &title, &log, "Cargo cannot be run");
    }
}

/// Removes the files that only another build needs, some 2 GB: these sources never change.
fn remove_intermediate(programs: &Path) {
    for name in ["deps", "build", "examples", "incremental", ".fingerprint"] {
        let directory = programs.join(name);
        if directory.is_dir()
            && let Err(e) = fs::remove_dir_all(&directory)
        {
            binaries::say(&format!("cannot remove {}: {e}", directory.display()));
        }
    }
}

/// Versions that were the one before once.
fn remove_others(all: &Path, current: &Path) {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path != current
            && path.is_dir()
            && let Err(e) = fs::remove_dir_all(&path)
        {
            binaries::say(&format!("cannot remove {}: {e}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_before_is_the_newest_that_names_its_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let changes = format!(
            "## [Unreleased]\n\n## [0.3.0] - 2027-01-01\n\nCommit 01234.\n\n## [0.2.0] - 2026-12-01\n\nCommit {commit}.\n\n\
             ## [0.1.0] - 2026-11-01\n\nCommit {}.\n",
            "f".repeat(40)
        );
        let released = Released::first_in(&changes).expect("a version");
        assert_eq!(released.version, "0.2.0");
        assert_eq!(released.commit, commit);
        assert_eq!(Released::first_in("## [0.1.0]\n"), None);
    }

    #[test]
    fn a_clone_without_the_commit_says_how_it_is_fetched() {
        let absent = Released {
            version: "0.0.9".to_owned(),
            commit: "0".repeat(40),
        };
        let said = absent.check().expect_err("it is not there").to_string();
        assert!(said.ends_with("git fetch --unshallow"), "{said}");
        assert!(said.contains("the version before, 0.0.9"), "{said}");
    }
}
