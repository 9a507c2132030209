//! The DNS of a cluster: CoreDNS, and what `dig` gets from it.

use crate::binaries::Testbed;
use crate::control_plane::ControlPlane;
use crate::eventually::{START, eventually};
use crate::kubectl::Command;
use crate::reaper::{Process, Program};
use crate::{http, ports};

/// Rights of CoreDNS.
const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: coredns}
rules:
- {apiGroups: [''], resources: [services, namespaces, pods], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [multicluster.x-k8s.io], resources: [serviceimports], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: coredns}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: coredns}]
";

/// Lets CoreDNS read what it serves.
pub(crate) async fn allow(cluster: &ControlPlane) {
    cluster.apply(ROLE).await.ok();
}

/// CoreDNS of a cluster with packets, to be started in a network of its own, where `ready` says 200
/// on loopback port 8181. It answers for `cluster.local`, and in a clusterset for
/// `clusterset.local`: then it is not ready before the API server serves ServiceImport, and until
/// then answers SERVFAIL in place of NXDOMAIN.
pub fn core_dns(cluster: &ControlPlane) -> Program {
    program(cluster, 53, None, 8181)
}

fn program(cluster: &ControlPlane, port: u16, listen: Option<&str>, ready: u16) -> Program {
    let file = cluster.directory().join("Corefile");
    let bind = listen.map_or_else(String::new, |address| format!("    bind {address}\n"));
    let (zone, option) = match cluster.is_in_clusterset() {
        true => (
            "cluster.local clusterset.local in-addr.arpa ip6.arpa",
            "        multicluster clusterset.local\n",
        ),
        false => ("cluster.local", ""),
    };
    let content = format!(
        ".:{port} {{
{bind}    errors
    ready 127.0.0.1:{ready}
    cache 1
    kubernetes {zone} {{
        kubeconfig {} {}
        ttl 1
{option}    }}
}}
",
        cluster.kubeconfig_of("coredns").display(),
        cluster.name()
    );
    std::fs::write(&file, content).expect("a Corefile");
    let log = cluster.directory().join("coredns.log");
    Program::new(Testbed::get().program("coredns"), log)
        .args(["-conf".to_owned(), file.display().to_string()])
}

/// A CoreDNS on the loopback, for clusters that have no network of their own.
pub struct Nameserver {
    process: Process,
    port: u16,
}

/// Ports of a Corefile.
#[derive(Clone, Copy, Debug)]
pub struct NameserverPorts {
    /// Port of the names.
    pub names: u16,
    /// Port of plugin ready.
    pub ready: u16,
}

impl NameserverPorts {
    /// Returns two unused ports.
    pub fn fresh() -> Self {
        Self {
            names: ports::fresh(),
            ready: ports::fresh(),
        }
    }
}

impl Nameserver {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(cluster: &ControlPlane) -> Self {
        allow(cluster).await;
        let NameserverPorts { names: port, ready } = NameserverPorts::fresh();
        let program = program(cluster, port, Some("127.0.0.1"), ready);
        Self::run(cluster, program, port, ready).await
    }

    /// Starts one with a Corefile that has these ports on 127.0.0.1, and waits until it is ready.
    pub async fn with(cluster: &ControlPlane, corefile: &str, ports: NameserverPorts) -> Self {
        let NameserverPorts { names: port, ready } = ports;
        let file = cluster.directory().join(format!("Corefile-{port}"));
        std::fs::write(&file, corefile).expect("a Corefile");
        let log = cluster.directory().join(format!("coredns-{port}.log"));
        let program = Program::new(Testbed::get().program("coredns"), log)
            .args(["-conf".to_owned(), file.display().to_string()]);
        Self::run(cluster, program, port, ready).await
    }

    async fn run(cluster: &ControlPlane, program: Program, port: u16, ready: u16) -> Self {
        let process = cluster.reaper().run(program);
        eventually("CoreDNS is ready", START, || async {
            assert!(process.is_running(), "it ended:\n{}", process.log_tail(20));
            match http::get(&format!("127.0.0.1:{ready}"), "/ready").await {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?}\n{}", process.log_tail(20))),
            }
        })
        .await;
        Self { process, port }
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the answer to a query of that name and type.
    pub async fn dig(&self, cluster: &ControlPlane, name: &str, type_: &str) -> Answer {
        let server = ["@127.0.0.1".to_owned(), format!("-p{}", self.port)];
        let output = Command::new(cluster.reaper(), cluster.directory(), "dig")
            .args(server)
            .args(question(name, type_))
            .run()
            .await;
        Answer::parse(&output.stdout)
    }
}

pub(crate) fn question<'a>(name: &'a str, type_: &'a str) -> impl Iterator<Item = &'a str> {
    let how = ["+noall", "+comments", "+answer", "+tries=1", "+time=5"];
    how.into_iter().chain([type_, name])
}

/// Answer of a nameserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// For instance NOERROR, NXDOMAIN or SERVFAIL.
    pub status: String,
    /// Records of the answer section, sorted: addresses, or for SRV `priority weight port target`.
    pub records: Vec<String>,
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Self {
        let status = text
            .split("status: ")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let answers = text
            .lines()
            .filter(|line| !line.starts_with(';') && !line.trim().is_empty());
        // <name> <ttl> IN <type> <data ...>
        let mut records: Vec<String> = answers
            .map(|line| {
                line.split_whitespace()
                    .skip(4)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        records.sort();
        Self {
            status: status.unwrap_or("no answer").to_owned(),
            records,
        }
    }

    /// `port target` of each SRV record, sorted: priority and weight are the server's affair.
    pub fn targets(&self) -> Vec<String> {
        let target = |record: &String| record.splitn(3, ' ').nth(2).map(str::to_owned);
        let mut targets: Vec<_> = self.records.iter().filter_map(target).collect();
        targets.sort();
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_what_its_records_say() {
        let text = ";; Got answer:
;; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 63414
;; ANSWER SECTION:
_http._tcp.foo.shop.svc.clusterset.local. 1 IN SRV 0 50 80 b.member2.foo.shop.svc.clusterset.local.
_http._tcp.foo.shop.svc.clusterset.local. 1 IN SRV 0 50 80 a.member1.foo.shop.svc.clusterset.local.
";
        let answer = Answer::parse(text);
        assert_eq!(answer.status, "NOERROR");
        assert_eq!(
            answer.targets(),
            [
                "80 a.member1.foo.shop.svc.clusterset.local.",
                "80 b.member2.foo.shop.svc.clusterset.local."
            ]
        );
        assert_eq!(Answer::parse(";; connection timed out").status, "no answer");
    }
}
