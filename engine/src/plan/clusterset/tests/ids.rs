//! Ids of clusters in their clusterset (KEP-2149), in labels of copies and in statuses of imports.

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::*;
use crate::model::ReportedId;

/// Returns the ids that member3 has of an exporter: in the status of its import, and on its copies
/// with the names of their Clusters.
fn ids(env: &Environment) -> (Vec<String>, Vec<(String, String)>) {
    let clusters = &imported(env, "member3")["status"]["clusters"];
    let clusters = clusters.as_array().into_iter().flatten();
    let clusters = clusters.filter_map(|one| Some(one["cluster"].as_str()?.to_owned()));
    let copies = env.copies("member3", "derived-foo").into_iter();
    let marks = copies.map(|copy| {
        let (labels, annotations) = (copy.metadata.labels, copy.metadata.annotations);
        (
            labels.expect("labels")[labels::SOURCE_CLUSTER].clone(),
            annotations.expect("annotations")[labels::PROVISION_CLUSTER].clone(),
        )
    });
    (clusters.collect(), marks.collect())
}

fn assert_id(env: &Environment, id: &str) {
    let (clusters, copies) = ids(env);
    assert_eq!(clusters, [id]);
    assert_eq!(copies, [(id.to_owned(), "member1".to_owned())]);
}

fn recorded(env: &Environment, cluster: &str) -> Value {
    let cluster = env.hub.get(Kind::Cluster, "", cluster).expect("a Cluster");
    cluster["metadata"]["annotations"][labels::CLUSTER_ID].clone()
}

/// Returns the message of Ready of a Cluster, without its first clause.
fn remark(env: &Environment, cluster: &str) -> Option<String> {
    let ready = env.cluster_says(cluster, condition::READY);
    assert_ne!(ready, "");
    let (_, remark) = ready.split_once("; ")?;
    Some(remark.to_owned())
}

#[test]
fn changed_id_rewrites_copies_and_statuses_in_place() {
    let mut env = exported();
    let identity = |env: &Environment| {
        let copy = env.copies("member3", "derived-foo").remove(0).metadata;
        (copy.name, copy.uid)
    };
    let (before, objects) = (identity(&env), everything(&env));
    assert_id(&env, "member1");
    for (reported, published) in [
        ("eu-1", "eu-1"),
        ("eu-2", "eu-2"),
        ("EU 2", "member1"),
        ("eu-3", "eu-3"),
        ("member1", "member1"),
    ] {
        env.forget_writes();
        env.set_id("member1", reported).settle();
        assert_id(&env, published);
        assert_eq!(identity(&env), before, "{reported}");
        assert_eq!(everything(&env), objects);
        let log = env.log();
        let mut kinds = log
            .iter()
            .map(|line| line.split_once(' ').expect("a verb").1);
        let in_place = [
            "patch Cluster",
            "patch ServiceImport",
            "update EndpointSlice",
        ];
        assert!(kinds.all(|kind| in_place.contains(&kind)), "{log:?}");
        assert_eq!(log.len(), 7, "one record, and two writes a member: {log:?}");
        env.assert_at_rest();
    }
}

#[test]
fn id_is_recorded_once_and_outlasts_restarts() {
    let mut env = exported();
    env.set_id("member1", "eu-1").settle();
    assert_eq!(recorded(&env, "member1"), "eu-1");
    env.forget_writes();
    env.restart().settle();
    assert_eq!(env.log(), Vec::<String>::new());
    env.report_id("member1", ReportedId::Absent).settle();
    assert_eq!(recorded(&env, "member1"), Value::Null);
    assert_id(&env, "member1");
    env.assert_at_rest();
}

#[test]
fn restart_without_the_exporter_changes_nothing_under_an_id() {
    for endpoints in [true, false] {
        let mut env = exported();
        if !endpoints {
            env.off("member1", Kind::Slice, "foo-abc");
        }
        env.set_id("member1", "eu-1").settle();
        let before = (everything(&env), ids(&env));
        assert_eq!(before.1.0, ["eu-1"]);
        env.forget_writes();
        env.lose("member1").restart().settle();
        env.pass(GRACE + GRACE);
        assert_eq!((everything(&env), ids(&env)), before, "{endpoints}");
        let log = env.log();
        assert!(!log.iter().any(|line| line.contains("Slice")), "{log:?}");
        env.identify("member1", "uid-of-member1", (1, 34))
            .list("member1")
            .off("member1", Kind::Export, "foo")
            .settle();
        assert_eq!(everything(&env), Vec::<String>::new());
        env.assert_at_rest();
    }
}

#[test]
fn copies_from_before_the_id_are_those_of_their_provider() {
    let mut env = exported();
    let id = json!({labels::CLUSTER_ID: "eu-1"});
    env.lose("member1")
        .on_hub(cluster("member1").annotated(&id))
        .restart()
        .pass(GRACE + GRACE);
    let copies = ids(&env).1;
    assert_eq!(copies, [("member1".to_owned(), "member1".to_owned())]);
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    env.identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .settle();
    assert_id(&env, "eu-1");
    env.assert_at_rest();
}

#[test]
fn id_of_another_cluster_is_not_used() {
    let mut env = exported();
    env.keeps_clusters = true;
    env.set_id("member1", "member2").settle();
    assert_id(&env, "member1");
    assert_eq!(
        remark(&env, "member1").as_deref(),
        Some(
            "its ClusterProperty cluster.clusterset.k8s.io is member2, which is the name of another cluster; until it \
             has another value, the id in the clusterset is member1"
        )
    );
    // The older Cluster has an id that both report, in whichever order they do.
    for order in [["member1", "member2"], ["member2", "member1"]] {
        let mut env = exported();
        env.keeps_clusters = true;
        for member in order {
            env.set_id(member, "eu-1");
        }
        env.settle();
        assert_id(&env, "eu-1");
        assert_eq!(recorded(&env, "member2"), Value::Null);
        let text = remark(&env, "member2").expect("a remark");
        let why = "is eu-1, which is the id of member1; until it";
        assert!(text.contains(why), "{text}");
        assert_eq!(remark(&env, "member1"), None);
        env.assert_at_rest();
        env.set_id("member1", "eu-2").settle();
        assert_id(&env, "eu-2");
        assert_eq!(recorded(&env, "member2"), "eu-1", "it is free now");
        assert_eq!(remark(&env, "member2"), None);
        env.assert_at_rest();
    }
}

#[test]
fn recorded_id_cannot_be_taken_by_another_member() {
    let mut env = exported();
    env.keeps_clusters = true;
    env.on("member2", export("foo")).settle();
    env.set_id("member2", "eu-2").settle();
    env.set_id("member1", "eu-2").settle();
    let (clusters, _) = ids(&env);
    assert_eq!(clusters, ["member1", "eu-2"]);
    let text = remark(&env, "member1").expect("a remark");
    assert!(text.contains("which is the id of member2"), "{text}");
    // A Cluster that is joined later has its name.
    env.member("eu-2").settle();
    let (clusters, _) = ids(&env);
    assert_eq!(clusters, ["member1", "member2"]);
    assert_eq!(recorded(&env, "member2"), Value::Null);
    env.assert_at_rest();
}

#[test]
fn selectors_name_clusters_and_their_results_name_ids() {
    let selected = json!([{"propertySelector": {"matchExpressions": [
        {"key": "cluster.clusterset.k8s.io", "operator": "In", "values": ["member1"]},
    ]}}]);
    let mut env = exported();
    env.on(
        "member1",
        export("foo").with(json!({"spec": {"clusterSelectors": selected}})),
    );
    env.set_id("member1", "eu-1").settle();
    let results = &imported(&env, "member3")["status"]["clusterSelectorResults"];
    assert_eq!(*results, json!([{"clusters": ["eu-1"]}]));
    env.assert_at_rest();
}

#[test]
fn copies_of_a_multi_cluster_service_bear_an_id_if_published() {
    for publishes in [false, true] {
        let mut env = env();
        env.settings.publish_exports = publishes;
        env.member("member1").member("member2");
        env.on_hub(foo())
            .on_hub(mcs("foo").providers(&["member1"]))
            .on("member1", foo())
            .on("member1", source("foo-abc", "10.1.0.5"))
            .set_id("member1", "eu-1")
            .settle();
        let copies = env.copies("member2", "foo");
        let label = |copy: &EndpointSlice| {
            let labels = copy.metadata.labels.as_ref();
            labels.map(|all| all[labels::SOURCE_CLUSTER].clone())
        };
        let expected = if publishes { "eu-1" } else { "member1" };
        let labels: Vec<_> = copies.iter().filter_map(label).collect();
        assert_eq!(labels, [expected], "{copies:?}");
        env.assert_at_rest();
    }
}
