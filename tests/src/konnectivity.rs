//! Konnectivity (apiserver-network-proxy): agents in members dial out to a server, through which
//! the hub reaches the members' API servers.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use causeway_certs::{Authority, Leaf, Purpose};

use crate::binaries;
use crate::eventually::{START, eventually};
use crate::kubectl::Command;
use crate::network::Host;
use crate::reaper::{Process, Program, Reaper};
use crate::{Cluster, Fleet};

const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);
/// Port for clients of the proxy.
const FRONT_PORT: u16 = 8090;
/// Port for agents.
const AGENT_PORT: u16 = 8091;
/// Name of a member's API server that only its agent resolves. The certificates of API servers
/// contain it.
const PRIVATE_HOST: &str = "kubernetes";

/// Returns the URL of the API server of a member behind an agent.
pub fn private_url(member: &Cluster) -> String {
    let (_, port) = member.address();
    format!("https://{PRIVATE_HOST}:{port}")
}

/// A proxy-server at work, in mode `http-connect`. Dropping it ends it.
pub struct Konnectivity {
    reaper: Arc<Reaper>,
    namespace: String,
    address: IpAddr,
    authority: Authority,
    directory: PathBuf,
    server: Process,
}

impl Konnectivity {
    /// Starts a server on that machine. It accepts agents with a certificate of its authority, and
    /// clients without one.
    pub async fn start(fleet: &Fleet, host: &Host) -> Self {
        let directory = fleet.directory().join("konnectivity");
        std::fs::create_dir_all(&directory).expect("a directory for Konnectivity");
        let authority = Authority::new("konnectivity CA", VALIDITY, SystemTime::now());
        let authority = authority.expect("an authority");
        std::fs::write(directory.join("ca.crt"), authority.pem()).expect("certificates");
        let leaf = Leaf {
            common_name: "proxy-server".to_owned(),
            addresses: vec![host.address()],
            ..Leaf::default()
        };
        let [certificate, key] = write(&directory, "server", &authority, leaf);
        let log = directory.join("proxy-server.log");
        fleet.add_log(&log);
        let program = Program::new(binaries::konnectivity("proxy-server"), log)
            .arg("--mode=http-connect")
            .arg(format!("--server-port={FRONT_PORT}"))
            .arg(format!("--server-cert={certificate}"))
            .arg(format!("--server-key={key}"))
            .arg(format!("--agent-port={AGENT_PORT}"))
            .arg(format!("--cluster-cert={certificate}"))
            .arg(format!("--cluster-key={key}"))
            .arg(format!(
                "--cluster-ca-cert={}",
                directory.join("ca.crt").display()
            ))
            .arg("--proxy-strategies=destHost")
            .arg("--keepalive-time=30s")
            .in_network(host.namespace());
        let konnectivity = Self {
            reaper: Arc::clone(fleet.reaper()),
            namespace: host.namespace().to_owned(),
            address: host.address(),
            authority,
            directory,
            server: fleet.reaper().run(program),
        };
        konnectivity.serves().await;
        konnectivity
    }

    /// Its URL, as `spec.proxyURL` holds it.
    pub fn url(&self) -> String {
        format!("https://{}:{FRONT_PORT}", self.address)
    }

    /// The certificate of the authority that verifies it, in PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Ends the server with SIGKILL.
    pub async fn stop(&self) {
        self.server.kill().await;
    }

    /// Starts the server again after [`Konnectivity::stop`]. Its agents connect by themselves.
    pub async fn start_again(&self) {
        self.server.restart().await;
        self.serves().await;
    }

    /// Starts an agent on the first node of a member, for its API server at [`PRIVATE_HOST`]. Only
    /// in a fleet with packets.
    pub fn agent(&self, fleet: &Fleet, member: &Cluster) -> Process {
        let leaf = Leaf {
            common_name: format!("agent of {}", member.name()),
            purpose: Purpose::Client,
            ..Leaf::default()
        };
        let [certificate, key] = write(&self.directory, member.name(), &self.authority, leaf);
        let log = self
            .directory
            .join(format!("proxy-agent-{}.log", member.name()));
        fleet.add_log(&log);
        let namespace = member.network_namespace().expect("a fleet with packets");
        let (address, _) = member.address();
        // `ip netns exec` shows this file as /etc/hosts. Its directory goes with the fleet.
        let hosts = format!("127.0.0.1 localhost\n{address} {PRIVATE_HOST}\n");
        let file = Path::new("/etc/netns").join(namespace).join("hosts");
        std::fs::write(file, hosts).expect("a file of hosts");
        let program = Program::new(binaries::konnectivity("proxy-agent"), log)
            .arg(format!("--proxy-server-host={}", self.address))
            .arg(format!("--proxy-server-port={AGENT_PORT}"))
            .arg(format!(
                "--ca-cert={}",
                self.directory.join("ca.crt").display()
            ))
            .arg(format!("--agent-cert={certificate}"))
            .arg(format!("--agent-key={key}"))
            .arg(format!("--agent-identifiers=host={PRIVATE_HOST}"))
            .arg("--sync-interval-cap=2s")
            .arg("--keepalive-time=30s")
            .in_network(namespace);
        self.reaper.run(program)
    }

    /// Waits until the server serves.
    async fn serves(&self) {
        eventually("proxy-server serves", START, || async {
            let log = || self.server.log_tail(20);
            assert!(self.server.is_running(), "it ended:\n{}", log());
            let health = Command::new(&self.reaper, &self.directory, "curl")
                .args(["-sSf", "-m2", "http://127.0.0.1:8092/healthz"])
                .in_network(&self.namespace);
            let health = health.run().await;
            health.exit.success().then_some(()).ok_or_else(log)
        })
        .await;
    }
}

/// Writes a certificate and its key; returns their paths.
fn write(directory: &Path, name: &str, authority: &Authority, leaf: Leaf) -> [String; 2] {
    let leaf = Leaf {
        validity: VALIDITY,
        ..leaf
    };
    let credentials = authority.issue(&leaf, SystemTime::now());
    let credentials = credentials.expect("a certificate");
    [("crt", credentials.certificate), ("key", credentials.key)].map(|(kind, content)| {
        let file = directory.join(format!("{name}.{kind}"));
        std::fs::write(&file, content).expect("a certificate");
        file.display().to_string()
    })
}
