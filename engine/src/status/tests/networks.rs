use causeway::api::condition as names;
use causeway::api::labels;
use serde_json::{Value, json};

use super::{exposure, foo, minute, ready};
use crate::fixtures::objects::{Object, cluster, export, source};
use crate::fixtures::{Environment, env, name};
use crate::model::{Configuration, ConfigurationError, Failure, FailureKind, MemberEvent, Signal};

const WATCHED: &str = "True Synced: Services and EndpointSlices are watched";

/// Returns an environment with one member whose Cluster has these annotations.
fn annotated(annotations: &Value) -> Environment {
    let mut env = env();
    env.keeps_clusters = true;
    env.member("member1")
        .on_hub(cluster("member1").annotated(annotations))
        .settle();
    env
}

fn cluster_ready(env: &Environment) -> String {
    env.cluster_says("member1", names::READY)
}

#[test]
fn ready_of_a_cluster_names_an_unknown_way_and_the_four() {
    let mut env = annotated(&json!({labels::REACH: "nodeports"}));
    let unknown = "annotation mcs.causeway.dev/reach has the unknown value \"nodeports\": what other \
                   networks hold stays; write node-ports, node-ports=external, load-balancer, \
                   cluster-ip";
    assert_eq!(cluster_ready(&env), format!("{WATCHED}; {unknown}"));
    env.on_hub(cluster("member1").annotated(&json!({labels::REACH: "cluster-ip"})))
        .settle();
    assert_eq!(cluster_ready(&env), WATCHED);
    env.assert_at_rest();
}

#[test]
fn ready_of_a_cluster_names_a_network_that_is_no_dns_label() {
    let mut env = annotated(&json!({labels::NETWORK: "Edge_1"}));
    let invalid = "annotation mcs.causeway.dev/network is \"Edge_1\", which is no DNS label; \
                   clusters with the same text are one network";
    assert_eq!(cluster_ready(&env), format!("{WATCHED}; {invalid}"));
    env.on_hub(cluster("member1").annotated(&json!({labels::NETWORK: "edge-1"})))
        .settle();
    assert_eq!(cluster_ready(&env), WATCHED);
    env.assert_at_rest();
}

#[test]
fn ready_of_a_cluster_names_invalid_ranges_and_an_invalid_id() {
    let mut env = annotated(&json!({labels::ENDPOINT_CIDRS: "10.0.0/8"}));
    env.set_id("member1", "EU").settle();
    let invalid = "annotation mcs.causeway.dev/endpoint-cidrs has invalid ranges, which are \
                   ignored: 10.0.0/8; its ClusterProperty cluster.clusterset.k8s.io is \"EU\", \
                   which is no DNS label; until it has another value, the id in the clusterset is \
                   member1";
    assert_eq!(cluster_ready(&env), format!("{WATCHED}; {invalid}"));
    env.assert_at_rest();
}

#[test]
fn ready_of_a_cluster_reports_its_last_connection() {
    let mut env = annotated(&json!({}));
    env.settings.provider_ttl = Some(minute() / 2);
    let configure = |env: &mut Environment, configuration| {
        let now = env.now();
        env.index
            .note_configuration(&name("member1"), configuration, now);
        env.settle();
    };
    let outdated = Configuration::Outdated(ConfigurationError::NoSecretRef);
    configure(&mut env, outdated);
    let error = "its Cluster names no secretRef; join it again: kubectl mcs join, or on a Karmada \
                 control plane as docs/karmada.md#credentials-of-members says";
    assert_eq!(
        cluster_ready(&env),
        format!("False InvalidConfiguration: {error}; until then its last connection is kept")
    );
    env.lose("member1").pass(minute());
    assert_eq!(
        cluster_ready(&env),
        format!("False Unreachable: {error}; its last connection fails: connection refused")
    );
    configure(&mut env, Configuration::Valid);
    assert_eq!(
        cluster_ready(&env),
        "False Unreachable: connection refused; out of reach for longer than --provider-ttl: its \
         endpoints are not used"
    );
    env.assert_at_rest();
}

/// Returns the report of a watch that fails in that way, or of one that is connected.
fn watch<K>(failure: Option<FailureKind>) -> Signal<K> {
    failure.map_or(Signal::Connected, |kind| {
        Signal::Failed(Failure::new(kind, "no"))
    })
}

/// Asserts that Ready of a Cluster with these annotations reports a forbidden watch by that
/// message, until the watch is connected, or the Cluster becomes one that does not need it.
#[track_caller]
fn assert_forbidden_is_reported(
    annotations: &Value,
    report: impl Fn(Option<FailureKind>) -> MemberEvent,
    message: &str,
    (unneeded, reason): (Object, &str),
) {
    let mut env = annotated(annotations);
    assert_eq!(cluster_ready(&env), WATCHED);
    env.observe("member1", report(Some(FailureKind::Timeout)))
        .settle();
    assert_eq!(cluster_ready(&env), WATCHED, "a broken watch is not news");
    env.observe("member1", report(Some(FailureKind::Forbidden)))
        .settle();
    assert_eq!(cluster_ready(&env), format!("{WATCHED}; {message}"));
    env.observe("member1", report(None)).settle();
    assert_eq!(cluster_ready(&env), WATCHED);
    env.observe("member1", report(Some(FailureKind::Forbidden)))
        .on_hub(unneeded)
        .settle();
    assert_eq!(cluster_ready(&env), WATCHED, "{reason}");
    env.assert_at_rest();
}

#[test]
fn ready_of_a_cluster_reports_nodes_that_may_not_be_read() {
    let forbidden = "its Nodes cannot be watched (no), so clusters of other networks do not reach \
                     its pods by node ports; in member1: kubectl apply -f \
                     manifests/member/networks.yaml";
    let unneeded = cluster("member1").annotated(&json!({labels::REACH: "cluster-ip"}));
    assert_forbidden_is_reported(
        &json!({labels::NETWORK: "edge", labels::REACH: "node-ports"}),
        |failure| MemberEvent::Nodes(watch(failure)),
        forbidden,
        (unneeded, "nothing needs its Nodes"),
    );
}

#[test]
fn ready_of_a_cluster_reports_paths_that_may_not_be_read() {
    let forbidden = "the reports on its paths cannot be watched (no), so its paths are unknown, \
                     and causeway-agent there changes copies as without a hub; in member1: kubectl \
                     apply -f manifests/member/paths.yaml (docs/paths.md#set-up)";
    assert_forbidden_is_reported(
        &json!({labels::PATH_REPORTS: "true"}),
        |failure| MemberEvent::Paths(watch(failure)),
        forbidden,
        (cluster("member1"), "no reports are read"),
    );
}

#[test]
fn unknown_way_of_a_service_is_reported() {
    let wrong = exposure().annotated(&json!({labels::REACH: "nodeports"}));
    let error = "metadata.annotations[mcs.causeway.dev/reach]: Unsupported value";
    let mut env = ready();
    env.on_hub(wrong.clone()).settle();
    assert!(env.is_ready("foo"));
    let message = env.says("foo", names::READY);
    assert!(message.contains(error), "{message}");
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    // The other annotations count.
    env.on_hub(wrong.annotated(&json!({labels::PREFER: "zone"})))
        .settle();
    let message = env.says("foo", names::READY);
    for part in [error, "no endpoint in member2, member3"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(env.addresses("member2", "foo"), Vec::<String>::new());
}

#[test]
fn valid_of_an_export_reports_an_unknown_way_and_the_export_counts() {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .on("member1", foo())
        .on("member1", source("10.1.0.5"))
        .on(
            "member1",
            export("foo").annotated(&json!({labels::REACH: "nodeports"})),
        )
        .settle();
    env.pass(minute());
    let valid = env.export_says("member1", "foo", names::VALID);
    assert!(valid.starts_with("True Valid:"), "{valid}");
    let error = "metadata.annotations[mcs.causeway.dev/reach]: Unsupported value: \"nodeports\": \
                 supported values: \"node-ports\", \"node-ports=external\", \"load-balancer\", \
                 \"cluster-ip\"";
    assert!(valid.contains(error), "{valid}");
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
}
