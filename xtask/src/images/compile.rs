//! Compiles the programs: static, and without a trace of the machine that compiles them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::commit::Commit;
use crate::command;

/// Directories of the machine that compiles. The programs name others in their place.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The root of the repository.
    pub repository: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
    /// Cargo's home, with the sources of the crates.
    pub cargo: PathBuf,
    /// The sources of the standard library, if they are installed, and the commit that they are of.
    pub library: (PathBuf, String),
}

impl Places {
    /// Each path with the name that stands for it. The compiler takes the last that fits.
    fn names(&self) -> [(&Path, String); 4] {
        let (library, commit) = &self.library;
        [
            (&self.repository, "/causeway".to_owned()),
            (&self.target, "/causeway/target".to_owned()),
            (&self.cargo, "/cargo".to_owned()),
            (library, format!("/rustc/{commit}")),
        ]
    }

    /// The flags of the Rust compiler, as CARGO_ENCODED_RUSTFLAGS has them: a path may hold blanks.
    fn rust_flags(&self) -> OsString {
        let mut flags = OsString::from("-Ctarget-feature=+crt-static");
        for (path, name) in self.names() {
            flags.push("\x1f--remap-path-prefix=");
            flags.push(path);
            flags.push("=");
            flags.push(name);
        }
        flags
    }

    /// The flags of the C compiler, for the crates that hold C.
    fn c_flags(&self) -> OsString {
        let mut flags = OsString::new();
        for (path, name) in self.names() {
            flags.push("-ffile-prefix-map=");
            flags.push(path);
            flags.push("=");
            flags.push(name);
            flags.push(" ");
        }
        flags
    }
}

/// Compiles programs, each with its package, for a target; their directory is the answer.
///
/// The flags go to what is compiled for the target only, since it is named; build scripts run on
/// this machine and are compiled as ever. So nothing here makes another build compile anything a
/// second time.
pub(crate) fn compile(
    cargo: &mut Command,
    programs: &[(&str, &str)],
    target: &str,
    places: &Places,
    commit: &Commit,
) -> anyhow::Result<PathBuf> {
    for (package, program) in programs {
        cargo.args(["--package", package, "--bin", program]);
    }
    let variable = format!("CFLAGS_{}", target.replace('-', "_"));
    command::run(
        cargo
            .args(["--target", target, "--target-dir"])
            .arg(&places.target)
            .env("CARGO_ENCODED_RUSTFLAGS", places.rust_flags())
            .env(variable, places.c_flags())
            .env("SOURCE_DATE_EPOCH", commit.time.as_second().to_string()),
    )?;
    Ok(places.target.join(target).join("release"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            repository: PathBuf::from("/home/me/my sources"),
            target: PathBuf::from("/home/me/my sources/target"),
            cargo: PathBuf::from("/home/me/.cargo"),
            library: (PathBuf::from("/rust/src"), "0123abcd".to_owned()),
        }
    }

    #[test]
    fn no_path_of_the_machine_stays_and_the_longest_is_named_last() {
        let flags = places().rust_flags().into_string().expect("text");
        let flags: Vec<_> = flags.split('\x1f').collect();
        let expected = [
            "-Ctarget-feature=+crt-static",
            "--remap-path-prefix=/home/me/my sources=/causeway",
            "--remap-path-prefix=/home/me/my sources/target=/causeway/target",
            "--remap-path-prefix=/home/me/.cargo=/cargo",
            "--remap-path-prefix=/rust/src=/rustc/0123abcd",
        ];
        assert_eq!(flags, expected);
    }
}
