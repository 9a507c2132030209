//! kubectl, and other commands that run to their end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::binaries::Testbed;
use crate::control_plane::ControlPlane;
use crate::reaper::{Exit, Program, Reaper};

/// Time in which a command ends. Tests give a command 180 s to wait in.
const PATIENCE: Duration = Duration::from_secs(240);

/// Result of a command: its output and its exit.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command, for messages.
    pub command: String,
    /// Its exit.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error: kubectl's warnings and errors.
    pub stderr: String,
}

impl Output {
    /// Its standard output. Panics where it failed.
    pub fn ok(self) -> String {
        assert!(
            self.exit.success(),
            "`{}` failed: {:?}\n{}{}",
            self.command,
            self.exit,
            self.stdout,
            self.stderr
        );
        self.stdout
    }

    /// Its standard error. Panics where it did not fail.
    pub fn refused(self) -> String {
        assert!(
            !self.exit.success(),
            "`{}` was to fail and did not:\n{}{}",
            self.command,
            self.stdout,
            self.stderr
        );
        self.stderr
    }
}

/// A command that runs to its end, its standard input a text.
pub struct Command<'a> {
    reaper: &'a Arc<Reaper>,
    directory: &'a Path,
    program: PathBuf,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    input: Option<String>,
    network: Option<String>,
}

impl<'a> Command<'a> {
    /// This program; its files are kept in `directory` while it runs.
    pub fn new(reaper: &'a Arc<Reaper>, directory: &'a Path, program: impl Into<PathBuf>) -> Self {
        Self {
            reaper,
            directory,
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
            input: None,
            network: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Gives it this text as its standard input.
    #[must_use]
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.input = Some(text.into());
        self
    }

    /// Runs it in a network namespace.
    #[must_use]
    pub fn in_network(mut self, namespace: &str) -> Self {
        self.network = Some(namespace.to_owned());
        self
    }

    /// Runs it to its end.
    pub async fn run(self) -> Output {
        self.run_within(PATIENCE).await
    }

    /// Runs it to its end, which must come in time.
    pub async fn run_within(self, within: Duration) -> Output {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.directory.join(format!("command-{number}.{kind}"));
        let name = self
            .program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let command = format!("{name} {}", self.args.join(" "));
        let mut program = Program::new(self.program, file("out"))
            .stderr(file("err"))
            .args(self.args);
        for (name, value) in self.environment {
            program = program.env(&name, value);
        }
        if let Some(input) = self.input {
            std::fs::write(file("in"), input).expect("the input of a command");
            program = program.stdin(file("in"));
        }
        if let Some(network) = self.network {
            program = program.in_network(&network);
        }
        let exit = self.reaper.run(program).exited(within).await;
        let read = |kind: &str| {
            let content = std::fs::read(file(kind)).unwrap_or_default();
            String::from_utf8_lossy(&content).into_owned()
        };
        let (stdout, stderr) = (read("out"), read("err"));
        for kind in ["in", "out", "err"] {
            // There is no input where none was given.
            std::fs::remove_file(file(kind)).ok();
        }
        Output {
            command,
            exit,
            stdout,
            stderr,
        }
    }
}

impl ControlPlane {
    /// Runs kubectl against this cluster, with all rights.
    pub async fn kubectl<A: Into<String>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.kubectl_command().args(args).run().await
    }

    /// Runs kubectl with this text as its standard input, as in `kubectl apply -f -`.
    pub async fn kubectl_with<A: Into<String>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: impl Into<String>,
    ) -> Output {
        self.kubectl_command().args(args).input(input).run().await
    }

    /// `kubectl apply -f -` with this YAML.
    pub async fn apply(&self, yaml: &str) -> Output {
        self.kubectl_with(["apply", "-f", "-"], yaml).await
    }

    /// Requests a token of a service account, valid for a day.
    pub async fn token(&self, namespace: &str, account: &str) -> String {
        let create = ["create", "token", account, "-n", namespace];
        let create = create.into_iter().chain(["--duration=24h"]);
        self.kubectl(create).await.ok().trim().to_owned()
    }

    /// Writes a kubeconfig file of a service account, named after the account.
    pub async fn kubeconfig_as(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.token(namespace, account).await;
        self.kubeconfig_with_token(&format!("{account}.kubeconfig"), &token)
    }

    fn kubectl_command(&self) -> Command<'_> {
        Command::new(
            self.reaper(),
            self.directory(),
            Testbed::get().program("kubectl"),
        )
        .env("KUBECONFIG", self.kubeconfig().display().to_string())
        .env("KUBECACHEDIR", self.kubectl_cache().display().to_string())
    }
}
