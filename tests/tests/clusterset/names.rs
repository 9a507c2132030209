//! Names in `clusterset.local`, as `dig` sees them (KEP-1645, `specification.md`).

use causeway_tests::dns::Answer;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{SOON, eventually, pod, service};
use k8s_openapi::api::core::v1::{Service, ServicePort};

use super::{Turn, cluster_set_ip, dig_is_there};

/// Name and type of a record.
#[derive(Clone, Copy)]
struct Question<'a> {
    name: &'a str,
    type_: &'a str,
}

impl Turn {
    pub(crate) fn dns_name(&self, zone: &str) -> String {
        format!("foo.{}.svc.{zone}", self.name())
    }

    /// Waits until a member's DNS gives exactly these records.
    pub(crate) async fn resolves(&self, member: &str, name: &str, type_: &str, expected: &[&str]) {
        let what = format!("{type_} of {name} in {member} is {expected:?}");
        let question = Question { name, type_ };
        self.answered(member, question, &what, |answer| answer.records == expected)
            .await;
    }

    async fn answered(
        &self,
        member: &str,
        question: Question<'_>,
        what: &str,
        holds: impl Fn(&Answer) -> bool,
    ) {
        let Question { name, type_ } = question;
        eventually(what, SOON, async || {
            let answer = self.member(member).dig(name, type_).await;
            if holds(&answer) {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        })
        .await;
    }

    /// Waits until a member's DNS knows no such name.
    pub(crate) async fn unknown(&self, member: &str, name: &str, type_: &str) {
        let what = format!("{member} knows no {type_} of {name}");
        self.answered(member, Question { name, type_ }, &what, |answer| {
            answer.status == "NXDOMAIN" && answer.records.is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn the_name_of_an_import_has_its_address() {
    let turn = Turn::on_three().await;
    if !dig_is_there() {
        return;
    }
    let name = turn.dns_name("clusterset.local");
    turn.unknown("member2", &name, "A").await;
    turn.exporter("member1").await;
    for member in turn.members() {
        let import = turn.imported_from(member.name(), &["member1"]).await;
        let address = cluster_set_ip(&import);
        turn.resolves(member.name(), &name, "A", &[address]).await;
        // One cluster's backends are not to be had by a name of their own.
        let of_one = format!("member1.{name}");
        turn.unknown(member.name(), &of_one, "A").await;
    }
    turn.unexport("member1").await;
    for member in turn.members() {
        turn.unknown(member.name(), &name, "A").await;
    }
}

#[tokio::test]
async fn every_named_port_of_an_import_has_a_srv_record() {
    let turn = Turn::on_three().await;
    if !dig_is_there() {
        return;
    }
    let exported = service("foo").port("http", 80).port("metrics", 9090);
    exported.create(turn.member("member1"), &turn).await;
    turn.export("member1").await;
    let name = turn.dns_name("clusterset.local");
    for (port, number) in [("http", 80), ("metrics", 9090)] {
        let question = Question {
            name: &format!("_{port}._tcp.{name}"),
            type_: "SRV",
        };
        let what = format!("SRV of {}", question.name);
        turn.answered("member2", question, &what, |answer| {
            answer.targets() == [format!("{number} {name}.")]
        })
        .await;
    }
    let udp = format!("_http._udp.{name}");
    turn.unknown("member2", &udp, "SRV").await;
}

/// `foo`, headless, in a member with these pods as a StatefulSet's, exported.
pub(crate) async fn headless(turn: &Turn, member: &str, hosts: &[&str]) -> Vec<RunningPod> {
    let cluster = turn.member(member);
    let exported = service("foo").port("peer", 80).headless();
    exported.create(cluster, turn).await;
    let mut pods = Vec::new();
    for host in hosts {
        let pod = pod(host, "foo").hostname(host, "foo");
        pods.push(pod.create(cluster, turn).await);
    }
    turn.export_later(member).await;
    pods
}

#[tokio::test]
async fn the_names_of_a_headless_import_are_those_of_its_ready_endpoints() {
    let turn = Turn::on_three().await;
    if !dig_is_there() {
        return;
    }
    let first = headless(&turn, "member1", &["db-0", "db-1"]).await;
    let second = headless(&turn, "member2", &["db-0"]).await;
    let name = turn.dns_name("clusterset.local");
    for member in turn.members() {
        let member = member.name();
        let mut all: Vec<_> = first.iter().chain(&second).map(RunningPod::ip).collect();
        all.sort_unstable();
        turn.resolves(member, &name, "A", &all).await;
        // Pods of one name in two clusters are two names.
        for (host, cluster, pod) in [
            ("db-0", "member1", &first[0]),
            ("db-1", "member1", &first[1]),
            ("db-0", "member2", &second[0]),
        ] {
            let name = format!("{host}.{cluster}.{name}");
            turn.resolves(member, &name, "A", &[pod.ip()]).await;
        }
        let question = Question {
            name: &format!("_peer._tcp.{name}"),
            type_: "SRV",
        };
        let targets = [
            format!("80 db-0.member1.{name}."),
            format!("80 db-0.member2.{name}."),
            format!("80 db-1.member1.{name}."),
        ];
        let what = format!("SRV of {} in {member}", question.name);
        turn.answered(member, question, &what, |answer| {
            answer.targets() == targets
        })
        .await;
        for one in ["member1", "member2"] {
            turn.unknown(member, &format!("{one}.{name}"), "A").await;
        }
    }
    first[0].set_ready(false).await;
    first[1].delete().await;
    turn.resolves("member2", &name, "A", &[second[0].ip()])
        .await;
    let gone = format!("db-0.member1.{name}");
    turn.unknown("member2", &gone, "A").await;
    second[0].set_ready(false).await;
    turn.unknown("member2", &name, "A").await;
}

#[tokio::test]
async fn an_endpoint_without_a_hostname_has_a_name_of_its_own_too() {
    if !dig_is_there() {
        return;
    }
    let turn = Turn::on_three().await;
    headless(&turn, "member1", &[]).await;
    let pod = turn.pod("member1").await;
    let name = turn.dns_name("clusterset.local");
    let of_pod = format!("{}.member1.{name}", pod.ip().replace('.', "-"));
    turn.resolves("member3", &of_pod, "A", &[pod.ip()]).await;
    let answer = turn.member("member3").dig(&reverse(pod.ip()), "PTR").await;
    let derived = format!("derived-foo.{}.svc.cluster.local.", turn.name());
    assert_eq!(answer.records.len(), 1, "{answer:?}");
    assert!(answer.records[0].ends_with(&derived), "{answer:?}");
}

/// The name under which the name of an IPv4 address is found.
fn reverse(address: &str) -> String {
    let parts: Vec<_> = address.split('.').rev().collect();
    format!("{}.in-addr.arpa", parts.join("."))
}

#[tokio::test]
async fn a_headless_dual_stack_service_has_names_of_both_kinds() {
    if !dig_is_there() {
        return;
    }
    let turn = Turn::on_three().await;
    let member2 = turn.member("member2");
    let exported = service("foo").port("peer", 80).headless().with(|spec| {
        spec.ip_family_policy = Some("RequireDualStack".to_owned());
    });
    exported.create(member2, &turn).await;
    let four = member2.fresh_pod_ip();
    let both = pod("db-0", "foo").hostname("db-0", "foo");
    let both = both.ip(&four).ip("fd00:2::18");
    both.create(member2, &turn).await;
    turn.export("member2").await;
    let name = turn.dns_name("clusterset.local");
    for name in [name.clone(), format!("db-0.member2.{name}")] {
        turn.resolves("member3", &name, "A", &[&four]).await;
        turn.resolves("member3", &name, "AAAA", &["fd00:2::18"])
            .await;
    }
    let import = turn.imported_from("member3", &["member2"]).await;
    assert_eq!(import.spec.type_, "Headless");
    assert_eq!(import.spec.ip_families, ["IPv4", "IPv6"]);
}

#[tokio::test]
async fn names_in_the_cluster_s_own_zone_are_the_local_service_s() {
    if !dig_is_there() {
        return;
    }
    let turn = Turn::on_three().await;
    turn.service("member2").await;
    turn.exporter("member1").await;
    let import = turn.imported_from("member2", &["member1"]).await;
    let services = turn.api::<Service>(turn.member("member2"));
    let local = services.get("foo").await.expect("the Service").spec;
    let local = local.and_then(|spec| spec.cluster_ip).expect("an address");
    let names = ["cluster.local", "clusterset.local"].map(|zone| turn.dns_name(zone));
    turn.resolves("member2", &names[0], "A", &[&local]).await;
    let imported = cluster_set_ip(&import);
    turn.resolves("member2", &names[1], "A", &[imported]).await;
    // Where there is no such Service the import makes none.
    turn.unknown("member3", &names[0], "A").await;
    // One address has one name: that of the Service that stands for the import.
    let derived = format!("derived-foo.{}.svc.cluster.local.", turn.name());
    turn.resolves("member2", &reverse(imported), "PTR", &[&derived])
        .await;
}

#[tokio::test]
async fn a_port_without_a_name_has_no_srv_record() {
    if !dig_is_there() {
        return;
    }
    let turn = Turn::on_three().await;
    let port = ServicePort {
        port: 80,
        ..ServicePort::default()
    };
    let exported = service("foo").with(|spec| spec.ports = Some(vec![port]));
    exported.create(turn.member("member1"), &turn).await;
    let pod = turn.pod("member1").await;
    turn.export("member1").await;
    let import = turn.imported_from("member2", &["member1"]).await;
    let name = turn.dns_name("clusterset.local");
    turn.resolves("member2", &name, "A", &[cluster_set_ip(&import)])
        .await;
    turn.reaches("member2", &[pod.ip()]).await;
    for port in ["_http", "_80"] {
        let question = format!("{port}._tcp.{name}");
        turn.unknown("member2", &question, "SRV").await;
    }
}
