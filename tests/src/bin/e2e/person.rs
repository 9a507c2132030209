//! A person at a terminal, with kubectl, its plugin and Helm, the hub's kubeconfig and the
//! members'.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use causeway_tests::kubectl::{Command, Output};
use causeway_tests::reaper::Reaper;
use causeway_tests::{Fleet, binaries, chart, repository};

/// The longest that a command takes: an installation from images that nobody has yet.
const PATIENCE: Duration = Duration::from_secs(420);

pub(crate) struct Person {
    reaper: Arc<Reaper>,
    home: PathBuf,
    registry: String,
}

impl Person {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        let home = fleet.directory().join("home");
        binaries::link_kubectl(&home.join("bin")).expect("the programs");
        let helm = home.join("bin/helm");
        std::os::unix::fs::symlink(binaries::helm(), helm).expect("Helm");
        let kubeconfigs = home.join(".kube");
        std::fs::create_dir_all(&kubeconfigs).expect("a directory");
        let hub = (fleet.hub(), "config");
        let members = fleet.members().iter().map(|member| (member, member.name()));
        for (cluster, file) in members.chain([hub]) {
            let copied = std::fs::copy(cluster.kubeconfig(), kubeconfigs.join(file));
            copied.expect("a kubeconfig");
        }
        Self {
            reaper: Arc::clone(fleet.reaper()),
            registry: fleet.registry().address().to_string(),
            home,
        }
    }

    /// Pushes the images of that directory, and returns what is said of them.
    pub(crate) async fn pushes(&self, images: &Path) -> String {
        let images = std::path::absolute(images).expect("a path");
        let registry = format!("{}/team", self.registry);
        Command::new(
            &self.reaper,
            &self.home,
            repository().join("xtask/images/push"),
        )
        .args([images.display().to_string(), registry])
        .env("SKOPEO_FLAGS", "--dest-tls-verify=false")
        .run_within(PATIENCE)
        .await
        .ok()
    }

    /// Types a command at the root of the repository, which must succeed, and returns what it
    /// prints.
    pub(crate) async fn types(&self, command: &str) -> String {
        self.tries(command).await.ok()
    }

    /// Types a command that may fail.
    pub(crate) async fn tries(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let (home, root) = (self.home.display(), repository());
        let line = format!("cd {}\n{command}", root.display());
        let bash = Command::new(&self.reaper, &self.home, "bash")
            .args(["-c", &line])
            .env("HOME", home.to_string())
            .env("PATH", format!("{home}/bin:{path}"));
        let bash = chart::environment().fold(bash, |bash, (name, value)| bash.env(name, value));
        bash.run_within(PATIENCE).await
    }
}
