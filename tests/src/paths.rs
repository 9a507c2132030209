//! Paths, found at run time: the programs contain no path of the machine that compiled them.

use std::path::{Path, PathBuf};

/// The root of the repository: the directory with `tests/testbed/go.mod`, at or above the crate
/// under test, this program, or the working directory.
pub fn repository() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let starts = [
        manifest,
        std::env::current_exe().ok(),
        std::env::current_dir().ok(),
    ];
    starts
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .find(|directory| directory.join("tests/testbed/go.mod").is_file())
        .expect("run this from within the repository: there is no tests/testbed/go.mod at or above the working directory")
        .to_path_buf()
}

/// Cargo's target directory: `CARGO_TARGET_DIR`, else the one this program was built into, else
/// `target/`.
pub(crate) fn target() -> PathBuf {
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        return repository().join(target);
    }
    built_in().unwrap_or_else(|| repository().join("target"))
}

/// The Cargo profile that this program was built with, after the directory that it is in.
pub(crate) fn profile() -> String {
    match profile_name() {
        name if name == "debug" => "dev".to_owned(),
        other => other,
    }
}

/// The name of the directory that Cargo writes programs of [`profile`] to.
pub(crate) fn profile_name() -> String {
    let directory = std::env::current_exe().ok().and_then(|exe| {
        let name = profile_directory(&exe)?.file_name()?;
        Some(name.to_string_lossy().into_owned())
    });
    directory.unwrap_or_else(|| "debug".to_owned())
}

/// The directory above the profile's that Cargo marks with a CACHEDIR.TAG.
fn built_in() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").is_file())
        .map(Path::to_path_buf)
}

/// `target/debug` for `target/debug/deps/harness-0123` and for `target/debug/demo`.
fn profile_directory(exe: &Path) -> Option<&Path> {
    let directory = exe.parent()?;
    if directory.ends_with("deps") || directory.ends_with("examples") {
        directory.parent()
    } else {
        Some(directory)
    }
}
