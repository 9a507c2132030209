//! Writes the CustomResourceDefinitions under `manifests/` from the API types, and the alerting rules and dashboards; `--check` only
//! compares. `--short-rules` prints the rules with short times, for tests.

mod monitoring;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use causeway::api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use monitoring::Times;
use serde::Serialize;

/// Directories of definitions. Those of a hub are in the chart too, which can hold no file from outside.
const HUB: [&str; 2] = ["crds/hub", "chart/files/crds"];
const MEMBER: [&str; 1] = ["crds/member"];

/// Files of the alerting rules; the chart wraps them.
const RULES: [&str; 2] = ["monitoring/rules.yaml", "chart/files/monitoring/rules.yaml"];
const DASHBOARDS: &str = "monitoring/dashboards";
const RULES_HEADER: &str = "# Written by `make manifests`; changes made here are lost. docs/troubleshooting.md has the runbooks.\n";

const HEADER: &str =
    "# Generated from the Rust types by `make manifests`; changes made here are lost.\n";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{name} cannot be written as YAML: {source}")]
    Yaml {
        name: String,
        source: serde_saphyr::ser::Error,
    },
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{name} cannot be written as JSON: {source}")]
    Json {
        name: &'static str,
        source: serde_json::Error,
    },
}

fn main() -> ExitCode {
    let check = match env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some("--short-rules") => return print_short_rules(),
        Some(other) => {
            eprintln!(
                "error: unknown argument {other:?}; usage: generate-manifests [--check|--short-rules]"
            );
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    match generated().and_then(|files| {
        if check {
            drift(&root, &files)
        } else {
            write(&root, &files).map(|()| Vec::new())
        }
    }) {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            eprintln!(
                "error: not as the sources say: {}; run `make manifests`",
                stale.join(", ")
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Every generated file: its path under `manifests/` and its text.
fn generated() -> Result<BTreeMap<String, String>, Error> {
    let mut files = BTreeMap::new();
    for (directories, definitions) in [(&HUB[..], crds::hub()), (&MEMBER, crds::member())] {
        for definition in definitions {
            let name = definition.metadata.name.as_deref().unwrap_or_default();
            let text = definition_yaml(&definition)?;
            let paths = directories.iter().map(|one| format!("{one}/{name}.yaml"));
            files.extend(paths.map(|path| (path, text.clone())));
        }
    }
    let rules = rules_yaml(Times::REAL)?;
    files.extend(RULES.map(|path| (path.to_owned(), rules.clone())));
    for (name, dashboard) in monitoring::dashboards() {
        let text = serde_json::to_string_pretty(&dashboard);
        let text = text.map_err(|source| Error::Json { name, source })?;
        files.insert(format!("{DASHBOARDS}/{name}.json"), format!("{text}\n"));
    }
    Ok(files)
}

fn print_short_rules() -> ExitCode {
    match rules_yaml(Times::SHORT) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn rules_yaml(times: Times) -> Result<String, Error> {
    let rules = yaml("the alerting rules", &monitoring::rules(times))?;
    Ok(format!("{RULES_HEADER}{rules}"))
}

fn definition_yaml(definition: &CustomResourceDefinition) -> Result<String, Error> {
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    Ok(format!("{HEADER}{}", yaml(name, definition)?))
}

fn yaml(name: &str, value: &impl Serialize) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! {
        compact_list_indent: false,
        prefer_block_scalars: false,
    };
    serde_saphyr::to_string_with_options(value, options).map_err(|source| Error::Yaml {
        name: name.to_owned(),
        source,
    })
}

fn write(root: &Path, files: &BTreeMap<String, String>) -> Result<(), Error> {
    for (name, text) in files {
        let path = root.join(name);
        let result = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text));
        result.map_err(|source| Error::Io { path, source })?;
    }
    Ok(())
}

/// The files that are missing, different, or generated from nothing.
fn drift(root: &Path, files: &BTreeMap<String, String>) -> Result<Vec<String>, Error> {
    let mut stale: Vec<String> = files
        .iter()
        .filter(|(name, text)| fs::read_to_string(root.join(name)).ok().as_ref() != Some(text))
        .map(|(name, _)| name.clone())
        .collect();
    for directory in HUB.iter().chain(&MEMBER).chain([&DASHBOARDS]) {
        let path = root.join(directory);
        let io = |source| Error::Io {
            path: path.clone(),
            source,
        };
        for entry in fs::read_dir(&path).map_err(io)? {
            let name = format!(
                "{directory}/{}",
                entry.map_err(io)?.file_name().to_string_lossy()
            );
            if !files.contains_key(&name) {
                stale.push(name);
            }
        }
    }
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
    }

    #[test]
    fn the_written_files_are_those_of_the_sources() {
        let files = generated().expect("definitions");
        assert_eq!(
            drift(&root(), &files).expect("readable"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_changed_a_missing_and_a_stray_file_are_drift() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut files = generated().expect("definitions");
        write(directory.path(), &files).expect("written");
        fs::write(directory.path().join("crds/hub/stray.yaml"), "").expect("written");
        let mut expected: Vec<String> = files.keys().take(1).cloned().collect();
        for text in files.values_mut().take(1) {
            text.push('#');
        }
        files.insert("crds/member/missing.yaml".to_owned(), String::new());
        expected.extend([
            "crds/member/missing.yaml".to_owned(),
            "crds/hub/stray.yaml".to_owned(),
        ]);
        assert_eq!(drift(directory.path(), &files).expect("readable"), expected);
    }

    #[test]
    fn the_yaml_reads_back_as_what_was_written() {
        let files = generated().expect("definitions").into_iter();
        for (name, text) in files.filter(|(name, _)| name.contains("crds/")) {
            let read: CustomResourceDefinition = serde_saphyr::from_str(&text).expect(&name);
            let written = crds::hub()
                .into_iter()
                .chain(crds::member())
                .find(|crd| crd.metadata.name == read.metadata.name);
            assert_eq!(Some(read), written, "{name}");
        }
    }
}
