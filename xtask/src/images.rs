//! OCI images of causeway and an SBOM of each, made without a daemon.
//!
//! One commit gives one digest, on whatever machine with the same toolchains: what is compiled
//! holds no path and no time of the machine, what is packed is in order and of no time.
//! docs/images.md says what an image holds.

mod commit;
mod compile;
mod image;
mod layer;
mod licenses;
mod packages;
mod program;
mod roots;
mod sbom;
mod toolchain;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use commit::Commit;
use compile::Places;
use image::{Description, Image};
use layer::{File, Files};
use packages::{Package, Packages};
use program::Program;
use toolchain::{CLibrary, Rust};

/// The images; each holds the program of its name.
const IMAGES: [&str; 5] = [
    "causeway-webhook",
    "causeway-controller",
    "causeway-tunnel",
    "causeway-agent",
    "kubectl-mcs",
];

/// Returns the package that has a program, which is that of its name for all but one.
fn package_of(program: &str) -> &str {
    match program {
        "causeway-agent" => "causeway-tunnel",
        program => program,
    }
}

/// The program that embeds a page with packages of npm.
const WITH_PAGE: &str = "kubectl-mcs";

/// The most that a node pulls for one of them, in bytes.
const SIZE_MAX: u64 = 25_000_000;

/// Arguments of `build-images`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rust target that the programs are compiled for [default: that of this machine]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,

    /// Directory that the images are written to [default: images in Cargo's target directory]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

/// Inputs that the images have in common.
struct Sources {
    packages: Packages,
    commit: Commit,
    rust: Rust,
    c_library: Option<CLibrary>,
    /// causeway's own licence.
    license: Vec<u8>,
}

/// A program that was compiled.
struct Built {
    name: &'static str,
    content: Vec<u8>,
    program: Program,
}

/// Compiles the programs, and writes the images, their SBOMs and the licences.
pub(crate) fn build(args: Args) -> anyhow::Result<()> {
    let rust = Rust::of(Path::new(&variable("RUSTC", "rustc")))?;
    let target = args.target.unwrap_or_else(|| rust.host.clone());
    let cargo = variable("CARGO", "cargo");
    let packages = Packages::of(&mut Command::new(&cargo), &target)?;
    let commit = Commit::of(&packages.workspace_root)?;
    if commit.is_dirty() {
        eprintln!("the work tree differs from its commit: nobody else can make these images");
    }
    let places = Places {
        repository: packages.workspace_root.clone(),
        target: packages.target_directory.clone(),
        cargo: cargo_home()?,
        library: (
            rust.sysroot.join("lib/rustlib/src/rust"),
            rust.commit.clone(),
        ),
    };
    let mut command = Command::new(&cargo);
    command.args(["auditable", "build", "--locked", "--release"]);
    let programs = IMAGES.map(|program| (package_of(program), program));
    let programs = compile::compile(&mut command, &programs, &target, &places, &commit)?;
    let output = args
        .output
        .unwrap_or_else(|| packages.target_directory.join("images"));
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let license = packages.workspace_root.join("LICENSE");
    let sources = Sources {
        license: read(&license)?,
        packages,
        commit,
        rust,
        c_library: c_library(&target),
    };
    let built = IMAGES.map(|name| Built::read(&programs, name));
    let built = built.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let licenses = licenses::document(
        built.iter().map(|built| &built.program.crates),
        &sources.packages,
        &sources.rust,
        sources.c_library.as_ref(),
    )?;
    write(&output.join(licenses::NAME), licenses.as_bytes())?;
    for built in built {
        let name = built.name;
        make(built, &licenses, &output, &sources).with_context(|| format!("no image of {name}"))?;
    }
    Ok(())
}

impl Built {
    fn read(directory: &Path, name: &'static str) -> anyhow::Result<Self> {
        let path = directory.join(name);
        let content = read(&path)?;
        let program = Program::read(&content).with_context(|| path.display().to_string())?;
        Ok(Self {
            name,
            content,
            program,
        })
    }
}

/// Makes one image and its SBOM, and prints what was made.
fn make(built: Built, licenses: &str, output: &Path, sources: &Sources) -> anyhow::Result<()> {
    let Built {
        name,
        content,
        program,
    } = built;
    let package = sources.packages.named(package_of(name))?;
    let description = describe(name, package, &sources.commit)?;
    let files = files(name, content, &sources.license, licenses);
    let image = Image::new(&description, &program.architecture, &files)?;
    ensure!(
        image.size <= SIZE_MAX,
        "it has {} bytes, and at most {SIZE_MAX} are for a node to pull",
        image.size
    );
    let architecture = program.architecture.to_string();
    let page = match name {
        WITH_PAGE => licenses::page(&sources.packages.workspace_root)?,
        _ => Vec::new(),
    };
    let document = sbom::document(
        &sbom::Contents {
            name,
            version: &package.version,
            digest: image.digest.digest(),
            architecture: &architecture,
            created: sources.commit.time,
            crates: &program.crates,
            roots: sources.packages.named(roots::PACKAGE)?,
            rust: &sources.rust,
            page: &page,
            c_library: sources.c_library.as_ref(),
        },
        &sources.packages,
    );
    let archive = output.join(format!("{name}.tar"));
    write(&archive, &image.archive()?)?;
    let document = serde_json::to_vec_pretty(&document)?;
    write(&output.join(format!("{name}.cdx.json")), &document)?;
    println!(
        "{}  {name}:{}  linux/{architecture}  sha256:{}  {:.1} MB to pull",
        archive.display(),
        package.version,
        image.digest.digest(),
        image.size as f64 / 1e6,
    );
    Ok(())
}

/// Returns the files of an image: its program, the root certificates, and the licences.
fn files(name: &str, program: Vec<u8>, license: &[u8], licenses: &str) -> Files {
    let text = |content: Vec<u8>| File {
        mode: 0o644,
        content,
    };
    let program = File {
        mode: 0o755,
        content: program,
    };
    Files::from([
        (name.to_owned(), program),
        (roots::PATH.to_owned(), text(roots::bundle().into_bytes())),
        ("licenses/LICENSE".to_owned(), text(license.to_vec())),
        (
            format!("licenses/{}", licenses::NAME),
            text(licenses.as_bytes().to_vec()),
        ),
    ])
}

fn describe(name: &str, package: &Package, commit: &Commit) -> anyhow::Result<Description> {
    let (Some(description), Some(source), Some(licenses)) =
        (&package.description, &package.repository, &package.license)
    else {
        bail!("its package lacks a description, a repository or a licence");
    };
    Ok(Description {
        name: name.to_owned(),
        description: description.clone(),
        version: package.version.clone(),
        source: source.clone(),
        licenses: licenses.clone(),
        commit: commit.clone(),
    })
}

/// The C library of a target; without it the SBOM is not whole, which is said.
fn c_library(target: &str) -> Option<CLibrary> {
    let own = format!("CC_{}", target.replace('-', "_"));
    let compiler = env::var(own).or_else(|_| env::var("CC"));
    let library = CLibrary::of(compiler.as_deref().unwrap_or("cc"));
    if library.is_none() {
        eprintln!(
            "the SBOMs lack the C library: the package manager does not say which one is linked"
        );
    }
    library
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let given = env::var_os("CARGO_HOME").map(PathBuf::from);
    given
        .or_else(|| Some(env::home_dir()?.join(".cargo")))
        .context("there is neither a CARGO_HOME nor a home directory")
}

fn variable(name: &str, default: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| default.into())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
