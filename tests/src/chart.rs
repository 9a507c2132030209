//! The Helm chart, and the manifests of a hub that are rendered from it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{binaries, paths};

/// The namespace that the chart insists on, as Helm's flags give it.
pub const IN_NAMESPACE: [&str; 2] = ["--namespace", "causeway-system"];

/// Stands in options/webhook-by-url.yaml for the webhook's address and for its authority; the chart takes neither word for one.
const PLACEHOLDERS: [(&str, &str); 2] = [
    ("https://webhook.invalid", "WEBHOOK_URL"),
    (PEM, "CA_BUNDLE"),
];
const PEM: &str = "-----BEGIN CERTIFICATE-----";

/// A file of `manifests/`.
struct Manifest {
    path: &'static str,
    /// Its description.
    about: &'static [&'static str],
    templates: &'static [&'static str],
    /// As `--set` takes them.
    values: &'static [&'static str],
}

const MANIFESTS: [Manifest; 8] = [
    Manifest {
        path: "hub/rbac.yaml",
        about: &[
            "What the webhook and the controller may do on the hub, and nothing else; and what people may do there. Where the webhook does not",
            "keep its own certificates, delete what is labelled app.kubernetes.io/component=webhook-certificates.",
        ],
        templates: &[
            "namespaces",
            "webhook-rbac",
            "webhook-certificates-rbac",
            "controller-rbac",
            "users-rbac",
        ],
        values: &["namespace.create=true"],
    },
    Manifest {
        path: "hub/workloads.yaml",
        about: &[
            "The webhook and the controller on the hub itself, with the accounts of rbac.yaml. The webhook keeps its own certificates, in",
            "the Secrets causeway-webhook-tls and causeway-webhook-ca; options/cert-manager.yaml has cert-manager do it instead.",
        ],
        templates: &[
            "webhook-priorityclass",
            "webhook-service",
            "webhook-deployment",
            "webhook-poddisruptionbudget",
            "controller-deployment",
            "controller-poddisruptionbudget",
            "networkpolicy",
        ],
        values: &[],
    },
    Manifest {
        path: "hub/webhook-by-service.yaml",
        about: &[
            "Sends every MultiClusterService past the webhook that runs on the hub (workloads.yaml), which fills in the caBundle by which",
            "the API server knows it. Where cert-manager does that, see options/cert-manager.yaml.",
        ],
        templates: &["webhook-configurations"],
        values: &[],
    },
    Manifest {
        path: "hub/options/cert-manager.yaml",
        about: &[
            "The webhook's certificate by cert-manager, instead of the webhook's own. Then let the webhook serve it, and cert-manager keep the",
            "caBundle, which the webhook leaves alone once the annotation is there:",
            "  kubectl apply -f cert-manager.yaml",
            "  kubectl annotate mutatingwebhookconfiguration,validatingwebhookconfiguration causeway \\",
            "    cert-manager.io/inject-ca-from=causeway-system/causeway-webhook",
            "  kubectl patch deployment -n causeway-system causeway-webhook --patch-file cert-manager.patch.yaml",
        ],
        templates: &["webhook-certificates"],
        values: &["webhook.certificates.source=certManager"],
    },
    Manifest {
        path: "hub/options/cluster-profiles.yaml",
        about: &[
            "Lets the controller make Clusters of the ClusterProfiles (KEP-4322) of namespace cluster-inventory. For another namespace:",
            "  sed -e \"s|cluster-inventory|NAMESPACE|\" cluster-profiles.yaml | kubectl apply -f -",
            "Start it with --cluster-profiles=NAMESPACE.",
        ],
        templates: &["controller-rbac-profiles"],
        values: &["clusterProfiles.namespaces={cluster-inventory}"],
    },
    Manifest {
        path: "hub/options/karmada.yaml",
        about: &[
            "On a Karmada control plane the members' credentials are in namespace karmada-cluster: lets the controller read them there, and",
            "read Karmada's Works. Start it with --secret-namespace=karmada-cluster.",
        ],
        templates: &["controller-rbac-karmada"],
        values: &["karmada.enabled=true"],
    },
    Manifest {
        path: "hub/options/tokens.yaml",
        about: &[
            "Lasting tokens for a webhook and a controller that run outside the hub: for hubs without nodes.",
            "On a hub that runs them as pods (workloads.yaml) leave this out; the kubelet gives them short-lived tokens.",
        ],
        templates: &["tokens"],
        values: &["external.enabled=true"],
    },
    Manifest {
        path: "hub/options/webhook-by-url.yaml",
        about: &[
            "Sends every MultiClusterService past a webhook that runs elsewhere: for hubs without nodes, such as a Karmada control plane.",
            "WEBHOOK_URL stands for its address without a path, CA_BUNDLE for the certificate authority of its certificate:",
            "  sed -e \"s|WEBHOOK_URL|https://webhook.example:9443|\" -e \"s|CA_BUNDLE|$(base64 -w0 ca.crt)|\" webhook-by-url.yaml | kubectl apply -f -",
            "A webhook that keeps its own certificates (--self-managed-certs, with --certificate-name=webhook.example) fills in the caBundle:",
            "  sed -e \"s|WEBHOOK_URL|https://webhook.example:9443|\" -e \"/caBundle:/d\" webhook-by-url.yaml | kubectl apply -f -",
            "Leave webhook-by-service.yaml out then: both have the same names.",
        ],
        templates: &["webhook-configurations"],
        values: &[
            "external.enabled=true",
            "external.webhookURL=https://webhook.invalid",
            "external.caBundle=-----BEGIN CERTIFICATE-----",
        ],
    },
];

/// The directory of the chart.
pub fn directory() -> PathBuf {
    paths::repository().join("manifests/chart")
}

/// The text of `Chart.yaml`, with the version of the workspace.
pub fn description() -> String {
    let file = directory().join("Chart.yaml");
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|e| panic!("cannot read {}: {e}", file.display()));
    let lines = text.lines().map(|line| match line.split_once(": ") {
        Some((key @ ("version" | "appVersion"), _)) => {
            format!("{key}: {}\n", env!("CARGO_PKG_VERSION"))
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
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

/// Packs the chart into a directory, as it is published: the archive's path. Its files are of the given time, so that the archive is the
/// same each time.
///
/// # Errors
/// The chart cannot be copied.
pub fn package(destination: &Path, time: SystemTime) -> io::Result<PathBuf> {
    let copied = tempfile::tempdir()?;
    let chart = copied.path().join("causeway");
    copy(&chart)?;
    date(&chart, time)?;
    let mut helm = Command::new(binaries::helm());
    helm.arg("package").arg(&chart);
    helm.arg("--destination").arg(destination);
    run(&mut helm).unwrap_or_else(|e| panic!("the chart cannot be packed: {e}"));
    Ok(destination.join(concat!("causeway-", env!("CARGO_PKG_VERSION"), ".tgz")))
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

/// Gives every file below a directory this time.
fn date(directory: &Path, time: SystemTime) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            date(&path, time)?;
        } else {
            File::options()
                .write(true)
                .open(&path)?
                .set_modified(time)?;
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

/// Each file of `manifests/` that is rendered from the chart: its path there, and its text.
pub fn manifests() -> impl Iterator<Item = (&'static str, String)> {
    MANIFESTS
        .iter()
        .map(|manifest| (manifest.path, manifest.text()))
}

impl Manifest {
    fn text(&self) -> String {
        let templates = self
            .templates
            .iter()
            .map(|name| format!("--show-only=templates/{name}.yaml"));
        let values = self.values.iter().map(|value| format!("--set={value}"));
        let rendered = template(templates.chain(values))
            .unwrap_or_else(|e| panic!("{} cannot be rendered: {e}", self.path));
        let mut lines = vec![
            "# Rendered from manifests/chart by `make manifests`; changes made here are lost."
                .to_owned(),
        ];
        lines.extend(self.about.iter().map(|line| format!("# {line}")));
        let is_kept = |line: &&str| !line.trim().is_empty() && !line.starts_with("# Source: ");
        let documents = rendered.lines().filter(is_kept);
        lines.extend(
            documents
                .skip_while(|line| *line == "---")
                .map(str::to_owned),
        );
        lines.push(String::new());
        PLACEHOLDERS
            .iter()
            .fold(lines.join("\n"), |text, (value, name)| {
                text.replace(value, name)
                    .replace(&STANDARD.encode(value), name)
            })
    }
}
