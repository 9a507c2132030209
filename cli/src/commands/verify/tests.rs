//! Tests of the causes, of the report and of its stored part.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::diagnosis::{Evidence, diagnose, words};
use super::probe::{Dialled, OTHER_PROGRAM, Outcome, Path, Port, Protocol};
use super::report::{ConsumerReport, Report, ServiceReport};
use super::store;
use crate::args::tests::assert_commands_parse;
use crate::cluster::access::Side;
use crate::fixtures::answering;
use crate::observe::verification::{Reached, Verification};
use crate::term::exit::ExitState;
use crate::term::screen::Screen;

fn endpoint(provider: &str, last: u8) -> Path {
    Path::Endpoint {
        provider: provider.to_owned(),
        at: Port::new([10, 1, 0, last], 8080, Protocol::Tcp),
    }
}

fn server(provider: &str) -> Path {
    Path::Server {
        provider: provider.to_owned(),
        at: Port::new([10, 1, 0, 99], 8474, Protocol::Tcp),
    }
}

fn cluster_ip() -> Path {
    Path::ClusterIp(Port::new([10, 66, 0, 7], 80, Protocol::Tcp))
}

/// Path to an endpoint of member1 by UDP.
fn udp(last: u8) -> Path {
    Path::Endpoint {
        provider: "member1".to_owned(),
        at: Port::new([10, 1, 0, last], 53, Protocol::Dns),
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
    let entered = BTreeSet::new();
    ConsumerReport::new(
        (cluster, None),
        &paths,
        (dialled.collect(), None),
        Vec::new(),
        &entered,
    )
}

fn service(consumers: Vec<ConsumerReport>) -> ServiceReport {
    ServiceReport {
        namespace: "shop".to_owned(),
        name: "foo".to_owned(),
        consumers,
    }
}

#[test]
fn network_of_any_member_is_declared_by_an_annotation() {
    let wrong = Outcome::WrongCluster {
        answered: "member3".to_owned(),
    };
    let declare = ": kubectl annotate cluster member1 mcs.causeway.dev/network=NAME";
    for outcome in [Outcome::NoRoute, wrong] {
        let found = diagnose("member2", &server("member1"), &outcome, Evidence::default());
        let remedy = found.expect("a cause").remedy;
        assert!(remedy.contains(declare), "{remedy}");
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
    let other_program = Outcome::WrongCluster {
        answered: OTHER_PROGRAM.to_owned(),
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
        (server, other_program, "another program than this run's pod"),
        (endpoint, Outcome::Intercepted, "accepts every connection"),
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
        let evidence = Evidence::default();
        let found = diagnose("member2", path, &outcome, evidence).expect("a cause");
        assert!(found.cause.contains(cause), "{path} {outcome:?}: {found:?}");
        assert!(!found.remedy.is_empty());
        assert_commands_parse(&found.remedy);
    }
    let evidence = Evidence {
        network_works: true,
        endpoints_fail: true,
        is_entry: false,
    };
    let entry = Evidence {
        is_entry: true,
        ..Evidence::default()
    };
    for (path, outcome, evidence, cause) in [
        (
            endpoint,
            Outcome::TimedOut,
            evidence,
            "other pods of member1 answer",
        ),
        (
            cluster_ip,
            Outcome::Refused,
            evidence,
            "an endpoint that refuses",
        ),
        (endpoint, Outcome::Refused, entry, "leads to no pod"),
        (endpoint, Outcome::NoRoute, entry, "no route to the entry"),
        (endpoint, Outcome::TimedOut, entry, "packets to the entry"),
        (endpoint, Outcome::Reset, entry, "made and then cut"),
    ] {
        let found = diagnose("member2", path, &outcome, evidence).expect("a cause");
        assert!(found.cause.contains(cause), "{path} {outcome:?}: {found:?}");
    }
    assert_eq!(diagnose("member2", server, &Outcome::Works, evidence), None);
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
    let (from, entered) = (("member2", None), BTreeSet::new());
    let none = (Vec::new(), None);
    let lost = ConsumerReport::new(from, &[cluster_ip()], none, Vec::new(), &entered);
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
    let mut untried = consumer("member3", Vec::new());
    untried.untried.push("2 paths have no outcome".to_owned());
    for (consumers, sentence) in [
        (vec![works.clone()], "everything that was dialled works"),
        (
            vec![silent],
            "nothing is known to fail; the outcome of 1 of 2 paths is unknown",
        ),
        (
            vec![works.clone(), untried],
            "nothing is known to fail; 1 part was not tried",
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

#[test]
fn wrong_address_names_few_of_many_addresses() {
    let found = (0..200_u8).map(|last| IpAddr::from([10, 3, 0, last]));
    let found = found.collect();
    let expected = "wrong address 10.3.0.0, 10.3.0.1, 10.3.0.2 and 197 more";
    assert_eq!(words(&Outcome::WrongAddress { found }), expected);
}

/// Result that a run at this second stores of the ClusterIP from an origin.
fn stored(second: i64, from: &str, outcome: Outcome) -> Verification {
    stored_of(second, from, (cluster_ip(), outcome))
}

/// Result that a run at this second stores of one path from an origin.
fn stored_of(second: i64, from: &str, path: (Path, Outcome)) -> Verification {
    let time = Timestamp::from_second(second).expect("a time");
    let stored = service(vec![consumer(from, vec![path])]).verification(time);
    stored.expect("a result")
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn failures_of_nodes_are_retained_until_a_run_from_nodes() {
    for (from, earlier, outcome, is_retained) in [
        ("member1", "member1", Outcome::Refused, false),
        ("member1", "member1 (node-a)", Outcome::Refused, true),
        ("member1", "member1 (node-a)", Outcome::Works, false),
        ("member1", "member1 (node-a)", Outcome::NoAnswer, false),
        (
            "member1 (node-b)",
            "member1 (node-a)",
            Outcome::Refused,
            false,
        ),
        ("member1 (node-b)", "member1", Outcome::Refused, false),
        ("member1", "member2 (node-a)", Outcome::Refused, false),
    ] {
        let earlier = stored(0, earlier, outcome);
        let run = stored(60, from, Outcome::Works);
        let summary = match is_retained {
            true => format!("{}, at 1970-01-01T00:00:00Z", earlier.summary()),
            false => "everything that was dialled works".to_owned(),
        };
        let result = run.after(Some(earlier), &set(&["member1"]), &set(&[]));
        assert_eq!(result.summary(), summary, "{result:?}");
        assert_eq!(result.results.len(), 1 + usize::from(is_retained));
    }
}

#[test]
fn run_that_dials_everything_has_no_untried_part() {
    let both = |mut one: Verification, other: Verification| {
        one.results.extend(other.results);
        one
    };
    let of_nodes = both(
        stored(0, "member1 (node-a)", Outcome::Refused),
        stored(0, "member2 (node-b)", Outcome::Works),
    );
    let without_member2 = Verification {
        untried: 1,
        ..stored(60, "member1", Outcome::Works)
    };
    let (consumers, none) = (set(&["member1", "member2"]), set(&[]));
    let earlier = without_member2.after(Some(of_nodes), &consumers, &none);
    assert_eq!((earlier.untried, earlier.results.len()), (1, 3));
    let complete = both(
        stored(120, "member1", Outcome::Works),
        stored(120, "member2", Outcome::Works),
    );
    let result = complete.after(Some(earlier), &consumers, &none);
    let origins = result.results.iter().map(|one| one.from.as_str());
    let origins: Vec<_> = origins.collect();
    assert_eq!(origins, ["member1 (node-a)", "member1", "member2"]);
    assert_eq!(result.untried, 0);
}

#[test]
fn partial_run_retains_the_results_of_other_origins() {
    let day = 24 * 60 * 60;
    let fails = |time| stored(time, "member2 (node-a)", Outcome::Refused);
    let partial = |untried| Verification {
        untried,
        missing: set(&["member1"]),
        ..stored(0, "member2", Outcome::Works)
    };
    let both = ["member1", "member2"];
    for (earlier, left_out, summary) in [
        (None, &both[..0], "everything that was dialled works"),
        (
            None,
            &both[1..],
            "nothing is known to fail; 1 part was not tried",
        ),
        (
            Some(fails(0)),
            &both[1..],
            "from member2 (node-a) to its ClusterIP 0 of 1 work (refused), at 1970-01-01T00:00:00Z",
        ),
        // The earlier run left out member1, and of other parts none or one.
        (
            Some(partial(1)),
            &both[1..],
            "everything that was dialled works",
        ),
        (
            Some(partial(2)),
            &both[1..],
            "nothing is known to fail; 1 part was not tried",
        ),
        // The run dialled everything.
        (
            Some(fails(0)),
            &both[..0],
            "everything that was dialled works",
        ),
        (
            Some(fails(-1)),
            &both[1..],
            "nothing is known to fail; 1 part was not tried",
        ),
        (
            Some(stored(0, "member1", Outcome::Refused)),
            &both[1..],
            "nothing is known to fail; 1 part was not tried",
        ),
    ] {
        let left_out = set(left_out);
        let mut consumers = left_out.clone();
        consumers.insert("member1".to_owned());
        let run = stored(day, "member1", Outcome::Works);
        let result = run.after(earlier, &consumers, &left_out);
        assert_eq!(result.summary(), summary, "{result:?}");
        let own = |one: &&Reached| one.time.is_none();
        assert_eq!(result.results.iter().filter(own).count(), 1, "{result:?}");
    }
}

#[test]
fn run_with_untried_parts_replaces_failures_that_it_tried() {
    for (from, earlier, path, is_retained) in [
        ("member2", "member2", endpoint("new", 1), true),
        ("member2", "member2", cluster_ip(), false),
        ("member2 (node-b)", "member2", cluster_ip(), false),
        ("member2 (node-b)", "member2 (node-a)", cluster_ip(), true),
        ("member2 (node-a)", "member2 (node-a)", cluster_ip(), false),
        // It may no longer consume the service.
        ("member2", "member1", cluster_ip(), false),
    ] {
        let earlier = stored_of(0, earlier, (path, Outcome::TimedOut));
        let run = Verification {
            untried: 1,
            ..stored(60, from, Outcome::Works)
        };
        let result = run.after(Some(earlier), &set(&["member2"]), &set(&[]));
        let retained = result.results.iter().filter(|one| one.time.is_some());
        assert_eq!(retained.count(), usize::from(is_retained), "{result:?}");
        assert_eq!(result.untried, 1, "{result:?}");
    }
}

#[test]
fn untried_part_still_counts_beside_a_new_consumer() {
    let (a, both) = (set(&["a"]), set(&["a", "b"]));
    let first = Verification {
        untried: 1,
        ..stored(0, "a", Outcome::Works)
    };
    let first = first.after(None, &a, &set(&[]));
    let second = stored(60, "b", Outcome::Works).after(Some(first), &both, &a);
    assert_eq!((second.untried, second.results.len()), (1, 2));
    let of_a = stored(120, "a", Outcome::Works).after(None, &both, &set(&["b"]));
    assert_eq!(of_a.missing, set(&["b"]));
    let of_both = stored(180, "b", Outcome::Works).after(Some(of_a), &both, &a);
    assert_eq!((of_both.untried, of_both.missing), (0, set(&[])));
}

#[test]
fn reason_that_nodes_of_a_cluster_share_is_one_untried_part() {
    let of = |cluster: &str, node: &str| ConsumerReport {
        node: Some(node.to_owned()),
        untried: vec!["port 80 is of SCTP".to_owned()],
        ..consumer(cluster, vec![(cluster_ip(), Outcome::Works)])
    };
    let consumers = vec![of("member1", "a"), of("member1", "b"), of("member2", "a")];
    let stored = service(consumers).verification(Timestamp::UNIX_EPOCH);
    assert_eq!(stored.expect("a result").untried, 2);
}

#[tokio::test]
async fn complete_result_is_stored_without_the_right_to_read_it() {
    let key = service(Vec::new()).key();
    for (read, from, left_out, is_stored) in [
        (403_u16, "member2 (node-a)", &["member1"][..], false),
        (403, "member2 (node-a)", &[], true),
        (403, "member2", &[], true),
        (403, "member2", &["member1"], false),
        (503, "member2", &[], false),
    ] {
        let hub = answering(Side::Hub, move |request| match *request.method() {
            http::Method::PATCH => (200, json!({"apiVersion": "v1", "kind": "ConfigMap"})),
            _ => (
                read,
                json!({"status": "Failure", "message": "no", "code": read}),
            ),
        });
        let result = stored(0, from, Outcome::Works);
        let consumers = set(&["member1", "member2"]);
        let written = store(&hub, &key, result, (&consumers, &set(left_out))).await;
        assert_eq!(written.is_ok(), is_stored, "{read} {from}: {written:?}");
    }
}

#[test]
fn failed_and_unknown_results_are_stored_before_good_ones() {
    let consumers = (0..200).map(|number| {
        let outcome = match number {
            198 => Outcome::NoAnswer,
            199 => Outcome::Refused,
            _ => Outcome::Works,
        };
        consumer(&format!("member{number}"), vec![(cluster_ip(), outcome)])
    });
    let stored = service(consumers.collect()).verification(Timestamp::UNIX_EPOCH);
    let stored = stored.expect("a result").results;
    let first: Vec<_> = stored.iter().take(2).map(|one| one.from.as_str()).collect();
    assert_eq!(first, ["member199", "member198"]);
}
