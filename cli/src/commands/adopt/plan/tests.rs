use causeway::api::{SecretReference, SyncMode, condition};
use kube::ResourceExt as _;
use serde_json::json;

use super::*;
use crate::cluster::karmada::tests::{dispatched_slice, work};
use crate::commands::adopt::ADOPTION;
use crate::commands::moving::fixtures::{make_unread, shared};
use crate::fixtures::{cluster, condition as reported, cross, ready, service};
use crate::observe::fixtures::{BOTH, copy, core_service, from, healthy, source};

/// State of shop/foo under Karmada: a causeway copy next to Karmada's slice, with Works and
/// finalizer.
fn managed_by_karmada() -> Snapshot {
    let mut snapshot = shared();
    snapshot.member("b").slices.push(dispatched_slice(&BOTH));
    snapshot
}

fn commands(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(Step::located_command).collect()
}

/// Puts a slice into deletion, in which a finalizer retains it.
fn retain(slice: &mut EndpointSlice) {
    let created = healthy().mcs.expect("it").metadata.creation_timestamp;
    slice.metadata.deletion_timestamp = created;
    slice.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
}

/// Applies a plan to the snapshot as the API servers would.
fn carry_out(snapshot: &mut Snapshot, plan: &Plan) {
    for step in &plan.steps {
        let works = snapshot.works.as_mut().expect("Works");
        match step {
            Step::PatchWork(target, _) => {
                let work = works.iter_mut().find(|one| one.uid() == target.uid);
                work.expect("the Work").0.finalizers = None;
            }
            Step::DeleteWork(target) => {
                let work = works.iter_mut().find(|one| one.uid() == target.uid);
                let created = healthy().mcs.expect("it").metadata.creation_timestamp;
                work.expect("the Work").0.deletion_timestamp = created;
            }
            Step::DeleteSlice(member, target) => {
                let slices = &mut snapshot.member(member).slices;
                slices.retain(|one| one.metadata.uid.as_deref() != Some(&*target.uid));
            }
            Step::PatchService(..) => {
                let mcs = snapshot.mcs.as_mut().expect("it");
                mcs.metadata.finalizers = Some(vec![labels::FINALIZER.to_owned()]);
            }
        }
    }
    let works = snapshot.works.as_mut().expect("Works");
    works.retain(|one| one.0.deletion_timestamp.is_none() || one.0.finalizers.is_some());
}

#[test]
fn finalizers_go_off_every_work_before_any_goes_then_slices_then_karmadas_finalizer() {
    let mut snapshot = managed_by_karmada();
    let mut reported = Vec::new();
    let everything = commands(&whole(&snapshot));
    loop {
        let plan = plan(&snapshot);
        assert_eq!(plan.left, []);
        if plan.is_empty() {
            break;
        }
        reported.push(commands(&plan));
        carry_out(&mut snapshot, &plan);
    }
    let off = "--type=merge -p '{\"metadata\":{\"finalizers\":null,\"resourceVersion\":\"5\"}}'";
    assert_eq!(
        reported,
        [
            vec![
                format!("kubectl -n karmada-es-a patch works.work.karmada.io foo-own {off}"),
                format!("kubectl -n karmada-es-a patch works.work.karmada.io foo-collected {off}"),
                format!("kubectl -n karmada-es-b patch works.work.karmada.io foo-dispatched {off}"),
            ],
            vec![
                "kubectl -n karmada-es-a delete works.work.karmada.io foo-own".to_owned(),
                "kubectl -n karmada-es-a delete works.work.karmada.io foo-collected".to_owned(),
                "kubectl -n karmada-es-b delete works.work.karmada.io foo-dispatched".to_owned(),
            ],
            vec!["in b: kubectl -n shop delete endpointslice a-foo-abc".to_owned()],
            vec![
                "kubectl -n shop patch mcs foo --type=merge -p \
                 '{\"metadata\":{\"finalizers\":[\"mcs.causeway.dev/cleanup\"],\"resourceVersion\":\"3\"}}'"
                    .to_owned()
            ],
        ]
    );
    assert_eq!(everything, reported.concat());
    let slices: Vec<_> = snapshot
        .member("b")
        .slices
        .iter()
        .map(|one| one.name_any())
        .collect();
    assert_eq!(slices, ["a-foo-abc-0"], "causeway's copy stays");
    assert_eq!(
        snapshot.member("a").slices.len(),
        1,
        "the provider's own slice stays"
    );
}

#[test]
fn entry_replaces_the_slice_of_a_provider_of_another_network() {
    let mut snapshot = managed_by_karmada();
    snapshot.works = Some(Vec::new());
    snapshot.annotate("a", labels::NETWORK, "edge");
    let addresses = |snapshot: &mut Snapshot, ready| {
        let entry = copy("7", &[("192.168.1.1", ready)]);
        snapshot.member("b").slices[0] = entry;
        plan(snapshot)
    };
    let pending = addresses(&mut snapshot, false);
    assert!(pending.steps.is_empty());
    assert!(
        pending.left[0]
            .to_string()
            .contains("no ready entry of causeway's to a"),
        "{}",
        pending.left[0]
    );
    let entered = addresses(&mut snapshot, true);
    assert_eq!(entered.left, []);
    assert_eq!(
        commands(&entered),
        ["in b: kubectl -n shop delete endpointslice a-foo-abc"]
    );
    let companion = snapshot.key.companion();
    let mut entry = core_service(true, &[("http", 80)]);
    entry.metadata.name = Some(companion.name.to_string());
    snapshot.member("a").services.push(entry);
    carry_out(&mut snapshot, &entered);
    let last = commands(&plan(&snapshot));
    assert!(
        last.len() == 1 && last[0].contains("patch mcs foo"),
        "{last:?}"
    );
}

#[test]
fn whatever_was_interrupted_is_gone_on_with() {
    let mut snapshot = managed_by_karmada();
    let works = snapshot.works.as_mut().expect("Works");
    works[0].0.finalizers = None;
    works[1].0.deletion_timestamp = healthy().mcs.expect("it").metadata.creation_timestamp;
    let all = commands(&plan(&snapshot));
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|one| one.contains("patch works")), "{all:?}");
    assert!(
        all[0].contains("foo-collected"),
        "one that hangs in deletion is freed too: {all:?}"
    );
}

#[test]
fn a_work_that_service_exports_keep_too_is_left_to_them() {
    let mut snapshot = managed_by_karmada();
    let mut shared = work("a", "collected");
    let marks = shared.0.labels.as_mut().expect("labels");
    let both = "MultiClusterService.ServiceExport".to_owned();
    marks.insert(labels::WORK_COLLECTED_BY.to_owned(), both);
    shared
        .0
        .finalizers
        .get_or_insert_default()
        .push("karmada.io/endpointslice-controller".to_owned());
    snapshot.works = Some(vec![shared]);
    let patch = json!({ "metadata": {
        "finalizers": ["karmada.io/endpointslice-controller"],
        "labels": {
            labels::WORK_SERVICE_NAMESPACE: null,
            labels::WORK_SERVICE_NAME: null,
            labels::WORK_COLLECTED_BY: "ServiceExport",
        },
        "resourceVersion": "5",
    }});
    let steps = plan(&snapshot).steps;
    assert!(
        matches!(&steps[..], [Step::PatchWork(_, value)] if *value == patch),
        "{steps:?}"
    );
    let all = commands(&whole(&snapshot));
    assert!(
        !all.iter().any(|one| one.contains("delete works")),
        "{all:?}"
    );
}

/// Name, change of the snapshot without Works, and expected reason to retain Karmada's slice. An
/// empty reason means that the slice is deleted.
type Case = (&'static str, fn(&mut Snapshot), &'static str);

#[test]
fn karmadas_slice_goes_by_evidence_alone() {
    let cases: &[Case] = &[
        ("causeway's copy holds every ready endpoint", |_| {}, ""),
        (
            "there is no copy",
            |s| s.member("b").slices.retain(karmada::is_dispatched),
            "b has no copy of causeway's of EndpointSlice foo-abc of a",
        ),
        (
            "the copy lacks an endpoint",
            |s| {
                s.member("a").slices = vec![source(&[("10.1.0.1", true), ("10.1.0.9", true)])];
            },
            "does not hold 10.1.0.9 of a as ready",
        ),
        (
            "the copy holds one as not ready",
            |s| s.member("b").slices[0].endpoints[1].conditions = from(json!({ "ready": false })),
            "does not hold 10.1.0.2 of a as ready",
        ),
        (
            "an endpoint that is not ready is not asked for",
            |s| s.member("a").slices = vec![source(&[("10.1.0.1", true), ("10.1.0.9", false)])],
            "",
        ),
        (
            "the copy is of another slice",
            |s| s.member("a").slices[0].metadata.uid = Some("u2".to_owned()),
            "b has no copy of causeway's of EndpointSlice foo-abc of a",
        ),
        (
            "causeway makes no copy of its source, for another of the provider's slices says the same",
            |s| {
                let mut same = source(&BOTH);
                same.metadata.name = Some("by-hand".to_owned());
                same.metadata.uid = Some("u2".to_owned());
                s.member("a").slices.push(same);
                let dispatched = &mut s.member("b").slices[1];
                dispatched.metadata.name = Some("a-by-hand".to_owned());
            },
            "",
        ),
        ("its source is gone", |s| s.member("a").slices.clear(), ""),
        (
            "its endpoints moved into another slice",
            |s| {
                let moved = &mut s.member("a").slices[0];
                moved.metadata.name = Some("foo-new".to_owned());
                moved.metadata.uid = Some("u2".to_owned());
            },
            "b has no copy of causeway's of EndpointSlice foo-new of a",
        ),
        (
            "the provider cannot be read",
            |s| make_unread(s, "a"),
            "a could not be read: no answer",
        ),
        (
            "the provider is not joined",
            |s| s.clusters_mut().remove(0).status = None,
            "a is not joined",
        ),
        (
            "the provider's deletions are not confirmed",
            |s| {
                let held = reported(
                    condition::DELETIONS_SUSPENDED,
                    "True",
                    "DeletionsSuspended",
                    "it lacks 12",
                );
                s.clusters_mut()[0] = cluster("a", json!([ready("True", "Synced", ""), held]));
            },
            "deletions in a are not confirmed yet: it lacks 12",
        ),
        (
            "the provider is drained",
            |s| {
                s.annotate("a", labels::WITHDRAW, "true").without_copies();
                s.member("b").slices.push(dispatched_slice(&BOTH));
            },
            "",
        ),
        (
            "the MultiClusterService names another provider",
            |s| s.mcs.as_mut().expect("it").spec = from(cross(&["c"], &["b"])),
            "",
        ),
        (
            "the MultiClusterService is being deleted",
            |s| {
                let mcs = s.mcs.as_mut().expect("it");
                mcs.metadata.deletion_timestamp = mcs.metadata.creation_timestamp.clone();
                s.member("b").slices.retain(karmada::is_dispatched);
            },
            "",
        ),
        (
            "it is being deleted",
            |s| retain(&mut s.member("b").slices[1]),
            "it is being deleted, and its finalizers retain it: example.com/keep",
        ),
        (
            "there is no MultiClusterService",
            |s| s.mcs = None,
            "no MultiClusterService needs it",
        ),
        (
            "Karmada serves a port that is not exposed",
            |s| {
                let port =
                    json!([{ "name": "http", "port": 8080 }, { "name": "metrics", "port": 9090 }]);
                let slices = &mut s.member("b").slices;
                slices[1].ports = from(port);
                let spec = s.member("b").services[0].spec.as_mut().expect("a spec");
                spec.ports = from(
                    json!([{ "name": "http", "port": 80 }, { "name": "metrics", "port": 9090 }]),
                );
            },
            "has no port \"metrics\"",
        ),
        (
            "another hub's copy is not causeway's here",
            |s| {
                let labels = s.member("b").slices[0]
                    .metadata
                    .labels
                    .as_mut()
                    .expect("labels");
                labels.insert(labels::HUB.to_owned(), "other".to_owned());
            },
            "b has no copy of causeway's",
        ),
    ];
    for (what, change, why) in cases {
        let mut snapshot = managed_by_karmada();
        snapshot.works = Some(Vec::new());
        change(&mut snapshot);
        let plan = plan(&snapshot);
        let mut steps = plan.steps.iter();
        let goes = steps.any(|step| matches!(step, Step::DeleteSlice(..)));
        assert_eq!(goes, why.is_empty(), "{what}: {plan:?}");
        let left = plan.left.iter().any(|left| left.message.contains(why));
        assert!(goes || left, "{what}: {plan:?}");
        let mut steps = plan.steps.iter();
        let released = steps.any(|step| matches!(step, Step::PatchService(..)));
        assert!(
            !released,
            "{what}: the finalizer stays while anything is left: {plan:?}"
        );
    }
}

#[test]
fn a_consumer_that_cannot_be_read_keeps_karmadas_finalizer() {
    let mut snapshot = managed_by_karmada();
    snapshot.works = Some(Vec::new());
    make_unread(&mut snapshot, "b");
    make_unread(&mut snapshot, "c");
    let plan = plan(&snapshot);
    assert!(plan.steps.is_empty(), "{plan:?}");
    let left = plan.left.iter().map(|left| left.member.as_deref());
    let left: Vec<_> = left.collect();
    assert_eq!(left, [Some("b")], "c takes no part");
}

#[test]
fn work_of_an_unread_former_consumer_stops_the_move() {
    let mut snapshot = managed_by_karmada();
    let works = snapshot.works.as_mut().expect("Works");
    works.push(work("c", "dispatched"));
    make_unread(&mut snapshot, "c");
    let why = "c: cannot be read, so objects of Karmada may remain there: no answer; \
               make it readable to you, or remove its Cluster";
    let stopped = plan(&snapshot);
    let left: Vec<_> = stopped.left.iter().map(ToString::to_string).collect();
    assert_eq!((stopped.steps, left), (vec![], vec![why.to_owned()]));
    let everything = whole(&snapshot);
    let reported = everything.left.iter();
    let reported: Vec<_> = reported
        .map(|left| (left.member.as_deref(), left.is_unread))
        .collect();
    assert_eq!(reported, [(Some("c"), true)]);
    let written = commands(&everything);
    let names_it = written.iter().any(|one| one.contains("karmada-es-c"));
    assert!(!names_it && written.len() == 8, "{written:?}");
}

#[test]
fn work_of_a_former_consumer_outlives_its_slice() {
    let mut snapshot = managed_by_karmada();
    let works = snapshot.works.as_mut().expect("Works");
    works.push(work("c", "dispatched"));
    let held = Held {
        slices: vec![dispatched_slice(&BOTH)],
        ..Held::default()
    };
    snapshot.members.insert("c".to_owned(), Ok(held));
    let everything = commands(&whole(&snapshot));
    let mut written = Vec::new();
    loop {
        // Each write may be the last one before an interruption.
        let mut interrupted = snapshot.clone();
        make_unread(&mut interrupted, "c");
        let resumed = plan(&interrupted);
        let members = resumed.left.iter();
        let members = members.filter_map(|left| left.member.as_deref());
        let stops = resumed.steps.is_empty() && members.eq(["c"]);
        let is_clean = snapshot.member("c").slices.is_empty();
        assert!(stops || is_clean, "{written:?}: {resumed:?}");
        let mut next = plan(&snapshot);
        assert_eq!(next.left, []);
        if next.is_empty() {
            break;
        }
        next.steps.truncate(1);
        written.extend(commands(&next));
        carry_out(&mut snapshot, &next);
    }
    assert_eq!(written, everything);
    let of_former = ["es-c delete works", "in c: kubectl", "es-c patch works"];
    let places = of_former.map(|words| written.iter().position(|one| one.contains(words)));
    assert_eq!(places, [Some(0), Some(1), Some(5)], "{written:?}");
}

#[test]
fn slice_that_a_former_consumer_retains_keeps_karmadas_finalizer() {
    let mut snapshot = managed_by_karmada();
    let works = snapshot.works.as_mut().expect("Works");
    works.push(work("c", "dispatched"));
    let mut held = Held {
        slices: vec![dispatched_slice(&BOTH)],
        ..Held::default()
    };
    retain(&mut held.slices[0]);
    snapshot.members.insert("c".to_owned(), Ok(held));
    for _ in 0..10 {
        let next = plan(&snapshot);
        carry_out(&mut snapshot, &next);
    }
    let Plan { steps, left } = plan(&snapshot);
    assert_eq!(steps, []);
    let left: Vec<_> = left.iter().map(ToString::to_string).collect();
    let why = "it is being deleted, and its finalizers retain it: example.com/keep";
    assert!(left.len() == 1 && left[0].starts_with("c: "), "{left:?}");
    assert!(left[0].ends_with(why), "{left:?}");
    let mcs = snapshot.mcs.as_ref().expect("it");
    assert!(!karmada::finalizers(mcs).is_empty());
}

#[test]
fn dry_run_names_slices_that_finalizers_retain() {
    let mut snapshot = managed_by_karmada();
    let held = Held {
        slices: vec![dispatched_slice(&BOTH)],
        ..Held::default()
    };
    snapshot.members.insert("c".to_owned(), Ok(held));
    retain(&mut snapshot.member("b").slices[1]);
    retain(&mut snapshot.member("c").slices[0]);
    let Plan { steps, left } = whole(&snapshot);
    let deletes = |step: &Step| matches!(step, Step::DeleteSlice(..));
    assert!(!steps.iter().any(deletes), "{steps:?}");
    let left: Vec<_> = left.iter().map(ToString::to_string).collect();
    let why = "EndpointSlice a-foo-abc: it is being deleted, and its finalizers retain it: \
               example.com/keep";
    assert_eq!(left, [format!("b: {why}"), format!("c: {why}")]);
}

#[test]
fn unread_member_that_held_a_slice_keeps_karmadas_finalizer() {
    let mut snapshot = managed_by_karmada();
    let works = snapshot.works.as_mut().expect("Works");
    works.push(work("c", "dispatched"));
    snapshot.members.insert("c".to_owned(), Ok(Held::default()));
    let mut holders = BTreeSet::new();
    let mut next = |snapshot: &Snapshot| ADOPTION.next(snapshot, &mut holders);
    assert_eq!(next(&snapshot).left, []);
    snapshot.works = Some(Vec::new());
    let slices = &mut snapshot.member("b").slices;
    slices.retain(|one| !karmada::is_dispatched(one));
    let release = plan(&snapshot).steps;
    assert!(matches!(release[..], [Step::PatchService(..)]));
    make_unread(&mut snapshot, "c");
    for _ in 0..2 {
        let held = next(&snapshot);
        let left: Vec<_> = held
            .left
            .iter()
            .map(|left| left.member.as_deref())
            .collect();
        assert_eq!((held.steps, left), (vec![], vec![Some("c")]));
    }
    snapshot.members.insert("c".to_owned(), Ok(Held::default()));
    assert_eq!(next(&snapshot).steps, release);
    make_unread(&mut snapshot, "c");
    assert_eq!(next(&snapshot).steps, release, "nothing is left there");
}

#[test]
fn works_of_an_unread_consumer_and_of_a_removed_cluster_are_freed() {
    let mut snapshot = managed_by_karmada();
    let works = snapshot.works.as_mut().expect("Works");
    works.push(work("gone", "dispatched"));
    make_unread(&mut snapshot, "b");
    let freed = commands(&plan(&snapshot));
    for namespace in ["karmada-es-b", "karmada-es-gone"] {
        let is_freed = freed.iter().any(|one| one.contains(namespace));
        assert!(is_freed, "{namespace}: {freed:?}");
    }
}

#[test]
fn the_probe_goes_with_karmadas_finalizer_or_alone() {
    let mut snapshot = healthy();
    let mcs = snapshot.mcs.as_mut().expect("it");
    *mcs = service("foo", cross(&["a"], &["b"]), json!([]));
    assert!(plan(&snapshot).is_empty());
    let mcs = snapshot.mcs.as_mut().expect("it");
    mcs.metadata.annotations = Some([(labels::PROBE.to_owned(), "now".to_owned())].into());
    let probe = "{\"metadata\":{\"annotations\":{\"mcs.causeway.dev/probe\":null},\"resourceVersion\":null}}";
    assert_eq!(
        commands(&plan(&snapshot)),
        [format!(
            "kubectl -n shop patch mcs foo --type=merge -p '{probe}'"
        )]
    );
}

#[test]
fn member_in_pull_mode_without_credentials_is_an_obstacle() {
    let mut snapshot = managed_by_karmada();
    assert_eq!(obstacle(&snapshot), None);
    let spec = &mut snapshot.clusters_mut()[1].spec;
    spec.sync_mode = Some(SyncMode::Pull);
    spec.secret_ref = Some(SecretReference {
        namespace: "karmada-cluster".to_owned(),
        name: "b".to_owned(),
    });
    assert_eq!(obstacle(&snapshot), None);
    snapshot.clusters_mut()[1].spec.secret_ref = None;
    let why = obstacle(&snapshot).expect("an obstacle");
    assert!(
        why.starts_with("b takes part in it and is in Pull mode without credentials"),
        "{why}"
    );
}

#[test]
fn deprecated_field_that_alone_names_clusters_is_an_obstacle() {
    let names = json!(["a"]);
    let range = json!({ "clusterNames": names });
    let consumers = json!([{ "name": "a" }]);
    let cases = [
        (json!({ "range": range }), vec!["range.clusterNames"]),
        (
            json!({ "range": range, "consumerClusters": [] }),
            vec!["range.clusterNames"],
        ),
        (
            json!({ "range": range, "consumerClusters": consumers }),
            vec![],
        ),
        (json!({ "range": { "clusterNames": [] } }), vec![]),
        (
            json!({ "serviceConsumptionClusters": names }),
            vec!["serviceConsumptionClusters"],
        ),
        (
            json!({ "serviceProvisionClusters": names, "range": range }),
            vec!["serviceProvisionClusters", "range.clusterNames"],
        ),
        (
            json!({ "range": range, "serviceConsumptionClusters": names }),
            vec!["range.clusterNames and spec.serviceConsumptionClusters"],
        ),
    ];
    for (mut spec, fields) in cases {
        spec["types"] = json!(["CrossCluster"]);
        let mut snapshot = managed_by_karmada();
        let mcs = snapshot.mcs.as_mut().expect("it");
        mcs.spec = from(spec.clone());
        let why = obstacle(&snapshot);
        assert_eq!(why.is_some(), !fields.is_empty(), "{spec}: {why:?}");
        let why = why.unwrap_or_default();
        for field in fields {
            let remedy = format!("remove spec.{field} to keep them");
            assert!(why.contains(&remedy), "{spec}: {why}");
        }
        let mcs = snapshot.mcs.as_mut().expect("it");
        mcs.metadata.deletion_timestamp = mcs.metadata.creation_timestamp.clone();
        assert_eq!(obstacle(&snapshot), None, "{spec}: it is being deleted");
    }
}

#[test]
fn golden_plans_of_an_adoption_are_kept() {
    crate::golden::check_states("adopt", |snapshot| {
        crate::commands::moving::outcome::golden(
            snapshot,
            &[plan(snapshot), whole(snapshot)],
            obstacle,
        )
    });
}
