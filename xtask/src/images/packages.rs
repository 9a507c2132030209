//! Packages as Cargo describes them: versions, licences, descriptions.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::command;

/// The packages of the workspace and all that they are built from, for one target.
#[derive(Debug, Deserialize)]
pub(crate) struct Packages {
    packages: Vec<Package>,
    /// The root of the repository.
    pub workspace_root: PathBuf,
    /// Cargo's target directory.
    pub target_directory: PathBuf,
}

/// A package, as its manifest describes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An SPDX expression, or the older form `A/B`.
    pub license: Option<String>,
    /// A line about it.
    pub description: Option<String>,
    /// Address of its sources.
    pub repository: Option<String>,
    /// Its manifest, on this machine.
    manifest_path: PathBuf,
}

impl Package {
    /// The directory of its sources.
    pub(crate) fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }

    /// Its licence, as an SPDX expression.
    pub(crate) fn license_expression(&self) -> Option<String> {
        Some(self.license.as_ref()?.replace('/', " OR "))
    }
}

impl Packages {
    /// Asks Cargo, in the working directory.
    pub(crate) fn of(cargo: &mut Command, target: &str) -> anyhow::Result<Self> {
        let answer = command::output(
            cargo
                .args(["metadata", "--locked", "--format-version=1"])
                .args(["--filter-platform", target]),
        )?;
        serde_json::from_str(&answer).context("what `cargo metadata` prints cannot be read")
    }

    /// The package of that name; the only one, as those of the workspace are.
    pub(crate) fn named(&self, name: &str) -> anyhow::Result<&Package> {
        let mut packages = self.packages.iter();
        packages
            .find(|package| package.name == name)
            .with_context(|| format!("the workspace has no package {name}"))
    }

    /// The package of that name and version.
    pub(crate) fn of_version(&self, name: &str, version: &str) -> anyhow::Result<&Package> {
        let mut packages = self.packages.iter();
        packages
            .find(|package| package.name == name && package.version == version)
            .with_context(|| format!("the workspace has no package {name} {version}"))
    }

    /// The licence of a package, as an SPDX expression.
    pub(crate) fn license(&self, name: &str, version: &str) -> Option<String> {
        let package = self.of_version(name, version).ok()?;
        package.license_expression()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Some packages, as Cargo describes them.
    pub(crate) fn packages() -> Packages {
        packages_in(Path::new("/causeway"))
    }

    /// The same, with their sources in this directory.
    pub(crate) fn packages_in(root: &Path) -> Packages {
        let package = |name: &str, version: &str, license: Option<&str>| {
            json!({
                "name": name, "version": version, "license": license, "targets": [],
                "description": null, "repository": null,
                "manifest_path": root.join(name).join("Cargo.toml"),
            })
        };
        let mut webhook = package("causeway-webhook", "0.1.0", Some("Apache-2.0"));
        webhook["description"] = json!("A webhook");
        webhook["repository"] = json!("https://example.test/causeway");
        let packages = [
            webhook,
            package("itoa", "1.0.0", Some("MIT/Apache-2.0")),
            package("ring", "0.17.0", None),
            package("webpki-root-certs", "1.0.0", Some("CDLA-Permissive-2.0")),
        ];
        let answer = json!({
            "packages": packages,
            "workspace_root": root, "target_directory": root.join("target"), "version": 1,
        });
        serde_json::from_value(answer).expect("packages")
    }

    #[test]
    fn a_package_is_found_by_its_name() {
        let packages = packages();
        let package = packages.named("causeway-webhook").expect("a package");
        assert_eq!(package.description.as_deref(), Some("A webhook"));
        let error = packages.named("causeway").expect_err("no package");
        assert_eq!(error.to_string(), "the workspace has no package causeway");
    }

    #[test]
    fn a_licence_is_an_spdx_expression_or_none() {
        let packages = packages();
        let license = packages.license("itoa", "1.0.0");
        assert_eq!(license.as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(packages.license("itoa", "2.0.0"), None);
        assert_eq!(packages.license("ring", "0.17.0"), None);
    }
}
