//! Tests of the causes, of the report and of its stored part.

use k8s_openapi::jiff::Timestamp;

use super::diagnosis::diagnose;
use super::probe::{Dialled, Outcome, Path, Protocol};
use super::report::{ConsumerReport, Report, ServiceReport};
use crate::args::tests::assert_commands_parse;
use crate::observe::verification::Verification;
use crate::term::exit::ExitState;
use crate::term::screen::Screen;

fn endpoint(provider: &str, last: u8) -> Path {
    Path::Endpoint {
        provider: provider.to_owned(),
        address: [10, 1, 0, last].into(),
        port: 8080,
        protocol: Protocol::Tcp,
    }
}

fn server(provider: &str) -> Path {
    Path::Server {
        provider: provider.to_owned(),
        address: [10, 1, 0, 99].into(),
        port: 8474,
    }
}

fn cluster_ip() -> Path {
    Path::ClusterIp {
        address: [10, 66, 0, 7].into(),
        port: 80,
        protocol: Protocol::Tcp,
    }
}

/// Path to an endpoint of member1 by UDP.
fn udp(last: u8) -> Path {
    Path::Endpoint {
        provider: "member1".to_owned(),
        address: [10, 1, 0, last].into(),
        port: 53,
        protocol: Protocol::Dns,
    }
}

fn name(name: &str) -> Path {
    Path::Name {
        name: name.to_owned(),
        expected: vec![[10, 66, 0, 7].into()],
    }
}

fn consumer(cluster: &str, outcomes: Vec<(Path, Outcome)>) -> ConsumerReport {
    let paths: Vec<_> = outcomes.iter().map(|(path, _)| path.clone()).collect();
    let dialled = outcomes.into_iter().map(|(path, outcome)| Dialled {
        service: 0,
        path,
        outcome,
        milliseconds: 1,
    });
    ConsumerReport::new(cluster, None, &paths, dialled.collect(), Vec::new())
}

fn service(consumers: Vec<ConsumerReport>) -> ServiceReport {
    ServiceReport {
        namespace: "shop".to_owned(),
        name: "foo".to_owned(),
        consumers,
    }
}

#[test]
fn each_outcome_has_its_own_cause() {
    let (endpoint, server) = (&endpoint("member1", 1), &server("member1"));
    let (zone, own) = (&name("foo.shop.svc.clusterset.local"), &name("foo.shop"));
    let cluster_ip = &cluster_ip();
    let wrong = Outcome::WrongCluster {
        answered: "member3".to_owned(),
    };
    let other = Outcome::WrongAddress { found: vec![] };
    let no_route = "member2 has no route to the pods of member1";
    let overlap = "pods of member3 have addresses of member1";
    for (path, outcome, cause) in [
        (
            endpoint,
            Outcome::Refused,
            "nothing listens on its port 8080",
        ),
        (endpoint, Outcome::NoRoute, no_route),
        (endpoint, Outcome::TimedOut, "are dropped"),
        (endpoint, Outcome::Reset, "made and then cut"),
        (server, Outcome::Refused, "refuses the connection"),
        (server, wrong, overlap),
        (server, Outcome::LargePacketsLost, "smaller packets"),
        (
            zone,
            Outcome::NameNotFound,
            "does not serve clusterset.local",
        ),
        (own, Outcome::NameNotFound, "has not seen the Service"),
        (own, Outcome::TimedOut, "no answer from the nameserver"),
        (own, other, "another Service"),
        (cluster_ip, Outcome::Refused, "knows no endpoint"),
        (cluster_ip, Outcome::TimedOut, "does not answer"),
        (cluster_ip, Outcome::NoAnswer, "may ignore the datagram"),
        (endpoint, Outcome::NoAnswer, "packets are dropped"),
    ] {
        let found = diagnose("member2", path, &outcome, false).expect("a cause");
        assert!(found.cause.contains(cause), "{path} {outcome:?}: {found:?}");
        assert!(!found.remedy.is_empty());
        assert_commands_parse(&found.remedy);
    }
    let dropped = diagnose("member2", endpoint, &Outcome::TimedOut, true);
    let cause = dropped.expect("a cause").cause;
    assert!(cause.contains("other pods of member1 answer"), "{cause}");
    assert_eq!(diagnose("member2", server, &Outcome::Works, true), None);
}

#[test]
fn matrix_names_each_problem_with_its_cause_and_remedy() {
    let works = |path| (path, Outcome::Works);
    let nat = Outcome::WorksThroughNat {
        seen: [192, 0, 2, 1].into(),
    };
    let consumers = vec![
        consumer(
            "member1",
            vec![
                works(endpoint("member1", 1)),
                works(cluster_ip()),
                works(name("foo.shop")),
                (server("member1"), nat),
            ],
        ),
        consumer(
            "member2",
            vec![
                (endpoint("member1", 1), Outcome::Refused),
                (endpoint("member1", 2), Outcome::Refused),
                works(endpoint("member1", 3)),
                works(cluster_ip()),
                (name("foo.shop.svc.clusterset.local"), Outcome::NameNotFound),
            ],
        ),
    ];
    let report = Report::new(
        vec![service(consumers)],
        vec!["member3: no context".to_owned()],
    );
    assert_eq!(
        report.render(Screen::PLAIN),
        "\
FROM shop/foo   member1       CLUSTERIP     NAMES
member1         2 of 2 work   1 of 1 work   1 of 1 work
  member1: pod of this run at 10.1.0.99:8474 works, seen from 192.0.2.1
member2         1 of 3 work   1 of 1 work   0 of 1 work
  member1: 10.1.0.1:8080, 10.1.0.2:8080 refused
     the pod in member1 is reached, and nothing listens on its port 8080
     -> compare targetPort of the Service with the port on which the container listens
  foo.shop.svc.clusterset.local name not found
     the DNS of member2 does not serve clusterset.local, or has not seen the ServiceImport
     -> kubectl mcs dns member2 --member-kubeconfig FILE shows what is missing (docs/clusterset.md#dns)
not tried: member3: no context
"
    );
    assert_eq!(report.exit_state(), ExitState::Problem);
}

#[test]
fn udp_without_an_answer_is_unknown_in_the_matrix() {
    let outcomes = vec![
        (udp(1), Outcome::Works),
        (udp(2), Outcome::NoAnswer),
        (cluster_ip(), Outcome::Works),
    ];
    let report = Report::new(vec![service(vec![consumer("member2", outcomes)])], vec![]);
    assert_eq!(
        report.render(Screen::PLAIN),
        "\
FROM shop/foo   member1                  CLUSTERIP
member2         1 of 2 work, 1 unknown   1 of 1 work
  member1: 10.1.0.2:53/UDP (DNS) no answer, unknown
     a server of UDP may ignore the datagram, or packets are dropped
     -> try it from a pod of member2 with a client of its protocol
"
    );
    assert_eq!(report.exit_state(), ExitState::Unknown);
}

#[test]
fn untried_paths_are_unknown_and_never_good() {
    let all_work = || consumer("member2", vec![(cluster_ip(), Outcome::Works)]);
    let lost = ConsumerReport::new("member2", None, &[cluster_ip()], Vec::new(), Vec::new());
    for (consumers, untried, state) in [
        (vec![all_work()], vec![], ExitState::Good),
        (
            vec![consumer("member2", vec![(udp(1), Outcome::NoAnswer)])],
            vec![],
            ExitState::Unknown,
        ),
        (
            vec![consumer(
                "member2",
                vec![(udp(1), Outcome::NoAnswer), (udp(2), Outcome::Refused)],
            )],
            vec![],
            ExitState::Problem,
        ),
        (
            vec![all_work()],
            vec!["member3".to_owned()],
            ExitState::Unknown,
        ),
        (vec![lost], vec![], ExitState::Unknown),
        (vec![], vec![], ExitState::Unknown),
    ] {
        let report = Report::new(vec![service(consumers)], untried);
        assert_eq!(report.exit_state(), state, "{report:?}");
    }
}

#[test]
fn fields_for_programs_are_stable() {
    let consumers = vec![consumer(
        "member2",
        vec![(endpoint("member1", 1), Outcome::TimedOut)],
    )];
    let report = Report::new(vec![service(consumers)], Vec::new());
    let expected = serde_json::json!({
        "works": false,
        "complete": true,
        "services": [{
            "namespace": "shop",
            "name": "foo",
            "consumers": [{
                "cluster": "member2",
                "paths": [{
                    "kind": "Endpoint",
                    "provider": "member1",
                    "address": "10.1.0.1",
                    "port": 8080,
                    "result": "TimedOut",
                    "milliseconds": 1,
                    "cause": "packets between pods of member2 and member1 are dropped, in one \
                              direction or both",
                    "remedy": "look for a NetworkPolicy in member1, a firewall between the \
                               clusters, and a missing route back to the pods of member2",
                }],
            }],
        }],
    });
    assert_eq!(serde_json::to_value(&report).expect("JSON"), expected);
}

#[test]
fn stored_result_is_one_sentence_with_the_first_problem() {
    let time = Timestamp::UNIX_EPOCH;
    let works = consumer("member1", vec![(cluster_ip(), Outcome::Works)]);
    let fails = consumer(
        "member2",
        vec![
            (endpoint("member1", 1), Outcome::Works),
            (endpoint("member1", 2), Outcome::TimedOut),
            (cluster_ip(), Outcome::Refused),
        ],
    );
    let silent = consumer(
        "member2",
        vec![(udp(1), Outcome::NoAnswer), (cluster_ip(), Outcome::Works)],
    );
    for (consumers, sentence) in [
        (vec![works.clone()], "everything that was dialled works"),
        (
            vec![silent],
            "nothing is known to fail; 1 of 2 paths are of UDP and gave no answer",
        ),
        (
            vec![works, fails],
            "from member2 to pods of member1 1 of 2 work (timed out), and 1 more",
        ),
    ] {
        let stored = service(consumers).verification(time).expect("a result");
        let text = serde_json::to_string(&stored).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Verification>(&text).expect("a result"),
            stored
        );
        assert_eq!(stored.summary(), sentence);
    }
    assert_eq!(service(vec![]).verification(time), None);
}
