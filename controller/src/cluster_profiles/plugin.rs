//! One call of a credential plugin (client.authentication.k8s.io): a program that prints an
//! ExecCredential.
//!
//! What the program prints on standard output is a secret and goes nowhere else. kube-client has a
//! runner of plugins, which sets them no time limit and runs them at every request once a token has
//! less than a minute left.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use causeway::api::bounds;
use causeway::target::Token;
use causeway_engine::model::{Failure, FailureKind};
use futures::future::join;
use k8s_openapi::jiff::Timestamp;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::given::Given;

/// Maximum time of a call.
const DEADLINE: Duration = Duration::from_secs(30);
/// Time in which killed processes have ended.
const KILLED_WITHIN: Duration = Duration::from_secs(1);
/// Maximum size of what a plugin prints, in bytes.
const OUTPUT: usize = 1024 * 1024;
/// Number of bytes that are kept of the end of what it prints on standard error: as many as a
/// failure repeats.
const STDERR: usize = bounds::FOREIGN_TEXT;

/// Call of a plugin. Equal calls give credentials for the same cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCall {
    /// Program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables, beside those of the controller.
    pub env: BTreeMap<String, String>,
    /// Version of the protocol.
    pub api_version: String,
    /// ExecCredential that it receives in `KUBERNETES_EXEC_INFO`, as JSON.
    pub request: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    token: String,
    #[serde(default)]
    client_certificate_data: String,
    expiration_timestamp: Option<Timestamp>,
}

impl PluginCall {
    /// Runs the plugin, for 30 seconds at most. The plugin and the processes of its group end when
    /// the future ends or is dropped.
    ///
    /// # Errors
    /// [`Failure`] with the end of its standard error if it cannot be started, fails, takes too
    /// long, or prints no credentials that can be used.
    pub async fn run(&self) -> Result<Given, Failure> {
        let ended = timeout(DEADLINE, self.output()).await;
        let output = ended.map_err(|_| {
            let text = format!("plugin {} took more than {DEADLINE:?}", self.command);
            Failure::new(FailureKind::Timeout, text)
        })??;
        self.read(&output)
    }

    async fn output(&self) -> Result<Vec<u8>, Failure> {
        let mut plugin = Command::new(&self.command)
            .args(&self.args)
            .envs(&self.env)
            .env("KUBERNETES_EXEC_INFO", &self.request)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| self.failed("cannot be started", &error.to_string()))?;
        // Dropped before the plugin: the id of one that was not waited for is still its own.
        let group = ProcessGroup::of(&plugin);
        let (stdout, stderr) = (plugin.stdout.take(), plugin.stderr.take());
        let (mut output, mut complaint) = (Vec::new(), VecDeque::new());
        let (read, status) = {
            let readers = join(head(stdout, &mut output), tail(stderr, &mut complaint));
            let mut readers = pin!(readers);
            tokio::select! {
                (read, ()) = &mut readers => (Ok((read, ())), plugin.wait().await),
                status = plugin.wait() => {
                    // What it leaves running may hold its pipes open.
                    drop(group);
                    (timeout(KILLED_WITHIN, readers).await, status)
                }
            }
        };
        if let Ok((Err(error), ())) = read {
            return Err(self.failed("cannot be read", &error.to_string()));
        }
        if output.len() > OUTPUT {
            return Err(self.failed("printed more than 1 MiB", ""));
        }
        let status =
            status.map_err(|error| self.failed("cannot be waited for", &error.to_string()))?;
        let complaint = String::from_utf8_lossy(complaint.make_contiguous());
        match status.success() {
            true => Ok(output),
            false => Err(self.failed(&format!("failed ({status})"), &complaint)),
        }
    }

    fn read(&self, output: &[u8]) -> Result<Given, Failure> {
        let no_credentials = |why: &str| self.failed(why, "");
        // The error of the decoder may quote what it read.
        let read = serde_json::from_slice::<ExecCredential>(output);
        let read = read.map_err(|_| no_credentials("printed no ExecCredential"))?;
        if read.kind != "ExecCredential" || read.api_version != self.api_version {
            let why = format!("printed no ExecCredential of {}", self.api_version);
            return Err(no_credentials(&why));
        }
        let status = read.status;
        let status =
            status.ok_or_else(|| no_credentials("printed an ExecCredential without status"))?;
        if status.token.is_empty() {
            return Err(no_credentials(
                match status.client_certificate_data.as_str() {
                    "" => "printed no token",
                    _ => "printed a client certificate and no token; causeway uses tokens alone",
                },
            ));
        }
        let token = Token::parse(status.token.as_bytes());
        Ok(Given {
            token: token.ok_or_else(|| no_credentials("printed a token that cannot be sent"))?,
            expiry: status.expiration_timestamp,
            target: None,
        })
    }

    fn failed(&self, how: &str, detail: &str) -> Failure {
        let text = format!("plugin {} {how}", self.command);
        Failure::quoting(FailureKind::Other, &text, detail)
    }
}

/// Process group of a plugin: the plugin and the processes that it starts. Dropping it kills them.
struct ProcessGroup(Pid);

impl ProcessGroup {
    /// Returns the group that the plugin leads; `None` if the plugin has ended and was waited for.
    fn of(plugin: &Child) -> Option<Self> {
        let id = plugin.id().and_then(|id| i32::try_from(id).ok());
        id.and_then(Pid::from_raw).map(Self)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Fails if no process is left.
        if kill_process_group(self.0, Signal::KILL).is_ok()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(reap(self.0));
        }
    }
}

/// Reaps killed processes. The controller inherits them where it is the first process of its
/// container.
async fn reap(group: Pid) {
    sleep(KILLED_WITHIN).await;
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
}

/// Reads at most one byte more than [`OUTPUT`].
async fn head(stream: Option<impl AsyncRead + Unpin>, output: &mut Vec<u8>) -> io::Result<()> {
    if let Some(stream) = stream {
        let mut bounded = stream.take(OUTPUT as u64 + 1);
        bounded.read_to_end(output).await?;
    }
    Ok(())
}

/// Reads to the end, and keeps the last [`STDERR`] bytes.
async fn tail(stream: Option<impl AsyncRead + Unpin>, kept: &mut VecDeque<u8>) {
    let mut buffer = [0; 1024];
    if let Some(mut stream) = stream {
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            kept.extend(buffer.iter().take(count));
            kept.drain(..kept.len().saturating_sub(STDERR));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the call of a shell script.
    fn script(text: &str) -> PluginCall {
        PluginCall {
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), text.to_owned()],
            env: BTreeMap::from([("OWN".to_owned(), "own".to_owned())]),
            api_version: "client.authentication.k8s.io/v1".to_owned(),
            request: r#"{"kind":"ExecCredential"}"#.to_owned(),
        }
    }

    fn printing(status: &str) -> PluginCall {
        let version = r#""apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential""#;
        script(&format!("printf '%s' '{{{version},\"status\":{status}}}'"))
    }

    #[tokio::test]
    async fn a_plugin_gives_a_token_and_its_end() {
        let call = printing(r#"{"token":"abc","expirationTimestamp":"2026-01-01T00:00:00Z"}"#);
        let given = call.run().await.unwrap();
        assert_eq!(given.token, Token::parse(b"abc").unwrap());
        assert_eq!(given.expiry, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }

    #[tokio::test]
    async fn plugin_that_leaves_a_process_behind_gives_its_token() {
        for command in ["sleep 1000", "setsid sleep 5"] {
            let mut call = printing(r#"{"token":"abc"}"#);
            call.args[1].insert_str(0, &format!("{command} & "));
            let given = timeout(DEADLINE / 6, call.run()).await;
            let given = given.expect("in time").unwrap();
            assert_eq!(given.token, Token::parse(b"abc").unwrap());
        }
    }

    #[tokio::test]
    async fn a_plugin_receives_the_request_and_its_variables() {
        let call = script(
            r#"[ "$KUBERNETES_EXEC_INFO" = '{"kind":"ExecCredential"}' ] && [ "$OWN" = own ] &&
               echo right >&2; exit 3"#,
        );
        let failure = call.run().await.unwrap_err().to_string();
        assert_eq!(failure, "plugin /bin/sh failed (exit status: 3): right");
    }

    #[tokio::test]
    async fn what_a_plugin_prints_never_appears_in_its_failure() {
        for (call, why) in [
            (script("echo SECRET"), "printed no ExecCredential"),
            (
                script(r#"echo '{"kind":"ExecCredential","apiVersion":"SECRET"}'"#),
                "no ExecCredential of client",
            ),
            (printing("null"), "without status"),
            (
                printing(r#"{"expirationTimestamp":"SECRET"}"#),
                "printed no ExecCredential",
            ),
            (
                printing(r#"{"clientKeyData":"SECRET"}"#),
                "printed no token",
            ),
            (
                printing(r#"{"clientCertificateData":"SECRET"}"#),
                "causeway uses tokens alone",
            ),
            (
                printing(r#"{"token":"SECRET with blanks"}"#),
                "a token that cannot be sent",
            ),
            (script("echo SECRET; exit 1"), "failed (exit status: 1)"),
            (
                script("head -c 1048577 /dev/zero"),
                "printed more than 1 MiB",
            ),
        ] {
            let failure = call.run().await.unwrap_err().to_string();
            assert!(
                failure.contains(why) && !failure.contains("SECRET"),
                "{failure}"
            );
        }
        let mut absent = script("");
        absent.command = "/no/such/plugin".to_owned();
        let failure = absent.run().await.unwrap_err().to_string();
        assert!(
            failure.contains("plugin /no/such/plugin cannot be started"),
            "{failure}"
        );
    }

    /// Waits until `found` returns something, for 10 seconds at most.
    async fn eventually<T>(mut found: impl FnMut() -> Option<T>) -> T {
        let found = async {
            loop {
                match found() {
                    Some(found) => break found,
                    None => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        timeout(Duration::from_secs(10), found).await.unwrap()
    }

    #[tokio::test]
    async fn processes_of_a_dropped_plugin_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let call = script(&format!("sleep 1000 & echo $! >{}; wait", file.display()));
        let started = eventually(|| {
            let text = fs::read_to_string(&file).ok()?;
            text.ends_with('\n').then(|| text.trim().to_owned())
        });
        let pid = tokio::select! {
            _ = call.run() => panic!("the plugin has ended"),
            pid = started => pid,
        };
        eventually(|| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            let is_alive = stat.is_ok_and(|stat| !stat.contains(") Z "));
            (!is_alive).then_some(())
        })
        .await;
    }

    #[tokio::test]
    async fn the_end_of_standard_error_is_kept() {
        let call =
            script("head -c 100000 /dev/zero | tr '\\0' x >&2; printf ' the end' >&2; exit 1");
        let complaint = call.run().await.unwrap_err().to_string();
        assert!(complaint.ends_with("x the end"), "{complaint}");
        assert!(complaint.len() < 1024, "{}", complaint.len());
    }
}
