//! Components of an image, as a CycloneDX document.
//!
//! The crates are those that the program itself names, so that the document says of an image what a
//! scanner finds in it. Beside them stands what no crate names: the standard library, the C library
//! and the root certificates.

use auditable_serde::{DependencyKind, Package as Crate, Source, VersionInfo};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::licenses::PagePackage;
use super::packages::{Package, Packages};
use super::toolchain::{CLibrary, Rust};

/// Contents of an image that a document describes.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// The name of the image.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The digest of its manifest, without `sha256:`.
    pub digest: &'a str,
    /// Its architecture, as OCI names it.
    pub architecture: &'a str,
    /// Time of the commit that it is made from.
    pub created: Timestamp,
    /// The crates that its program names.
    pub crates: &'a VersionInfo,
    /// The package that holds its root certificates.
    pub roots: &'a Package,
    /// The compiler, whose standard library is in it.
    pub rust: &'a Rust,
    /// The packages of npm in the page that it embeds; empty for a program without a page.
    pub page: &'a [PagePackage],
    /// The C library, where its package is known.
    pub c_library: Option<&'a CLibrary>,
}

/// The document, CycloneDX 1.5. It has no serial number: that would be another each time.
pub(crate) fn document(contents: &Contents<'_>, packages: &Packages) -> Value {
    let crates = &contents.crates.packages;
    let mut components: Vec<Value> = crates.iter().map(|one| component(one, packages)).collect();
    components.push(standard_library(contents.rust));
    components.extend(contents.c_library.map(c_library));
    components.push(roots(contents.roots, packages));
    components.extend(contents.page.iter().map(page_package));
    let program = crates.iter().filter(|one| one.root).map(reference);
    let beside = components[crates.len()..].iter();
    let beside =
        beside.map(|component| component["bom-ref"].as_str().unwrap_or_default().to_owned());
    let direct: Vec<String> = program.chain(beside).collect();
    let mut dependencies = vec![json!({ "ref": "image", "dependsOn": direct })];
    dependencies.extend(crates.iter().map(|one| {
        let needed = one
            .dependencies
            .iter()
            .filter_map(|index| crates.get(*index));
        let needed: Vec<String> = needed.map(reference).collect();
        json!({ "ref": reference(one), "dependsOn": needed })
    }));
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": contents.created.to_string(),
            "component": image(contents),
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn image(contents: &Contents<'_>) -> Value {
    let Contents { name, digest, .. } = contents;
    json!({
        "bom-ref": "image",
        "type": "container",
        "name": name,
        "version": contents.version,
        "purl": format!("pkg:oci/{name}@sha256%3A{digest}?arch={}", contents.architecture),
        "hashes": [{ "alg": "SHA-256", "content": digest }],
    })
}

fn component(one: &Crate, packages: &Packages) -> Value {
    let (name, version) = (&one.name, one.version.to_string());
    let mut component = json!({
        "bom-ref": reference(one),
        "type": if one.root { "application" } else { "library" },
        "name": name,
        "version": version,
        // What only compiles is not in the image.
        "scope": if one.kind == DependencyKind::Build { "excluded" } else { "required" },
        "licenses": licenses(packages, name, &version),
    });
    // A crate of the workspace is not in the registry, where another may have its name.
    if one.source == Source::CratesIo {
        component["purl"] = json!(purl(name, &version));
    }
    component
}

fn reference(one: &Crate) -> String {
    format!("crate:{}@{}", one.name, one.version)
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn standard_library(rust: &Rust) -> Value {
    json!({
        "bom-ref": "rust-std",
        "type": "library",
        "name": "rust-std",
        "version": rust.release,
        "scope": "required",
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        "properties": [{ "name": "rustc:commit-hash", "value": rust.commit }],
    })
}

fn c_library(library: &CLibrary) -> Value {
    let CLibrary {
        package,
        version,
        architecture,
        distribution,
    } = library;
    let encoded = version.replace('+', "%2B");
    json!({
        "bom-ref": "libc",
        "type": "library",
        "name": package,
        "version": version,
        "scope": "required",
        "purl": format!("pkg:deb/{distribution}/{package}@{encoded}?arch={architecture}&upstream=glibc"),
    })
}

fn roots(package: &Package, packages: &Packages) -> Value {
    json!({
        "bom-ref": "root-certificates",
        "type": "data",
        "name": package.name,
        "version": package.version,
        "scope": "required",
        "purl": purl(&package.name, &package.version),
        "licenses": licenses(packages, &package.name, &package.version),
    })
}

fn page_package(package: &PagePackage) -> Value {
    let PagePackage { name, version, .. } = package;
    json!({
        "bom-ref": format!("npm:{name}@{version}"),
        "type": "library",
        "name": name,
        "version": version,
        "scope": "required",
        // A scope is part of the namespace, and its at sign is encoded.
        "purl": format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
        "licenses": [{ "expression": package.license }],
    })
}

fn licenses(packages: &Packages, name: &str, version: &str) -> Value {
    let expressions = packages.license(name, version).into_iter();
    let licenses = expressions.map(|expression| json!({ "expression": expression }));
    licenses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::packages::tests::packages;
    use crate::images::program::tests::crates;
    use crate::images::toolchain::tests::rust;

    /// A document of a webhook that needs itoa, and cc to be compiled.
    fn example() -> Value {
        let (crates, packages) = (crates(), packages());
        let c_library = CLibrary {
            package: "libc6-dev".to_owned(),
            version: "2.36-9+deb12u13".to_owned(),
            architecture: "amd64".to_owned(),
            distribution: "debian".to_owned(),
        };
        let preact = serde_json::from_value(json!({
            "name": "preact", "version": "11.2.0", "license": "MIT", "source": "", "text": "",
        }));
        let preact = preact.expect("a package");
        let contents = Contents {
            name: "causeway-webhook",
            version: "0.1.0",
            digest: "4567",
            architecture: "amd64",
            created: Timestamp::from_second(1_700_000_000).expect("a time"),
            crates: &crates,
            roots: packages.named("itoa").expect("a package"),
            rust: &rust(),
            page: &[preact],
            c_library: Some(&c_library),
        };
        document(&contents, &packages)
    }

    fn component(document: &Value, reference: &str) -> Value {
        let components = document["components"].as_array().expect("components");
        let mut components = components.iter();
        let component = components.find(|one| one["bom-ref"] == reference);
        component.expect("a component").clone()
    }

    #[test]
    fn the_document_is_of_the_image_and_of_the_time_of_its_commit() {
        let metadata = &example()["metadata"];
        assert_eq!(metadata["timestamp"], "2023-11-14T22:13:20Z");
        let image = &metadata["component"];
        assert_eq!(image["type"], "container");
        let expected = "pkg:oci/causeway-webhook@sha256%3A4567?arch=amd64";
        assert_eq!(image["purl"], expected);
        assert_eq!(image["hashes"][0]["content"], "4567");
    }

    #[test]
    fn a_crate_has_its_licence_and_the_name_by_which_advisories_are_found() {
        let itoa = component(&example(), "crate:itoa@1.0.0");
        assert_eq!(itoa["purl"], "pkg:cargo/itoa@1.0.0");
        assert_eq!(itoa["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(itoa["scope"], "required");
    }

    #[test]
    fn what_only_compiles_is_named_as_not_in_the_image() {
        let cc = component(&example(), "crate:cc@1.0.0+b1");
        assert_eq!(cc["scope"], "excluded");
        assert_eq!(cc["purl"], "pkg:cargo/cc@1.0.0%2Bb1");
    }

    #[test]
    fn a_crate_of_the_workspace_is_not_mistaken_for_one_of_the_registry() {
        let webhook = component(&example(), "crate:causeway-webhook@0.1.0");
        assert_eq!(webhook["type"], "application");
        assert_eq!(webhook["purl"], Value::Null);
    }

    #[test]
    fn what_no_crate_names_is_there_too() {
        let document = example();
        let standard = component(&document, "rust-std");
        assert_eq!(standard["version"], "1.95.0");
        let expected = "pkg:deb/debian/libc6-dev@2.36-9%2Bdeb12u13?arch=amd64&upstream=glibc";
        assert_eq!(component(&document, "libc")["purl"], expected);
        assert_eq!(component(&document, "root-certificates")["type"], "data");
    }

    #[test]
    fn packages_of_the_page_are_components() {
        let preact = component(&example(), "npm:preact@11.2.0");
        assert_eq!(preact["purl"], "pkg:npm/preact@11.2.0");
        assert_eq!(preact["licenses"][0]["expression"], "MIT");
    }

    #[test]
    fn every_dependency_is_a_component() {
        let document = example();
        let dependencies = document["dependencies"].as_array().expect("dependencies");
        let program = json!(["crate:cc@1.0.0+b1", "crate:itoa@1.0.0"]);
        assert_eq!(dependencies[1]["dependsOn"], program);
        let direct = json!([
            "crate:causeway-webhook@0.1.0",
            "rust-std",
            "libc",
            "root-certificates",
            "npm:preact@11.2.0"
        ]);
        assert_eq!(dependencies[0]["dependsOn"], direct);
        for dependency in dependencies {
            for needed in dependency["dependsOn"].as_array().expect("references") {
                component(&document, needed.as_str().expect("a reference"));
            }
        }
    }
}
