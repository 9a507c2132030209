use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::{condition, labels};
use serde_json::Value;

use super::*;
use crate::fixtures::objects::{Kind, Object, cluster, export, foo, mcs, service, source};
use crate::fixtures::{Change, Environment, env, hub_event, key, name};
use crate::messages::events::member_leftovers;
use crate::model::{Configuration, Failure, FailureKind, MemberEvent, MemberState, Signal};
use crate::removal::Leftovers;

mod profiles;
mod recorded;

/// Returns an environment in which member1 and member2 provide `foo` to each other.
/// `keeps_clusters` sets whether causeway maintains the Clusters of the hub.
fn both(keeps_clusters: bool) -> Environment {
    let mut env = env();
    env.keeps_clusters = keeps_clusters;
    env.member("member1")
        .member("member2")
        .on_hub(foo())
        .on_hub(mcs("foo"));
    env.on("member1", source("10.1.0.5"))
        .on("member2", source("10.2.0.5"))
        .settle();
    assert!(env.is_ready("foo"));
    env.forget_writes();
    env
}

fn stored(env: &Environment, cluster: &str) -> Value {
    env.hub
        .get(Kind::Cluster, "", cluster)
        .expect("a Cluster")
        .clone()
}

fn ready(env: &Environment, cluster: &str) -> String {
    env.cluster_says(cluster, condition::READY)
}

#[test]
fn a_cluster_gets_finalizer_version_and_condition_where_they_are_causeways_to_keep() {
    let mut env = both(true);
    let cluster = stored(&env, "member1");
    assert_eq!(
        cluster["metadata"]["finalizers"],
        json!([labels::FINALIZER])
    );
    assert_eq!(cluster["status"]["kubernetesVersion"], "v1.34.0");
    assert_eq!(
        ready(&env, "member1"),
        "True Synced: Services and EndpointSlices are watched"
    );
    env.assert_at_rest();
}

#[test]
fn generation_whose_credentials_are_awaited_is_not_observed() {
    let mut env = both(true);
    let observed = |env: &Environment| {
        let cluster = stored(env, "member1");
        let observed = &cluster["status"]["conditions"][0]["observedGeneration"];
        let generations = [observed, &cluster["metadata"]["generation"]];
        generations.map(|one| one.as_i64().unwrap_or_default())
    };
    let member1 = name("member1");
    let spec = json!({"spec": {"apiEndpoint": "https://10.96.0.1:443"}});
    let now = env.now();
    env.index
        .note_configuration(&member1, Configuration::Awaited, now);
    env.on_hub(cluster("member1").with(spec)).settle();
    assert_eq!(observed(&env), [1, 2]);
    assert!(ready(&env, "member1").starts_with("True Synced"));
    let broken = Signal::Failed(Failure::timeout());
    env.observe("member1", MemberEvent::Slices(broken)).settle();
    assert!(ready(&env, "member1").starts_with("True Synced"));
    env.lose("member1").settle();
    assert_eq!(observed(&env), [1, 2]);
    assert!(ready(&env, "member1").starts_with("False Unreachable"));
    let now = env.now();
    env.index
        .note_configuration(&member1, Configuration::Valid, now);
    env.settle();
    assert_eq!(observed(&env), [2, 2]);
    env.assert_at_rest();
}

#[test]
fn clusters_of_karmada_are_not_written() {
    let mut env = both(false);
    env.lose("member1").settle();
    env.assert_writes(|line| !line.ends_with("Cluster"));
    assert_eq!(
        stored(&env, "member1")["metadata"]["finalizers"],
        Value::Null
    );
}

#[test]
fn a_clusters_condition_says_how_it_stands() {
    let mut env = both(true);
    env.silent_member("member3").settle();
    assert_eq!(
        ready(&env, "member3"),
        "False Syncing: the initial lists are not complete"
    );
    env.pass(Duration::from_secs(60)).lose("member1").settle();
    assert_eq!(
        ready(&env, "member1"),
        "False Unreachable: connection refused"
    );
    let since = stored(&env, "member1")["status"]["conditions"][0]["lastTransitionTime"].clone();
    env.pass(Duration::from_secs(60));
    env.identify("member1", "uid-of-a-stranger", (1, 34))
        .settle();
    assert!(
        ready(&env, "member1")
            .starts_with("False Refused: its API server is another cluster's now"),
        "{}",
        ready(&env, "member1")
    );
    assert_eq!(
        stored(&env, "member1")["status"]["conditions"][0]["lastTransitionTime"],
        since
    );
    env.pull_without_credentials("member2").settle();
    assert_eq!(
        ready(&env, "member2"),
        "False PullWithoutCredentials: takes no part: Pull mode without credentials; register it \
         with Karmada again: its karmada-agent reports credentials by default (--report-secrets, \
         --cluster-api-endpoint), and may not add them to a Cluster that exists \
         (docs/karmada.md#credentials-of-members)"
    );
    env.assert_at_rest();
}

#[test]
fn a_cluster_says_how_many_deletions_are_suspended_and_when_that_is_over() {
    let mut env = both(true);
    let says = |env: &Environment| env.cluster_says("member1", condition::DELETIONS_SUSPENDED);
    assert_eq!(says(&env), "", "none was ever suspended");
    env.observe(
        "member1",
        MemberEvent::Slices(Signal::DeletionsSuspended(12)),
    )
    .settle();
    let suspended = "deletions of 12 objects are suspended: its last lists lack them, and they are kept until a second list lacks \
                     them too; to confirm them now: kubectl mcs confirm-deletions member1";
    assert_eq!(says(&env), format!("True DeletionsSuspended: {suspended}"));
    assert!(ready(&env, "member1").ends_with(&format!("; {suspended}")));
    env.list("member1").settle();
    let over = "False NoDeletionsSuspended: its last lists lack nothing that is kept";
    assert_eq!(says(&env), over);
    env.assert_at_rest();
}

#[test]
fn a_member_that_leaves_is_cleaned_first_and_then_what_it_gave_is_withdrawn() {
    for keeps_clusters in [true, false] {
        let mut env = both(keeps_clusters);
        env.off_hub(Kind::Cluster, "member1").settle();
        assert!(env.service("member1", "foo").is_none() && env.copies("member1", "foo").is_empty());
        assert_eq!(env.copies("member2", "foo"), []);
        assert!(env.hub.get(Kind::Cluster, "", "member1").is_none());
        assert_eq!(env.seen_out, [("member1".to_owned(), Leftovers::default())]);
        let log = env.log();
        let at = |line: &str| log.iter().position(|other| other == line);
        assert!(
            at("member1 delete Service") < at("member2 delete EndpointSlice"),
            "{log:?}"
        );
        assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
        env.assert_at_rest();
    }
}

#[test]
fn a_member_that_cannot_be_cleaned_in_time_leaves_with_a_list_of_leftovers() {
    for keeps_clusters in [true, false] {
        let mut env = both(keeps_clusters);
        env.server("member1").refuses =
            Some((Kind::Slice, Failure::new(FailureKind::Forbidden, "no")));
        env.off_hub(Kind::Cluster, "member1")
            .pass(Duration::from_secs(29));
        assert_eq!(env.seen_out, []);
        assert_eq!(
            env.addresses("member2", "foo"),
            ["10.1.0.5"],
            "it still provides"
        );
        env.pass(Duration::from_secs(2));
        let (left, leftovers) = &env.seen_out[0];
        assert_eq!(
            (left.as_str(), &leftovers.services),
            ("member1", &vec![key("foo")])
        );
        assert_eq!(env.copies("member2", "foo"), []);
        assert!(env.hub.get(Kind::Cluster, "", "member1").is_none());
    }
}

#[test]
fn refusals_that_differ_by_request_id_write_no_status() {
    let refusal = |id: u32| {
        let text = format!("<html>blocked, Ray ID: {id:08x}</html>");
        Failure::from_status(&kube::core::Status::failure(&text, "").with_code(403))
    };
    let mut env = both(true);
    env.observe("member1", MemberEvent::Probed(Err(refusal(0))))
        .settle()
        .forget_writes();
    for id in 1..=6 {
        env.observe("member1", MemberEvent::Probed(Err(refusal(id))))
            .pass(Duration::from_secs(10));
    }
    assert_eq!(env.log(), Vec::<String>::new());
    env.observe("member1", MemberEvent::Probed(Ok(()))).settle();
    assert!(env.is_ready("foo"));
    // The same of writes: the text is renewed after twice as many attempts.
    env.server("member2").refuses = Some((Kind::Slice, refusal(0)));
    env.on("member1", source("10.1.0.6"))
        .pass(Duration::from_secs(60))
        .forget_writes();
    for id in 1..=20 {
        env.server("member2").refuses = Some((Kind::Slice, refusal(id)));
        env.pass(Duration::from_secs(30));
    }
    let log = env.log();
    let statuses = log.iter().filter(|line| line.starts_with("hub")).count();
    assert!(statuses <= 2, "{log:?}");
    assert!(log.len() > 10, "it is tried again: {log:?}");
}

#[test]
fn flapping_watch_rewrites_each_status_at_most_twice() {
    let mut env = both(true);
    let lost = || Failure::new(FailureKind::Network, "the connection was lost");
    for kind in [Kind::Namespace, Kind::Slice] {
        for _ in 0..10 {
            let failed = crate::fixtures::member_event(kind, Signal::Failed(lost()));
            env.observe("member1", failed).pass(Duration::from_secs(3));
            let member = name("member1");
            assert_ne!(env.index.member_state(&member), MemberState::Synced);
            let connected = crate::fixtures::member_event(kind, Signal::Connected);
            env.observe("member1", connected)
                .pass(Duration::from_secs(3));
            assert_eq!(env.index.member_state(&member), MemberState::Synced);
        }
        env.pass(Duration::from_secs(60));
        let log = env.log();
        let writes = log.iter().filter(|line| line.starts_with("hub")).count();
        assert!(writes <= 4, "{kind:?}: {log:?}");
        assert!(env.is_ready("foo"));
        assert!(ready(&env, "member1").starts_with("True"));
        env.forget_writes();
    }
}

#[test]
fn flapping_clusterset_watch_rewrites_each_status_at_most_twice() {
    for kind in [Kind::Export, Kind::Import] {
        let mut env = both(true);
        for member in ["member1", "member2"] {
            env.on(member, service("bar").port("http", 80));
            env.on(member, export("bar")).settle();
        }
        env.pass(Duration::from_secs(60)).forget_writes();
        let member_sees = |env: &mut Environment, signal, seconds| {
            let event = crate::fixtures::member_event(kind, signal);
            env.observe("member1", event)
                .pass(Duration::from_secs(seconds));
        };
        let lost = || {
            Signal::Failed(Failure::new(
                FailureKind::Network,
                "the connection was lost",
            ))
        };
        let statuses = |env: &Environment| {
            let log = env.log().into_iter();
            log.fold(BTreeMap::new(), |mut all, line| {
                *all.entry(line).or_insert(0) += 1;
                all
            })
        };
        for _ in 0..10 {
            member_sees(&mut env, lost(), 3);
            let member = env.observed("member1");
            assert!(
                member.exports_followed().is_none(),
                "nothing is damped but statuses"
            );
            member_sees(&mut env, Signal::Connected, 3);
        }
        let api = || stored(&env, "member1")["status"]["conditions"][1].clone();
        assert_eq!(
            (&api()["type"], &api()["status"]),
            (&json!("ClustersetAPI"), &json!("False"))
        );
        env.pass(Duration::from_secs(60));
        assert_eq!(
            stored(&env, "member1")["status"]["conditions"][1]["status"],
            "True"
        );
        let written = statuses(&env);
        assert!(
            written.values().all(|writes| *writes <= 2),
            "{kind:?}: {written:?}"
        );

        // One that lasts is reported after ten seconds, and one that is over at once.
        env.forget_writes();
        member_sees(&mut env, lost(), 9);
        assert_eq!(env.log(), Vec::<String>::new());
        member_sees(&mut env, lost(), 2);
        let failing = &stored(&env, "member1")["status"]["conditions"][1]["message"];
        let text = failing.as_str().unwrap_or_default();
        assert!(text.contains("the connection was lost"), "{text}");
        env.pass(Duration::from_secs(60));
        member_sees(&mut env, Signal::Connected, 1);
        assert_eq!(
            stored(&env, "member1")["status"]["conditions"][1]["status"],
            "True"
        );
    }
}

#[test]
fn member_that_answers_with_a_failing_watch_is_not_unreachable() {
    let mut env = both(true);
    let no = Failure::new(FailureKind::Forbidden, "forbidden: namespaces");
    env.observe("member1", MemberEvent::Namespaces(Signal::Failed(no)))
        .pass(Duration::from_secs(9));
    assert!(env.is_ready("foo"), "the status is held");
    env.pass(Duration::from_secs(2));
    assert_eq!(
        ready(&env, "member1"),
        "False Refused: cannot be watched (Namespaces: forbidden: namespaces)"
    );
    let said = env.says("foo", "Ready");
    assert!(said.contains("member1 not watched since"), "{said}");
}

/// Time longer ago than the cleanup deadline of a removed member, and a moment ago.
const LONG_AGO: Duration = Duration::from_secs(31);
const JUST_NOW: Duration = Duration::from_secs(1);

#[test]
fn a_member_that_cannot_be_cleaned_leaves_when_it_has_been_waited_for_and_what_is_left_is_named() {
    type Change = fn(&mut Environment);
    /// Name, change, time since the change, whether the member is removed at once, the services
    /// named, and the reason.
    type Row<'a> = (
        &'a str,
        Change,
        Duration,
        bool,
        &'a Vec<ServiceKey>,
        &'a str,
    );
    let lost = |env: &mut Environment| {
        env.lose("member1");
    };
    let lost_at_the_start = |env: &mut Environment| {
        env.lose("member1").restart();
    };
    let disconnected = |env: &mut Environment| {
        env.silence("member1").restart().engage("member1");
    };
    let refused = |env: &mut Environment| {
        env.identify("member1", "uid-of-a-stranger", (1, 34));
    };
    let none = Vec::new();
    let some = vec![key("foo")];
    let rows: [Row<'_>; 6] = [
        (
            "lost for long",
            lost,
            LONG_AGO,
            true,
            &some,
            "connection refused",
        ),
        (
            "just lost",
            lost,
            JUST_NOW,
            false,
            &some,
            "connection refused",
        ),
        (
            "lost before the controller started",
            lost_at_the_start,
            LONG_AGO,
            true,
            &none,
            "connection refused",
        ),
        (
            "lost as the controller started",
            lost_at_the_start,
            JUST_NOW,
            false,
            &none,
            "connection refused",
        ),
        (
            "never synced since the controller started",
            disconnected,
            LONG_AGO,
            false,
            &none,
            "it did not answer in time",
        ),
        (
            "another cluster by now",
            refused,
            JUST_NOW,
            true,
            &some,
            "is another cluster's now",
        ),
    ];
    for (what, change, ago, at_once, services, why) in rows {
        let mut env = both(true);
        change(&mut env);
        env.pass(ago).off_hub(Kind::Cluster, "member1").settle();
        assert_eq!(env.seen_out.len(), usize::from(at_once), "{what}");
        let copies = env.copies("member2", "foo").len();
        assert_eq!(copies, usize::from(!at_once), "{what}");
        env.pass(LONG_AGO);
        let (_, left) = &env.seen_out[0];
        assert_eq!(&left.services, services, "{what}");
        let event = member_leftovers(left, &name("member1"), "hub-uid");
        let note = event.map(|event| event.note).unwrap_or_default();
        assert!(
            note.contains(why) && note.contains("mcs.causeway.dev/hub=hub-uid"),
            "{what}: {note}"
        );
        assert_eq!(env.copies("member2", "foo"), [], "{what}");
        assert!(
            env.hub.get(Kind::Cluster, "", "member1").is_none(),
            "{what}"
        );
        assert!(env.service("member1", "foo").is_some(), "{what}");
    }
}

#[test]
fn a_member_that_is_observed_again_in_time_is_cleaned_before_it_leaves() {
    for restarted in [true, false] {
        let mut env = both(true);
        if restarted {
            // Its Cluster was deleted while nobody was there to clean the member.
            env.off_hub(Kind::Cluster, "member1")
                .silence("member1")
                .restart();
            env.engage("member1");
        } else {
            env.lose("member1").off_hub(Kind::Cluster, "member1");
        }
        env.settle();
        assert!(env.hub.get(Kind::Cluster, "", "member1").is_some());
        env.reconnect("member1")
            .identify("member1", "uid-of-member1", (1, 34));
        env.list("member1").settle();
        assert!(env.service("member1", "foo").is_none() && env.copies("member1", "foo").is_empty());
        assert_eq!(env.seen_out, [("member1".to_owned(), Leftovers::default())]);
        assert_eq!(env.copies("member2", "foo"), []);
    }
}

#[test]
fn a_late_answer_does_not_bring_a_leaving_cluster_back() {
    let mut env = both(true);
    env.off_hub(Kind::Cluster, "member1").deliver();
    let leaving: causeway::api::Cluster = crate::fixtures::server::decode(stored(&env, "member1"));
    let gone = crate::model::Signal::Deleted(leaving.clone());
    let now = env.now();
    env.index
        .apply_hub(crate::model::HubEvent::Clusters(gone), now);
    env.index.apply_ack(
        &TargetCluster::Hub,
        crate::model::Ack::Cluster(leaving.into()),
        now,
    );
    assert!(env.index.cluster(&name("member1")).unwrap().is_removed);
    env.index.remove_cluster(&name("member1"));
    assert!(env.index.cluster(&name("member1")).is_none());
}

#[test]
fn a_finalizer_of_somebody_else_holds_the_cluster_and_not_causeway() {
    let mut env = both(true);
    let theirs = json!({"metadata": {"finalizers": [labels::FINALIZER, "somebody.else/one"]}});
    env.on_hub(cluster("member1").with(theirs))
        .off_hub(Kind::Cluster, "member1")
        .settle();
    assert_eq!(
        stored(&env, "member1")["metadata"]["finalizers"],
        json!(["somebody.else/one"])
    );
    assert!(env.service("member1", "foo").is_none());
    assert_eq!(
        env.addresses("member2", "foo"),
        ["10.1.0.5"],
        "it is not gone yet"
    );
    env.assert_at_rest();
}

#[test]
fn status_is_written_while_the_finalizer_of_a_cluster_is_refused() {
    let mut env = both(true);
    let refused = Failure::new(FailureKind::Forbidden, "forbidden");
    env.hub.refuses_object = Some((ObjectId::Cluster(name("member1")), refused));
    let without = json!({"metadata": {"finalizers": []}});
    env.on_hub(cluster("member1").with(without)).settle();
    env.lose("member1").pass(Duration::from_secs(60));
    assert_eq!(
        ready(&env, "member1"),
        "False Unreachable: connection refused"
    );
    env.hub.refuses_object = None;
    env.pass(Duration::from_secs(60));
    assert_eq!(
        stored(&env, "member1")["metadata"]["finalizers"],
        json!([labels::FINALIZER])
    );
}

#[test]
fn id_is_recorded_while_the_status_of_a_cluster_is_refused() {
    let mut env = both(true);
    let refused = Failure::new(FailureKind::Forbidden, "forbidden");
    env.hub.refuses_object = Some((ObjectId::ClusterStatus(name("member1")), refused));
    let without = json!({"status": {"conditions": []}});
    env.on_hub(cluster("member1").with(without))
        .set_id("member1", "eu-1")
        .pass(Duration::from_secs(60));
    let cluster = stored(&env, "member1");
    assert_eq!(cluster["status"]["conditions"], json!([]));
    let recorded = &cluster["metadata"]["annotations"][labels::CLUSTER_ID];
    assert_eq!(*recorded, "eu-1");
    env.hub.refuses_object = None;
    env.pass(Duration::from_secs(60));
    assert!(ready(&env, "member1").starts_with("True Synced"));
    env.assert_at_rest();
}

/// Returns a Cluster whose agent gives the credentials.
fn cluster_of_an_agent(name: &str) -> Object {
    let annotations = json!({labels::TUNNEL: "true", labels::CREDENTIALS: labels::FROM_AGENT});
    cluster(name).with(json!({"metadata": {"annotations": annotations}}))
}

#[test]
fn uid_of_a_member_with_credentials_of_its_agent_is_recorded() {
    let profile = json!({"metadata": {"labels": {labels::PROFILE_NAMESPACE: "fleet"}}});
    let another = json!({"spec": {"id": "uid-of-another"}});
    let of_agent = || cluster_of_an_agent("member1");
    for (keeps_clusters, cluster, expected) in [
        (true, of_agent(), json!("uid-of-member1")),
        (true, of_agent().with(another), json!("uid-of-another")),
        (true, of_agent().with(profile), json!(null)),
        (true, cluster("member1"), json!(null)),
        (false, of_agent(), json!(null)),
    ] {
        let mut env = both(keeps_clusters);
        env.on_hub(cluster).settle();
        assert_eq!(stored(&env, "member1")["spec"]["id"], expected);
        env.assert_at_rest();
    }
}

#[test]
fn uid_is_recorded_of_a_synced_member_alone() {
    let mut env = both(true);
    let recorded = |env: &Environment| stored(env, "member1")["spec"]["id"].clone();
    env.lose("member1")
        .on_hub(cluster_of_an_agent("member1"))
        .settle();
    assert_eq!(recorded(&env), json!(null), "unreachable");
    env.identify("member1", "uid-of-a-stranger", (1, 34))
        .list("member1")
        .settle();
    assert_eq!(recorded(&env), json!(null), "another cluster");
    env.introduce("member1").list("member1").settle();
    assert_eq!(recorded(&env), "uid-of-member1");
    // Somebody removes the record.
    env.on_hub(cluster_of_an_agent("member1")).settle();
    assert_eq!(recorded(&env), "uid-of-member1");
    env.assert_at_rest();
}

#[test]
fn uid_of_a_member_is_not_recorded_in_a_later_cluster() {
    let mut env = both(true);
    let recorded = |env: &Environment| stored(env, "member1")["spec"]["id"].clone();
    let later = json!({"metadata": {"uid": "uid-of-a-later-cluster"}});
    env.on_hub(cluster_of_an_agent("member1").with(later))
        .settle();
    assert_eq!(recorded(&env), json!(null));
    env.engage("member1")
        .identify("member1", "uid-of-another", (1, 34))
        .list("member1")
        .settle();
    assert_eq!(recorded(&env), "uid-of-another");
    env.assert_at_rest();
}

#[test]
fn refused_finalizer_of_a_service_is_reported_and_withdraws_nothing() {
    let mut env = both(false);
    let refused = Failure::new(FailureKind::Forbidden, "forbidden");
    env.hub.refuses_object = Some((ObjectId::MultiClusterService(key("foo")), refused));
    let without = json!({"metadata": {"finalizers": []}});
    env.on_hub(mcs("foo").with(without))
        .pass(Duration::from_secs(60));
    let said = env.says("foo", "Ready");
    assert_eq!(
        said,
        "False ServiceAppliedFailed: MultiClusterService shop/foo cannot get causeway's finalizer (forbidden), so its \
         Service and endpoints are not written to members; let the controller patch it"
    );
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let version = |env: &Environment| {
        let mcs = env.hub.get(Kind::Mcs, "shop", "foo");
        mcs.expect("a MultiClusterService")["metadata"]["resourceVersion"].clone()
    };
    let before = version(&env);
    env.pass(Duration::from_secs(600));
    assert_eq!(version(&env), before, "the status is written once");
    env.hub.refuses_object = None;
    env.pass(Duration::from_secs(60));
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

/// Returns an environment whose leader is new: the last one copied a slice to member2 after this
/// process had lost member1.
fn with_copy_of_another_leader() -> Environment {
    let mut env = both(true);
    env.lose("member1").pass(Duration::from_secs(60));
    let is_copy = |slice: &&Value| !slice["metadata"]["annotations"][labels::SOURCE].is_null();
    let copy = env.server("member2").all(Kind::Slice).find(is_copy);
    let mut value = copy.expect("a copy").clone();
    value["metadata"]["name"] = json!("copy-of-another-leader");
    value["metadata"]["annotations"][labels::SOURCE] = json!("uid-of-a-later-slice/900");
    value["endpoints"][0]["addresses"] = json!(["10.1.0.9"]);
    env.on(
        "member2",
        Object {
            kind: Kind::Slice,
            value,
        },
    );
    env.pass(Duration::from_secs(600));
    env
}

/// Asserts that member2 has these addresses of `foo`, in any order.
#[track_caller]
fn assert_addresses(env: &Environment, expected: &[&str]) {
    let addresses = BTreeSet::from_iter(env.addresses("member2", "foo"));
    let expected = expected.iter().map(|address| (*address).to_owned());
    assert_eq!(addresses, expected.collect::<BTreeSet<_>>());
}

#[test]
fn new_leader_retains_copies_of_sources_that_it_could_not_observe() {
    let mut env = with_copy_of_another_leader();
    assert_addresses(&env, &["10.1.0.5", "10.1.0.9"]);
    env.list("member1").pass(Duration::from_secs(60));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn reengaged_member_is_listed_before_unobserved_copies_go() {
    let mut env = with_copy_of_another_leader();
    let member1 = name("member1");
    env.index.engage(&member1, 2, None);
    env.introduce("member1").pass(Duration::from_secs(60));
    assert_eq!(env.index.member_state(&member1), MemberState::Synced);
    assert_addresses(&env, &["10.1.0.5", "10.1.0.9"]);
    env.list("member1").pass(Duration::from_secs(60));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn each_service_reports_a_namespace_that_cannot_be_created() {
    let mut env = both(true);
    let refused = Failure::new(FailureKind::Forbidden, "forbidden");
    let shop = ObjectId::Namespace("shop".into());
    env.server("member2").refuses_object = Some((shop, refused));
    env.off("member2", Kind::Slice, "foo-abc")
        .off("member2", Kind::Service, "foo")
        .off("member2", Kind::Namespace, "shop");
    env.on_hub(service("bar").port("http", 80))
        .on_hub(mcs("bar"))
        .pass(Duration::from_secs(60));
    for name in ["foo", "bar"] {
        let ready = env.says(name, "Ready");
        assert!(ready.contains("amespace shop"), "{ready}");
    }
    env.server("member2").refuses_object = None;
    env.pass(Duration::from_secs(60));
    for name in ["foo", "bar"] {
        assert!(env.service("member2", name).is_some(), "{name}");
    }
}

#[test]
fn new_leader_deletes_nothing_before_the_hub_is_listed_in_its_term() {
    let mut env = both(true);
    env.index.begin_term(2);
    let spec = json!({"spec": {"consumerClusters": [{"name": "member1"}]}});
    let current = |env: &mut Environment, kind, term| {
        env.observe_hub(hub_event(kind, Signal::Current(term)))
            .settle();
        env.addresses("member2", "foo")
            .contains(&"10.1.0.5".to_owned())
    };
    env.on_hub(mcs("foo").with(spec)).settle();
    for (kind, term) in [
        (Kind::Mcs, 2),
        (Kind::Service, 2),
        (Kind::Cluster, 2),
        (Kind::Namespace, 1),
    ] {
        assert!(current(&mut env, kind, term), "{kind:?}");
    }
    assert!(!current(&mut env, Kind::Namespace, 2));
    env.assert_at_rest();
}

#[test]
fn cleanup_of_a_removed_member_waits_until_the_hub_is_listed() {
    let mut env = both(true);
    env.index.begin_term(1);
    env.off_hub(Kind::Cluster, "member2")
        .pass(Duration::from_secs(120));
    let holds = |env: &Environment| env.service("member2", "foo").is_some();
    assert!(env.seen_out.is_empty() && holds(&env));
    for kind in [Kind::Mcs, Kind::Service, Kind::Cluster, Kind::Namespace] {
        env.observe_hub(hub_event(kind, Signal::Current(1)));
    }
    env.pass(Duration::from_secs(20));
    assert_eq!(env.seen_out, [("member2".to_owned(), Leftovers::default())]);
    assert!(!holds(&env));
}

#[test]
fn new_leader_retains_imports_of_exports_that_it_could_not_observe() {
    let mut leader = both(true);
    leader.on("member1", export("foo")).settle();
    let copies = |env: &mut Environment| env.server("member2").all(Kind::Slice).count();
    let held = copies(&mut leader);
    let assert_held = |env: &mut Environment, case: &str| {
        let is_imported = env.server("member2").all(Kind::Import).next().is_some();
        assert!(is_imported, "{case}");
        assert_eq!(copies(env), held, "{case}");
    };

    let rows: [(&str, Change); 3] = [
        ("member lost", |env| env.lose("member1")),
        ("watch of exports refused", |env| {
            let refused = Failure::new(FailureKind::Forbidden, "forbidden: serviceexports");
            env.observe("member1", MemberEvent::Exports(Signal::Failed(refused)))
        }),
        ("former export deleted, member lost", |env| {
            env.on("member1", export("foo")).settle();
            env.off("member1", Kind::Export, "foo").settle();
            env.lose("member1")
        }),
    ];
    for (case, cut_off) in rows {
        let mut env = both(true);
        cut_off(&mut env).pass(Duration::from_secs(60));
        for kind in [Kind::Import, Kind::Service, Kind::Slice] {
            let made: Vec<_> = leader.server("member2").all(kind).cloned().collect();
            for value in made {
                env.on("member2", Object { kind, value });
            }
        }
        env.pass(Duration::from_secs(600));
        assert_held(&mut env, case);
        env.index.engage(&name("member1"), 2, None);
        env.introduce("member1").pass(Duration::from_secs(60));
        assert_held(&mut env, case);
    }
}

#[test]
fn export_deleted_before_an_outage_is_withdrawn_during_it() {
    let mut env = both(true);
    env.on("member1", export("foo")).settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    let refused = Failure::new(FailureKind::Forbidden, "forbidden: services");
    env.observe("member2", MemberEvent::Services(Signal::Failed(refused)))
        .off("member1", Kind::Export, "foo")
        .settle();
    env.lose("member1").settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    env.observe("member2", MemberEvent::Services(Signal::Connected))
        .pass(Duration::from_secs(60));
    assert_eq!(env.server("member2").all(Kind::Import).count(), 0);
    assert!(env.service("member2", "derived-foo").is_none());
    assert!(env.addresses("member2", "derived-foo").is_empty());
}

#[test]
fn an_outcome_says_when_to_look_again() {
    let mut env = both(false);
    let look = |env: &mut Environment| {
        let now = env.now();
        let mut reconciler = Reconciler {
            index: &env.index,
            write_queue: &mut env.write_queue,
            now,
        };
        reconciler.service(&env.settings, &key("foo"), &mut env.copy_cache)
    };
    let outcome = look(&mut env);
    assert!(outcome.again_at.is_none() && outcome.settled && !outcome.look_up);
    env.off_hub(Kind::Service, "foo").deliver();
    let outcome = look(&mut env);
    assert_eq!(
        outcome.again_at,
        Some(env.now().instant + crate::fixtures::GRACE)
    );
    env.on_hub(foo().port("grpc", 81)).deliver();
    assert!(!look(&mut env).settled, "ports are to be written");
}

#[test]
fn a_member_that_hangs_holds_up_no_other() {
    let mut env = both(false);
    env.member("member3")
        .on_hub(mcs("foo").providers(&["member1"]))
        .settle();
    env.forget_writes().server("member3").refuses = Some((Kind::Slice, Failure::timeout()));
    env.on("member1", source("10.1.0.9")).work();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.9"]);
    env.pass(Duration::from_secs(120));
    let tries = env
        .log()
        .iter()
        .filter(|line| line.starts_with("member3"))
        .count();
    assert!(
        (5..=14).contains(&tries),
        "a growing pause between {tries} attempts"
    );
}

#[test]
fn a_write_whose_answer_came_too_late_and_was_carried_out_all_the_same_is_no_problem() {
    let mut env = both(false);
    env.server("member2").refuses = Some((Kind::Slice, Failure::timeout()));
    env.on("member1", source("10.1.0.9")).work();
    assert_eq!(
        env.says("foo", "Ready"),
        "False EndpointSliceDispatchedFailed: 1 of 2 consumers: member2 1 EndpointSlice cannot be \
         written (no answer in time)"
    );
    let late = env.writes("foo", "member2");
    let server = env.server("member2");
    server.refuses = None;
    for write in &late {
        server.apply(write).expect("the server takes it");
    }
    env.pass(Duration::from_secs(1));
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn the_endpoints_of_a_member_out_of_reach_are_given_up_only_after_a_provider_ttl() {
    const HOUR: Duration = Duration::from_secs(3600);
    for (ttl, given_up) in [(None, false), (Some(HOUR), true)] {
        let mut env = both(false);
        env.settings.provider_ttl = ttl;
        env.lose("member1").pass(HOUR / 2);
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
        env.pass(HOUR);
        let left: &[&str] = if given_up { &[] } else { &["10.1.0.5"] };
        assert_eq!(env.addresses("member2", "foo"), left, "{ttl:?}");
        assert!(
            env.says("foo", "Ready")
                .contains("member1 unreachable since")
        );
        env.list("member1").settle();
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
        env.pass(Duration::from_secs(1));
        assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
    }
}
