//! Scenarios of ServiceExports and ServiceImports.

use super::native::{join_twice, no_labels, protect, relabel_copy, terminating_namespace};
use super::*;
use crate::fixtures::HUB_UID;
use crate::observed::quota::Quota;

/// Creates the export again, with another label.
fn export_with(labelled: Value) -> Object {
    export("foo").with(json!({"metadata": {"labels": labelled}}))
}

/// Returns an environment whose importer has the import of a user.
fn imported_by_hand() -> Environment {
    let mut env = exported();
    env.off(CONSUMER, Kind::Import, "foo");
    env.on(CONSUMER, import("foo").port("http", 80));
    env.settle();
    env
}

/// Removes the known exports, and both objects that record the import in the importer, before a
/// process starts that does not reach member2.
fn lose_records(env: &mut Environment) -> &mut Environment {
    env.lose("member2").restart();
    env.off("member1", Kind::Export, "foo");
    env.off(CONSUMER, Kind::Import, "foo");
    env.off(CONSUMER, Kind::Service, "derived-foo")
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "an exporter is a second name of another cluster",
        begin: exported,
        change: |env| join_twice(env),
        left: "member1",
    },
    Rule {
        name: "an exporter is in Pull mode without credentials",
        begin: exported,
        change: |env| env.pull_without_credentials("member2"),
        left: "member1 member2",
    },
    Rule {
        name: "an exporter may not export from the namespace",
        begin: exported,
        change: |env| {
            let others = json!({labels::EXPORT_NAMESPACES: "other"});
            env.on_hub(cluster("member2").annotated(&others))
        },
        left: "member1",
    },
    Rule {
        name: "an imported export is beyond a lower quota",
        begin: exported,
        change: |env| {
            env.settings.quota = Quota {
                exports: 0,
                metadata: 0,
            };
            env.restart()
        },
        left: "member1 member2",
    },
    Rule {
        name: "the Service of an export becomes an ExternalName",
        begin: exported,
        change: |env| {
            let external = json!({"spec": {"type": "ExternalName", "externalName": "example.org"}});
            env.on("member2", foo().with(external))
        },
        left: "member1",
    },
    Rule {
        name: "an export becomes another hub's",
        begin: exported,
        change: |env| {
            let theirs = json!({labels::HUB: "another-hub", labels::MANAGED_BY: labels::MANAGER});
            env.on("member2", export_with(theirs))
        },
        left: "member1",
    },
    Rule {
        name: "an export becomes that of a MultiClusterService",
        begin: exported,
        change: |env| {
            let ours = json!({labels::HUB: HUB_UID, labels::MANAGED_BY: labels::MANAGER});
            let owner = json!({labels::OWNER: "MultiClusterService/uid"});
            env.on("member2", export_with(ours).annotated(&owner))
        },
        left: "member1",
    },
    Rule {
        name: "the ports of an exporter conflict",
        begin: exported,
        change: |env| env.on("member2", service("foo").port("http", 81)),
        left: "member1",
    },
    Rule {
        name: "the namespace of the exports is protected",
        begin: exported,
        change: protect,
        left: "member1 member2",
    },
    Rule {
        name: "a second list lacks the exports of a provider",
        begin: exported,
        change: |env| env.forgets("member2", Kind::Export, 0).list("member2"),
        left: "member1",
    },
    Rule {
        name: "a new process lists no export of an exporter at first",
        begin: exported,
        change: |env| {
            env.forgets("member2", Kind::Export, 0)
                .restart()
                .remembers()
        },
        left: "member1 member2",
    },
    Rule {
        name: "a new process lists no export of an exporter twice",
        begin: exported,
        change: |env| env.forgets("member2", Kind::Export, 0).restart(),
        left: "member1",
    },
    Rule {
        name: "an exporter no longer serves ServiceExports",
        begin: exported,
        change: |env| {
            env.server("member2").served.exports = None;
            env.introduce("member2").list("member2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "an exporter runs a release of Kubernetes that is too old",
        begin: exported,
        change: |env| env.upgrade("member2", "uid-of-member2", (1, 20)),
        left: "member1 member2",
    },
    Rule {
        name: "a farther tier of an importer stands by",
        begin: exported,
        change: |env| {
            for provider in ["member1", "member2"] {
                let prefer = json!({labels::PREFER: "cluster/member1, any"});
                env.on(provider, export("foo").annotated(&prefer));
            }
            env
        },
        left: "member1 member2",
    },
    Rule {
        name: "the importer is in Pull mode without credentials",
        begin: exported,
        change: |env| env.pull_without_credentials(CONSUMER),
        left: "member1 member2",
    },
    Rule {
        name: "the namespace is deleted in the importer",
        begin: exported,
        change: |env| env.on(CONSUMER, terminating_namespace()),
        left: "member1 member2",
    },
    Rule {
        name: "the importer loses its import",
        begin: exported,
        change: |env| env.off(CONSUMER, Kind::Import, "foo"),
        left: "member1 member2",
    },
    Rule {
        name: "the importer loses its derived Service",
        begin: exported,
        change: |env| env.off(CONSUMER, Kind::Service, "derived-foo"),
        left: "member1 member2",
    },
    Rule {
        name: "a hand-made import names another port",
        begin: imported_by_hand,
        change: |env| env.on(CONSUMER, import("foo").port("other", 81)),
        left: "",
    },
    Rule {
        name: "a hand-made import outlives the exports",
        begin: imported_by_hand,
        change: |env| {
            for provider in ["member1", "member2"] {
                env.off(provider, Kind::Export, "foo");
            }
            env
        },
        left: "",
    },
    Rule {
        name: "the import becomes another hub's",
        begin: exported,
        change: |env| {
            let theirs = json!({"metadata": {"labels": {labels::HUB: "another-hub"}}});
            env.amend(CONSUMER, Kind::Import, "foo", theirs)
        },
        left: "member1 member2",
    },
    Rule {
        name: "the exports end while an exporter is unreachable",
        begin: || exported_as(json!({labels::UNREACHABLE: "keep"})),
        change: |env| env.lose("member2").off("member1", Kind::Export, "foo"),
        left: "member2",
    },
    Rule {
        name: "the importer loses its import while an exporter is unknown",
        begin: || {
            let keep = json!({labels::UNREACHABLE: "keep", labels::PREFER: "cluster/member1, any"});
            exported_as(keep)
        },
        change: |env| {
            env.lose("member2")
                .restart()
                .off(CONSUMER, Kind::Import, "foo")
        },
        left: "member1 member2",
    },
    Rule {
        name: "the importer has copies without a record, and an exporter is unknown",
        begin: exported,
        change: lose_records,
        left: "member1 member2",
    },
    Rule {
        name: "a person's Service has the derived name, and an exporter is unknown",
        begin: exported,
        change: |env| {
            lose_records(env);
            env.on(CONSUMER, service("derived-foo").port("http", 80))
        },
        left: "",
    },
    Rule {
        name: "the importer refuses the address family of the derived Service",
        begin: exported,
        change: |env| {
            let text = "Service \"derived-foo\" is invalid: spec.ipFamilies[0]: Invalid value: \
                        \"IPv4\": not configured on this cluster";
            let failure = Failure::new(FailureKind::Invalid, text);
            env.server(CONSUMER).refuses = Some((Kind::Service, failure));
            env.off(CONSUMER, Kind::Service, "derived-foo")
        },
        left: "",
    },
    Rule {
        name: "a copy behind an import loses its labels",
        begin: exported,
        change: |env| relabel_copy(env, "derived-foo", no_labels()),
        left: "member1 member2",
    },
];
