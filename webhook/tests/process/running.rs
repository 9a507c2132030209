//! A webhook that runs, in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use causeway_certs::{Authority, Leaf};

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway-webhook"));
    command
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A certificate for localhost with its authority (ca.crt), and the kubeconfig of a hub.
pub(crate) fn files(hub: SocketAddr) -> tempfile::TempDir {
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
        ("ca.crt", authority.pem()),
        ("tls.crt", &issued.certificate),
        ("tls.key", &issued.key),
        ("kubeconfig", &kubeconfig),
    ] {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

/// An address that nobody listens on.
pub(crate) fn nobody() -> SocketAddr {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    gone.local_addr().expect("an address")
}

/// A webhook that is killed when the test ends.
pub(crate) struct Webhook {
    child: Child,
    pub(crate) admin: SocketAddr,
    /// Address of the webhook.
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Webhook {
    pub(crate) fn start(files: &Path, args: &[&str]) -> Self {
        Self::start_with(files, args, &[])
    }

    /// With these variables too.
    pub(crate) fn start_with(files: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = command()
            .envs(variables.iter().copied())
            .args(["--bind=127.0.0.1:0", "--admin-bind=127.0.0.1:0"])
            .arg(format!("--tls-dir={}", files.display()))
            .args(args)
            .env("CAUSEWAY_KUBECONFIG", files.join("kubeconfig"))
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("a log"));
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines() {
                let line = line.expect("text");
                let mut log = written.lock().expect("no panic");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut webhook = Self {
            child,
            admin: nobody(),
            address: nobody(),
            log,
            reader: Some(reader),
        };
        webhook.admin = webhook.address_in_log("admin server listens address=");
        webhook.address = webhook.address_in_log("webhook listening address=");
        webhook
    }

    fn address_in_log(&mut self, words: &str) -> SocketAddr {
        let mut found = None;
        self.until(words, |webhook| {
            let log = webhook.log();
            let after = log.split_once(words).map(|(_, after)| after);
            found = after.and_then(|after| after.split_whitespace().next()?.parse().ok());
            found.is_some()
        });
        found.expect("an address")
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no panic").clone()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// The value of a metric, with its labels as they are written; 0 where there is none.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let text = self.get("/metrics");
        let mut values = text.lines().filter_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(' ')?;
            value.parse().ok()
        });
        values.next().unwrap_or_default()
    }

    /// Returns the resident memory, in KiB.
    pub(crate) fn memory(&self) -> i64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse().ok()).expect("KiB")
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
    }

    pub(crate) fn until(&mut self, what: &str, mut met: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + LONG;
        while !met(self) {
            assert!(
                Instant::now() < deadline,
                "still not: {what}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn ends(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        self.until("it has ended", |webhook| {
            status = webhook.child.try_wait().expect("a status");
            status.is_some()
        });
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the log is read");
        }
        (status.expect("a status"), self.log())
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
