//! causeway-tunnel with two replicas, and agents of members.

mod issued;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use causeway_certs::{Authority, Leaf, Purpose};
use serde_json::Value;

use crate::binaries;
use crate::eventually::{START, eventually};
use crate::kubectl::Command;
use crate::network::Host;
use crate::reaper::{Process, Program, Reaper};
use crate::{Cluster, Fleet};

pub use self::issued::IssuedTunnel;

const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);
/// Ports of the load balancer, for agents and for clients.
const BALANCED: [u16; 2] = [9443, 9080];
/// Ports of each replica: for agents, for clients, and of the admin server.
const REPLICAS: [[u16; 3]; 2] = [[7443, 7080, 8091], [7444, 7081, 8092]];

/// Two replicas behind a load balancer, on one machine. Dropping it ends them.
pub struct Tunnel {
    reaper: Arc<Reaper>,
    namespace: String,
    address: IpAddr,
    authority: Authority,
    hub_uid: String,
    directory: PathBuf,
    replicas: Vec<Process>,
}

impl Tunnel {
    /// Starts both replicas on that machine, with certificates for the hub of the fleet.
    pub async fn start(fleet: &Fleet, host: &Host) -> Self {
        let directory = fleet.directory().join("tunnel");
        let authority = Authority::new("causeway-tunnel", VALIDITY, SystemTime::now());
        let authority = authority.expect("an authority");
        let hub_uid = fleet.hub().uid().await;
        let leaf = Leaf {
            common_name: "causeway-tunnel".to_owned(),
            addresses: vec![host.address()],
            uris: vec![format!("causeway://{hub_uid}/tunnel")],
            ..Leaf::default()
        };
        write(&directory, &authority, leaf);
        let [[agents, front, _], [other_agents, other_front, _]] = REPLICAS;
        host.balance(BALANCED[0], [agents, other_agents]);
        host.balance(BALANCED[1], [front, other_front]);
        let replicas = REPLICAS.map(|[agents, front, admin]| {
            let log = fleet
                .directory()
                .join(format!("causeway-tunnel-{agents}.log"));
            fleet.add_log(&log);
            let program = Program::new(binaries::causeway("causeway-tunnel"), log)
                .arg(format!("--agents-bind=0.0.0.0:{agents}"))
                .arg(format!("--front-bind=127.0.0.1:{front}"))
                .arg(format!("--admin-bind=127.0.0.1:{admin}"))
                .arg(format!("--tls-dir={}", directory.display()))
                .arg("--replicas=2")
                .in_network(host.namespace());
            fleet.reaper().run(program)
        });
        let tunnel = Self {
            reaper: Arc::clone(fleet.reaper()),
            namespace: host.namespace().to_owned(),
            address: host.address(),
            authority,
            hub_uid,
            directory: fleet.directory().to_path_buf(),
            replicas: replicas.into(),
        };
        for number in [0, 1] {
            tunnel.serves(number).await;
        }
        tunnel
    }

    /// Its front, as `--tunnel-front` of a controller on its machine names it.
    pub fn front() -> String {
        format!("http://127.0.0.1:{}", BALANCED[1])
    }

    /// Its replicas.
    pub fn replicas(&self) -> &[Process] {
        &self.replicas
    }

    /// Starts a replica again that has ended.
    pub async fn restart(&self, number: usize) {
        self.replicas[number].restart().await;
        self.serves(number).await;
    }

    /// Starts the agent of a member on its first node.
    pub fn agent(&self, fleet: &Fleet, member: &Cluster) -> Process {
        let name = member.name();
        let directory = self.directory.join(format!("agent-{name}"));
        let leaf = Leaf {
            common_name: name.to_owned(),
            uris: vec![format!("causeway://{}/member/{name}", self.hub_uid)],
            purpose: Purpose::Client,
            ..Leaf::default()
        };
        write(&directory, &self.authority, leaf);
        let log = fleet.directory().join(format!("causeway-agent-{name}.log"));
        fleet.add_log(&log);
        let namespace = member.network_namespace().expect("a fleet with packets");
        let (address, port) = member.address();
        let program = Program::new(binaries::causeway("causeway-agent"), log)
            .arg(format!("--tunnel={}:{}", self.address, BALANCED[0]))
            .arg(format!("--tls-dir={}", directory.display()))
            .arg(format!("--api-server={address}:{port}"))
            .arg("--admin-bind=127.0.0.1:8093")
            .in_network(namespace);
        self.reaper.run(program)
    }

    /// Waits until a replica has so many connections of a member.
    pub async fn has_connections(&self, number: usize, member: &str, count: usize) {
        let what = format!("replica {number} has {count} connections of {member}");
        eventually(&what, START, || async {
            let shown = self.get(number, "/tunnels").await?;
            let shown: Value = serde_json::from_str(&shown).map_err(|error| error.to_string())?;
            let members = shown.as_array().cloned().unwrap_or_default();
            let found = members.iter().find(|one| one["name"] == member);
            let connections = found.and_then(|one| one["connections"].as_array());
            let is_so = connections.map_or(0, Vec::len) == count;
            is_so.then_some(()).ok_or_else(|| shown.to_string())
        })
        .await;
    }

    /// Waits until a replica is ready.
    async fn serves(&self, number: usize) {
        let replica = &self.replicas[number];
        eventually("causeway-tunnel is ready", START, || async {
            assert!(replica.is_running(), "it ended:\n{}", replica.log_tail(20));
            self.get(number, "/readyz").await
        })
        .await;
    }

    async fn get(&self, number: usize, path: &str) -> Result<String, String> {
        let url = format!("http://127.0.0.1:{}{path}", REPLICAS[number][2]);
        let curl = Command::new(&self.reaper, &self.directory, "curl")
            .args(["-sSf", "-m2", &url])
            .in_network(&self.namespace);
        let answer = curl.run().await;
        match answer.exit.success() {
            true => Ok(answer.stdout),
            false => Err(answer.stderr),
        }
    }
}

/// Writes a certificate, its key and the authority into a directory.
fn write(directory: &Path, authority: &Authority, leaf: Leaf) {
    std::fs::create_dir_all(directory).expect("a directory for certificates");
    let leaf = Leaf {
        validity: VALIDITY,
        ..leaf
    };
    let issued = authority.issue(&leaf, SystemTime::now());
    let issued = issued.expect("a certificate");
    for (name, content) in [
        ("tls.crt", issued.certificate.as_str()),
        ("tls.key", &issued.key),
        ("ca.crt", authority.pem()),
    ] {
        std::fs::write(directory.join(name), content).expect("a certificate");
    }
}
