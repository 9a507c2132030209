//! ExternalDNS, which publishes DNSEndpoints of a hub in a zone of BIND.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use causeway::api::DNSEndpoint;
use kube::Resource as _;
use tokio::net::UdpSocket;
use tokio::time::{interval, timeout};

use crate::cluster::Cluster;
use crate::dns::{Answer, question};
use crate::eventually::{LONG, START, eventually};
use crate::fleet::Fleet;
use crate::kubectl::Command;
use crate::network::{self, have_unstarted};
use crate::reaper::{Process, Program};
use crate::{binaries, ports};

/// Zone that both serve.
const ZONE: &str = "example.com";

/// Whether BIND and `dig` can be had here. As root on Debian they are installed, unless that would
/// start a server on the machine.
///
/// # Errors
/// How to get them: for a line that says what is skipped.
pub fn prerequisites() -> Result<(), String> {
    network::dig()?;
    have_unstarted("named", "bind9")
}

/// Has a hub serve DNSEndpoints. Waits until its discovery lists them: ExternalDNS ends at once
/// where it does not.
pub async fn define(hub: &Cluster) {
    hub.apply(&definition()).await.ok();
    let client = hub.client();
    eventually("the hub serves DNSEndpoints", LONG, async || {
        let version = DNSEndpoint::api_version(&());
        let served = client.list_api_group_resources(&version).await;
        let served = served.map_err(|e| e.to_string())?.resources;
        let is_there = served.iter().any(|one| one.kind == DNSEndpoint::kind(&()));
        is_there.then_some(()).ok_or(format!("{served:?}"))
    })
    .await;
}

/// Has a hub that serves DNSEndpoints serve none any more.
pub async fn undefine(hub: &Cluster) {
    let definition = ["delete", "crd", "dnsendpoints.externaldns.k8s.io"];
    hub.kubectl(definition).await.ok();
}

/// Returns the definition of DNSEndpoint in YAML.
fn definition() -> String {
    let module = binaries::module_directory("external-dns", "sigs.k8s.io/external-dns");
    let file = "config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml";
    std::fs::read_to_string(module.join(file)).expect("the definition of DNSEndpoint")
}

/// ExternalDNS and BIND at work. Dropping it ends them.
pub struct ExternalDns<'a> {
    hub: &'a Cluster,
    port: u16,
    bind: Process,
    publisher: Process,
}

impl<'a> ExternalDns<'a> {
    /// Starts BIND with an empty zone, and ExternalDNS with the rights of the hub's administrator.
    pub async fn start(fleet: &'a Fleet) -> Self {
        let (hub, port) = (fleet.hub(), ports::fresh());
        let directory = fleet.directory().join(format!("bind-{port}"));
        std::fs::create_dir_all(&directory).expect("a directory of BIND");
        std::fs::write(directory.join("zone"), zone()).expect("a zone");
        let configuration = configuration(&directory, port);
        std::fs::write(directory.join("named.conf"), configuration).expect("a configuration");
        let log = directory.join("named.log");
        fleet.add_log(&log);
        let bind = Program::new("named", log)
            .args(["-g", "-c"])
            .arg(directory.join("named.conf").display().to_string());
        let bind = fleet.reaper().run(bind);
        let log = directory.join("external-dns.log");
        fleet.add_log(&log);
        let publisher = Program::new(binaries::external_dns(), log)
            .arg("--source=crd")
            .arg("--crd-source-apiversion=externaldns.k8s.io/v1alpha1")
            .arg("--crd-source-kind=DNSEndpoint")
            .arg(format!("--kubeconfig={}", hub.kubeconfig().display()))
            .args(["--provider=rfc2136", "--rfc2136-host=127.0.0.1"])
            .arg(format!("--rfc2136-port={port}"))
            .arg(format!("--rfc2136-zone={ZONE}"))
            .args(["--rfc2136-insecure", "--rfc2136-tsig-axfr"])
            .arg(format!("--domain-filter={ZONE}"))
            .args(["--txt-owner-id=hub", "--txt-prefix=owner-"])
            .args(["--policy=sync", "--interval=2s", "--events"]);
        let published = Self {
            hub,
            port,
            bind,
            publisher: fleet.reaper().run(publisher),
        };
        published.serves().await;
        published
    }

    async fn serves(&self) {
        eventually("BIND serves the zone", START, || async {
            let log = || self.bind.log_tail(20);
            assert!(self.bind.is_running(), "it ended:\n{}", log());
            let answer = self.dig(ZONE, "SOA").await;
            let serves = answer.status == "NOERROR" && !answer.records.is_empty();
            serves.then_some(()).ok_or_else(log)
        })
        .await;
    }

    /// Returns BIND's answer to a query of that name and type.
    pub async fn dig(&self, name: &str, type_: &str) -> Answer {
        let publisher = &self.publisher;
        assert!(publisher.is_running(), "{}", publisher.log_tail(20));
        let server = ["@127.0.0.1".to_owned(), format!("-p{}", self.port)];
        let output = Command::new(self.hub.reaper(), self.hub.directory(), "dig")
            .args(server)
            .args(question(name, type_))
            .run()
            .await;
        Answer::parse(&output.stdout)
    }

    /// Asks BIND for the IPv4 addresses of that name every 10 ms, and fails on an answer without
    /// one. No process is started for a question, so it costs little.
    pub async fn is_never_empty(&self, name: &str) -> Infallible {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let server = ("127.0.0.1", self.port);
        socket.connect(server).await.expect("an address of BIND");
        let mut ticks = interval(Duration::from_millis(10));
        let mut id = 0_u16;
        loop {
            ticks.tick().await;
            id = id.wrapping_add(1);
            socket.send(&query(id, name)).await.expect("it is sent");
            let mut answer = [0; 512];
            let received = timeout(LONG, socket.recv(&mut answer)).await;
            received.expect("an answer in time").expect("an answer");
            let answered = u16::from_be_bytes([answer[0], answer[1]]);
            let records = u16::from_be_bytes([answer[6], answer[7]]);
            assert_eq!((answered, answer[3] & 0xf), (id, 0), "{answer:?}");
            assert!(records > 0, "{answer:?}");
        }
    }
}

/// Returns a query for the IPv4 addresses of that name (RFC 1035, section 4).
fn query(id: u16, name: &str) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).expect("a label"));
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

fn zone() -> String {
    format!(
        "$TTL 30\n@ IN SOA ns.{ZONE}. admin.{ZONE}. 1 3600 600 86400 30\n@ IN NS ns.{ZONE}.\n\
         ns IN A 127.0.0.1\n"
    )
}

fn configuration(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "options {{ directory \"{directory}\"; listen-on port {port} {{ 127.0.0.1; }}; \
         listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; recursion no; \
         dnssec-validation no; empty-zones-enable no; }};\ncontrols {{ }};\n\
         zone \"{ZONE}\" {{ type primary; file \"{directory}/zone\"; \
         allow-update {{ 127.0.0.1; }}; allow-transfer {{ 127.0.0.1; }}; }};\n"
    )
}
