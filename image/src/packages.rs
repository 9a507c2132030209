//! What Cargo knows of the packages: versions, licences, descriptions.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::command::{self, CommandError};

/// The packages of the workspace and all that they are built from, for one target.
#[derive(Debug, Deserialize)]
pub(crate) struct Packages {
    packages: Vec<Package>,
    /// The root of the repository.
    pub workspace_root: PathBuf,
    /// Where Cargo builds.
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
    /// Where its sources are.
    pub repository: Option<String>,
}

/// The packages are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackagesError {
    /// Cargo does not answer.
    #[error(transparent)]
    Cargo(#[from] CommandError),
    /// Its answer cannot be read.
    #[error("what `cargo metadata` prints cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// There is no such package.
    #[error("the workspace has no package {0}")]
    Missing(String),
}

impl Packages {
    /// Asks Cargo, in the working directory.
    pub(crate) fn of(cargo: &mut Command, target: &str) -> Result<Self, PackagesError> {
        let answer = command::output(
            cargo
                .args(["metadata", "--locked", "--format-version=1"])
                .args(["--filter-platform", target]),
        )?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// The package of that name; the only one, as those of the workspace are.
    pub(crate) fn named(&self, name: &str) -> Result<&Package, PackagesError> {
        let mut packages = self.packages.iter();
        packages
            .find(|package| package.name == name)
            .ok_or_else(|| PackagesError::Missing(name.to_owned()))
    }

    /// The licence of a package, as an SPDX expression.
    pub(crate) fn license(&self, name: &str, version: &str) -> Option<String> {
        let mut packages = self.packages.iter();
        let package =
            packages.find(|package| package.name == name && package.version == version)?;
        Some(package.license.as_ref()?.replace('/', " OR "))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Some packages, as Cargo describes them.
    pub(crate) fn packages() -> Packages {
        serde_json::from_str(
            r#"{
              "packages": [
                {"name": "causeway-webhook", "version": "0.1.0", "license": "Apache-2.0",
                 "description": "A webhook", "repository": "https://example.test/causeway", "targets": []},
                {"name": "itoa", "version": "1.0.0", "license": "MIT/Apache-2.0",
                 "description": null, "repository": null},
                {"name": "ring", "version": "0.17.0", "license": null, "description": null, "repository": null}
              ],
              "workspace_root": "/causeway", "target_directory": "/causeway/target", "version": 1
            }"#,
        )
        .expect("packages")
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
