//! Committed outputs of views. All views render one table of states, and tests compare the output
//! byte for byte. A file holds each output once, after the names of all states that have it.
//!
//! `UPDATE_GOLDEN=1 cargo test -p kubectl-mcs --bins golden` rewrites the files.

use std::path::Path;

use causeway::api::labels;
use causeway::domain::ClusterName;
use causeway::domain::path::{self, PathLease, PathReport};
use causeway_engine::model::HubNamespace;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::cluster::karmada::binding::Unapplied;
use crate::cluster::karmada::tests::{dispatched_slice, work};
use crate::fixtures as status;
use crate::fixtures::{condition, cross, exported, ready, service};
use crate::observe::connect::ConnectError;
use crate::observe::fixtures::{BOTH, copy, core_service, from, healthy, source};
use crate::observe::service::Snapshot;

/// Name of a state, and the change that produces it from a healthy service.
type State = (&'static str, fn(&mut Snapshot));

const STATES: [State; 24] = [
    ("all is well", |_| ()),
    ("a consumer has no copies", |s| {
        s.without_copies();
    }),
    ("a copy is stale", |s| {
        s.member("b").slices = vec![copy("6", &BOTH[..1])];
    }),
    ("an endpoint is not ready", |s| {
        let endpoints = [("10.1.0.1", true), ("10.1.0.2", false)];
        s.member("a").slices = vec![source(&endpoints)];
        s.member("b").slices = vec![copy("7", &endpoints)];
    }),
    ("the consumer does not answer", |s| lose(s, "b")),
    ("the provider does not answer", |s| lose(s, "a")),
    ("the provider's Secret may not be read", |s| {
        let why = ConnectError::SecretForbidden("causeway-members".to_owned());
        s.members.insert("a".to_owned(), Err(why));
    }),
    ("the provider is drained", |s| {
        s.without_copies().annotate("a", labels::WITHDRAW, "true");
    }),
    ("deletions are suspended", |s| {
        let suspended = condition(
            "DeletionsSuspended",
            "True",
            "MassDisappearance",
            "3 of 3 gone",
        );
        let conditions = json!([ready("True", "Synced", "watched"), suspended]);
        s.clusters_mut()[0].status = status::cluster("a", conditions).status;
    }),
    ("the provider is unreachable for the controller", |s| {
        let conditions = json!([ready("False", "Unreachable", "connection refused")]);
        s.clusters_mut()[0].status = status::cluster("a", conditions).status;
    }),
    ("providers have tiers", |s| {
        let mcs = s.mcs.as_mut().expect("it");
        let annotations = mcs.metadata.annotations.get_or_insert_default();
        annotations.insert(
            "mcs.causeway.dev/prefer".to_owned(),
            "region, any".to_owned(),
        );
    }),
    ("the Namespace has defaults", |s| {
        let annotations = json!({"mcs.causeway.dev/prefer": "region, any"});
        let namespace = json!({"metadata": {"name": "shop", "annotations": annotations}});
        s.namespaces = Ok(vec![HubNamespace::read(from(namespace))]);
    }),
    ("the Namespace may not be read", |s| {
        s.namespaces = Err("namespaces \"shop\" is forbidden".to_owned());
    }),
    ("a foreign Service lacks the port", |s| {
        s.member("b").services = vec![core_service(false, &[("grpc", 9000)])];
    }),
    ("the Service is not on the hub", |s| {
        s.service = None;
        let why = ready("False", "ServiceNotFound", "no Service shop/foo");
        s.mcs = Some(service("foo", cross(&["a"], &["b"]), json!([why])));
    }),
    ("networks differ and Nodes may not be read", |s| {
        s.annotate("b", labels::NETWORK, "edge");
        s.annotate("a", labels::REACH, "node-ports");
        let failure = causeway_engine::model::Failure::new(
            causeway_engine::model::FailureKind::Forbidden,
            "nodes is forbidden",
        );
        s.member("a").nodes = Some(Err(failure));
    }),
    ("a consumer reports paths", |s| {
        s.annotate("b", labels::PATH_REPORTS, "true");
        let now = Timestamp::now();
        let report = |source: &str, path, since: &str| PathLease {
            source: ClusterName::try_from(source).expect("a name"),
            report: Some(PathReport {
                path,
                since: since.parse().expect("a time"),
                probed: now,
                answered: 0,
                tried: 3,
            }),
            is_seen: true,
        };
        s.member("b").paths = vec![
            report("a", path::Path::Bad, "2026-11-20T23:50:00Z"),
            report("c", path::Path::Good, "2026-11-20T23:40:00Z"),
        ];
    }),
    ("Works may not be listed", |s| s.works = None),
    ("the hub's identity is unknown", |s| s.hub_uid = None),
    ("Karmada manages it", |s| {
        s.works = Some(vec![
            work("a", "own"),
            work("a", "collected"),
            work("b", "dispatched"),
        ]);
        s.member("b").slices = vec![dispatched_slice(&BOTH)];
        let managed = ready("False", "ManagedByKarmada", "Works exist");
        let mut mcs = service("foo", cross(&["a"], &["b"]), json!([managed]));
        mcs.metadata.resource_version = Some("3".to_owned());
        mcs.metadata.finalizers = Some(
            [
                "karmada.io/multiclusterservice-controller",
                labels::FINALIZER,
            ]
            .map(str::to_owned)
            .into(),
        );
        s.mcs = Some(mcs);
    }),
    ("Karmada's slices are beside causeway's copies", |s| {
        s.works = Some(vec![work("a", "collected"), work("b", "dispatched")]);
        s.member("b").slices.push(dispatched_slice(&BOTH));
    }),
    ("Karmada does not propagate the Service", |s| {
        let (message, remedy) = ("FullyApplied=False", "the policy first");
        let (message, remedy) = (message.to_owned(), remedy.to_owned());
        s.unapplied = Some(Unapplied { message, remedy });
    }),
    ("it is exported and imported", |s| export(s, exported())),
    ("an export is refused and nothing else exposes it", |s| {
        let why = ready("False", "InvalidService", "no Service shop/foo");
        export(s, json!([why]));
        s.mcs = None;
        s.service = None;
    }),
];

fn lose(snapshot: &mut Snapshot, member: &str) {
    let members = &mut snapshot.members;
    members.insert(member.to_owned(), Err(ConnectError::Timeout(5)));
}

/// Lets `a` export the service with the given conditions, and `b` import it.
fn export(snapshot: &mut Snapshot, conditions: serde_json::Value) {
    let mut export = status::export("foo", conditions);
    export.metadata.uid = Some("uid-of-export".to_owned());
    export.metadata.resource_version = Some("1".to_owned());
    snapshot.member("a").exports = vec![export];
    let mut import = status::import("foo", &["10.96.0.9"], &["a"]);
    import.metadata.uid = Some("uid-of-import".to_owned());
    import.metadata.resource_version = Some("1".to_owned());
    let key = snapshot.key.derived();
    let derived = from(json!({
        "metadata": {
            "name": &*key.name, "namespace": "shop", "uid": "d1", "resourceVersion": "1",
            "labels": { "multicluster.kubernetes.io/service-name": "foo", "mcs.causeway.dev/hub": "hub" },
        },
        "spec": { "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{ "name": "http", "port": 80 }] },
    }));
    let consumer = snapshot.member("b");
    consumer.imports = vec![import];
    consumer.services.push(derived);
}

/// Time from which ages are computed.
pub(crate) fn now() -> Timestamp {
    "2026-11-21T00:00:00Z".parse().expect("a time")
}

/// Renders a view of every state and compares the result with the view's file.
pub(crate) fn check_states(view: &str, render: impl Fn(&Snapshot) -> String) {
    let states = STATES.iter().map(|(name, change)| {
        let mut snapshot = healthy();
        change(&mut snapshot);
        (*name, render(&snapshot))
    });
    check(view, states);
}

/// Returns the text of a report, followed by its JSON in one line.
pub(crate) fn both(text: &str, report: &impl Serialize) -> String {
    let json = serde_json::to_string(report).expect("JSON");
    format!("{}\n{json}\n", text.trim_end())
}

/// Compares named outputs with a committed file.
pub(crate) fn check<'a>(view: &str, outputs: impl Iterator<Item = (&'a str, String)>) {
    let mut distinct: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, output) in outputs {
        match distinct.iter_mut().find(|(known, _)| *known == output) {
            Some((_, names)) => names.push(name),
            None => distinct.push((output, vec![name])),
        }
    }
    let blocks = distinct.iter();
    let blocks = blocks.map(|(output, names)| format!("=== {}\n{output}", names.join("\n=== ")));
    let text = blocks.collect::<Vec<_>>().join("\n");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden");
    let file = directory.join(format!("{view}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &text).expect("it is written");
    }
    let committed = std::fs::read_to_string(&file).expect("a committed file");
    let mut lines = text.lines().zip(committed.lines()).enumerate();
    if let Some((number, (now, before))) = lines.find(|(_, (now, before))| now != before) {
        panic!("{view}.txt:{}:\n{before}\nis now\n{now}", number + 1);
    }
    assert_eq!(text.len(), committed.len(), "{view}.txt");
}
