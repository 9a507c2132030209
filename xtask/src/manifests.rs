//! CustomResourceDefinitions from the API types, dashboards, and the chart's copy of the alerting
//! rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use causeway::api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::dashboards::Dashboard;
use crate::generated::Generated;
use crate::repository;

/// Directories of definitions. The chart has copies of those of a hub, and of the alerting rules:
/// it can hold no file from outside.
const HUB: [&str; 2] = ["crds/hub", "chart/files/crds"];
const MEMBER: [&str; 1] = ["crds/member"];
const RULES: &str = "monitoring/rules.yaml";
const DASHBOARDS: &str = "monitoring/dashboards";

const HEADER: &str =
    "# Generated from the Rust types by `make manifests`; changes made here are lost.\n";

/// Arguments of `generate-manifests`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only compare the files with the sources
    #[arg(long)]
    check: bool,
}

/// Writes or compares the files.
pub(crate) fn generate(args: &Args) -> anyhow::Result<()> {
    let root = repository().join("manifests");
    generated(&root)?.settle(&root, args.check)
}

fn generated(root: &Path) -> anyhow::Result<Generated> {
    let mut files = BTreeMap::new();
    for (directories, definitions) in [(&HUB[..], crds::hub()), (&MEMBER, crds::member())] {
        for definition in definitions {
            let name = definition.metadata.name.as_deref().unwrap_or_default();
            let text = definition_yaml(&definition);
            let text = text.with_context(|| format!("{name} cannot be written as YAML"))?;
            let paths = directories.iter().map(|one| format!("{one}/{name}.yaml"));
            files.extend(paths.map(|path| (path, text.clone())));
        }
    }
    let rules = fs::read_to_string(root.join(RULES));
    let rules = rules.with_context(|| format!("cannot read {RULES}"))?;
    files.insert(format!("chart/files/{RULES}"), rules);
    for dashboard in Dashboard::all()? {
        let path = format!("{DASHBOARDS}/{}.json", dashboard.name);
        files.insert(path, format!("{:#}\n", dashboard.json()));
    }
    let directories = HUB.into_iter().chain(MEMBER).chain([DASHBOARDS]);
    Ok(Generated {
        files,
        directories: directories.collect(),
    })
}

fn definition_yaml(definition: &CustomResourceDefinition) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! {
        compact_list_indent: false,
        prefer_block_scalars: false,
    };
    let text = serde_saphyr::to_string_with_options(definition, options)?;
    Ok(format!("{HEADER}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_are_those_of_the_sources() {
        generate(&Args { check: true }).expect("no drift");
    }

    #[test]
    fn yaml_reads_back_as_it_was_written() {
        let root = repository().join("manifests");
        let files = generated(&root).expect("definitions").files.into_iter();
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
