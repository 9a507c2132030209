//! Processes that never outlive the test.
//!
//! Every program is started by a reaper, a small process of its own (`tests/testbed/reaper`), that
//! holds one end of a pipe. When the other end closes - the [`Reaper`] is dropped, the test process
//! panics, is interrupted or killed - the reaper kills what it started, waits, and then removes
//! directories and network namespaces.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use crate::binaries::Testbed;

/// The longest that the reaper takes to answer a request, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program to start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Program {
    program: PathBuf,
    args: Vec<String>,
    environment: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin: Option<PathBuf>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Program {
    /// This program, whose output of both kinds is appended to `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        let log = log.into();
        Self {
            program: program.into(),
            stdout: log.clone(),
            stderr: log,
            ..Self::default()
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable, beside those of this process.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// The working directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The file that is its standard input; empty without one.
    #[must_use]
    pub fn stdin(mut self, file: impl Into<PathBuf>) -> Self {
        self.stdin = Some(file.into());
        self
    }

    /// The file that its standard error goes to, where that is not the log.
    #[must_use]
    pub fn stderr(mut self, file: impl Into<PathBuf>) -> Self {
        self.stderr = file.into();
        self
    }

    /// The command line, the program without its directory.
    pub fn command(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        format!("{} {}", name.display(), self.args.join(" "))
    }

    /// Runs it in a network namespace.
    #[must_use]
    pub fn in_network(self, namespace: &str) -> Self {
        self.through("ip", ["netns", "exec", namespace])
    }

    /// Has the system's resolver read this file in place of `/etc/resolv.conf`.
    #[must_use]
    pub(crate) fn with_resolv_conf(self, file: &Path) -> Self {
        let file = file.display();
        let mount = format!("mount --bind {file} /etc/resolv.conf && exec \"$@\"");
        self.through("unshare", ["--mount", "sh", "-c", &mount, "sh"])
    }

    /// Runs it on a node: in the cgroup of that file and in a network namespace. `ip netns exec`
    /// would hide the cgroups.
    #[must_use]
    pub(crate) fn on_machine(self, processes: &Path, namespace: &str) -> Self {
        let enter = format!(
            "echo $$ > {} && exec nsenter --net=/run/netns/{namespace} -- \"$@\"",
            processes.display()
        );
        self.through("sh", ["-c", &enter, "sh"])
    }

    /// Runs it on this core only (`taskset`), so that it sees a machine of one core.
    #[must_use]
    pub fn on_core(self, core: usize) -> Self {
        self.through("taskset", ["-c", &core.to_string()])
    }

    /// Has another program start it.
    fn through<const N: usize>(mut self, starter: &str, arguments: [&str; N]) -> Self {
        let program = std::mem::replace(&mut self.program, starter.into());
        let own = std::mem::replace(&mut self.args, arguments.map(str::to_owned).to_vec());
        self.args.push(program.display().to_string());
        self.args.extend(own);
        self
    }
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
}

impl Exit {
    /// Whether it exited with 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// Signals of Linux, by number.
#[derive(Clone, Copy, Debug)]
enum Signal {
    Kill = 9,
    Terminate = 15,
    Continue = 18,
    Stop = 19,
}

#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum What<'a> {
    Start(&'a Program),
    Signal { program: u64, number: i32 },
    Undo(&'a Undo),
    Forget(u64),
}

/// Action of the reaper after the end of all programs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Remove this directory and all that is in it.
    Remove(PathBuf),
    /// Run this command.
    Run(Vec<String>),
}

/// An [`Undo`] that was asked for, to be forgotten when somebody else did it.
#[derive(Clone, Copy, Debug)]
pub struct Undone(u64);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    id: u64,
    pid: u32,
    error: String,
    exited: u64,
    code: i32,
    signal: i32,
}

#[derive(Default)]
struct State {
    answers: HashMap<u64, Answer>,
    exits: HashMap<u64, Exit>,
    last_id: u64,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

/// The process that starts and ends others. Dropping the last handle ends everything, and waits for
/// it.
pub struct Reaper {
    input: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
    shared: Arc<Shared>,
}

impl Reaper {
    /// A new reaper, that keeps nothing yet.
    pub fn start() -> Arc<Self> {
        let program = Testbed::get().program("reaper");
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not the terminal's: an interrupt is for this process, and the reaper cleans up after
            // it.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run {}: {e}", program.display()));
        let input = child.stdin.take();
        let output = child.stdout.take().expect("the reaper's output");
        let shared = Arc::new(Shared::default());
        let listener = Arc::clone(&shared);
        std::thread::spawn(move || listen(output, &listener));
        Arc::new(Self {
            input: Mutex::new(input),
            child: Mutex::new(child),
            shared,
        })
    }

    /// Starts a program. Its handle ends it when dropped.
    pub fn run(self: &Arc<Self>, program: Program) -> Process {
        let (id, pid) = self.begin(&program);
        Process {
            reaper: Arc::clone(self),
            program,
            current: Mutex::new((id, pid)),
        }
    }

    /// Has this done at the end, before all that was asked for earlier.
    pub fn at_the_end(&self, undo: &Undo) -> Undone {
        let asked = self.ask(What::Undo(undo));
        let (id, _) = asked.unwrap_or_else(|e| panic!("{undo:?}: {e}"));
        Undone(id)
    }

    /// Takes back an [`Reaper::at_the_end`].
    pub fn forget(&self, undone: Undone) {
        self.ask(What::Forget(undone.0))
            .unwrap_or_else(|e| panic!("{undone:?}: {e}"));
    }

    /// Ends everything, and returns when it has ended.
    pub fn close(&self) {
        drop(self.input.lock().take());
        let mut child = self.child.lock();
        let deadline = Instant::now() + PATIENCE;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn begin(&self, program: &Program) -> (u64, u32) {
        let asked = self.ask(What::Start(program));
        let (id, answer) =
            asked.unwrap_or_else(|e| panic!("cannot start {}: {e}", program.program.display()));
        (id, answer.pid)
    }

    fn signal(&self, program: u64, signal: Signal) -> Result<(), String> {
        let number = signal as i32;
        self.ask(What::Signal { program, number }).map(|_| ())
    }

    fn exit(&self, program: u64) -> Option<Exit> {
        self.shared.state.lock().exits.get(&program).copied()
    }

    fn ask(&self, what: What<'_>) -> Result<(u64, Answer), String> {
        let id = {
            let mut state = self.shared.state.lock();
            state.last_id += 1;
            state.last_id
        };
        self.send(&Request { id, what })?;
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.shared.state.lock();
        loop {
            match state.answers.remove(&id) {
                Some(answer) if answer.error.is_empty() => return Ok((id, answer)),
                Some(answer) => return Err(answer.error),
                None if state.closed => return Err("the reaper ended".to_owned()),
                None => {}
            }
            if Instant::now() >= deadline {
                return Err("the reaper does not answer".to_owned());
            }
            self.shared.news.wait_until(&mut state, deadline);
        }
    }

    fn send(&self, request: &Request<'_>) -> Result<(), String> {
        let mut line = serde_json::to_vec(request).map_err(|e| e.to_string())?;
        line.push(b'\n');
        let mut input = self.input.lock();
        let input = input.as_mut().ok_or("the reaper is closed")?;
        input
            .write_all(&line)
            .map_err(|e| format!("the reaper does not listen: {e}"))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(output: ChildStdout, shared: &Shared) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let answer: Answer = serde_json::from_str(&line).expect("an answer of the reaper");
        let mut state = shared.state.lock();
        if answer.exited == 0 {
            state.answers.insert(answer.id, answer);
        } else {
            let exit = match answer.signal {
                0 => Exit::Code(answer.code),
                signal => Exit::Signal(signal),
            };
            state.exits.insert(answer.exited, exit);
        }
        shared.news.notify_all();
    }
    shared.state.lock().closed = true;
    shared.news.notify_all();
}

/// A program that was started. Dropping it ends it.
pub struct Process {
    reaper: Arc<Reaper>,
    program: Program,
    current: Mutex<(u64, u32)>,
}

impl Process {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.current().1
    }

    /// Whether it has not ended. A paused process is running.
    pub fn is_running(&self) -> bool {
        self.exit().is_none()
    }

    /// Returns the end of the process, if it has ended.
    pub fn exit(&self) -> Option<Exit> {
        self.reaper.exit(self.current().0)
    }

    /// Waits until it has ended.
    pub async fn exited(&self, within: Duration) -> Exit {
        let deadline = Instant::now() + within;
        loop {
            if let Some(exit) = self.exit() {
                return exit;
            }
            assert!(
                Instant::now() < deadline,
                "{} is still running after {within:?}; its log ends:\n{}",
                self.name(),
                self.log_tail(30)
            );
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// SIGKILL, and waits until it is gone. Nothing happens where it has ended.
    pub async fn kill(&self) {
        // It may end by itself in between: then there is nothing to kill.
        if self.is_running() && self.signal(Signal::Kill).is_ok() {
            self.exited(PATIENCE).await;
        }
    }

    /// SIGTERM. What follows is for the process to decide: see [`Process::exited`].
    pub fn terminate(&self) {
        self.signal(Signal::Terminate)
            .unwrap_or_else(|e| panic!("cannot terminate {}: {e}", self.name()));
    }

    /// SIGTERM, and waits until it has ended. A controller gives its Lease up; the next one would
    /// wait for that of a killed one.
    pub async fn end(&self) -> Exit {
        self.terminate();
        self.exited(PATIENCE).await
    }

    /// SIGSTOP: it keeps its connections and answers nothing, until [`Process::resume`].
    pub fn pause(&self) {
        self.signal(Signal::Stop)
            .unwrap_or_else(|e| panic!("cannot pause {}: {e}", self.name()));
    }

    /// SIGCONT, after [`Process::pause`].
    pub fn resume(&self) {
        self.signal(Signal::Continue)
            .unwrap_or_else(|e| panic!("cannot resume {}: {e}", self.name()));
    }

    /// Kills it if it runs and starts it again, with the same arguments and log.
    pub async fn restart(&self) {
        self.restart_with(&[]).await;
    }

    /// [`Process::restart`], this time with these arguments too.
    pub async fn restart_with(&self, args: &[&str]) {
        self.kill().await;
        let program = self.program.clone().args(args.iter().copied());
        *self.current.lock() = self.reaper.begin(&program);
    }

    /// Returns the file of its output.
    pub fn log(&self) -> &Path {
        &self.program.stdout
    }

    /// The last lines of its output.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(self.log(), lines)
    }

    fn name(&self) -> String {
        self.program.program.display().to_string()
    }

    fn current(&self) -> (u64, u32) {
        *self.current.lock()
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        self.reaper.signal(self.current().0, signal)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            // Where it cannot be asked the reaper has ended it, or it ended by itself.
            self.signal(Signal::Kill).ok();
        }
    }
}

/// The last lines of a file, or why it cannot be read.
pub(crate) fn tail(file: &Path, lines: usize) -> String {
    match std::fs::read(file) {
        Ok(content) => {
            let text = String::from_utf8_lossy(&content);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(e) => format!("({} cannot be read: {e})", file.display()),
    }
}
