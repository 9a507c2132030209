//! The licences of what others wrote and the programs hold: the texts that each package brings,
//! every text once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use auditable_serde::{DependencyKind, Source, VersionInfo};
use serde::Deserialize;

use super::packages::{Package, Packages};
use super::roots;
use super::toolchain::{CLibrary, Rust};

/// Name of the document.
pub(crate) const NAME: &str = "THIRD-PARTY-LICENSES.txt";

/// The first word of the name of a file with a licence, in lower case: of `LICENSE-MIT` and
/// `COPYING.txt`.
const WORDS: [&str; 9] = [
    "copying",
    "copyright",
    "licence",
    "licences",
    "license",
    "licenses",
    "notice",
    "notices",
    "unlicense",
];

/// First lines of the document.
const HEAD: &str = "\
causeway's programs hold what others wrote, under these licences. The numbers are those of the texts
below. Where a licence leaves a choice, each of its texts is here.
";

/// Packages of others in the page that kubectl-mcs embeds; `cli/ui/build.mjs` writes the list.
const PAGE: &str = "cli/ui/dist/licenses.json";

/// A package of npm's that the page holds.
#[derive(Debug, Deserialize)]
pub(crate) struct PagePackage {
    /// Its name in the registry of npm.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, as an SPDX expression.
    pub license: String,
    source: String,
    text: String,
}

/// Something that others wrote and a program holds.
#[derive(Clone, Debug)]
struct Work {
    /// Its name and its version.
    name: String,
    /// Its licence, as an SPDX expression.
    license: String,
    /// Address of its sources.
    source: Option<String>,
    /// The texts of its licences, as it brings them.
    texts: Vec<String>,
}

/// The licences of what these programs were built from.
pub(crate) fn document<'a>(
    programs: impl IntoIterator<Item = &'a VersionInfo>,
    packages: &Packages,
    rust: &Rust,
    c_library: Option<&CLibrary>,
) -> anyhow::Result<String> {
    let apache = read(&packages.workspace_root.join("LICENSE"))?;
    let crates = programs.into_iter().flat_map(|program| &program.packages);
    let others = crates.filter(|one| {
        one.kind == DependencyKind::Runtime && !one.root && one.source != Source::Local
    });
    let names: BTreeSet<_> = others
        .map(|one| (one.name.as_str(), one.version.to_string()))
        .collect();
    let mut works = Vec::new();
    for (name, version) in &names {
        works.push(Work::of_package(
            packages.of_version(name, version)?,
            &apache,
        )?);
    }
    works.push(Work::of_package(packages.named(roots::PACKAGE)?, &apache)?);
    let page = page(&packages.workspace_root)?;
    works.extend(page.into_iter().map(Work::of_page));
    works.push(standard_library(rust, &apache));
    if let Some(library) = c_library {
        works.push(Work::of_c_library(library)?);
    }
    Ok(print(&works))
}

impl Work {
    /// A package of Cargo's. One under Apache-2.0 that brings no text gets it from causeway, whose
    /// licence it is too.
    fn of_package(package: &Package, apache: &str) -> anyhow::Result<Self> {
        let name = format!("{} {}", package.name, package.version);
        let license = package.license_expression().unwrap_or_default();
        let mut texts = Vec::new();
        for path in files(package.directory())? {
            texts.push(read(&path)?);
        }
        if texts.is_empty() && license.contains("Apache-2.0") {
            texts.push(apache.to_owned());
        }
        ensure!(
            !texts.is_empty(),
            "{name} is under {license}, and no text of that is to be had"
        );
        Ok(Self {
            name,
            license,
            source: package.repository.clone(),
            texts,
        })
    }

    fn of_page(package: PagePackage) -> Self {
        Self {
            name: format!("{} {}", package.name, package.version),
            license: package.license,
            source: Some(package.source),
            texts: vec![package.text],
        }
    }

    fn of_c_library(library: &CLibrary) -> anyhow::Result<Self> {
        let files = library.license_files();
        let texts: anyhow::Result<_> = files.iter().map(|path| read(path)).collect();
        Ok(Self {
            name: format!("{} {}", library.package, library.version),
            license: "LGPL-2.1-or-later".to_owned(),
            source: Some(format!("the sources of {}", library.distribution)),
            texts: texts?,
        })
    }
}

fn standard_library(rust: &Rust, apache: &str) -> Work {
    Work {
        name: format!("Rust's standard library {}", rust.release),
        license: "MIT OR Apache-2.0".to_owned(),
        source: Some("https://github.com/rust-lang/rust".to_owned()),
        texts: vec![apache.to_owned()],
    }
}

/// Reads the packages of npm that the page of kubectl-mcs holds.
pub(crate) fn page(repository: &Path) -> anyhow::Result<Vec<PagePackage>> {
    let packages = serde_json::from_str(&read(&repository.join(PAGE))?);
    packages.with_context(|| format!("cannot read {PAGE}"))
}

/// Whether a file of this name holds a licence and no program.
fn is_license(name: &str) -> bool {
    let lower = name.to_lowercase();
    let first = lower.split(['.', '-', '_']).next().unwrap_or_default();
    WORDS.contains(&first) && !lower.ends_with(".rs")
}

/// The files with licences in a directory and below, in the order of their paths.
fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let unreadable = || format!("cannot read {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let kind = entry.file_type().with_context(unreadable)?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if is_license(&entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A text; what is no UTF-8 in an old one is a name with an accent.
fn read(path: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8_lossy(&super::read(path)?).replace("\r\n", "\n");
    Ok(text.trim_matches('\n').to_owned())
}

/// Each work with its licence and the numbers of its texts, then the texts.
fn print(works: &[Work]) -> String {
    let mut texts: Vec<&str> = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut document = HEAD.to_owned();
    for work in works {
        let mut own = BTreeSet::new();
        for text in &work.texts {
            own.insert(*numbers.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len()
            }));
        }
        let own: Vec<_> = own.iter().map(ToString::to_string).collect();
        let (name, license, own) = (&work.name, &work.license, own.join(", "));
        document.push_str(&format!("\n{name}\n  {license}: {own}\n"));
        if let Some(source) = &work.source {
            document.push_str(&format!("  {source}\n"));
        }
    }
    for (index, text) in texts.iter().enumerate() {
        let line = "=".repeat(80);
        document.push_str(&format!("\n{line}\n{}\n\n{text}\n", index + 1));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::packages::tests::packages_in;
    use crate::images::program::tests::crates;
    use crate::images::toolchain::tests::rust;

    /// A directory with causeway's licence, and packages beside it with these files.
    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("LICENSE"), "Apache\n").expect("a licence");
        let page = directory.path().join(PAGE);
        fs::create_dir_all(page.parent().expect("a directory")).expect("a directory");
        let preact = r#"[{"name": "preact", "version": "11.0.0", "license": "MIT", "source": "https://preact.example", "text": "MIT of preact"}]"#;
        fs::write(page, preact).expect("what the page holds");
        let packages = ["causeway-webhook", "itoa", "ring", "webpki-root-certs"];
        let packages = packages.map(|name| directory.path().join(name));
        for package in packages {
            fs::create_dir(package).expect("a package");
        }
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        directory
    }

    fn licenses(files: &[(&str, &str)]) -> anyhow::Result<String> {
        let directory = directory(files);
        let (crates, packages) = (crates(), packages_in(directory.path()));
        document([&crates, &crates], &packages, &rust(), None)
    }

    #[test]
    fn each_work_is_named_once_with_its_texts_and_each_text_is_there_once() {
        let text = licenses(&[
            ("itoa/LICENSE-APACHE", "Apache\r\n"),
            ("itoa/LICENSE-MIT", "MIT of itoa"),
            ("itoa/src/license.rs", "fn license() {}"),
            ("itoa/vendored/COPYING.txt", "MIT of others"),
            ("webpki-root-certs/LICENSE", "CDLA"),
            ("ring/LICENSE", "of what no program holds"),
        ]);
        let line = "=".repeat(80);
        let expected = format!(
            "{HEAD}
itoa 1.0.0
  MIT OR Apache-2.0: 1, 2, 3

webpki-root-certs 1.0.0
  CDLA-Permissive-2.0: 4

preact 11.0.0
  MIT: 5
  https://preact.example

Rust's standard library 1.95.0
  MIT OR Apache-2.0: 1
  https://github.com/rust-lang/rust

{line}\n1\n\nApache\n
{line}\n2\n\nMIT of itoa\n
{line}\n3\n\nMIT of others\n
{line}\n4\n\nCDLA\n
{line}\n5\n\nMIT of preact\n"
        );
        assert_eq!(text.expect("licences"), expected);
    }

    #[test]
    fn a_package_without_a_text_gets_that_of_causeways_own_licence_if_it_may_have_it() {
        let text = licenses(&[("webpki-root-certs/LICENSE", "CDLA")]).expect("licences");
        assert!(
            text.contains("itoa 1.0.0\n  MIT OR Apache-2.0: 1\n"),
            "{text}"
        );
        let error = licenses(&[]).expect_err("the certificates have no text");
        assert_eq!(
            error.to_string(),
            "webpki-root-certs 1.0.0 is under CDLA-Permissive-2.0, and no text of that is to be had"
        );
    }

    #[test]
    fn files_with_licences_are_known_by_their_names() {
        for name in [
            "LICENSE",
            "LICENSE-MIT",
            "LICENSE.md",
            "license.txt",
            "Licence-2.0",
            "COPYING",
            "NOTICES.md",
            "LICENSE_APACHE",
            "UNLICENSE",
        ] {
            assert!(is_license(name), "{name}");
        }
        for name in ["license.rs", "README.md", "licensing.md", "lib.rs", ""] {
            assert!(!is_license(name), "{name}");
        }
    }
}
