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
struct Manifest {
    path: &'static str,
    /// Its description.
    about: &'static [&'static str],
    templates: &'static [&'static str],
    /// As `--set` takes them.
    values: &'static [&'static str],
}

const MANIFESTS: [Manifest; 12] = [
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
        path: "hub/options/tunnel.yaml",
        about: &[
            "causeway-tunnel, for members that nobody can dial (docs/edge.md), and the Services by which agents and the controller reach it.",
            "Secret causeway-tunnel in causeway-system has tls.crt, tls.key and ca.crt. Start the controller with",
            "--tunnel-front=http://causeway-tunnel.causeway-system.svc:7080 and, for members whose agents give tokens, --tunnel-tls-dir.",
        ],
        templates: &[
            "tunnel-deployment",
            "tunnel-service",
            "tunnel-poddisruptionbudget",
            "tunnel-networkpolicy",
        ],
        values: &["tunnel.enabled=true"],
    },
    Manifest {
        path: "hub/options/tunnel-clients.yaml",
        about: &[
            "causeway-tunnel with a front for clients with passwords, such as Karmada's aggregated API server (docs/edge.md): apply it after",
            "tunnel.yaml, which has all but this. Secret causeway-tunnel-passwords in causeway-system has the file passwords. kubectl mcs",
            "install --tunnel takes that front away again: apply this after it.",
        ],
        templates: &["tunnel-deployment", "tunnel-clients"],
        values: &[
            "tunnel.enabled=true",
            "tunnel.authenticatedFront.enabled=true",
        ],
    },
    Manifest {
        path: "hub/options/tunnel-through-api-server.yaml",
        about: &[
            "causeway-tunnel with a listener for agents that come by the Service proxy of the hub's API server (docs/edge.md): apply it",
            "after tunnel.yaml, which has all but this. Secret causeway-tunnel-upgrade in causeway-system gets the token of their account.",
        ],
        templates: &["tunnel-deployment", "tunnel-upgrade"],
        values: &["tunnel.enabled=true", "tunnel.throughApiServer=true"],
    },
    Manifest {
        path: "hub/options/tunnel-enrolment.yaml",
        about: &[
            "causeway-tunnel that gives agents their certificates, for members that join by a file of kubectl mcs join -o yaml",
            "(docs/edge.md): apply it after tunnel.yaml, which has all but this. Secret causeway-tunnel-enrolment in causeway-system has",
            "ca.crt and ca.key. kubectl mcs install --tunnel HOST --enrolment does both.",
        ],
        templates: &[
            "tunnel-enrolment",
            "tunnel-deployment",
            "tunnel-networkpolicy",
        ],
        values: &["tunnel.enabled=true", "tunnel.enrolment.enabled=true"],
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

/// Renders the manifests and gives chart and agent the version of the workspace, or compares them.
pub(crate) fn render(args: &RenderArgs) -> anyhow::Result<()> {
    let mut files = BTreeMap::from(VERSIONED.map(|path| (path.to_owned(), String::new())));
    for (path, text) in &mut files {
        *text = versioned(path)?;
    }
    for manifest in &MANIFESTS {
        let text = manifest.text();
        let text = text.with_context(|| format!("cannot render {}", manifest.path))?;
        files.insert(manifest.path.to_owned(), text);
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
        lines.extend(self.about.iter().map(|line| format!("# {line}")));
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
