//! The Helm chart, as Helm renders it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{binaries, paths};

/// The namespace that the chart insists on, as Helm's flags give it.
pub const IN_NAMESPACE: [&str; 2] = ["--namespace", "causeway-system"];

/// The directory of the chart.
pub fn directory() -> PathBuf {
    paths::repository().join("manifests/chart")
}

/// Returns variables that separate Helm from the settings of the user who runs it.
pub fn environment() -> impl Iterator<Item = (&'static str, String)> {
    let home = paths::target().join("helm/home");
    let kinds = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"];
    kinds
        .into_iter()
        .map(move |kind| (kind, home.join(kind).display().to_string()))
}

/// Runs `helm template` on the chart, as release `causeway` in its namespace.
///
/// # Errors
/// What Helm says where it refuses the values.
pub fn template<A: AsRef<str>>(args: impl IntoIterator<Item = A>) -> Result<String, String> {
    template_of(&directory(), args)
}

/// The same of a chart elsewhere: a directory or an archive.
///
/// # Errors
/// What Helm says where it refuses the values.
pub fn template_of<A: AsRef<str>>(
    chart: &Path,
    args: impl IntoIterator<Item = A>,
) -> Result<String, String> {
    let mut helm = Command::new(binaries::helm());
    helm.args(["template", "causeway"])
        .arg(chart)
        .args(IN_NAMESPACE)
        .args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    run(&mut helm)
}

/// Copies the chart into a directory, which it makes.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy(to: &Path) -> io::Result<()> {
    copy_directory(&directory(), to)
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_directory(&path, &copied)?;
        } else {
            fs::copy(&path, &copied)?;
        }
    }
    Ok(())
}

fn run(helm: &mut Command) -> Result<String, String> {
    let output = helm
        .envs(environment())
        .output()
        .unwrap_or_else(|e| panic!("helm cannot be run: {e}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what Helm prints is text");
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}
