//! The Rust compiler, and the C library that it links.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::command;

/// The Rust compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rust {
    /// Its version.
    pub release: String,
    /// The commit that it was made from.
    pub commit: String,
    /// The target that it compiles for by itself.
    pub host: String,
    /// Directory in which it is installed.
    pub sysroot: PathBuf,
}

/// The C library that is linked into the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CLibrary {
    /// The package of the distribution that it is from.
    pub package: String,
    /// The version of the package.
    pub version: String,
    /// The architecture of the package.
    pub architecture: String,
    /// The distribution, as `/etc/os-release` names it.
    pub distribution: String,
}

impl Rust {
    /// Asks the compiler.
    pub(crate) fn of(rustc: &Path) -> anyhow::Result<Self> {
        let version = command::output(Command::new(rustc).arg("-vV"))?;
        let sysroot = command::output(Command::new(rustc).args(["--print", "sysroot"]))?;
        Self::read(&version, PathBuf::from(sysroot))
    }

    fn read(version: &str, sysroot: PathBuf) -> anyhow::Result<Self> {
        let value = |name: &str| {
            let mut lines = version.lines().filter_map(|line| line.split_once(": "));
            let value = lines.find(|(key, _)| *key == name);
            value
                .map(|(_, value)| value.to_owned())
                .with_context(|| format!("`rustc -vV` names no {name}"))
        };
        Ok(Self {
            release: value("release")?,
            commit: value("commit-hash")?,
            host: value("host")?,
            sysroot,
        })
    }
}

impl CLibrary {
    /// The one that the C compiler links statically, if Debian's package manager knows it.
    pub(crate) fn of(compiler: &str) -> Option<Self> {
        let file = output(Command::new(compiler).arg("--print-file-name=libc.a"))?;
        let file = std::fs::canonicalize(file).ok()?;
        let owner = output(Command::new("dpkg-query").arg("--search").arg(file))?;
        let package = owner.split_once(": ")?.0;
        let format = "--showformat=${Package} ${Version} ${Architecture}";
        let shown = output(Command::new("dpkg-query").args(["--show", format, package]))?;
        let distribution = std::fs::read_to_string("/etc/os-release").ok()?;
        Self::read(&shown, &distribution)
    }

    /// Debian's files with its licence, and with the text to which this refers.
    pub(crate) fn license_files(&self) -> [PathBuf; 2] {
        let own = Path::new("/usr/share/doc").join(&self.package);
        let referred = PathBuf::from("/usr/share/common-licenses/LGPL-2.1");
        [own.join("copyright"), referred]
    }

    fn read(shown: &str, distribution: &str) -> Option<Self> {
        let mut words = shown.split(' ').map(str::to_owned);
        let mut lines = distribution.lines();
        let id = lines.find_map(|line| line.strip_prefix("ID="))?;
        Some(Self {
            package: words.next()?,
            version: words.next()?,
            architecture: words.next()?,
            distribution: id.trim_matches('"').to_owned(),
        })
    }
}

/// Returns the output of a command that may be missing.
fn output(command: &mut Command) -> Option<String> {
    command::output(command).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A compiler.
    pub(crate) fn rust() -> Rust {
        Rust {
            release: "1.95.0".to_owned(),
            commit: "0123abcd".to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            sysroot: PathBuf::from("/rust"),
        }
    }

    #[test]
    fn the_compiler_is_known_by_its_release_its_commit_and_its_host() {
        let version = "rustc 1.95.0 (0123abcd 2026-04-14)\nbinary: rustc\ncommit-hash: 0123abcd\n\
                       commit-date: 2026-04-14\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 21.1.0";
        let read = Rust::read(version, PathBuf::from("/rust")).expect("a compiler");
        assert_eq!(read, rust());
        let error = Rust::read("release: 1.95.0", PathBuf::new()).expect_err("too little");
        assert_eq!(error.to_string(), "`rustc -vV` names no commit-hash");
    }

    #[test]
    fn the_c_library_is_known_by_the_package_of_its_distribution() {
        let system = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n";
        let library = CLibrary::read("libc6-dev 2.36-9+deb12u13 amd64", system);
        let expected = CLibrary {
            package: "libc6-dev".to_owned(),
            version: "2.36-9+deb12u13".to_owned(),
            architecture: "amd64".to_owned(),
            distribution: "debian".to_owned(),
        };
        assert_eq!(library, Some(expected));
        assert_eq!(CLibrary::read("libc6-dev", system), None);
    }
}
