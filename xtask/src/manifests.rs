//! CustomResourceDefinitions from the API types, alerting rules and dashboards.

use std::collections::BTreeMap;

use anyhow::Context as _;
use causeway::api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;

use crate::generated::Generated;
use crate::monitoring::{self, Times};
use crate::repository;

/// Directories of definitions. Those of a hub are in the chart too, which can hold no file from
/// outside.
const HUB: [&str; 2] = ["crds/hub", "chart/files/crds"];
const MEMBER: [&str; 1] = ["crds/member"];

/// Files of the alerting rules; the chart wraps them.
const RULES: [&str; 2] = ["monitoring/rules.yaml", "chart/files/monitoring/rules.yaml"];
const DASHBOARDS: &str = "monitoring/dashboards";
const RULES_HEADER: &str = "# Written by `make manifests`; changes made here are lost. docs/troubleshooting.md has the runbooks.\n";

const HEADER: &str =
    "# Generated from the Rust types by `make manifests`; changes made here are lost.\n";

/// Arguments of `generate-manifests`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only compare the files with the sources
    #[arg(long)]
    check: bool,

    /// Only print the alerting rules with short times, for tests
    #[arg(long, conflicts_with = "check")]
    short_rules: bool,
}

/// Writes or compares the files.
pub(crate) fn generate(args: &Args) -> anyhow::Result<()> {
    if args.short_rules {
        print!("{}", rules_yaml(Times::SHORT)?);
        return Ok(());
    }
    generated()?.settle(&repository().join("manifests"), args.check)
}

fn generated() -> anyhow::Result<Generated> {
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
        let text = serde_json::to_string_pretty(&dashboard).context(name)?;
        files.insert(format!("{DASHBOARDS}/{name}.json"), format!("{text}\n"));
    }
    let directories = HUB.into_iter().chain(MEMBER).chain([DASHBOARDS]);
    Ok(Generated {
        files,
        directories: directories.collect(),
    })
}

fn rules_yaml(times: Times) -> anyhow::Result<String> {
    let rules = yaml(&monitoring::rules(times)).context("the alerting rules")?;
    Ok(format!("{RULES_HEADER}{rules}"))
}

fn definition_yaml(definition: &CustomResourceDefinition) -> anyhow::Result<String> {
    let name = definition.metadata.name.clone().unwrap_or_default();
    Ok(format!("{HEADER}{}", yaml(definition).context(name)?))
}

fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! {
        compact_list_indent: false,
        prefer_block_scalars: false,
    };
    let text = serde_saphyr::to_string_with_options(value, options);
    text.context("cannot be written as YAML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_are_those_of_the_sources() {
        let args = Args {
            check: true,
            short_rules: false,
        };
        generate(&args).expect("no drift");
    }

    #[test]
    fn yaml_reads_back_as_it_was_written() {
        let files = generated().expect("definitions").files.into_iter();
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
