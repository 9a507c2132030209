//! `kubectl mcs verify` from real pods' networks, with each of the faults that it names.

use causeway_tests::dns::core_dns;
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::kubelet::Kubelet;
use causeway_tests::reaper::Exit;
use causeway_tests::{
    Cluster, Environment, Fleet, SOON, Space, binaries, eventually, service, service_export,
};
use k8s_openapi::api::core::v1::ServicePort;
use serde_json::Value;

use crate::{packets, started, web};

/// Namespace of the pods of `verify`, in which only restricted pods may run.
const PROBES: &str = "probes";

/// Two members; the pods of `verify` run in them, and the DNS does not serve `clusterset.local`.
struct Verify<'a> {
    env: &'a Environment,
    space: &'a Space<'a>,
    kubeconfig: String,
}

impl Verify<'_> {
    /// Runs `kubectl mcs verify` with these arguments.
    async fn run(&self, args: &[&str]) -> Output {
        self.env.installation.kubectl_mcs(self.command(args)).await
    }

    fn command<'b>(&'b self, args: &[&'b str]) -> Vec<&'b str> {
        let mut all = vec![
            "verify",
            "-n",
            self.space.name(),
            "--member-kubeconfig",
            &self.kubeconfig,
            "--probe-namespace",
            PROBES,
        ];
        all.extend(args);
        all
    }

    fn member(&self, name: &str) -> &Cluster {
        self.env.fleet.member(name)
    }

    /// Runs a command in the network namespace of a member's node.
    async fn node(&self, member: &str, command: &str) {
        let words: Vec<_> = command.split(' ').collect();
        let (program, args) = words.split_first().expect("a command");
        let run = self.member(member).exec(program, args.iter().copied());
        run.await.ok();
    }

    /// Asserts that no pod of `verify` is left.
    async fn no_pod_is_left(&self) {
        for name in ["member1", "member2"] {
            let get = ["get", "pods", "-n", PROBES, "-o", "name"];
            let left = self.member(name).kubectl(get).await.ok();
            assert_eq!(left, "", "in {name}");
        }
    }
}

/// Fault of a node's network: what makes it, what mends it, and how `verify` names it.
struct Fault {
    member: &'static str,
    make: &'static [&'static str],
    mend: &'static [&'static str],
    /// Results of the endpoints and of the pod that answers.
    results: [&'static str; 2],
    cause: &'static str,
}

/// The pods of member1 are 10.129.0.0/16, those of member2 10.130.0.0/16.
const FAULTS: [(&str, Fault); 5] = [
    (
        "missing route",
        Fault {
            member: "member2",
            make: &["ip route add unreachable 10.129.0.0/25"],
            mend: &["ip route delete unreachable 10.129.0.0/25"],
            results: ["NoRoute", "NoRoute"],
            cause: "member2 has no route to the pods of member1",
        },
    ),
    (
        "packets back are dropped",
        Fault {
            member: "member1",
            make: &[
                "nft add table ip cut",
                "nft add chain ip cut f { type filter hook forward priority 0 ; }",
                "nft add rule ip cut f ip saddr 10.129.0.0/16 ip daddr 10.130.0.0/16 drop",
            ],
            mend: &["nft delete table ip cut"],
            results: ["TimedOut", "TimedOut"],
            cause: "packets between pods of member2 and member1 are dropped",
        },
    ),
    (
        "NetworkPolicy",
        Fault {
            member: "member1",
            make: &[
                "nft add table ip cut",
                "nft add chain ip cut f { type filter hook forward priority 0 ; }",
                "nft add rule ip cut f ip daddr 10.129.0.0/16 tcp dport 8080 drop",
            ],
            mend: &["nft delete table ip cut"],
            results: ["TimedOut", "Works"],
            cause: "other pods of member1 answer member2, and packets to this one are dropped",
        },
    ),
    (
        "MTU 1280 without ICMP",
        Fault {
            member: "member2",
            make: &[
                "ip link set eth0 mtu 1280",
                "nft add table ip cut",
                "nft add chain ip cut o { type filter hook output priority 0 ; }",
                "nft add rule ip cut o icmp type destination-unreachable drop",
            ],
            mend: &["nft delete table ip cut", "ip link set eth0 mtu 1500"],
            results: ["Works", "LargePacketsLost"],
            cause: "carries smaller packets than the pods send",
        },
    ),
    (
        "NAT",
        Fault {
            member: "member2",
            make: &[
                "nft add table ip cut",
                "nft add chain ip cut p { type nat hook postrouting priority srcnat ; }",
                "nft add rule ip cut p ip daddr 10.129.0.0/16 masquerade",
            ],
            mend: &["nft delete table ip cut"],
            results: ["Works", "WorksThroughNat"],
            cause: "",
        },
    ),
];

/// A path of one kind in the JSON report.
fn paths<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    let consumers = report["services"][0]["consumers"].as_array();
    let paths = consumers
        .into_iter()
        .flatten()
        .flat_map(|one| one["paths"].as_array());
    let paths = paths.flatten().filter(|path| path["kind"] == kind);
    paths.collect()
}

#[tokio::test]
async fn verify_names_each_fault_of_the_network() {
    if !packets() {
        return;
    }
    let env = started(Fleet::builder().members(2).packets()).await;
    let space = env.fleet.space("verify").await;
    let verify = Verify {
        kubeconfig: env.fleet.kubeconfig().display().to_string(),
        env: &env,
        space: &space,
    };
    set_up(&verify).await;
    pods_that_do_not_start_are_unknown_and_deleted(&verify).await;
    let program = binaries::causeway("kubectl-mcs");
    let kubelet =
        |name| Kubelet::new(env.fleet.member(name)).running("kubectl-mcs", program.clone());
    let (first, second) = tokio::join!(kubelet("member1"), kubelet("member2"));
    tokio::select! {
        () = async { tokio::join!(first.run(), second.run()); } => panic!("a kubelet ended"),
        () = story(&verify) => {}
    }
}

async fn set_up(verify: &Verify<'_>) {
    let (env, space) = (verify.env, verify.space);
    for cluster in env.fleet.clusters() {
        web().create(cluster, space).await;
    }
    let definitions = env.installation.manifest("crds/member");
    for name in ["member1", "member2"] {
        let member = verify.member(name);
        // The controller notices definitions within a minute; the last step of the story needs
        // them.
        let apply = ["apply", "--server-side", "-f", definitions.as_str()];
        member.kubectl(apply).await.ok();
        member.kubectl(["create", "namespace", PROBES]).await.ok();
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        let label = ["label", "namespace", PROBES, restricted];
        member.kubectl(label).await.ok();
    }
    space.pods("foo", "member1", 2).await;
    space.offer("foo", ["member1"], ["member2"]).await;
    in_consumer(verify, "foo").await;
}

/// Waits until member2 has both endpoints of a service.
async fn in_consumer(verify: &Verify<'_>, name: &str) {
    let what = format!("{name} is in member2");
    eventually(&what, SOON, || async {
        let member = verify.member("member2");
        verify.space.ready_addresses(member, name).await.len() == 2
    })
    .await;
}

/// Nothing runs the pods yet.
async fn pods_that_do_not_start_are_unknown_and_deleted(verify: &Verify<'_>) {
    let late = verify.run(&["foo", "--timeout", "1s"]).await;
    assert_eq!(late.exit, Exit::Code(3), "{late:?}");
    assert!(late.stdout.contains("did not start in time"), "{late:?}");
    verify.no_pod_is_left().await;

    let program = binaries::causeway("kubectl-mcs").display().to_string();
    let mut args = vec!["--preserve-status", "-s", "INT", "2", program.as_str()];
    args.extend(verify.command(&["foo"]));
    let fleet = &verify.env.fleet;
    let interrupted = Command::new(fleet.reaper(), fleet.directory(), "timeout")
        .env("KUBECONFIG", fleet.hub().kubeconfig().display().to_string())
        .args(args);
    let interrupted = interrupted.run().await;
    assert_eq!(interrupted.exit, Exit::Code(130), "{interrupted:?}");
    verify.no_pod_is_left().await;
}

async fn story(verify: &Verify<'_>) {
    everything_works(verify).await;
    for (name, fault) in &FAULTS {
        fault_is_named(verify, name, fault).await;
    }
    wrong_port_is_named(verify).await;
    udp_works_is_refused_or_unknown(verify).await;
    missing_zone_is_named(verify).await;
    dry_run_and_job_create_nothing(verify).await;
}

async fn everything_works(verify: &Verify<'_>) {
    let verified = verify.run(&["foo", "--nodes"]).await;
    assert_eq!(verified.exit, Exit::Code(0), "{verified:?}");
    let shown: Vec<_> = verified.stdout.lines().collect();
    assert_eq!(shown.len(), 2, "{verified:?}");
    for part in [
        "member2 (member2-node)",
        "3 of 3 work",
        "1 of 1 work",
        "2 of 2 work",
    ] {
        assert!(shown[1].contains(part), "{part}: {verified:?}");
    }
    verify.no_pod_is_left().await;
    let hub = verify.env.fleet.hub();
    let get = [
        "get",
        "configmap",
        "causeway-verify.foo",
        "-o",
        "jsonpath={.data}",
    ];
    let namespace = ["-n", verify.space.name()];
    let stored = hub.kubectl(get.into_iter().chain(namespace)).await.ok();
    assert!(stored.contains("member2-node"), "{stored}");
    let explain = ["explain", "foo", "-n", verify.space.name()];
    let explained = verify.env.installation.kubectl_mcs(explain).await.ok();
    let verified = "ago: everything that was dialled works";
    assert!(explained.contains(verified), "{explained}");
}

async fn fault_is_named(verify: &Verify<'_>, name: &str, fault: &Fault) {
    for command in fault.make {
        verify.node(fault.member, command).await;
    }
    let verified = verify.run(&["foo", "-o", "json"]).await;
    for command in fault.mend {
        verify.node(fault.member, command).await;
    }
    let report: Value = serde_json::from_str(&verified.stdout).expect(name);
    let kinds = ["Endpoint", "Server"];
    let mut causes = String::new();
    for (kind, result) in kinds.into_iter().zip(fault.results) {
        let found = paths(&report, kind);
        assert!(!found.is_empty(), "{name}: {kind}: {report:#}");
        for path in found {
            assert_eq!(path["result"], result, "{name}: {path:#}");
            causes.push_str(path["cause"].as_str().unwrap_or_default());
        }
    }
    assert!(causes.contains(fault.cause), "{name}: {causes}");
    let works = fault
        .results
        .iter()
        .all(|result| result.starts_with("Works"));
    let code = if works { 0 } else { 1 };
    assert_eq!(verified.exit, Exit::Code(code), "{name}: {report:#}");
    assert_eq!(report["works"], works, "{name}");
}

async fn wrong_port_is_named(verify: &Verify<'_>) {
    for cluster in verify.env.fleet.clusters() {
        let bar = service("bar")
            .selector("app", "foo")
            .port_to("http", 80, 9999);
        bar.create(cluster, verify.space).await;
    }
    verify.space.offer("bar", ["member1"], ["member2"]).await;
    in_consumer(verify, "bar").await;
    let verified = verify.run(&["bar", "--from", "member2"]).await;
    assert_eq!(verified.exit, Exit::Code(1), "{verified:?}");
    let cause = "the pod in member1 is reached, and nothing listens on its port 9999";
    assert!(verified.stdout.contains(cause), "{verified:?}");
}

/// A pod in which nothing listens, then a DNS server, then one whose packets are dropped.
async fn udp_works_is_refused_or_unknown(verify: &Verify<'_>) {
    let (env, space) = (verify.env, verify.space);
    let provider = verify.member("member1");
    for cluster in env.fleet.clusters() {
        let dns = service("names").with(|spec| {
            spec.ports = Some(vec![ServicePort {
                port: 53,
                protocol: Some("UDP".to_owned()),
                ..ServicePort::default()
            }]);
        });
        dns.create(cluster, space).await;
    }
    let pods = space.backends("names").create(provider).await;
    space.offer("names", ["member1"], ["member2"]).await;
    let consumer = verify.member("member2");
    eventually("names is in member2", SOON, || async {
        space.ready_addresses(consumer, "names").await.len() == 1
    })
    .await;
    is_dialled_by_udp(verify, "Refused", 1).await;
    let names = core_dns(provider).in_network(pods[0].network().namespace());
    let _names = env.fleet.reaper().run(names);
    is_dialled_by_udp(verify, "Works", 0).await;
    for command in [
        "nft add table ip cut",
        "nft add chain ip cut f { type filter hook forward priority 0 ; }",
        "nft add rule ip cut f ip saddr 10.129.0.0/16 udp sport 53 drop",
    ] {
        verify.node("member1", command).await;
    }
    is_dialled_by_udp(verify, "NoAnswer", 3).await;
    verify.node("member1", "nft delete table ip cut").await;
}

/// Waits until `verify` reports this result of the endpoint of Service `names`, with this exit
/// code.
async fn is_dialled_by_udp(verify: &Verify<'_>, result: &str, code: u8) {
    let command = ["names", "--from", "member2", "-o", "json"];
    eventually(result, SOON, || async {
        let verified = verify.run(&command).await;
        let report: Value = serde_json::from_str(&verified.stdout).unwrap_or_default();
        let found = paths(&report, "Endpoint");
        let is_so =
            found.len() == 1 && found[0]["result"] == result && found[0]["protocol"] == "DNS";
        let is_so = is_so && verified.exit == Exit::Code(code.into());
        is_so.then_some(()).ok_or(verified.stdout)
    })
    .await;
}

async fn missing_zone_is_named(verify: &Verify<'_>) {
    service_export("foo")
        .create(verify.member("member1"), verify.space)
        .await;
    let command = ["foo", "--from", "member2", "-o", "json"];
    let cause = "the DNS of member2 does not serve clusterset.local";
    eventually("the name of the import is not found", SOON, || async {
        let verified = verify.run(&command).await;
        let named = verified.stdout.contains(cause) && verified.exit == Exit::Code(1);
        named.then_some(()).ok_or(verified.stdout)
    })
    .await;
}

async fn dry_run_and_job_create_nothing(verify: &Verify<'_>) {
    let members = ["member1", "member2"].map(|name| verify.member(name));
    let marks = [members[0].mark().await, members[1].mark().await];
    let pods = verify.run(&["foo", "--dry-run"]).await.ok();
    assert_eq!(pods.matches("kind: Pod").count(), 3, "{pods}");
    let wrong = ["--member", "member2=member1"];
    for what in [&["--dry-run"][..], &["--from", "member2", "--print-job"]] {
        let untried = verify.run(&[&["foo"], what, &wrong].concat()).await;
        assert_eq!(untried.exit, Exit::Code(3), "{untried:?}");
        let why = "not tried: member2: context member1 is of ";
        assert!(untried.stderr.contains(why), "{untried:?}");
    }
    let job = verify
        .run(&["foo", "--from", "member2", "--print-job"])
        .await
        .ok();
    let controller = verify.env.controller.process();
    controller.pause();
    let (space, members_of) = (verify.space, ["member1"]);
    space.expose("void", members_of, ["member2"]).await;
    let void = ["void", "--from", "member2", "--print-job"];
    let void = verify.run(&void).await;
    controller.resume();
    assert_eq!(void.exit, Exit::Code(3), "{void:?}");
    let untried = "not tried: member2 has neither Service nor ServiceImport";
    assert!(void.stderr.contains(untried), "{void:?}");
    for (member, mark) in members.into_iter().zip(marks) {
        let written = member.writes_since(mark, "kubectl-mcs").await;
        assert!(written.is_empty(), "{written:?}");
    }
    let dry_run = ["apply", "--dry-run=server", "-f", "-"];
    let dry = members[1].kubectl_with(dry_run, job.as_str());
    assert!(
        dry.await.ok().contains("job.batch/causeway-verify-"),
        "{job}"
    );
}
