use std::collections::BTreeMap;

use causeway::api::{Cluster, SyncMode, labels};
use causeway::domain::{ClustersetKind, ServiceKey};
use causeway_engine::messages::REPORT_SECRETS;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::cluster::lease::{Controller, REMEDY};
use crate::cluster::token::Validity;
use crate::fixtures::{cluster, condition, ready, synced};
use crate::observe::connect::ConnectError;
use crate::observe::installation::creation::Creation;
use crate::observe::installation::rights::MissingRight;
use crate::observe::installation::{Installation, Webhook};
use crate::observe::misplaced::Misplaced;

fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn webhook(ca_bundle: &str) -> Vec<Webhook> {
    vec![Webhook {
        name: "validate.mcs".to_owned(),
        client: from(json!({
            "caBundle": ca_bundle, "service": { "namespace": "causeway-system", "name": "causeway-webhook" },
        })),
    }]
}

fn deployment(available: i32, tag: &str) -> k8s_openapi::api::apps::v1::Deployment {
    from(json!({
        "metadata": { "name": "causeway-webhook", "namespace": "causeway-system" },
        "spec": {
            "replicas": 2, "selector": {},
            "template": { "spec": { "containers": [{ "name": "webhook", "image": format!("causeway/causeway-webhook:{tag}") }] } },
        },
        "status": { "replicas": 2, "updatedReplicas": 2, "availableReplicas": available },
    }))
}

fn endpoints(ready: bool) -> k8s_openapi::api::discovery::v1::EndpointSlice {
    from(json!({
        "metadata": { "name": "causeway-webhook-x" },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } }],
    }))
}

fn lease(holder: &str) -> Controller {
    let lease =
        json!({ "spec": { "holderIdentity": holder, "renewTime": "2026-11-20T23:59:55.000000Z" } });
    Controller::Lease(
        "causeway-system/causeway-controller".to_owned(),
        Some(from(lease)),
    )
}

fn misplaced(name: &str) -> Misplaced {
    let kind = ClustersetKind::ServiceExport;
    let (message, remedy) = causeway::domain::misplaced(kind, &ServiceKey::new("shop", name));
    Misplaced {
        kind: kind.to_string(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        message,
        remedy,
    }
}

/// Installation without problems.
fn whole() -> Installation {
    let now: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
    Installation {
        now,
        hub: "Kubernetes v1.36.3 at https://hub:6443".to_owned(),
        definitions: vec![("MultiClusterService", Ok(true)), ("Cluster", Ok(true))],
        registrations: vec![
            ("MutatingWebhookConfiguration", Ok(Some(webhook("eA==")))),
            ("ValidatingWebhookConfiguration", Ok(Some(webhook("eA==")))),
        ],
        endpoints: Ok(vec![endpoints(true)]),
        deployments: Ok(vec![deployment(2, env!("CARGO_PKG_VERSION"))]),
        controller: lease("controller-1"),
        clusters: Ok(vec![synced("a")]),
        answers: BTreeMap::new(),
        tokens: BTreeMap::new(),
        missing_rights: vec![
            ("causeway-webhook", Ok(Some(Vec::new()))),
            ("causeway-controller", Ok(Some(Vec::new()))),
        ],
        creation: Creation::Accepted,
        certificate: Ok(None),
        misplaced: Ok(Vec::new()),
    }
}

#[test]
fn a_complete_installation_is_healthy_check_by_check() {
    let checks = diagnose(&whole());
    let odd: Vec<_> = checks
        .iter()
        .filter(|check| !matches!(check.state, State::Healthy | State::Skipped))
        .collect();
    assert_eq!(odd, Vec::<&Check>::new());
    let names: Vec<_> = checks.iter().map(|check| check.name.as_str()).collect();
    let expected = [
        "hub",
        "definition of MultiClusterService",
        "definition of Cluster",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "webhook endpoints",
        "webhook certificate",
        "creation of MultiClusterServices",
        "deployment causeway-webhook",
        "controller",
        "rights of causeway-webhook",
        "rights of causeway-controller",
        "cluster a",
    ];
    assert_eq!(names, expected);
    let text = Report::new(checks).render();
    assert!(
        text.contains("\ncontroller                          Healthy   controller-1 leads\n"),
        "{text}"
    );
}

#[test]
fn token_is_reported_in_its_last_third() {
    let reported = |issued: &str, ends: &str| {
        let mut installation = whole();
        let time = |text: &str| text.parse().expect("a time");
        let (issued, ends) = (time(issued), time(ends));
        let validity = Validity { issued, ends };
        installation.tokens.insert("a".to_owned(), validity);
        let checks = diagnose(&installation);
        let of_token = checks.into_iter().find(|check| check.name == "token of a");
        of_token.map(|check| check.state)
    };
    for (issued, ends, state) in [
        ("2026-11-20T23:00:00Z", "2026-11-21T01:00:00Z", None),
        (
            "2026-11-20T00:00:00Z",
            "2026-11-21T01:00:00Z",
            Some(State::Warning),
        ),
        (
            "2026-11-20T00:00:00Z",
            "2026-11-21T00:00:00Z",
            Some(State::Unhealthy),
        ),
    ] {
        assert_eq!(reported(issued, ends), state, "{ends}");
    }
}

#[test]
fn secrets_that_the_controller_may_not_use_are_reported_where_its_flags_are_seen() {
    let reported = |args: Value, env: Value, namespace: &str| {
        let mut installation = whole();
        let mut controller = deployment(2, env!("CARGO_PKG_VERSION"));
        controller.metadata.name = Some("causeway-controller".to_owned());
        let pod = controller
            .spec
            .as_mut()
            .expect("a spec")
            .template
            .spec
            .as_mut();
        let container = &mut pod.expect("a pod").containers[0];
        (container.args, container.env) = (from(args), from(env));
        installation.deployments = Ok(vec![controller]);
        let mut cluster = synced("a");
        cluster.spec.secret_ref = Some(from(json!({ "namespace": namespace, "name": "a" })));
        installation.clusters = Ok(vec![cluster]);
        let checks = diagnose(&installation).into_iter();
        checks
            .filter(|check| check.name == "secret namespaces")
            .map(|check| check.message)
            .next()
    };
    let (none, karmadas) = (json!([]), "karmada-cluster");
    let message = reported(none.clone(), none.clone(), karmadas).expect("it is reported");
    assert!(
        message.ends_with("is not started with --secret-namespace=karmada-cluster"),
        "{message}"
    );
    let other = json!(["--secret-namespace=causeway-members"]);
    assert!(reported(other, none.clone(), karmadas).is_some());
    for (args, env, namespace) in [
        (none.clone(), none.clone(), "causeway-members"),
        (
            json!(["--secret-namespace=karmada-cluster"]),
            none.clone(),
            karmadas,
        ),
        (
            json!(["--secret-namespace=a,karmada-cluster"]),
            none.clone(),
            karmadas,
        ),
        (
            none,
            json!([{ "name": "CAUSEWAY_SECRET_NAMESPACE", "value": karmadas }]),
            karmadas,
        ),
    ] {
        assert_eq!(reported(args.clone(), env, namespace), None, "{args}");
    }
}

/// Name of a state, and the change that produces it from a complete installation.
type Row = (&'static str, fn(&mut Installation));

const ROWS: [Row; 30] = [
    ("an export on the hub", |i| {
        i.misplaced = Ok(vec![misplaced("foo")])
    }),
    ("no definitions", |i| i.definitions[0].1 = Ok(false)),
    ("definitions that may not be read", |i| {
        i.definitions[1].1 = Err("no".to_owned())
    }),
    ("no registration", |i| i.registrations[1].1 = Ok(None)),
    ("an empty registration", |i| {
        i.registrations[0].1 = Ok(Some(Vec::new()))
    }),
    ("no caBundle", |i| {
        i.registrations[0].1 = Ok(Some(webhook("")))
    }),
    ("no endpoint", |i| i.endpoints = Ok(vec![endpoints(false)])),
    ("endpoints that may not be read", |i| {
        i.endpoints = Err("no".to_owned())
    }),
    ("a replica is missing", |i| {
        i.deployments = Ok(vec![deployment(1, "0.1.0")])
    }),
    ("a roll-out that does not end", |i| {
        let mut stuck = deployment(2, "0.1.0");
        stuck.status.as_mut().expect("a status").updated_replicas = Some(1);
        i.deployments = Ok(vec![stuck]);
    }),
    ("a roll-out that did not begin", |i| {
        let mut ignored = deployment(2, "0.1.0");
        ignored.metadata.generation = Some(2);
        i.deployments = Ok(vec![ignored]);
    }),
    ("a webhook that does not answer", |i| {
        i.creation = Creation::Failed("connection refused".to_owned())
    }),
    ("a creation that is forbidden", |i| {
        i.creation = Creation::Unknown("forbidden".to_owned())
    }),
    ("a certificate of another authority", |i| {
        i.certificate = Ok(Some(b"none".to_vec()))
    }),
    ("a certificate that may not be read", |i| {
        i.certificate = Err("no".to_owned())
    }),
    ("another version", |i| {
        i.deployments = Ok(vec![deployment(2, "9.9.9")])
    }),
    ("no deployment", |i| i.deployments = Ok(Vec::new())),
    ("nobody leads", |i| i.controller = lease("")),
    ("a Lease that may not be read", |i| {
        i.controller = Controller::Unknown
    }),
    ("a controller without a Lease", |i| {
        i.controller = Controller::NoLease
    }),
    ("no member", |i| i.clusters = Ok(Vec::new())),
    ("a member that is not taken up", |i| {
        i.clusters = Ok(vec![cluster("a", json!([]))])
    }),
    ("a member out of reach", |i| {
        i.clusters = Ok(vec![cluster(
            "a",
            json!([ready("False", "Unreachable", "refused")]),
        )])
    }),
    ("a member out of reach whose deletions are suspended", |i| {
        let suspended = condition(
            "DeletionsSuspended",
            "True",
            "DeletionsSuspended",
            "deletions of 16 objects are suspended",
        );
        i.clusters = Ok(vec![cluster(
            "a",
            json!([ready("False", "Unreachable", "refused"), suspended]),
        )]);
    }),
    ("rights that are missing", |i| {
        let missing_rights = |resource: &str, namespace: Option<&str>| MissingRight {
            resource: resource.to_owned(),
            namespace: namespace.map(ToOwned::to_owned),
            verbs: vec!["list".to_owned(), "watch".to_owned()],
        };
        i.missing_rights[1].1 = Ok(Some(vec![
            missing_rights("services", None),
            missing_rights("secrets", Some("elsewhere")),
        ]));
    }),
    ("Works that the controller may not list", |i| {
        i.missing_rights[1].1 = Ok(Some(vec![MissingRight {
            resource: "works".to_owned(),
            namespace: None,
            verbs: vec!["list".to_owned()],
        }]));
    }),
    ("a controller of another account", |i| {
        i.missing_rights[1].1 = Ok(None)
    }),
    ("a member without the definitions", |i| {
        let served = condition("ClustersetAPI", "False", "NotServed", "not installed there");
        i.clusters = Ok(vec![cluster(
            "a",
            json!([ready("True", "Synced", "watched"), served]),
        )]);
    }),
    ("a cluster in Pull mode without credentials", |i| {
        let mut pull = synced("a");
        pull.spec = from(json!({ "syncMode": "Pull" }));
        i.clusters = Ok(vec![pull]);
    }),
    (
        "a cluster in Pull mode, whose karmada-agent may write the controller's Lease",
        |i| {
            let mut pull = synced("a");
            pull.spec.sync_mode = Some(SyncMode::Pull);
            pull.spec.secret_ref = Some(from(json!({"namespace": "karmada-cluster", "name": "a"})));
            i.clusters = Ok(vec![pull]);
        },
    ),
];

#[test]
fn what_is_wrong_with_an_installation_is_reported_with_its_remedy() {
    let golden = ROWS.iter().map(|(what, change)| {
        let mut installation = whole();
        change(&mut installation);
        let report = Report::new(diagnose(&installation));
        let text = crate::golden::both(&report.render(), &report);
        (*what, format!("{text}{:?}\n", report.exit_state()))
    });
    crate::golden::check("check", golden);
}

fn deleted(mut cluster: Cluster, finalizer: &str) -> Cluster {
    cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    cluster.metadata.finalizers = Some(vec![finalizer.to_owned()]);
    cluster
}

#[test]
fn cluster_is_reported_with_its_cause_and_remedy() {
    const OTHER_CONTROLLER: &str = "stop one of the two controllers there, or delete the named \
        object if the program does not run there; docs/clusterset.md#another-controller";
    let unreachable = cluster("a", json!([ready("False", "Unreachable", "refused")]));
    let mut pull = synced("a");
    pull.spec = from(json!({ "syncMode": "Pull" }));
    let mut changed = synced("a");
    changed.metadata.generation = Some(2);
    let mut awaited = unreachable.clone();
    awaited.metadata.generation = Some(2);
    let other = condition("ClustersetAPI", "True", "ManagedByOther", "another manages");
    let shared = cluster("a", json!([ready("True", "Synced", "watched"), other]));
    for (cluster, state, said, remedy) in [
        (
            deleted(synced("a"), labels::FINALIZER),
            State::Unhealthy,
            "being deleted (finalizers: mcs.causeway.dev/cleanup)",
            Some(REMEDY),
        ),
        (
            deleted(unreachable.clone(), labels::FINALIZER),
            State::Unhealthy,
            "being deleted (finalizers: mcs.causeway.dev/cleanup): Unreachable (refused)",
            Some(REMEDY),
        ),
        (
            deleted(unreachable, "example.com/a"),
            State::Unhealthy,
            "being deleted (finalizers: example.com/a)",
            None,
        ),
        (
            deleted(pull, "example.com/a"),
            State::Skipped,
            "in Pull mode without credentials, so causeway does not serve it",
            Some(REPORT_SECRETS),
        ),
        (
            changed,
            State::Unhealthy,
            "the last change is not applied yet",
            Some(REMEDY),
        ),
        (
            awaited,
            State::Unhealthy,
            "Ready is False: Unreachable (refused)",
            Some("kubectl mcs status; docs/troubleshooting.md#a-member-is-not-synced"),
        ),
        (
            shared,
            State::Warning,
            "another manages",
            Some(OTHER_CONTROLLER),
        ),
    ] {
        let installation = Installation {
            clusters: Ok(vec![cluster]),
            ..whole()
        };
        let checks = diagnose(&installation);
        let found = checks.iter().find(|check| check.name == "cluster a");
        let found = found.map(|check| (check.state, &*check.message, check.remedy.as_deref()));
        assert_eq!(found, Some((state, said, remedy)));
    }
}

fn is_good(check: &Check) -> bool {
    matches!(
        check.state,
        State::Healthy | State::Warning | State::Skipped
    )
}

#[test]
fn of_many_exports_on_the_hub_a_few_are_named_and_the_others_counted() {
    let mut installation = whole();
    installation.misplaced = Ok(vec![misplaced("foo"); 7]);
    let checks = diagnose(&installation);
    let named = checks
        .iter()
        .filter(|check| check.message.contains("shop/foo"));
    assert_eq!(named.count(), 5);
    let last = checks.last().expect("a check");
    assert!(last.message.starts_with("2 more"), "{last:?}");
    installation.misplaced = Err("no".to_owned());
    let checks = diagnose(&installation);
    let last = checks.last().expect("a check");
    assert_eq!(
        (last.state, &*last.message),
        (State::Unknown, "not checked: no")
    );
}

#[test]
fn a_webhook_that_is_registered_by_its_address_has_no_endpoints_on_the_hub() {
    let mut installation = whole();
    let by_url = Webhook {
        name: "validate.mcs".to_owned(),
        client: from(json!({ "caBundle": "eA==", "url": "https://webhook.example:9443/validate" })),
    };
    for (_, registration) in &mut installation.registrations {
        *registration = Ok(Some(vec![by_url.clone()]));
    }
    installation.endpoints = Ok(Vec::new());
    let checks = diagnose(&installation);
    assert!(checks.iter().all(is_good), "{checks:#?}");
}

#[test]
fn unread_certificate_is_unknown_without_a_dry_run() {
    let mut installation = whole();
    installation.certificate = Err("no".to_owned());
    installation.creation = Creation::Unknown("forbidden".to_owned());
    let checks = diagnose(&installation);
    let certificate = checks.iter().find(|one| one.name == "webhook certificate");
    assert_eq!(certificate.map(|one| one.state), Some(State::Unknown));
}

#[test]
fn members_of_a_karmada_control_plane_are_reported_by_their_answer() {
    let cluster = |name: &str| {
        let mut cluster = synced(name);
        let status = cluster.status.as_mut().expect("a status");
        status.conditions[0].reason = "ClusterReady".to_owned();
        cluster
    };
    for (answer, state, said) in [
        (
            Ok(()),
            State::Healthy,
            "its API server answers with the credentials on the hub",
        ),
        (
            Err(ConnectError::Failed("connection refused".to_owned())),
            State::Unknown,
            "its API server was not reached from here (connection refused)",
        ),
        (
            Err(ConnectError::NotAllowed("Unauthorized".to_owned())),
            State::Unhealthy,
            "forbidden: Unauthorized; if the hub stores these credentials, join it again",
        ),
        (
            Err(ConnectError::SecretForbidden("karmada-cluster".to_owned())),
            State::Unknown,
            "not checked: you may not read the Secrets",
        ),
        (
            Err(ConnectError::FlagsForbidden("vault".to_owned())),
            State::Unknown,
            "not checked: you may not read Deployment causeway-system/causeway-controller",
        ),
        (
            Err(ConnectError::Tunnel("and no pod of it runs".to_owned())),
            State::Unknown,
            "not checked: the hub reaches it through causeway-tunnel, and no pod of it runs",
        ),
        (
            Err(ConnectError::OfProfile {
                namespace: "fleet".to_owned(),
                name: "a".to_owned(),
            }),
            State::Unknown,
            "not checked: ClusterProfile fleet/a says how it is reached",
        ),
    ] {
        let installation = Installation {
            clusters: Ok(vec![cluster("a")]),
            answers: BTreeMap::from([("a".to_owned(), answer)]),
            ..whole()
        };
        let checks = diagnose(&installation);
        let found = checks.iter().find(|check| check.name == "cluster a");
        let found = found.expect("a check");
        assert_eq!(found.state, state, "{}", found.message);
        assert!(found.message.starts_with(said), "{}", found.message);
    }
}
