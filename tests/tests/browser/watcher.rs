//! A page in a browser of its own, and what is painted on it when (`cli/ui/test/story.mjs`).

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::chromium;

/// The longest that a page takes to open, or to say what it should, beside other programs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Expected content of the page.
pub(crate) struct Wanted<'a> {
    /// The place of the page.
    pub hash: &'a str,
    /// Within which element.
    pub selector: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Whether it is to go instead.
    pub absent: bool,
    /// Name of its picture.
    pub picture: &'a str,
}

/// The browser and its page.
pub(crate) struct Watcher {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

#[derive(Deserialize)]
struct Painted {
    /// Milliseconds since 1970.
    painted: u64,
}

impl Watcher {
    pub(crate) fn open(url: &str) -> Self {
        let mut command = Command::new("node");
        command.args(["test/story.mjs", url]);
        command.current_dir(chromium::directory());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("node");
        let input = child.stdin.take().expect("its input");
        let output = child.stdout.take().expect("its output");
        Self {
            child,
            input,
            lines: BufReader::new(output).lines(),
        }
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a line in time").expect("a line");
        line.expect("the browser goes on")
    }

    /// Makes something happen; how long after `make` answered the page showed it. Never less than
    /// nothing: it may have been sooner.
    pub(crate) async fn time<T>(
        &mut self,
        wanted: Wanted<'_>,
        make: impl Future<Output = T>,
    ) -> (T, Duration) {
        let (hash, picture) = (wanted.hash, wanted.picture);
        let line = json!({
            "hash": hash,
            "selector": wanted.selector,
            "text": wanted.text,
            "absent": wanted.absent,
            "picture": picture,
        });
        let line = format!("{line}\n");
        let written = self.input.write_all(line.as_bytes()).await;
        written.expect("the browser listens");
        let watching: Value = serde_json::from_str(&self.line().await).expect("JSON");
        assert_eq!(watching["watching"], true);
        let made = make.await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("a time after 1970");
        let painted: Painted = serde_json::from_str(&self.line().await).expect("JSON");
        let took = Duration::from_millis(painted.painted).saturating_sub(now);
        println!("{picture}: {} ms", took.as_millis());
        (made, took)
    }

    /// Ends it; the page must never have been loaded again, and never have logged an error.
    pub(crate) async fn close(self) {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        let ended = timeout(PATIENCE, child.wait()).await;
        let ended = ended.expect("an end in time").expect("its status");
        assert!(ended.success(), "{ended}");
    }
}
