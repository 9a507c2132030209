use serde_json::{Value, json};

use super::*;
use crate::fixtures::{applied, cluster, condition, cross, ready, service, synced};
use crate::observe::connect::ConnectError;
use crate::term::screen::Screen;
use crate::views::explain::Health;
use crate::views::status::karmada::Observed;
use crate::views::status::text;

fn one(clusters: &[Cluster], service: MultiClusterService) -> ServiceReport {
    Report::new(Scope::One, Some(clusters), &[service])
        .services
        .remove(0)
}

fn details(report: &Report) -> String {
    text::all_details(report, Timestamp::now(), Screen::PLAIN)
}

#[test]
fn nothing_at_all_is_well() {
    let report = Report::new(Scope::All, Some(&[]), &[]);
    assert!(report.ready);
    assert_eq!(report.members, Some(Vec::new()));
}

#[test]
fn one_that_is_not_ready_makes_the_whole_not_ready() {
    let good = || service("good", cross(&[], &[]), json!([ready("True", "Ready", "")]));
    let bad = service(
        "bad",
        cross(&[], &[]),
        json!([ready("False", "ServiceNotFound", "")]),
    );
    assert!(Report::new(Scope::All, Some(&[synced("a")]), &[good()]).ready);
    assert!(!Report::new(Scope::All, Some(&[synced("a")]), &[good(), bad]).ready);
    let lost = cluster(
        "b",
        json!([ready("False", "Unreachable", "connection refused")]),
    );
    assert!(!Report::new(Scope::All, Some(std::slice::from_ref(&lost)), &[good()]).ready);
    assert!(
        Report::new(Scope::One, Some(&[lost]), &[good()]).ready,
        "only the service was requested"
    );
}

#[test]
fn a_pull_mode_member_does_not_count_as_unhealthy() {
    let mut pull = cluster("a", json!([ready("False", "Refused", "takes no part")]));
    pull.spec.sync_mode = Some(SyncMode::Pull);
    assert!(Report::new(Scope::All, Some(&[pull]), &[]).ready);
}

#[test]
fn only_a_condition_of_the_object_as_it_is_counts() {
    let said = json!([ready("True", "Ready", "")]);
    let mut changed = service("foo", cross(&[], &[]), said.clone());
    changed.metadata.generation = Some(2);
    let mut going = service("foo", cross(&[], &[]), said.clone());
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    for (service, ready, reason) in [
        (service("foo", cross(&[], &[]), said), true, "Ready"),
        (service("foo", cross(&[], &[]), json!([])), false, "Pending"),
        (changed, false, "Pending"),
        (going, false, "Deleting"),
    ] {
        let report = one(&[], service);
        assert_eq!((report.ready, report.reason.as_str()), (ready, reason));
    }
}

#[test]
fn an_empty_list_is_every_member_and_a_name_without_a_cluster_is_not_joined() {
    let clusters = [synced("a"), synced("b")];
    let report = one(
        &clusters,
        service("foo", cross(&["a", "nowhere"], &[]), json!([])),
    );
    let parts: Vec<_> = report
        .members
        .iter()
        .map(|part| {
            (
                part.name.as_str(),
                part.provider,
                part.consumer,
                part.state.as_str(),
            )
        })
        .collect();
    assert_eq!(
        parts,
        [
            ("a", true, true, "Synced"),
            ("b", false, true, "Synced"),
            ("nowhere", true, true, "NotJoined"),
        ]
    );
    assert_eq!(
        (report.providers, report.consumers),
        (vec!["a".to_owned(), "nowhere".to_owned()], vec![])
    );
}

#[test]
fn a_deprecated_field_is_understood() {
    let spec = json!({ "types": ["CrossCluster"], "serviceProvisionClusters": ["a"], "range": { "clusterNames": ["b"] } });
    let report = one(&[], service("foo", spec, json!([])));
    assert_eq!(
        (report.providers, report.consumers),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
}

#[test]
fn a_member_has_the_service_unless_the_condition_names_it() {
    let clusters = [
        synced("a"),
        synced("b"),
        cluster("c", json!([ready("False", "Unreachable", "")])),
    ];
    let presences = |condition: Value| {
        let report = one(
            &clusters,
            service("foo", cross(&[], &[]), json!([condition])),
        );
        report
            .members
            .iter()
            .map(|part| part.service)
            .collect::<Vec<_>>()
    };
    use Presence::{No, Unknown, Yes};
    assert_eq!(
        presences(applied("True", "ServiceAppliedSucceed", "")),
        [Yes, Yes, Unknown]
    );
    let failed = applied(
        "False",
        "ServiceAppliedFailed",
        "1 of 3 clusters: b has another Service shop/foo",
    );
    assert_eq!(presences(failed), [Yes, No, Unknown]);
    let absent = "1 of 3 clusters: c unreachable since 2026-11-20T23:55:00Z (refused)";
    let absent = applied("False", "ServiceAppliedFailed", absent);
    assert_eq!(
        presences(absent),
        [Yes, Yes, Unknown],
        "one absent member says nothing of the others"
    );
    for not_all in [
        "9 of 12 clusters: b is not joined; and 4 more",
        "namespace kube-system is not exposed",
    ] {
        let failed = applied("False", "ServiceAppliedFailed", not_all);
        assert_eq!(presences(failed)[0], Unknown, "{not_all}");
    }
    assert_eq!(
        presences(applied("False", "ServiceNotFound", "b")),
        [Unknown, Unknown, Unknown]
    );
}

#[test]
fn what_karmada_manages_is_as_the_members_hold_it_and_what_it_does_not_propagate_is_reported() {
    let conditions = json!([ready("False", "ManagedByKarmada", "Karmada manages it")]);
    let managed = service("foo", cross(&["a"], &["b"]), conditions);
    let clusters = [synced("a"), synced("b")];
    for ready in [true, false] {
        let message = "as it is".to_owned();
        let known = Observed {
            health: Some(Health { ready, message }),
            unknown: None,
            unapplied: Some(Unapplied {
                message: "not everywhere".to_owned(),
                remedy: "the policy first".to_owned(),
            }),
        };
        let known = [(ServiceKey::new("shop", "foo"), known)].into();
        let report = Report::new(Scope::One, Some(&clusters), std::slice::from_ref(&managed));
        assert!(!report.ready);
        let report = report.with_karmadas(&known);
        assert_eq!(report.ready, ready);
        let reported = &report.services[0];
        assert_eq!(
            (reported.ready, &*reported.reason, &*reported.message),
            (ready, "ManagedByKarmada", "as it is")
        );
        let text = details(&report);
        let ready = if ready { "True" } else { "False" };
        let head = format!("Ready:       {ready} (ManagedByKarmada)");
        let row = format!("Ready       {ready:6}   ManagedByKarmada");
        assert!(text.contains(&head) && text.contains(&row), "{text}");
        assert!(
            text.contains("not everywhere.\n-> the policy first"),
            "{text}"
        );
    }
}

#[test]
fn unread_members_leave_the_health_of_karmadas_service_unknown() {
    use crate::observe::fixtures::healthy;
    use crate::views::status::karmada::observed;

    let conditions = json!([ready("False", "ManagedByKarmada", "Works exist")]);
    let mut snapshot = healthy();
    let managed = snapshot.mcs.as_mut().expect("it");
    managed.status = service("foo", cross(&["a"], &["b"]), conditions).status;
    let managed = managed.clone();
    let late = Err(ConnectError::Timeout(5));
    snapshot.members.insert("b".to_owned(), late);
    let of_members = observed(&snapshot);
    assert!(of_members.health.as_ref().is_some_and(|one| !one.ready));
    let of_hub = Observed {
        unknown: Some("forbidden by the hub".to_owned()),
        ..Observed::default()
    };
    let clusters = [synced("a"), synced("b")];
    for (known, why) in [(of_members, "within 5 s"), (of_hub, "forbidden by the hub")] {
        let known = [(ServiceKey::new("shop", "foo"), known)].into();
        let report = Report::new(Scope::One, Some(&clusters), std::slice::from_ref(&managed));
        let report = report.with_karmadas(&known);
        assert_eq!(report.exit_state(), ExitState::Unknown, "{why}");
        assert!(!report.services[0].ready && !report.ready, "{why}");
        let unknown = report.unknown.join(" ");
        let expected = "Ready of shop/foo is unknown: ";
        assert!(
            unknown.starts_with(expected) && unknown.contains(why),
            "{unknown}"
        );
    }
}

#[test]
fn endpoints_are_known_once_every_consumer_was_read() {
    let exposed = |ready: &[Option<usize>]| {
        let endpoints = ready.iter().map(|ready| ConsumerEndpoints {
            address: "foo.shop.svc".to_owned(),
            consumer: "b".to_owned(),
            ready: *ready,
        });
        Exposed {
            serving: Vec::new(),
            endpoints: endpoints.collect(),
        }
    };
    let report = || Report::new(Scope::One, Some(&[synced("a")]), &[]);
    assert_eq!(report().has_endpoints(), None, "nothing was read");
    for (ready, expected) in [
        (&[][..], Some(false)),
        (&[Some(0), Some(0)], Some(false)),
        (&[Some(0), None], None),
        (&[Some(1), None], Some(true)),
    ] {
        let report = report().with_exposed(Some(&exposed(ready)));
        assert_eq!(report.has_endpoints(), expected, "{ready:?}");
    }
    let report = report().with_exposed(Some(&exposed(&[Some(2), None])));
    let text = details(&report);
    let expected = "\
ADDRESS        CONSUMER   READY ENDPOINTS
foo.shop.svc   b          2
foo.shop.svc   b          unknown
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn conditions_stand_in_the_order_in_which_a_service_becomes_ready() {
    let of_type = |type_: &str| {
        let mut condition = ready("True", "Reason", "");
        condition["type"] = json!(type_);
        condition
    };
    let stored = [
        "Ready",
        "Custom",
        "EndpointSliceApplied",
        "ServiceApplied",
        "EndpointSliceDispatched",
    ];
    let report = one(
        &[],
        service("foo", cross(&[], &[]), json!(stored.map(of_type))),
    );
    let types: Vec<_> = report
        .conditions
        .iter()
        .map(|one| one.type_.as_str())
        .collect();
    assert_eq!(
        types,
        [
            "ServiceApplied",
            "EndpointSliceDispatched",
            "EndpointSliceApplied",
            "Ready",
            "Custom",
        ]
    );
}

#[test]
fn whether_a_member_takes_part_in_the_clusterset_is_reported_and_makes_nothing_unhealthy() {
    let said = |condition: Value| {
        let clusters = [cluster(
            "a",
            json!([ready("True", "Synced", ""), condition]),
        )];
        let report = Report::new(Scope::All, Some(&clusters), &[]);
        assert!(report.ready);
        report.members.expect("members").remove(0).clusterset
    };
    let reported = |ready, reason: &str| {
        let (reason, message) = (reason.to_owned(), "why".to_owned());
        Some(ClustersetReport {
            ready,
            reason,
            message,
        })
    };
    let condition = |status, reason| condition("ClustersetAPI", status, reason, "why");
    assert_eq!(said(condition("True", "Served")), reported(true, "Served"));
    assert_eq!(
        said(condition("False", "NotServed")),
        reported(false, "NotServed")
    );
    assert_eq!(said(applied("True", "ServiceAppliedSucceed", "")), None);
}

#[test]
fn a_deletion_that_waits_for_karmada_says_so() {
    let mut gone = service("foo", cross(&[], &[]), json!([]));
    gone.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::UNIX_EPOCH,
    ));
    let cleaned = "being deleted; the controller cleans up the members first";
    assert_eq!(one(&[], gone.clone()).message, cleaned);
    gone.metadata.finalizers = Some(vec!["karmada.io/multiclusterservice-controller".to_owned()]);
    let message = one(&[], gone).message;
    assert!(
        message.starts_with(
            "being deleted, and waiting for Karmada's finalizer karmada.io/multiclusterservice-controller; "
        ),
        "{message}"
    );
}

#[test]
fn what_could_not_be_read_makes_a_healthy_status_unknown() {
    let report = || Report::new(Scope::All, Some(&[synced("a")]), &[]);
    assert_eq!(report().exit_state(), ExitState::Good);
    let unread = Readings::from([("a".to_owned(), Err(ConnectError::Timeout(5)))]);
    assert_eq!(report().with(&unread).exit_state(), ExitState::Unknown);
    let unknown = ["exports on the hub are not shown".to_owned()];
    assert_eq!(
        report().with_unknown(&unknown).exit_state(),
        ExitState::Unknown
    );
    let forbidden = Report::new(Scope::All, None, &[]);
    assert_eq!(forbidden.exit_state(), ExitState::Unknown);
    let lost = cluster("a", json!([ready("False", "Unreachable", "refused")]));
    let problem = Report::new(Scope::All, Some(&[lost]), &[]).with(&unread);
    assert_eq!(problem.exit_state(), ExitState::Problem);
}
