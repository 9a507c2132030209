//! The programs that the env runs: the control plane's, built once from the Go module
//! `tests/testbed`, and causeway's own, built by the Cargo that runs the test.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::paths;

const KUBERNETES: &str = "v1.36.3";

/// Builds a package, with the flags of every package of every module: Go compiles it once for all.
/// Nobody debugs these programs, and Go takes a sixth longer to describe them to a debugger.
const BUILD: [&str; 3] = ["build", "-trimpath", "-gcflags=all=-dwarf=false"];

/// A Go module, built once for each state of its sources.
struct Module {
    /// Its path in the repository.
    path: &'static str,
    /// Files that its programs depend on, within it.
    sources: &'static [&'static str],
    /// The directory below Cargo's target directory that its programs are built into.
    name: &'static str,
    /// Its description, for messages.
    title: &'static str,
    packages: &'static [&'static str],
    /// Further names of the program that is called as the directory is.
    roles: &'static [&'static str],
}

const TESTBED: Module = Module {
    path: "tests/testbed",
    sources: &[
        "main.go",
        "controllers.go",
        "kubectl/main.go",
        "pod/main.go",
        "reaper/main.go",
        "go.mod",
        "go.sum",
    ],
    name: "testbed",
    title: "the testbed (etcd, kube-apiserver and friends), about 4 minutes on 2 cores the first time",
    packages: &[".", "./kubectl", "./pod", "./reaper"],
    roles: &[
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "coredns",
    ],
};

/// Separate module, because few tests need it.
const NODE: Module = Module {
    path: "tests/testbed/node",
    sources: &["main.go", "go.mod", "go.sum"],
    name: "node",
    title: "the programs of real nodes, about 5 minutes on 2 cores the first time",
    packages: &["."],
    roles: &[
        "kubelet",
        "kube-scheduler",
        "kube-controller-manager",
        "registry",
    ],
};

/// Separate module, because few tests need it. Its dependencies have the versions of the testbed's,
/// as far as they are the same: Go compiles a package once for all modules then.
const HELM: Module = Module {
    path: "tests/testbed/helm",
    sources: &["go.mod", "go.sum"],
    name: "helm",
    title: "Helm, about 2 minutes on 2 cores the first time",
    packages: &["helm.sh/helm/v4/cmd/helm"],
    roles: &[],
};

/// Separate module, because one test needs it. Its dependencies have the versions of the testbed's.
const KONNECTIVITY: Module = Module {
    path: "tests/konnectivity",
    sources: &["main.go", "go.mod", "go.sum"],
    name: "konnectivity",
    title: "Konnectivity, seconds after the testbed, else about a minute on 2 cores the first time",
    packages: &["."],
    roles: &["proxy-server", "proxy-agent"],
};

/// Separate module, because one test needs it. Its dependencies have the versions of the testbed's,
/// as far as they are the same.
const EXTERNAL_DNS: Module = Module {
    path: "tests/external-dns",
    sources: &["main.go", "go.mod", "go.sum"],
    name: "external-dns",
    title: "ExternalDNS, about a minute on 2 cores the first time",
    packages: &["."],
    roles: &[],
};

/// Directory of the control plane's programs.
#[derive(Clone, Debug)]
pub struct Testbed {
    directory: PathBuf,
    assets: Option<PathBuf>,
}

impl Testbed {
    /// The programs of the Go module, built if they were not yet built from these sources. Takes
    /// about four minutes then, and says so on standard error.
    pub fn get() -> &'static Self {
        static ENVIRONMENT: OnceLock<Testbed> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| Self {
            directory: TESTBED.built(),
            assets: std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from),
        })
    }

    /// The program of this name: etcd, kube-apiserver, kube-controller-manager, kube-proxy,
    /// coredns, kubectl, pod or reaper. One in `KUBEBUILDER_ASSETS` is preferred.
    pub fn program(&self, name: &str) -> PathBuf {
        let mut given = self.assets.iter().map(|assets| assets.join(name));
        given
            .find(|program| program.is_file())
            .unwrap_or_else(|| self.directory.join(name))
    }
}

/// Helm, built from its Go module if it was not yet. Takes about two minutes then, and says so on
/// standard error.
pub fn helm() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| HELM.built()).join("helm")
}

/// Returns a program of a cluster with real nodes: kubelet, kube-scheduler, kube-controller-manager
/// or registry, built from its Go module if it was not yet. Takes about five minutes then, and says
/// so on standard error.
pub(crate) fn node(program: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| NODE.built()).join(program)
}

/// Returns a program of Konnectivity: proxy-server or proxy-agent, built from its Go module if it
/// was not yet.
pub(crate) fn konnectivity(program: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| KONNECTIVITY.built()).join(program)
}

/// Returns ExternalDNS, built from its Go module if it was not yet.
pub fn external_dns() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY
        .get_or_init(|| EXTERNAL_DNS.built())
        .join("external-dns")
}

impl Module {
    /// The directory of its programs, as its sources are now.
    fn built(&self) -> PathBuf {
        let module = paths::repository().join(self.path);
        let all = paths::target().join(self.name);
        fs::create_dir_all(&all).unwrap_or_else(|e| panic!("cannot make {}: {e}", all.display()));
        let directory = all.join(self.digest(&module));
        let lock = File::create(all.join("lock")).expect("a lock file for a module");
        lock.lock().expect("the lock of a module");
        if !directory.join("complete").is_file() {
            self.build(&module, &directory);
            self.link_roles(&directory);
            File::create(directory.join("complete")).expect("a mark that all is built");
            remove_older(&all, &directory);
        }
        directory
    }

    fn digest(&self, module: &Path) -> String {
        let mut hash = Sha256::new();
        for name in self.sources {
            let path = module.join(name);
            let content = fs::read(&path)
                .unwrap_or_else(|e| panic!("{} is built from {}: {e}", self.name, path.display()));
            hash.update(name);
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        hash.finalize()[..8]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }

    fn build(&self, module: &Path, directory: &Path) {
        fs::create_dir_all(directory).expect("a directory for what is built");
        let mut command = Command::new("go");
        command
            .current_dir(module)
            .args(BUILD)
            .args(["-ldflags", &ldflags(), "-o"])
            .arg(directory.join(""))
            .args(self.packages)
            .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")]);
        let absent = "the testbed is built with Go 1.26 or later, and `go` cannot be run: install it from https://go.dev/dl, or on \
                      Debian with `apt-get install golang-go`";
        build(
            &mut command,
            self.title,
            &directory.join("build.log"),
            absent,
        );
    }

    fn link_roles(&self, directory: &Path) {
        for role in self.roles {
            let link = directory.join(role);
            if !link.exists() {
                std::os::unix::fs::symlink(self.name, &link).expect("a link to the testbed");
            }
        }
    }
}

/// Runs a build to its end, its output in a log, and says how long it takes. `absent` is said where
/// its program cannot be run.
pub(crate) fn build(command: &mut Command, title: &str, log: &Path, absent: &str) {
    command
        .stdin(Stdio::null())
        .stdout(File::create(log).expect("a log of the build"))
        .stderr(File::options().append(true).open(log).expect("the log"));
    say(&format!("building {title} ..."));
    let mut running = command.spawn().unwrap_or_else(|e| panic!("{absent} ({e})"));
    let begun = Instant::now();
    let mut said = begun;
    let status = loop {
        if let Some(status) = running.try_wait().expect("the state of a build") {
            break status;
        }
        if said.elapsed() >= Duration::from_secs(15) {
            said = Instant::now();
            say(&format!(
                "  still building, {} s",
                begun.elapsed().as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let output = fs::read_to_string(log).unwrap_or_default();
    assert!(
        status.success(),
        "building {title} failed ({status}):\n{output}"
    );
    say(&format!("  built in {} s", begun.elapsed().as_secs()));
}

/// No symbols, and the version that the control plane's programs report; a program without that
/// variable has none of it.
fn ldflags() -> String {
    let version = KUBERNETES.trim_start_matches('v');
    let mut parts = version.split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
}

/// Programs built from other states of the sources: up to 140 MB each, of no use any more.
fn remove_older(all: &Path, current: &Path) {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path != current
            && path.join("complete").is_file()
            && let Err(e) = fs::remove_dir_all(&path)
        {
            say(&format!("cannot remove {}: {e}", path.display()));
        }
    }
}

/// What a cluster manager brings (sigs.k8s.io/cluster-inventory-api).
#[derive(Debug)]
pub struct Inventory {
    /// Definition of ClusterProfile, in YAML.
    pub definition: String,
    /// Plugin that reads the token of a cluster from a Secret.
    pub secret_reader: PathBuf,
}

/// The definition and the plugin that the Go module `tests/inventory` names. Go makes the plugin of
/// what it has compiled for the testbed, in seconds.
pub fn inventory() -> &'static Inventory {
    static BUILT: OnceLock<Inventory> = OnceLock::new();
    BUILT.get_or_init(|| {
        let secret_reader = paths::target().join("testbed/secretreader");
        let package = "sigs.k8s.io/cluster-inventory-api/plugins/secretreader/cmd/plugin";
        go_build("inventory", &secret_reader, package);
        let directory = module_directory("inventory", "sigs.k8s.io/cluster-inventory-api");
        let definition = "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml";
        let definition = directory.join(definition);
        let definition = fs::read_to_string(&definition);
        Inventory {
            definition: definition.expect("the definition of ClusterProfile"),
            secret_reader,
        }
    })
}

/// Returns the sources of a module that a Go module of `tests` requires.
pub(crate) fn module_directory(module: &str, required: &str) -> PathBuf {
    // A module that is not downloaded has no directory.
    go(module, ["mod", "download", required].map(OsStr::new));
    let list = ["list", "-m", "-f", "{{.Dir}}", required];
    go(module, list.map(OsStr::new)).trim().into()
}

/// Builds a program of a Go module of `tests`.
fn go_build(module: &str, program: &Path, package: &str) {
    let what = ["-o".as_ref(), program.as_os_str(), package.as_ref()];
    go(module, BUILD.map(OsStr::new).into_iter().chain(what));
}

/// Runs `go` in a module of `tests`, and returns what it prints.
fn go<'a>(module: &str, args: impl IntoIterator<Item = &'a OsStr>) -> String {
    let ran = Command::new("go")
        .current_dir(paths::repository().join("tests").join(module))
        .args(args)
        .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")])
        .output();
    let ran = ran.unwrap_or_else(|e| panic!("`go` cannot be run: {e}"));
    assert!(
        ran.status.success(),
        "`go` in tests/{module} failed:\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// The program of the Go module `tests/health`. Go makes it of what it has compiled for the
/// testbed, in seconds.
pub fn health() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = paths::target().join("testbed/health");
        go_build("health", &program, ".");
        program
    })
}

/// Makes a directory for a PATH in which kubectl is, with its plugin `kubectl mcs`.
///
/// # Errors
/// The directory or a link in it cannot be made.
pub fn link_kubectl(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, program) in [
        ("kubectl", Testbed::get().program("kubectl")),
        ("kubectl-mcs", causeway("kubectl-mcs")),
    ] {
        std::os::unix::fs::symlink(program, directory.join(name))?;
    }
    Ok(())
}

/// One of causeway's own programs, for instance `causeway-webhook`, as the sources are now: built
/// by the same Cargo and with the same profile as this program (and with the features of the whole
/// workspace, as `make` builds it, so that no dependency is compiled twice). `CAUSEWAY_BIN_DIR`
/// names a directory of programs to use instead, as they are.
pub fn causeway(program: &str) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    if let Some(directory) = std::env::var_os("CAUSEWAY_BIN_DIR") {
        return PathBuf::from(directory).join(program);
    }
    BUILT
        .lock()
        .get_or_insert_default()
        .entry(program.to_owned())
        .or_insert_with(|| build_with_cargo(program))
        .clone()
}

/// The Cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Build scripts that look at what Cargo tells them would run again for what it passes to this
    // program.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(&name);
        }
    }
    command
}

fn build_with_cargo(program: &str) -> PathBuf {
    let mut command = cargo();
    let output = command
        .current_dir(paths::repository())
        .args(["build", "--message-format=json-render-diagnostics"])
        .args(["--workspace", "--bin", program])
        .args(["--profile", &paths::profile()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|e| panic!("cannot run Cargo to build {program}: {e}"));
    assert!(output.status.success(), "building {program} failed");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == program)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .unwrap_or_else(|| panic!("Cargo built {program} but named no executable"))
}

/// A line that a person sees at once, also where the output of tests is captured.
pub(crate) fn say(line: &str) {
    // A closed standard error is no reason to fail.
    writeln!(io::stderr(), "{line}").ok();
}
