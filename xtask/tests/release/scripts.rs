//! `make release` without compiling: its refusals, the notes, the manifests of one file, the
//! completion.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use causeway_tests::{binaries, repository};
use serde_json::Value;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Directory of the scripts of a release.
const SCRIPTS: &str = "xtask/release";

/// A repository with one commit, whose only program is a kubectl-mcs of version 0.3.0, and
/// causeway's scripts of a release.
fn example(changelog: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    for path in [SCRIPTS, "src"] {
        fs::create_dir_all(root.join(path)).expect("a directory");
    }
    for script in fs::read_dir(repository().join(SCRIPTS)).expect("scripts") {
        let script = script.expect("a script");
        let copied = root.join(SCRIPTS).join(script.file_name());
        fs::copy(script.path(), copied).expect("a script");
    }
    let manifest = "[package]\nname = \"kubectl-mcs\"\nversion = \"0.3.0\"\nedition = \"2024\"\n\n[workspace]\n";
    let lock = "version = 4\n\n[[package]]\nname = \"kubectl-mcs\"\nversion = \"0.3.0\"\n";
    for (path, text) in [
        ("Cargo.toml", manifest),
        ("Cargo.lock", lock),
        ("src/main.rs", "fn main() {}\n"),
        ("CHANGELOG.md", changelog),
    ] {
        fs::write(root.join(path), text).expect(path);
    }
    git(root, &["init", "--quiet"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message=All"]);
    directory
}

fn git(root: &Path, args: &[&str]) {
    let someone = [
        "-c",
        "user.name=Someone",
        "-c",
        "user.email=someone@localhost",
    ];
    let mut git = Command::new("git");
    let status = git.current_dir(root).args(someone).args(args).status();
    assert!(status.expect("git").success(), "git {args:?}");
}

fn release(root: &Path, name: &str, value: &str) -> Output {
    let script = root.join("xtask/release/make");
    let mut command = Command::new(script);
    command.env_remove("DRAFT").env_remove("DIST");
    command
        .env(name, value)
        .output()
        .expect("xtask/release/make")
}

fn notes(root: &Path, version: &str) -> Output {
    let notes = Command::new(root.join("xtask/release/notes"))
        .arg(version)
        .output();
    notes.expect("xtask/release/notes")
}

/// Returns the standard error of a failed command.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n- Soon.\n\n## [0.3.0] - 2026-12-01\n\n\
    ### Added\n- All ([images](docs/images.md#push), [far](https://example.test/a.md)).\n\n## [0.2.0] - unreleased\n\n- Old.\n";

#[test]
fn a_release_is_made_of_a_commit_that_says_what_is_new_in_its_version() {
    let dated = example(CHANGELOG);
    let root = dated.path();
    let elsewhere = tempfile::tempdir().expect("a directory");
    fs::write(elsewhere.path().join("mine"), "").expect("a file");
    let said = refused(&release(
        root,
        "DIST",
        &elsewhere.path().display().to_string(),
    ));
    assert!(said.contains("holds something else"), "{said}");
    assert!(elsewhere.path().join("mine").is_file());

    git(root, &["tag", "v0.4.0"]);
    let said = refused(&release(root, "DIST", "dist"));
    let expected = "no release: the commit is tagged v0.4.0, but its version is 0.3.0\n";
    assert_eq!(said, expected);
    git(root, &["tag", "v0.3.0"]);
    fs::write(root.join("src/main.rs"), "fn main() {\n}\n").expect("a change");
    let said = refused(&release(root, "DIST", "dist"));
    let expected = "no release: the work tree differs from its commit; commit first, or make a draft with DRAFT=1\n";
    assert_eq!(said, expected);

    for changelog in ["## [Unreleased]\n\n- Soon.\n", "## [0.3.0] - unreleased\n"] {
        let undated = example(changelog);
        let said = refused(&release(undated.path(), "DIST", "dist"));
        let expected = "CHANGELOG.md has no section '## [0.3.0] - YYYY-MM-DD'";
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn the_notes_are_the_section_of_the_version_and_its_links_lead_somewhere() {
    let example = example(CHANGELOG);
    let all = printed(&notes(example.path(), "0.3.0"));
    let page = "https://causeway.dev/causeway/blob/v0.3.0/docs/images.md#push";
    let expected =
        format!("### Added\n- All ([images]({page}), [far](https://example.test/a.md)).\n\n");
    assert_eq!(all, expected);
    assert_eq!(printed(&notes(example.path(), "Unreleased")), "- Soon.\n\n");
    for version in ["0.2.0", "0.9.0", "0.3"] {
        let said = refused(&notes(example.path(), version));
        assert!(said.contains(&format!("'## [{version}] - ")), "{said}");
    }
}

/// The objects of some files, each as the text of its JSON.
fn objects(files: &[PathBuf]) -> BTreeSet<String> {
    let texts = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("a manifest"));
    let documents =
        texts.flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).expect("YAML"));
    documents.map(|object| object.to_string()).collect()
}

fn yaml_in(path: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(path)).expect(path);
    let paths = entries.map(|entry| entry.expect("a file").path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .collect()
}

fn write_manifests(directory: &Path) {
    let output = Command::new(repository().join("xtask/release/manifests"))
        .arg(VERSION)
        .arg(directory)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output();
    printed(&output.expect("xtask/release/manifests"));
}

#[test]
fn one_file_installs_what_the_manifests_of_a_hub_do() {
    let directory = tempfile::tempdir().expect("a directory");
    write_manifests(directory.path());
    let made = |file: &str| objects(&[directory.path().join(file)]);
    let definitions = yaml_in("manifests/crds/hub");
    assert_eq!(made("crds.yaml"), objects(&definitions));
    let all = [definitions, yaml_in("manifests/hub")].concat();
    assert_eq!(made("install.yaml"), objects(&all));
    assert!(made("install.yaml").len() > 15);
}

#[test]
fn the_archive_of_the_manifests_is_the_same_each_time_and_unpacks_below_its_version() {
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [first, second] = directories.each_ref().map(|directory| {
        write_manifests(directory.path());
        directory
            .path()
            .join(format!("causeway-manifests-v{VERSION}.tar.gz"))
    });
    let read = |archive: &Path| fs::read(archive).expect("an archive");
    assert!(read(&first) == read(&second), "the bytes differ");

    let list = Command::new("tar").arg("-tzf").arg(&first).output();
    let list = printed(&list.expect("tar"));
    let prefix = format!("causeway-v{VERSION}/");
    assert!(list.lines().all(|path| path.starts_with(&prefix)), "{list}");
    for path in [
        "LICENSE",
        "manifests/hub/rbac.yaml",
        "manifests/member/rbac.yaml",
    ] {
        let path = format!("{prefix}{path}");
        assert!(list.lines().any(|line| line == path), "{path}: {list}");
    }
}

/// A directory with a program of this name that runs a shell script, first in the PATH of
/// [`script`].
fn stand_in(name: &str, body: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a program");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, executable).expect("an executable program");
    directory
}

/// A script of the repository, with these programs before those of the system.
fn script(path: &str, programs: &Path) -> Command {
    let mut command = Command::new(repository().join(path));
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    for name in ["COSIGN_KEY", "SIGSTORE_ID_TOKEN", "TAG", "SKOPEO_FLAGS"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn provenance_names_the_commit_and_every_file() {
    let files = tempfile::tempdir().expect("a directory");
    fs::write(files.path().join("a.tar"), "a\n").expect("a file");
    fs::write(files.path().join("b.txt"), "b\n").expect("a file");
    let mut provenance = script("xtask/release/provenance", files.path());
    let provenance = provenance.args(["0123abcd", "x86_64-unknown-linux-gnu"]);
    let printed = printed(&provenance.arg(files.path()).output().expect("a script"));
    let statement: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let subjects = statement["subject"].as_array().expect("subjects");
    let names: Vec<_> = subjects.iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["a.tar", "b.txt"]);
    let digest = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7";
    assert_eq!(statement["subject"][0]["digest"]["sha256"], digest);
    let sources = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    assert_eq!(sources[0]["digest"]["gitCommit"], "0123abcd");
}

#[test]
fn checksums_are_signed_if_a_key_or_an_identity_is_given() {
    let files = tempfile::tempdir().expect("a directory");
    let sums = files.path().join("SHA256SUMS");
    fs::write(&sums, "").expect("a file");
    let cosign = stand_in("cosign", "echo \"$@\" > \"$(dirname \"$0\")/said\"");
    let sign = |variable: &str, programs: &Path, what: &Path| {
        let mut sign = script("xtask/release/sign", programs);
        sign.env(variable, "given")
            .arg(what)
            .output()
            .expect("a script")
    };
    let unsigned = printed(&sign("UNRELATED", cosign.path(), &sums));
    assert!(
        unsigned.starts_with("not signed: give a key in COSIGN_KEY"),
        "{unsigned}"
    );
    assert!(!cosign.path().join("said").exists());
    for (variable, key) in [("COSIGN_KEY", "--key given "), ("SIGSTORE_ID_TOKEN", "")] {
        let missing = refused(&sign(variable, files.path(), Path::new("check")));
        assert!(
            missing.starts_with("cosign is missing: go install"),
            "{missing}"
        );
        printed(&sign(variable, cosign.path(), &sums));
        let said = fs::read_to_string(cosign.path().join("said")).expect("a signature");
        let sums = sums.display();
        let expected = format!("sign-blob --yes {key}--bundle {sums}.sigstore.json {sums}\n");
        assert_eq!(said, expected);
    }
}

#[test]
fn images_of_a_dirty_work_tree_are_not_pushed_over_a_version() {
    let images = tempfile::tempdir().expect("a directory");
    fs::write(images.path().join("causeway-webhook.tar"), "").expect("a file");
    let body = |revision: &str| {
        format!(
            "case $* in *revision*) echo {revision};; *version*) echo 0.3.0;; *title*) echo causeway-webhook;; \
             *Digest*) echo sha256:0;; *) echo \"$@\" > \"$(dirname \"$0\")/copied\";; esac"
        )
    };
    for (revision, tag, pushed) in [
        ("0123-dirty", None, None),
        ("0123-dirty", Some("0.3.0"), None),
        ("0123-dirty", Some("trial"), Some("trial")),
        ("0123", None, Some("0.3.0")),
    ] {
        let skopeo = stand_in("skopeo", &body(revision));
        let mut push = script("xtask/images/push", skopeo.path());
        push.envs(tag.map(|tag| ("TAG", tag)));
        let push = push.arg(images.path()).arg("registry.example/team");
        let output = push.output().expect("xtask/images/push");
        let is_copied = skopeo.path().join("copied").exists();
        assert_eq!(is_copied, pushed.is_some(), "{revision} as {tag:?}");
        match pushed {
            None => {
                let said = refused(&output);
                assert!(said.contains("commit first, or give another tag"), "{said}");
            }
            Some(tag) => {
                let image = format!("registry.example/team/causeway-webhook:{tag}@sha256:0\n");
                assert_eq!(printed(&output), image);
            }
        }
    }
}

/// krew unpacks regular files and directories alone, so that the second name of kubectl-mcs cannot
/// be a link.
#[test]
fn kubectl_mcs_completes_under_the_name_that_a_release_brings() {
    let directory = tempfile::tempdir().expect("a directory");
    binaries::link_kubectl(directory.path()).expect("kubectl and its plugin");
    let completed = Command::new(repository().join("xtask/release/kubectl_complete-mcs"))
        .arg("expl")
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", directory.path().display()),
        )
        .output();
    let text = printed(&completed.expect("xtask/release/kubectl_complete-mcs"));
    assert!(text.starts_with("explain\t"), "{text}");
}
