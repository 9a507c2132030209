//! The program itself: its flags, its readiness, and how it ends.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails by panicking, as the test does"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use causeway_certs::{Authority, Leaf};

const LONG: Duration = Duration::from_secs(30);

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway-webhook"));
    command
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A certificate, and the kubeconfig of a hub that never answers.
fn files(hub: SocketAddr) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let now = SystemTime::now();
    let authority = Authority::new("test", LONG * 100, now).expect("an authority");
    let leaf = Leaf {
        common_name: "webhook".to_owned(),
        names: vec!["localhost".to_owned()],
        validity: LONG * 10,
        ..Leaf::default()
    };
    let issued = authority.issue(&leaf, now).expect("a leaf");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: hub\nclusters: [{{name: hub, cluster: {{server: 'http://{hub}'}}}}]\n\
         users: [{{name: me, user: {{token: t}}}}]\ncontexts: [{{name: hub, context: {{cluster: hub, user: me}}}}]\n"
    );
    for (name, text) in [
        ("tls.crt", issued.certificate),
        ("tls.key", issued.key),
        ("kubeconfig", kubeconfig),
    ] {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

/// A webhook that is killed when the test ends.
struct Webhook {
    child: Child,
    admin: SocketAddr,
    log: BufReader<ChildStderr>,
}

impl Webhook {
    fn start(files: &Path) -> Self {
        let mut child = command()
            .args(["--bind=127.0.0.1:0", "--admin-bind=127.0.0.1:0"])
            .arg(format!("--tls-dir={}", files.display()))
            .env("CAUSEWAY_KUBECONFIG", files.join("kubeconfig"))
            .spawn()
            .expect("it starts");
        let mut log = BufReader::new(child.stderr.take().expect("a log"));
        let mut line = String::new();
        let admin = loop {
            line.clear();
            assert_ne!(log.read_line(&mut line).expect("a line"), 0, "it ended");
            if let Some((_, address)) = line.split_once("admin server listens address=") {
                break address.trim().parse().expect("an address");
            }
        };
        Self { child, admin, log }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
    }

    fn until(&mut self, what: &str, mut met: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + LONG;
        while !met(self) {
            assert!(Instant::now() < deadline, "still not: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ends(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        self.until("it has ended", |webhook| {
            status = webhook.child.try_wait().expect("a status");
            status.is_some()
        });
        let mut log = String::new();
        self.log.read_to_string(&mut log).expect("a log");
        (status.expect("a status"), log)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn all_that_is_wrong_with_the_flags_is_said_at_once_with_exit_code_2() {
    let output = command()
        .args([
            "--tls-dir=/no/such/dir",
            "--bind=here",
            "--missing-service=maybe",
            "--allow-namespace=A",
        ])
        .env("CAUSEWAY_UNKNOWN_CLUSTER", "perhaps")
        .env("CAUSEWAY_LOG_FORMAT", "xml")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in [
        "error: 7 flags are wrong:",
        "--tls-dir /no/such/dir: /no/such/dir/tls.crt cannot be read: ",
        "--bind \"here\": ",
        "--missing-service \"maybe\": must be deny or warn",
        "--unknown-cluster \"perhaps\": must be deny or warn",
        "--allow-namespace \"A\": ",
        "--log-format \"xml\": must be text or json",
        "--kubeconfig is missing: needed outside of a pod",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn help_groups_every_flag_and_names_its_variable() {
    let output = command().arg("--help").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "Hub:",
        "Serving:",
        "Rules:",
        "Admin server:",
        "Logs:",
        "CAUSEWAY_TLS_DIR",
        "CAUSEWAY_MISSING_SERVICE",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// Two addresses: one that nobody listens on, and one that takes connections without ever answering.
fn hubs() -> (SocketAddr, TcpListener) {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    (gone.local_addr().expect("an address"), silent)
}

#[test]
fn what_is_awaited_is_named_and_a_signal_ends_it_in_order() {
    let (gone, _) = hubs();
    let files = files(gone);
    let mut webhook = Webhook::start(files.path());
    assert!(webhook.get("/livez").starts_with("HTTP/1.1 200"));
    webhook.until("both caches are awaited", |webhook| {
        let ready = webhook.get("/readyz");
        assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
        ready.ends_with("awaiting the Services of the hub, the Clusters of the hub\n")
    });
    assert!(
        webhook
            .get("/metrics")
            .contains("causeway_certificate_expiry_timestamp_seconds ")
    );
    webhook.signal("-TERM");
    webhook.until("it is shutting down", |webhook| {
        webhook.get("/readyz").ends_with("shutting down\n")
    });
    let (status, log) = webhook.ends();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let (_, silent) = hubs();
    let files = files(silent.local_addr().expect("an address"));
    let mut webhook = Webhook::start(files.path());
    webhook.signal("-TERM");
    webhook.until("it is shutting down", |webhook| {
        webhook.get("/readyz").ends_with("shutting down\n")
    });
    let second = Instant::now();
    webhook.signal("-INT");
    let (status, log) = webhook.ends();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("aborted by a second signal"), "{log}");
    assert!(
        second.elapsed() < Duration::from_secs(3),
        "it took {:?}",
        second.elapsed()
    );
}

#[test]
fn an_address_in_use_is_a_failure_that_names_it() {
    let (gone, taken) = hubs();
    let files = files(gone);
    let address = taken.local_addr().expect("an address");
    let output = command()
        .arg(format!("--bind={address}"))
        .arg("--admin-bind=127.0.0.1:0")
        .arg(format!("--tls-dir={}", files.path().display()))
        .arg(format!(
            "--kubeconfig={}",
            files.path().join("kubeconfig").display()
        ))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(&format!("the webhook cannot listen on {address}")),
        "{text}"
    );
}
