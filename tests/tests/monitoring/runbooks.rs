//! The runbooks of docs/troubleshooting.md, and their first commands.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use causeway_tests::binaries::{self, Testbed};
use causeway_tests::repository;

use crate::rules::rules;

/// The runbook of an alert: what stands below its heading.
fn runbook(alert: &str) -> String {
    let page = repository().join("docs/troubleshooting.md");
    let page = std::fs::read_to_string(page).expect("docs/troubleshooting.md");
    let heading = format!("\n### {alert}\n");
    let (_, rest) = page
        .split_once(&heading)
        .unwrap_or_else(|| panic!("no runbook of {alert}"));
    let end = rest.find("\n#").unwrap_or(rest.len());
    rest.get(..end).unwrap_or(rest).to_owned()
}

/// The first command of a runbook.
pub(crate) fn first_command(alert: &str) -> String {
    let runbook = runbook(alert);
    let (_, block) = runbook
        .split_once("```bash\n")
        .unwrap_or_else(|| panic!("the runbook of {alert} has no command"));
    let (command, _) = block.split_once("\n```").expect("the end of the block");
    command.to_owned()
}

/// Imitation of pods for kubectl's logs and metrics: the testbed has none.
pub(crate) struct Pods {
    pub(crate) controller_log: PathBuf,
    pub(crate) webhook_log: PathBuf,
    /// The log of another program of causeway.
    pub(crate) other_log: PathBuf,
    /// Address of the leader's metrics.
    pub(crate) leader: String,
    /// Admin address of causeway-tunnel.
    pub(crate) tunnel: String,
}

/// A person's terminal on the hub.
pub(crate) struct Terminal {
    programs: PathBuf,
    kubeconfig: PathBuf,
}

impl Terminal {
    /// Opens the runbooks' environment in that directory.
    pub(crate) fn open(directory: &Path, kubeconfig: PathBuf, pods: &Pods) -> Self {
        let programs = directory.join("terminal");
        std::fs::create_dir_all(&programs).expect("a directory");
        std::os::unix::fs::symlink(
            binaries::causeway("kubectl-mcs"),
            programs.join("kubectl-mcs"),
        )
        .expect("a link");
        let kubectl = programs.join("kubectl");
        std::fs::write(&kubectl, pods.kubectl()).expect("a script");
        std::fs::set_permissions(&kubectl, PermissionsExt::from_mode(0o755)).expect("a script");
        Self {
            programs,
            kubeconfig,
        }
    }

    /// Types a command: what it prints, both its outputs as one.
    pub(crate) async fn run(&self, command: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = tokio::process::Command::new("bash")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("KUBECONFIG", &self.kubeconfig)
            .kill_on_drop(true)
            .output()
            .await
            .expect("bash");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Pods {
    /// kubectl, which reads the logs and the metrics of processes for those of pods.
    fn kubectl(&self) -> String {
        let kubectl = Testbed::get().program("kubectl");
        let (kubectl, webhook) = (kubectl.display(), self.webhook_log.display());
        let (controller, other) = (self.controller_log.display(), self.other_log.display());
        let (leader, tunnel) = (&self.leader, &self.tunnel);
        format!(
            "#!/usr/bin/env bash\n\
             case \" $* \" in\n\
             *' logs '*component=controller*) exec cat {controller} ;;\n\
             *' logs '*component=webhook*) exec cat {webhook} ;;\n\
             *' logs '*) exec cat {controller} {webhook} {other} ;;\n\
             *' get --raw '*/proxy/metrics*)\n\
                 exec {kubectl} --kubeconfig=/dev/null --server=http://{leader} get --raw /metrics ;;\n\
             *' mcs tunnel '*) exec kubectl-mcs tunnel --admin-url http://{tunnel} ;;\n\
             *) exec {kubectl} \"$@\" ;;\n\
             esac\n"
        )
    }
}

#[test]
fn every_alert_has_a_runbook_with_command_and_waiting_time() {
    for (name, rule) in rules() {
        let text = runbook(&name);
        assert!(first_command(&name).contains("kubectl"), "{name}: {text}");
        let hold = rule["for"].as_str();
        let waits = hold.is_none_or(|hold| {
            let (number, unit) = hold.split_at(hold.len() - 1);
            let unit = if unit == "h" { "hour" } else { "minute" };
            text.contains(&format!("{number} {unit}"))
        });
        assert!(
            waits,
            "{name} does not say why it waits for {hold:?}:\n{text}"
        );
    }
}

#[test]
fn there_is_no_runbook_of_an_alert_that_is_not_there() {
    let page = repository().join("docs/troubleshooting.md");
    let page = std::fs::read_to_string(page).expect("docs/troubleshooting.md");
    let all = rules();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    for heading in headings.filter(|heading| heading.starts_with("Causeway")) {
        assert!(all.contains_key(heading), "{heading}");
    }
}
