//! The manifest for krew, filled in for the archives of a release, by the rules with which krew's
//! own index checks it (`validate-krew-manifest`), and by those that its guide for developers gives
//! beside them.
//!
//! krew's checks are internal to its module, so that no other program can call them: they are
//! written here again.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use causeway_tests::repository;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Platforms of krew.
const PLATFORMS: [[&str; 2]; 9] = [
    ["windows", "386"],
    ["windows", "amd64"],
    ["windows", "arm64"],
    ["linux", "386"],
    ["linux", "amd64"],
    ["linux", "arm"],
    ["linux", "arm64"],
    ["darwin", "amd64"],
    ["darwin", "arm64"],
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugin {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    version: String,
    homepage: String,
    short_description: String,
    description: String,
    #[serde(default)]
    caveats: String,
    platforms: Vec<Platform>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    selector: Selector,
    uri: String,
    sha256: String,
    bin: String,
    files: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    from: String,
    to: String,
}

impl Selector {
    fn selects(&self, [os, arch]: [&str; 2]) -> bool {
        let mut labels = self.match_labels.iter();
        labels.all(|(key, value)| match key.as_str() {
            "os" => value == os,
            "arch" => value == arch,
            _ => false,
        })
    }
}

/// Returns the problems that krew's checks find in a manifest of that file's name.
fn problems(file: &str, manifest: &Value) -> Vec<String> {
    let plugin: Plugin = match serde_json::from_value(manifest.clone()) {
        Ok(plugin) => plugin,
        Err(error) => return vec![error.to_string()],
    };
    let spec = &plugin.spec;
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &plugin.metadata.name;
    let mut wrong = Vec::new();
    let mut check = |holds: bool, rule: &str| {
        if !holds {
            wrong.push(rule.to_owned());
        }
    };
    check(
        plugin.api_version == "krew.googlecontainertools.github.com/v1alpha2",
        "apiVersion",
    );
    check(plugin.kind == "Plugin", "kind");
    check(!name.is_empty() && name.chars().all(is_word), "name");
    check(format!("{name}.yaml") == file, "the name of the file");
    check(is_version(&spec.version), "version");
    check(spec.homepage.starts_with("https://"), "homepage");
    let short = &spec.short_description;
    check(
        !short.is_empty() && !short.contains('\n'),
        "shortDescription",
    );
    check(short.len() <= 50, "the length of shortDescription");
    check(!spec.description.is_empty(), "description");
    for text in [&spec.description, &spec.caveats] {
        check(
            text.lines().all(|line| line.len() <= 80),
            "the width of texts",
        );
    }
    check(!spec.platforms.is_empty(), "platforms");
    for platform in &spec.platforms {
        let labels = &platform.selector.match_labels;
        let is_selected = PLATFORMS.iter().any(|it| platform.selector.selects(*it));
        check(!labels.is_empty() && is_selected, "selector");
        check(is_archive(&platform.uri), "uri");
        check(is_checksum(&platform.sha256), "sha256");
        let names_program = platform.files.iter().any(|file| file.from == platform.bin);
        check(!platform.bin.is_empty() && names_program, "bin");
        let is_whole = |file: &File| !file.from.is_empty() && !file.to.is_empty();
        check(platform.files.iter().all(is_whole), "files");
        let mut files = platform.files.iter();
        check(files.any(|file| file.from == "LICENSE"), "the licence");
    }
    for one in PLATFORMS {
        let selecting = spec.platforms.iter().filter(|it| it.selector.selects(one));
        check(selecting.count() <= 1, "selectors that overlap");
    }
    wrong
}

/// A semantic version behind the v that krew requires: three numbers and perhaps the words of a
/// version that is to come.
fn is_version(text: &str) -> bool {
    let Some(text) = text.strip_prefix('v') else {
        return false;
    };
    let (numbers, words) = text.split_once('-').unwrap_or((text, "dev"));
    let is_number = |part: &str| part.parse::<u32>().is_ok_and(|it| it.to_string() == part);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_word = |part: &str| !part.is_empty() && part.chars().all(is_letter);
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && words.split('.').all(is_word)
}

fn is_archive(uri: &str) -> bool {
    uri.starts_with("https://") && (uri.ends_with(".tar.gz") || uri.ends_with(".zip"))
}

fn is_checksum(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.len() == 64 && text.chars().all(is_digit)
}

fn render(directory: &Path) -> Output {
    Command::new(repository().join("xtask/release/krew"))
        .arg(directory)
        .output()
        .expect("xtask/release/krew runs")
}

/// Creates the archive of a platform: the program and the licence.
fn archive(directory: &Path, platform: &str) -> String {
    std::fs::write(directory.join("kubectl-mcs"), platform).expect("a program");
    let licence = repository().join("LICENSE");
    std::fs::copy(licence, directory.join("LICENSE")).expect("a licence");
    let file = directory.join(format!("kubectl-mcs-v{VERSION}-{platform}.tar.gz"));
    let tar = Command::new("tar")
        .arg("-C")
        .arg(directory)
        .arg("-czf")
        .arg(&file)
        .args(["kubectl-mcs", "LICENSE"])
        .status();
    assert!(tar.expect("tar").success());
    let sum = Sha256::digest(std::fs::read(file).expect("an archive"));
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn rendered(directory: &Path) -> Value {
    let output = render(directory);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    serde_saphyr::from_str(&text).expect("YAML")
}

#[test]
fn krew_accepts_the_manifest_of_a_release_and_finds_its_archives() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = render(directory.path());
    assert!(!output.status.success(), "there is no archive");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no kubectl-mcs-v"));

    let platforms = ["linux-amd64", "linux-arm64"];
    let sums = platforms.map(|platform| archive(directory.path(), platform));
    let manifest = rendered(directory.path());
    assert_eq!(problems("mcs.yaml", &manifest), Vec::<String>::new());
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], format!("v{VERSION}"));
    let all = spec["platforms"].as_array().expect("platforms");
    assert_eq!(all.len(), 2);
    for ((one, platform), sum) in all.iter().zip(platforms).zip(sums) {
        let labels = &one["selector"]["matchLabels"];
        let (os, arch) = platform.split_once('-').expect("a platform");
        assert_eq!(labels, &json!({ "os": os, "arch": arch }));
        assert_eq!(one["sha256"], sum);
        let uri = one["uri"].as_str().expect("a URI");
        let file = format!("/v{VERSION}/kubectl-mcs-v{VERSION}-{platform}.tar.gz");
        assert!(uri.ends_with(&file), "{uri}");
    }
    let text = manifest.to_string();
    for placeholder in ["VERSION", "ARCH", "SHA256", "OS\""] {
        assert!(!text.contains(placeholder), "{placeholder} is left: {text}");
    }
}

#[test]
fn what_krew_refuses_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    archive(directory.path(), "linux-amd64");
    archive(directory.path(), "linux-arm64");
    let good = rendered(directory.path());
    for (pointer, value, rule) in [
        ("/apiVersion", json!("v1"), "apiVersion"),
        ("/kind", json!("Plug"), "kind"),
        ("/metadata/name", json!("a b"), "name"),
        ("/metadata/name", json!("other"), "the name of the file"),
        ("/spec/version", json!("0.1.0"), "version"),
        ("/spec/version", json!("v0.1"), "version"),
        ("/spec/version", json!("v0.1.0-"), "version"),
        ("/spec/shortDescription", json!(""), "shortDescription"),
        ("/spec/shortDescription", json!("a\nb"), "shortDescription"),
        (
            "/spec/description",
            json!("a ".repeat(50)),
            "the width of texts",
        ),
        ("/spec/platforms", json!([]), "platforms"),
        ("/spec/platforms/0/sha256", json!("SHA256"), "sha256"),
        ("/spec/platforms/0/uri", json!("https://a/b"), "uri"),
        ("/spec/platforms/0/bin", json!("mcs"), "bin"),
        ("/spec/platforms/0/files/0/to", json!(""), "files"),
        (
            "/spec/platforms/0/files/1/from",
            json!("README"),
            "the licence",
        ),
        (
            "/spec/platforms/0/selector/matchLabels",
            json!({}),
            "selector",
        ),
        (
            "/spec/platforms/0/selector/matchLabels/os",
            json!("plan9"),
            "selector",
        ),
        (
            "/spec/platforms/0/selector/matchLabels/arch",
            json!("arm64"),
            "selectors that overlap",
        ),
        (
            "/spec/platforms/0/selector",
            json!({ "matchLabels": { "cpu": "a" } }),
            "selector",
        ),
        (
            "/spec/platforms/0/selector",
            json!({ "any": {} }),
            "unknown field",
        ),
    ] {
        let mut manifest = good.clone();
        *manifest.pointer_mut(pointer).expect(pointer) = value;
        let problems = problems("mcs.yaml", &manifest);
        let is_found = problems.iter().any(|one| one.contains(rule));
        assert!(is_found, "{pointer}, {rule}: {problems:?}");
    }
}
