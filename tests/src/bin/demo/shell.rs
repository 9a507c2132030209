//! A shell whose commands and answers are shown.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use causeway_tests::Fleet;
use causeway_tests::binaries;
use causeway_tests::reaper::{Exit, Program, Reaper};

const PATIENCE: Duration = Duration::from_secs(180);

/// Runs commands in the repository, with kubectl, kubectl-mcs and a kubeconfig of all clusters at
/// hand.
pub(crate) struct Shell {
    reaper: Arc<Reaper>,
    directory: PathBuf,
    kubeconfig: PathBuf,
}

/// Result of a command, with both outputs in their order.
pub(crate) struct Answer {
    exit: Exit,
    pub(crate) text: String,
}

impl Shell {
    pub(crate) fn new(fleet: &Fleet) -> anyhow::Result<Self> {
        let directory = fleet.directory().join("bin");
        binaries::link_kubectl(&directory).context("a directory for programs")?;
        Ok(Self {
            reaper: Arc::clone(fleet.reaper()),
            directory,
            kubeconfig: fleet.kubeconfig(),
        })
    }

    /// Returns the commands that set the environment of these commands.
    pub(crate) fn environment(&self) -> [String; 2] {
        [
            format!("export KUBECONFIG={}", self.kubeconfig.display()),
            format!("export PATH={}:$PATH", self.directory.display()),
        ]
    }

    /// Shows a command and its answer; it must succeed.
    pub(crate) async fn run(&self, command: &str) -> anyhow::Result<String> {
        show_command(command);
        let answer = self.ask(command).await?;
        show(&answer.text);
        if !answer.exit.success() {
            bail!("the command failed: {command}");
        }
        Ok(answer.text)
    }

    /// Shows a command and its answer; it must fail and say all of `words`.
    pub(crate) async fn refused(&self, command: &str, words: &[&str]) -> anyhow::Result<()> {
        show_command(command);
        let answer = self.ask(command).await?;
        show(&answer.text);
        if answer.exit.success() {
            bail!("it was to be refused and was not: {command}");
        }
        match words.iter().find(|word| !answer.text.contains(**word)) {
            Some(word) => bail!("the refusal does not speak of {word:?}: {command}"),
            None => Ok(()),
        }
    }

    /// Asks again and again until the answer is as wanted, then shows the command and that answer.
    pub(crate) async fn until(
        &self,
        command: &str,
        within: Duration,
        wanted: impl Fn(&Answer) -> bool,
    ) -> anyhow::Result<String> {
        show_command(command);
        let deadline = Instant::now() + within;
        loop {
            let answer = self.ask(command).await?;
            if wanted(&answer) {
                show(&answer.text);
                return Ok(answer.text);
            }
            if Instant::now() > deadline {
                show(&answer.text);
                bail!("the answer did not become what it should be within {within:?}: {command}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn ask(&self, command: &str) -> anyhow::Result<Answer> {
        let output = self.directory.join("answer");
        let path = std::env::var("PATH").unwrap_or_default();
        let program = Program::new("sh", &output)
            .args(["-c", command])
            .directory(causeway_tests::repository())
            .env("PATH", format!("{}:{path}", self.directory.display()))
            .env("KUBECONFIG", self.kubeconfig.display().to_string());
        let exit = self.reaper.run(program).exited(PATIENCE).await;
        let text = std::fs::read_to_string(&output).context("the output of a command")?;
        std::fs::remove_file(&output).context("the output of a command")?;
        Ok(Answer { exit, text })
    }
}

pub(crate) fn show_command(command: &str) {
    println!("\n$ {command}");
}

fn show(text: &str) {
    print!("{text}");
    if !text.is_empty() && !text.ends_with('\n') {
        println!();
    }
}
