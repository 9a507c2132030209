//! causeway-tunnel with two replicas, and agents of members, with the certificates that `kubectl
//! mcs` has issued. No kubelet runs them, so tests do.

mod issued;
mod relayed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;

use crate::causeway::{Launch, NAMESPACE};
use crate::eventually::{START, eventually};
use crate::kubectl::Command;
use crate::network::Host;
use crate::reaper::{Process, Program, Reaper};
use crate::{Cluster, Fleet, binaries, ports};

pub use self::issued::{IssuedTunnel, PASSWORD};
pub use self::relayed::RelayedTunnel;

/// Ports of the load balancer, for agents and for clients.
const BALANCED: [u16; 2] = [9443, 9080];
/// File of an agent that comes through the hub's API server.
const KUBECONFIG: &str = "kubeconfig";
/// Ports of each replica: for agents, for clients, and of the admin server.
const REPLICAS: [[u16; 3]; 2] = [[7443, 7080, 8091], [7444, 7081, 8092]];

/// Two replicas behind a load balancer, on one machine. Dropping it ends them.
pub struct Tunnel {
    reaper: Arc<Reaper>,
    namespace: String,
    address: String,
    directory: PathBuf,
    replicas: Vec<Process>,
}

impl Tunnel {
    /// The address for agents of both replicas on that machine, as `--tunnel` takes it.
    pub fn address(host: &Host) -> String {
        format!("{}:{}", host.address(), BALANCED[0])
    }

    /// Starts both replicas on that machine, with the certificate of Secret `causeway-tunnel`.
    pub async fn start(fleet: &Fleet, host: &Host) -> Self {
        let directory = written(fleet, fleet.hub(), "causeway-tunnel").await;
        let [[agents, front, _], [other_agents, other_front, _]] = REPLICAS;
        host.balance(BALANCED[0], [agents, other_agents]);
        host.balance(BALANCED[1], [front, other_front]);
        let replicas = REPLICAS.map(|ports| {
            let launch = replica(fleet, &directory, "0.0.0.0", ports).arg("--replicas=2");
            let replica = launch.in_network(host.namespace()).start_unready();
            replica.into_process()
        });
        let tunnel = Self {
            reaper: Arc::clone(fleet.reaper()),
            namespace: host.namespace().to_owned(),
            address: Self::address(host),
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

    /// Starts the agent of a member on its first node, with the certificate of Secret
    /// `causeway-agent`.
    pub async fn agent(&self, fleet: &Fleet, member: &Cluster) -> Process {
        let namespace = member.network_namespace().expect("a fleet with packets");
        let (address, port) = member.address();
        let launch = agent(fleet, member, &self.address, &format!("{address}:{port}")).await;
        let agent = launch.in_network(namespace).start_unready();
        agent.into_process()
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

/// Returns a replica to be started, with the certificate of that directory. It serves agents at
/// `bind`.
fn replica(fleet: &Fleet, tls: &Path, bind: &str, [agents, front, admin]: [u16; 3]) -> Launch {
    let log = format!("causeway-tunnel-{agents}.log");
    let log = fleet.directory().join(log);
    fleet.add_log(&log);
    let program = Program::new(binaries::causeway("causeway-tunnel"), log)
        .arg(format!("--agents-bind={bind}:{agents}"))
        .arg(format!("--front-bind=127.0.0.1:{front}"))
        .arg(format!("--tls-dir={}", tls.display()));
    Launch::new(Arc::clone(fleet.reaper()), program, admin)
}

/// Returns the agent of a member to be started, once its Secret `causeway-agent` is there. It comes
/// through the hub's API server if the Secret has a kubeconfig, and otherwise to `tunnel`.
async fn agent(fleet: &Fleet, member: &Cluster, tunnel: &str, api: &str) -> Launch {
    let directory = written(fleet, member, "causeway-agent").await;
    let log = directory.with_extension("log");
    fleet.add_log(&log);
    let kubeconfig = directory.join(KUBECONFIG);
    let route = match kubeconfig.exists() {
        true => format!("--through-api-server={}", kubeconfig.display()),
        false => format!("--tunnel={tunnel}"),
    };
    let program = Program::new(binaries::causeway("causeway-agent"), log)
        .arg(route)
        .arg(format!("--tls-dir={}", directory.display()))
        .arg(format!("--api-server={api}"));
    Launch::new(Arc::clone(fleet.reaper()), program, ports::fresh())
}

/// Returns the directory of the files of a Secret.
fn files(fleet: &Fleet, cluster: &Cluster, name: &str) -> PathBuf {
    fleet.directory().join(format!("{name}-{}", cluster.name()))
}

/// Writes the files of a Secret into a directory, as a kubelet mounts it.
async fn written(fleet: &Fleet, cluster: &Cluster, name: &str) -> PathBuf {
    let secrets = Api::<Secret>::namespaced(cluster.client(), NAMESPACE);
    let what = format!("{} has Secret {name}", cluster.name());
    let secret = eventually(&what, START, || async {
        let found = secrets.get(name).await;
        found.map_err(|error| error.to_string())
    });
    let data = secret.await.data.expect("data");
    let keys = data.keys().map(String::as_str);
    let keys: Vec<_> = keys.filter(|key| *key != KUBECONFIG).collect();
    let expected = match name {
        "causeway-tunnel-enrolment" => &["ca.crt", "ca.key"][..],
        _ => &["ca.crt", "tls.crt", "tls.key"],
    };
    assert_eq!(keys, expected, "{name}");
    let directory = files(fleet, cluster, name);
    std::fs::create_dir_all(&directory).expect("a directory for certificates");
    for (file, content) in data {
        std::fs::write(directory.join(file), content.0).expect("a certificate");
    }
    directory
}
