mod slice_scopes;

use causeway::api::labels;
use causeway::domain::ServiceKey;
use serde_json::json;

use super::*;
use crate::fixtures::objects::{
    Kind, NAMESPACE, cluster, export, mcs, namespace, node, service, slice,
};
use crate::fixtures::server::decode;
use crate::fixtures::{Environment, env, hub_event, key, name, signal};
use crate::model::{Ack, Failure, FailureKind, HubEvent, Item, MemberEvent, Needs, Signal};

/// Returns an environment with two exposed services in two members, and one that nobody exposes.
fn three_services() -> Environment {
    let mut env = env();
    env.member("member1").member("member2");
    for exposed in ["foo", "bar"] {
        env.on_hub(service(exposed).port("http", 80))
            .on_hub(mcs(exposed));
    }
    env.on_hub(service("quiet").port("http", 80)).settle();
    env
}

fn marked(env: &mut Environment) -> Vec<Item> {
    env.deliver();
    let mut marked: Vec<_> = env.index.take_marked().into_keys().collect();
    marked.sort();
    marked
}

fn item(service: &str) -> Item {
    Item::Service(key(service))
}

fn member_item(member: &str) -> Item {
    Item::Cluster(name(member))
}

#[test]
fn answered_change_of_a_cluster_touches_all_services() {
    let mut env = three_services();
    let mut stored = env.hub.get(Kind::Cluster, "", "member1").cloned();
    let cluster = stored.as_mut().expect("a Cluster");
    cluster["spec"]["region"] = json!("eu");
    cluster["metadata"]["resourceVersion"] = json!("9999");
    let ack = || Ack::Cluster(decode(stored.clone().expect("a Cluster")));
    let now = env.now();
    env.index.apply_ack(&TargetCluster::Hub, ack(), now);
    let all = marked(&mut env);
    assert!(all.contains(&item("foo")) && all.contains(&item("bar")));
    env.index.apply_ack(&TargetCluster::Hub, ack(), now);
    assert_eq!(marked(&mut env), []);
}

#[test]
fn member_that_is_left_out_again_touches_nothing() {
    let mut env = three_services();
    env.index.stop_watching(&name("member1"));
    assert!(marked(&mut env).contains(&item("foo")));
    env.index.stop_watching(&name("member1"));
    assert_eq!(marked(&mut env), []);
}

#[test]
fn a_change_touches_the_service_that_it_concerns() {
    let mut env = three_services();
    env.on("member1", slice("foo-abc", "foo").endpoint("10.1.0.5"));
    assert_eq!(marked(&mut env), [item("foo")]);
    env.on_hub(service("bar").port("http", 81));
    assert_eq!(marked(&mut env), [item("bar")]);
    env.off("member2", Kind::Service, "foo");
    assert_eq!(marked(&mut env), [item("foo")]);
    env.on_hub(mcs("bar").providers(&["member1"]));
    assert_eq!(marked(&mut env), [item("bar")]);
}

#[test]
fn changed_default_touches_only_services_that_follow_it() {
    let mut env = three_services();
    let own = json!({labels::PREFER: "local, any"});
    env.on_hub(mcs("bar").annotated(&own));
    env.on_hub(mcs("foo").with(json!({"metadata": {"namespace": "web", "name": "foo"}})));
    marked(&mut env);
    let with = |name: &str, prefer: &str| {
        namespace(name).annotated(&json!({ labels::PREFER: prefer, "note": "x" }))
    };
    env.on_hub(with(NAMESPACE, "region, any"));
    assert_eq!(marked(&mut env), [item("foo")]);
    env.on_hub(with(NAMESPACE, "region, any").annotated(&json!({"note": "y"})));
    assert_eq!(marked(&mut env), []);
    env.on_hub(with("elsewhere", "region, any"));
    assert_eq!(marked(&mut env), []);
    env.on_hub(with("web", "region, any"));
    let of_web = Item::Service(ServiceKey::new("web", "foo"));
    assert_eq!(marked(&mut env), [of_web]);
}

#[test]
fn what_nobody_exposes_touches_nothing() {
    let mut env = three_services();
    env.on("member1", slice("quiet-abc", "quiet").endpoint("10.1.0.5"))
        .on_hub(service("quiet").port("http", 81));
    env.on("member1", namespace("elsewhere"));
    assert_eq!(marked(&mut env), []);
    env.on_hub(mcs("quiet"));
    assert_eq!(marked(&mut env), [item("quiet")]);
    assert_eq!(
        env.index.members["member1"].sources(&key("quiet")).count(),
        1,
        "it was kept all the while"
    );
}

#[test]
fn a_namespace_touches_the_services_that_are_exposed_in_it() {
    let mut env = three_services();
    env.off("member1", Kind::Namespace, NAMESPACE);
    assert_eq!(marked(&mut env), [item("bar"), item("foo")]);
}

#[test]
fn clusters_that_come_go_or_change_touch_every_exposed_service() {
    let mut env = three_services();
    env.on_hub(cluster("member3"));
    assert_eq!(
        marked(&mut env),
        [item("bar"), item("foo"), member_item("member3")]
    );
    env.lose("member1");
    assert_eq!(
        marked(&mut env),
        [item("bar"), item("foo"), member_item("member1")]
    );
    env.lose("member1");
    assert_eq!(marked(&mut env), []);
    let labelled = serde_json::json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = cluster("member2").with(labelled);
    env.on_hub(labelled.clone());
    assert_eq!(
        marked(&mut env),
        [item("bar"), item("foo"), member_item("member2")],
        "a label is a property"
    );
    env.on_hub(labelled.annotated(&serde_json::json!({"a": "b"})));
    assert_eq!(
        marked(&mut env),
        [member_item("member2")],
        "an unknown annotation changes no plan"
    );
}

#[test]
fn how_a_member_stands_touches_the_services_that_select_it() {
    for (consumers, lost, is_touched) in [
        (&["member2"][..], "member1", true),
        (&["member2"], "member2", true),
        (&["member2"], "member3", false),
        (&["member2", "member3"], "member2", false),
        (&["member2", "member3"], "member3", true),
    ] {
        let mut env = env();
        env.member("member1").member("member2").member("member3");
        env.on_hub(service("foo").port("http", 80));
        for consumer in consumers {
            let foo = mcs("foo").providers(&["member1"]).consumers(&[consumer]);
            env.on_hub(foo).settle();
        }
        env.lose(lost);
        let mut touched = marked(&mut env);
        assert_eq!(touched.pop(), Some(member_item(lost)));
        let foo = is_touched.then(|| item("foo"));
        assert_eq!(touched, Vec::from_iter(foo), "{consumers:?}, {lost}");
    }
}

#[test]
fn leftovers_of_a_service_are_looked_at_too() {
    let mut env = three_services();
    env.off_hub(Kind::Service, "quiet").deliver();
    env.lose("member2").off_hub(Kind::Mcs, "foo").settle();
    assert!(env.index.owns_native(&key("foo")) && env.mcs("foo").is_none());
    env.index.mark_all_services();
    assert_eq!(marked(&mut env), [item("bar"), item("foo")]);
}

#[test]
fn facts_of_services_that_are_gone_are_dropped_in_a_new_term() {
    let mut env = three_services();
    let now = env.now();
    env.index
        .note_hostnames(&key("gone"), ["lb.example".into()].into(), now);
    env.index
        .entry_nodes
        .note(&key("left"), [(name("member1"), "n1".into())].into(), now);
    assert!(env.index.take_hostnames().is_some());
    env.index.mark_all_services();
    let noted = ["bar", "foo", "gone", "left"].map(item);
    assert_eq!(marked(&mut env), noted);
    env.index.mark_all_services();
    env.settle();
    assert_eq!(env.index.take_hostnames(), Some([].into()));
    env.index.mark_all_services();
    assert_eq!(marked(&mut env), [item("bar"), item("foo")]);
}

#[test]
fn absence_means_nothing_before_the_hub_has_listed_everything() {
    let mut index = Index::new("hub-uid");
    let now = env().now();
    let lists = [
        HubEvent::MultiClusterServices(Signal::Listed(Vec::new())),
        HubEvent::Services(Signal::Listed(Vec::new())),
        HubEvent::Clusters(Signal::Listed(Vec::new())),
        HubEvent::Namespaces(Signal::Listed(Vec::new())),
    ];
    for list in lists {
        assert!(!index.hub.is_listed());
        index.apply_hub(list, now);
    }
    assert!(index.hub.is_listed());
}

/// Returns the members whose Nodes are needed, if that may have changed.
fn node_needs(env: &mut Environment) -> Option<Vec<String>> {
    while let Some(change) = env.hub.unsent.pop_front() {
        let (kind, signal) = signal(change);
        env.index.apply_hub(hub_event(kind, signal), env.now());
    }
    let needs = env.index.take_needs();
    let needed = |(name, needs): &(ClusterName, Needs)| needs.nodes.then(|| name.to_string());
    (!needs.is_empty()).then(|| needs.iter().filter_map(needed).collect())
}

#[test]
fn nodes_are_needed_while_an_annotation_names_node_ports() {
    let mut env = three_services();
    let by_node_ports = json!({labels::REACH: "node-ports"});
    env.index.take_needs();
    env.on_hub(service("foo").port("http", 81))
        .on_hub(mcs("bar"));
    assert_eq!(node_needs(&mut env), None);
    env.on_hub(cluster("member1").annotated(&by_node_ports));
    assert_eq!(node_needs(&mut env), Some(vec!["member1".to_owned()]));
    env.on_hub(cluster("member1"));
    assert_eq!(node_needs(&mut env), Some(vec![]));
    env.on_hub(namespace(NAMESPACE).annotated(&by_node_ports));
    assert_eq!(
        node_needs(&mut env),
        Some(vec!["member1".to_owned(), "member2".to_owned()])
    );
    env.on_hub(namespace(NAMESPACE));
    assert_eq!(node_needs(&mut env), Some(vec![]));
    let foo = |provider| mcs("foo").providers(&[provider]).annotated(&by_node_ports);
    for provider in ["member2", "member1", "member2"] {
        env.on_hub(foo(provider));
        assert_eq!(node_needs(&mut env), Some(vec![provider.to_owned()]));
    }
    env.on_hub(foo("member2").with(json!({"metadata": {"labels": {"a": "b"}}})));
    assert_eq!(node_needs(&mut env), None);
    env.on_hub(mcs("foo"));
    assert_eq!(node_needs(&mut env), Some(vec![]));
    let exported = |annotations| export("foo").annotated(annotations);
    env.on("member1", exported(&by_node_ports)).deliver();
    assert!(env.index.needs_nodes(&name("member1")));
    env.on("member1", exported(&json!({labels::REACH: null})))
        .deliver();
    assert!(!env.index.needs_nodes(&name("member1")));
}

#[test]
fn nodes_are_dropped_once_they_are_not_needed() {
    let mut env = three_services();
    let reached = |way: &str| cluster("member1").annotated(&json!({labels::REACH: way}));
    env.on("member1", node("n1", "192.168.1.1"))
        .on_hub(reached("node-ports"))
        .settle();
    let known = |env: &Environment| env.observed("member1").nodes().is_some();
    assert!(known(&env));
    env.on_hub(reached("cluster-ip")).settle();
    assert!(!known(&env));
    env.on("member1", node("n2", "192.168.1.2")).settle();
    assert!(!known(&env), "the last event of the watch is ignored");
}

#[test]
fn forbidden_nodes_leave_the_member_synced_and_mark_its_services() {
    let mut env = three_services();
    let reached = cluster("member1").annotated(&json!({labels::REACH: "node-ports"}));
    env.on_hub(reached).settle();
    let failure = Failure::new(FailureKind::Forbidden, "forbidden");
    env.observe("member1", MemberEvent::Nodes(Signal::Failed(failure)));
    let state = env.index.member_state(&name("member1"));
    assert_eq!(state, MemberState::Synced);
    let expected = [item("bar"), item("foo"), member_item("member1")];
    assert_eq!(marked(&mut env), expected);
}

#[test]
fn a_member_that_was_forgotten_is_not_joined() {
    let mut env = three_services();
    env.index.remove_cluster(&name("member2"));
    assert_eq!(
        env.index.member_state(&name("member2")),
        MemberState::NotJoined
    );
    let all: BTreeMap<ServiceKey, _> = env
        .index
        .hub
        .multi_cluster_services
        .iter()
        .map(|(key, mcs)| (key.clone(), mcs.is_deleting()))
        .collect();
    assert_eq!(all.len(), 2);
    assert_eq!(
        marked(&mut env),
        [item("bar"), item("foo"), member_item("member1")]
    );
}

/// A reconcile of a Cluster has no effect before the hub is listed, so it has to be repeated.
#[test]
fn listed_hub_marks_clusters_that_were_reconciled_before() {
    let mut env = env();
    env.member("member1");
    let clusters = env.hub.all(Kind::Cluster).cloned().collect();
    let now = env.now();
    env.index = Index::new("hub-uid");
    env.observe_hub(hub_event(Kind::Cluster, Signal::Listed(clusters)));
    env.index.engage(&name("member1"), 1, None);
    env.introduce("member1").list("member1");
    assert!(
        env.index
            .take_marked()
            .contains_key(&member_item("member1"))
    );
    env.observe_hub(hub_event(Kind::Mcs, Signal::Listed(Vec::new())));
    assert!(
        !env.index
            .take_marked()
            .contains_key(&member_item("member1"))
    );
    env.observe_hub(hub_event(Kind::Service, Signal::Listed(Vec::new())));
    env.observe_hub(hub_event(Kind::Namespace, Signal::Listed(Vec::new())));
    assert_eq!(env.index.hub.evidence.listed_since, Some(now));
    assert!(
        env.index
            .take_marked()
            .contains_key(&member_item("member1"))
    );
}
