//! `kubectl mcs install` and the chart apply the same.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, SystemTime};

use causeway_certs::Authority;
use causeway_tests::{binaries, chart};
use serde_json::Value;

use crate::{objects, rendered};

/// Options of `kubectl mcs install`, and the values that mean the same. With `namespace.create` the
/// chart has the namespace too, which Helm makes otherwise.
const SAME: [(&str, &[&str]); 17] = [
    ("", &[]),
    (
        "--registry registry.example/team/ --image-tag x",
        &["image.registry=registry.example/team/", "image.tag=x"],
    ),
    ("--skip-crds", &["crds.install=false"]),
    ("--missing-service deny", &["webhook.missingService=deny"]),
    ("--missing-service warn", &["webhook.missingService=warn"]),
    (
        "--cert-manager",
        &["webhook.certificates.source=certManager"],
    ),
    (
        "--cert-manager --missing-service warn",
        &[
            "webhook.certificates.source=certManager",
            "webhook.missingService=warn",
        ],
    ),
    ("--skip-crds --karmada", &["karmada.enabled=true"]),
    (
        "--tunnel tunnel.example:8443",
        &["tunnel.enabled=true", "tunnel.service.port=8443"],
    ),
    (
        "--tunnel tunnel.example --through-api-server",
        &["tunnel.enabled=true", "tunnel.throughApiServer=true"],
    ),
    (
        "--tunnel tunnel.example --enrolment",
        &["tunnel.enabled=true", "tunnel.enrolment.enabled=true"],
    ),
    (
        "--skip-crds --karmada --cert-manager",
        &[
            "karmada.enabled=true",
            "webhook.certificates.source=certManager",
        ],
    ),
    ("--external", &["external.enabled=true"]),
    (
        "--external --webhook-url https://webhook.example:9443/",
        &[
            "external.enabled=true",
            "external.webhookURL=https://webhook.example:9443/",
        ],
    ),
    (
        "--external --webhook-url https://webhook.example/causeway",
        &[
            "external.enabled=true",
            "external.webhookURL=https://webhook.example/causeway",
        ],
    ),
    (
        "--skip-crds --karmada --external",
        &["karmada.enabled=true", "external.enabled=true"],
    ),
    (
        "--skip-crds --karmada --external --webhook-url https://webhook.example",
        &[
            "karmada.enabled=true",
            "external.enabled=true",
            "external.webhookURL=https://webhook.example",
        ],
    ),
];

/// Options that say how, not what; and those of the definitions or Secrets alone, which are not
/// Helm's business then.
const OTHERS: [&str; 17] = [
    "--dry-run",
    "--force-conflicts",
    "--wait",
    "--timeout",
    "--crds-only",
    "--secrets-only",
    "--webhook-ca",
    "--kubeconfig",
    "--context",
    "--cluster",
    "--user",
    "--as",
    "--as-group",
    "--request-timeout",
    "--tunnel-front",
    "--namespace",
    "--help",
];

/// Returns the objects that `kubectl mcs install` applies.
fn installed<'a>(options: impl Iterator<Item = &'a str>) -> BTreeMap<String, Value> {
    let output = Command::new(binaries::causeway("kubectl-mcs"))
        .args(["install", "--dry-run=client"])
        .args(options)
        .output()
        .expect("kubectl-mcs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    objects(&String::from_utf8(output.stdout).expect("YAML"))
}

/// Removes the annotation by which Helm retains the definitions.
fn without_policy(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for (title, object) in &mut objects {
        let annotations = object.pointer_mut("/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut)
            && title.starts_with("CustomResourceDefinition ")
        {
            let removed = annotations.remove("helm.sh/resource-policy");
            assert_eq!(removed.unwrap_or_default(), "keep", "{title}");
        }
    }
    objects
}

/// Asserts that the files of Secrets have mode 0440. YAML 1.2 reads a plain 0440 as 440.
fn have_modes(what: &str, objects: &BTreeMap<String, Value>) {
    for (title, object) in objects {
        let volumes = object.pointer("/spec/template/spec/volumes");
        for volume in volumes.and_then(Value::as_array).into_iter().flatten() {
            let mode = volume.pointer("/secret/defaultMode");
            let is_right = mode.is_none_or(|mode| *mode == 0o440);
            assert!(is_right, "{what}: {title}: {volume}");
        }
    }
}

fn compare(what: &str, installed: &BTreeMap<String, Value>, rendered: BTreeMap<String, Value>) {
    let rendered = without_policy(rendered);
    let titles = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(titles(installed), titles(&rendered), "{what}");
    for (title, object) in installed {
        assert_eq!(object, &rendered[title], "{what}: {title}");
    }
}

#[test]
fn install_and_the_chart_apply_the_same_with_every_option() {
    for (options, values) in SAME {
        let installed = installed(options.split_whitespace());
        assert!(installed.len() > 15, "{options}");
        have_modes(options, &installed);
        let values = [values, &["namespace.create=true"]].concat();
        compare(options, &installed, rendered(&values));
    }
}

#[test]
fn install_and_chart_publish_the_same_external_authority() {
    let validity = Duration::from_secs(3600);
    let authority = Authority::new("causeway test CA", validity, SystemTime::now());
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.expect("an authority").pem()).expect("a file");
    let path = file.path().display().to_string();
    let url = "https://webhook.example:9443";
    let options = ["--external", "--webhook-url", url, "--webhook-ca", &path];
    let args = [
        "--no-hooks".to_owned(),
        "--set=namespace.create=true,external.enabled=true".to_owned(),
        format!("--set=external.webhookURL={url}"),
        format!("--set-file=external.caBundle={path}"),
    ];
    let rendered = objects(&chart::template(args).unwrap_or_else(|e| panic!("{e}")));
    let bundle = "/webhooks/0/clientConfig/caBundle";
    let registered = &rendered["MutatingWebhookConfiguration /causeway"];
    assert!(registered.pointer(bundle).is_some(), "{registered}");
    compare("--webhook-ca", &installed(options.into_iter()), rendered);
}

#[test]
fn every_option_of_install_is_compared() {
    let help = Command::new(binaries::causeway("kubectl-mcs"))
        .args(["install", "--help"])
        .output();
    let help = String::from_utf8(help.expect("kubectl-mcs").stdout).expect("text");
    let (_, flags) = help.split_once("Options:").expect("options");
    let words = flags.lines().filter_map(|line| {
        let line = line.trim_start();
        line.starts_with('-').then_some(line)
    });
    let flags = words.flat_map(|line| line.split([' ', ',', '=', '[']).take(3));
    let flags: BTreeSet<_> = flags.filter(|word| word.starts_with("--")).collect();
    assert!(flags.len() > 15, "{flags:?}");
    let compared = SAME
        .iter()
        .flat_map(|(options, _)| options.split_whitespace());
    let compared: BTreeSet<_> = compared.chain(OTHERS).collect();
    let missing: Vec<_> = flags.difference(&compared).collect();
    assert!(
        missing.is_empty(),
        "options that are compared with no value of the chart: {missing:?}"
    );
}
