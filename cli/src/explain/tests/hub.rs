use causeway::api::MultiClusterService;
use serde_json::json;

use super::*;
use crate::karmada::binding::Unapplied;
use crate::karmada::tests::{dispatched_slice, work};

impl Scene {
    /// Its Works are there, and no copy of causeway's.
    fn carried_by_karmada(&mut self) -> &mut Self {
        let conditions = json!([ready("False", "ManagedByKarmada", "Works exist")]);
        self.wish = Some(service("foo", cross(&["a"], &["b"]), conditions));
        self.works = Some(vec![work("a", "own")]);
        self.without_copies()
    }
}

#[test]
fn what_is_wrong_on_the_hub_is_told() {
    hold(&[
        (
            "no MultiClusterService",
            |s| s.wish = None,
            false,
            Reason::NotAsked,
            "apply -f mcs.yaml",
        ),
        (
            "no Service",
            |s| {
                s.service = None;
                s.without_copies();
            },
            false,
            Reason::NoHubService,
            "kubectl -n shop create service clusterip foo",
        ),
        (
            "an ExternalName",
            |s| {
                let spec = s
                    .service
                    .as_mut()
                    .and_then(|one| one.spec.as_mut())
                    .expect("a spec");
                spec.type_ = Some("ExternalName".to_owned());
                s.without_copies();
            },
            false,
            Reason::ExternalName,
            "edit service foo",
        ),
        (
            "spec.ports names a port that the Service has not",
            |s| {
                s.wish.as_mut().expect("it").spec.ports =
                    from(json!([{ "name": "web", "port": 81 }]));
                s.without_copies();
            },
            false,
            Reason::PortNotFound,
            "edit mcs foo",
        ),
        (
            "a port that is not exposed",
            |s| {
                s.service = Some(core_service(false, &[("http", 80), ("metrics", 9090)]));
                s.wish.as_mut().expect("it").spec.ports =
                    from(json!([{ "name": "http", "port": 80 }]));
            },
            true,
            Reason::PortNotExposed,
            "\"value\":{\"name\":\"metrics\",\"port\":9090}",
        ),
        (
            "Karmada carries it, and its slices hold every ready endpoint",
            |s| {
                s.carried_by_karmada();
                s.member("b").slices.push(dispatched_slice(&BOTH));
            },
            true,
            Reason::CarriedByKarmada,
            "for causeway to carry it: kubectl mcs adopt foo -n shop",
        ),
        (
            "Karmada carries it as far as the controller says, for its Works may not be seen",
            |s| {
                s.carried_by_karmada().works = None;
                s.member("b").slices.push(dispatched_slice(&BOTH));
            },
            true,
            Reason::CarriedByKarmada,
            "kubectl mcs adopt foo -n shop",
        ),
        (
            "Karmada carries it, and has not dispatched it",
            |s| {
                s.carried_by_karmada();
            },
            false,
            Reason::NotDispatchedByKarmada,
            "kubectl mcs adopt foo -n shop",
        ),
        (
            "Karmada carries it, and its slice is behind: it lacks one and offers one that is gone",
            |s| {
                s.carried_by_karmada();
                let old = [("10.1.0.1", true), ("10.1.0.9", true)];
                s.member("b").slices.push(dispatched_slice(&old));
            },
            false,
            Reason::StaleEndpoints,
            "kubectl mcs adopt foo -n shop",
        ),
        (
            "Karmada carries it, and a copy of causeway's offers what is gone",
            |s| {
                s.carried_by_karmada();
                s.member("b").slices = vec![
                    dispatched_slice(&BOTH),
                    copy("6", &[("10.1.0.1", true), ("10.1.0.9", true)]),
                ];
            },
            false,
            Reason::StaleEndpoints,
            "kubectl mcs adopt foo -n shop",
        ),
        (
            "Karmada's slices are left beside causeway's",
            |s| s.member("b").slices.push(dispatched_slice(&BOTH)),
            false,
            Reason::LeftByKarmada,
            "kubectl mcs adopt foo -n shop",
        ),
        (
            "Karmada propagates the Service, and not everywhere",
            |s| {
                let (message, remedy) = (
                    "FullyApplied=False".to_owned(),
                    "the policy first".to_owned(),
                );
                s.unapplied = Some(Unapplied { message, remedy });
            },
            true,
            Reason::NotPropagated,
            "the policy first",
        ),
        (
            "its deletion hangs on Karmada's finalizer",
            |s| {
                let wish = s.wish.as_mut().expect("it");
                wish.metadata.deletion_timestamp = wish.metadata.creation_timestamp.clone();
                let finalizer = "karmada.io/multiclusterservice-controller".to_owned();
                wish.metadata.finalizers = Some(vec![finalizer]);
            },
            false,
            Reason::Deleting,
            "kubectl mcs adopt foo -n shop, with karmada-controller-manager started with --feature-gates=MultiClusterService=false",
        ),
        (
            "it is being deleted",
            |s| {
                let wish = s.wish.as_mut().expect("it");
                wish.metadata.deletion_timestamp = wish.metadata.creation_timestamp.clone();
                s.without_copies();
            },
            false,
            Reason::Deleting,
            "wait a moment",
        ),
        (
            "it is gone, and not all of it is collected",
            |s| s.wish = None,
            false,
            Reason::Leftovers,
            "kubectl mcs status shows which members are not Synced",
        ),
        (
            "it is of type LoadBalancer",
            |s| {
                s.wish.as_mut().expect("it").spec = from(json!({ "types": ["LoadBalancer"] }));
                s.without_copies();
            },
            true,
            Reason::LoadBalancer,
            "kubectl -n shop get mcs foo -o jsonpath='{.status.loadBalancer}'",
        ),
        (
            "the last change is not judged",
            |s| s.wish.as_mut().expect("it").metadata.generation = Some(2),
            true,
            Reason::NotCarriedOut,
            "kubectl mcs status foo -n shop --wait",
        ),
    ]);
}

#[test]
fn what_a_deletion_waits_for_is_told() {
    let mut scene = healthy();
    let wish = scene.wish.as_mut().expect("it");
    wish.metadata.deletion_timestamp = wish.metadata.creation_timestamp.clone();
    let finalizers = ["mcs.causeway.dev/cleanup", "example.com/theirs"];
    wish.metadata.finalizers = Some(finalizers.map(str::to_owned).into());
    let findings = all(&explain(&scene));
    let waits =
        "it waits for a, b to be cleaned, and for somebody else's finalizers: example.com/theirs";
    let told = |one: &Finding| one.reason == Reason::Deleting && one.message.ends_with(waits);
    assert!(findings.iter().any(told), "{findings:#?}");
}

#[test]
fn what_nothing_explains_is_told_in_the_controllers_words() {
    let mut scene = healthy();
    let conditions = json!([ready("False", "ServiceAppliedFailed", "b: quota exceeded")]);
    scene.wish = Some(service("foo", cross(&["a"], &["b"]), conditions));
    scene.without_copies();
    let findings = all(&explain(&scene));
    let told = |one: &Finding| {
        one.reason == Reason::UnderWay
            && one
                .message
                .contains("the controller says ServiceAppliedFailed (b: quota exceeded)")
    };
    assert!(findings.iter().any(told), "{findings:#?}");
}

#[test]
fn a_controller_that_does_not_run_is_told() {
    const LOOK: &str = "kubectl -n causeway-system get pods";
    let old = |s: &mut Scene| s.controller = lease("one", "2026-11-20T23:00:00.000000Z");
    let released = |s: &mut Scene| s.controller = lease("", "2026-11-20T23:59:59.000000Z");
    let never = |s: &mut Scene| s.controller = Controller::Lease("a/b".to_owned(), None);
    let not_asked = |s: &mut Scene| s.controller = Controller::NotAsked;
    hold(&[
        (
            "not renewed",
            old,
            false,
            Reason::ControllerNotRunning,
            LOOK,
        ),
        (
            "released",
            released,
            false,
            Reason::ControllerNotRunning,
            LOOK,
        ),
        (
            "never run",
            never,
            false,
            Reason::ControllerNotRunning,
            LOOK,
        ),
        ("not known", not_asked, true, Reason::Copied, ""),
    ]);
}

#[test]
fn an_object_that_does_not_read_is_told() {
    let mut scene = healthy();
    let wish: MultiClusterService = service("foo", json!({ "types": ["Nonsense"] }), json!([]));
    scene.wish = Some(wish);
    let explanation = explain(&scene);
    assert!(!explanation.ready);
    assert!(
        all(&explanation)
            .iter()
            .any(|one| one.reason == Reason::Invalid)
    );
}
