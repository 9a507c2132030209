//! Manifests of a hub that Helm renders from the chart, and the archive of the chart.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::command;
use crate::generated::Generated;
use crate::repository;

/// Arguments of `render-manifests`.
#[derive(Debug, clap::Args)]
pub(crate) struct RenderArgs {
    /// Only compare the files with the chart
    #[arg(long)]
    check: bool,
}

/// Arguments of `package-chart`.
#[derive(Debug, clap::Args)]
pub(crate) struct PackageArgs {
    /// Directory that the archive is written to
    directory: PathBuf,

    /// Time of the files in it, in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH")]
    time: u64,
}

/// Stands in options/webhook-by-url.yaml for the webhook's address and for its authority; the chart
/// takes neither word for one.
const PLACEHOLDERS: [(&str, &str); 2] = [
    ("https://webhook.invalid", "WEBHOOK_URL"),
    (PEM, "CA_BUNDLE"),
];
const PEM: &str = "-----BEGIN CERTIFICATE-----";

/// A file of `manifests/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    path: String,
    /// Its description.
    about: String,
    templates: Vec<String>,
    /// In the form of `--set`.
    #[serde(default)]
    values: Vec<String>,
}

/// Renders the manifests and gives chart and agent the version of the workspace, or compares them.
pub(crate) fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let mut files = BTreeMap::from(VERSIONED.map(|path| (path.to_owned(), String::new())));
    for (path, text) in &mut files {
        *text = versioned(path)?;
    }
    let manifests = serde_saphyr::from_str::<Vec<Manifest>>(include_str!("rendered.yaml"));
    for manifest in manifests.context("cannot read rendered.yaml")? {
        let text = manifest.text();
        let text = text.with_context(|| format!("cannot render {}", manifest.path))?;
        files.insert(manifest.path, text);
    }
    let generated = Generated {
        files,
        directories: Vec::new(),
    };
    generated.settle(&repository().join("manifests"), args.check)
}

/// Packs the chart. The bytes depend on the chart and the time alone.
pub(crate) fn package(args: &PackageArgs) -> anyhow::Result<()> {
    let copied = tempfile::tempdir()?;
    let chart = copied.path().join("causeway");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(args.time);
    copy(&directory(), &chart, time).context("cannot copy the chart")?;
    let mut helm = helm(copied.path());
    helm.arg("package").arg(&chart).arg("--destination");
    command::output(helm.arg(std::path::absolute(&args.directory)?))?;
    let archive = concat!("causeway-", env!("CARGO_PKG_VERSION"), ".tgz");
    println!("{}", args.directory.join(archive).display());
    Ok(())
}

impl Manifest {
    fn text(&self) -> anyhow::Result<String> {
        let home = tempfile::tempdir()?;
        let mut helm = helm(home.path());
        helm.args(["template", "causeway"]).arg(directory());
        helm.args(["--namespace", "causeway-system"]);
        let templates = self.templates.iter();
        helm.args(templates.map(|name| format!("--show-only=templates/{name}.yaml")));
        helm.args(self.values.iter().map(|value| format!("--set={value}")));
        let rendered = command::output(&mut helm)?;

        let mut lines = vec![
            "# Rendered from manifests/chart by `make manifests`; changes made here are lost."
                .to_owned(),
        ];
        lines.extend(self.about.lines().map(|line| format!("# {line}")));
        let is_kept = |line: &&str| !line.trim().is_empty() && !line.starts_with("# Source: ");
        let documents = rendered.lines().filter(is_kept);
        let documents = documents.skip_while(|line| *line == "---");
        lines.extend(documents.map(str::to_owned));
        lines.push(String::new());
        let named = |text: String, (value, name): &(&str, &str)| {
            let encoded = STANDARD.encode(value);
            text.replace(value, name).replace(&encoded, name)
        };
        Ok(PLACEHOLDERS.iter().fold(lines.join("\n"), named))
    }
}

fn directory() -> PathBuf {
    repository().join("manifests/chart")
}

/// Files with the version of the workspace.
const VERSIONED: [&str; 3] = ["chart/Chart.yaml", "member/agent.yaml", "member/paths.yaml"];

/// Returns the text of such a file, with that version.
fn versioned(path: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(repository().join("manifests").join(path));
    let text = text.with_context(|| format!("cannot read {path}"))?;
    let version = env!("CARGO_PKG_VERSION");
    let lines = text.lines().map(|line| match line.split_once(": ") {
        Some((key @ ("version" | "appVersion"), _)) => format!("{key}: {version}\n"),
        Some((key, image)) if key.trim_start() == "image" => {
            let name = image.split(':').next().unwrap_or(image);
            format!("{key}: {name}:{version}\n")
        }
        _ => format!("{line}\n"),
    });
    Ok(lines.collect())
}

/// Returns Helm, apart from the settings of the user who runs it. Go builds it of the version that
/// the tests use, in about two minutes the first time, and caches the program.
fn helm(home: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .args(["run", "-C"])
        .arg(repository().join("tests/testbed/helm"))
        .args(["-trimpath", "helm.sh/helm/v4/cmd/helm"])
        .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")]);
    for kind in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(kind, home.join(kind));
    }
    command
}

/// Copies a directory, and gives each file this time.
fn copy(from: &Path, to: &Path, time: SystemTime) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &copied, time)?;
        } else {
            fs::copy(&path, &copied)?;
            let file = File::options().write(true).open(&copied)?;
            file.set_modified(time)?;
        }
    }
    Ok(())
}
