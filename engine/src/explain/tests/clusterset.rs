use causeway::api::labels;
use serde_json::json;

use super::{
    all, annotate, assert_said, backed, explained, foo, hold, source, terminate_namespace,
};
use crate::explain::{Diagnosis, explain};
use crate::fixtures::objects::{Kind, Object, export, import, mcs, service};
use crate::fixtures::{Environment, key};
use crate::model::served::Served;
use crate::model::{Failure, FailureKind};
use crate::plan::Settings;
use crate::reasons::Reason;

/// Returns `shop/foo`, which a exports and both members import.
fn exported() -> Environment {
    let mut env = backed();
    env.on("a", foo()).on("a", export("foo")).settle();
    env
}

#[test]
fn an_exported_service_is_explained_in_every_cluster_with_the_namespace() {
    let explanation = explained(&exported());
    assert!(explanation.ready, "{explanation:#?}");
    let exposure = &explanation.exposures[0];
    assert_eq!(exposure.address, "foo.shop.svc.clusterset.local");
    let consumers = exposure.consumers.iter().map(|one| one.cluster.as_str());
    let consumers: Vec<_> = consumers.collect();
    assert_eq!(consumers, ["a", "b"], "the exporter imports it too");
}

#[test]
fn refused_imports_of_the_hub_are_unknown_beside_karmadas_service() {
    let mut env = exported();
    let is_unread = |env: &Environment| {
        let (mut hub, members) = env.lists();
        hub.imports = Err(Failure::new(FailureKind::Forbidden, "no"));
        let settings = Settings::reported(&hub, &members, &key("foo"));
        let explanation = explain(&hub, &members, &settings, &key("foo"), env.now());
        let diagnoses = all(&explanation);
        let mut reasons = diagnoses.iter().map(|one| one.reason);
        let is_unread = reasons.any(|reason| reason == Reason::ImportNotRead);
        assert_eq!(explanation.is_wrong_only_where_unread(), is_unread);
        assert_eq!(explanation.ready, !is_unread, "{diagnoses:#?}");
        is_unread
    };
    assert!(!is_unread(&env));
    env.on_hub(service("derived-foo").port("http", 80)).settle();
    assert!(is_unread(&env));
    assert!(explained(&env).ready);
}

#[test]
fn what_is_wrong_with_an_export_is_reported() {
    hold(
        exported,
        &[
            (
                "a namespace that it may not export from",
                |env| annotate(env, "a", labels::EXPORT_NAMESPACES, "web").settle(),
                false,
                Reason::ExportRefused,
                "export-namespaces=web,shop",
            ),
            (
                "an export without its Service",
                |env| {
                    env.off("a", Kind::Service, "foo")
                        .pass(crate::fixtures::GRACE * 2)
                },
                false,
                Reason::NoProviderService,
                "in a: kubectl -n shop create service clusterip foo",
            ),
            (
                "the exporter is drained",
                |env| annotate(env, "a", labels::WITHDRAW, "true").settle(),
                false,
                Reason::Drained,
                "kubectl mcs drain a --undo",
            ),
            (
                "the exporter is out of reach, and what it gave is kept",
                |env| env.lose("a").settle(),
                false,
                Reason::Kept,
                "",
            ),
            (
                "pods that are not exported",
                |env| env.on("b", source(&["10.2.0.1"])).settle(),
                true,
                Reason::NotNamed,
                "make a ServiceExport shop/foo",
            ),
            (
                "exports that disagree",
                |env| {
                    let both = source(&["10.2.0.1"]).port("admin", 8081);
                    env.on("b", foo().port("admin", 81)).on("b", both);
                    env.on("b", export("foo")).settle()
                },
                true,
                Reason::ExportsDisagree,
                "kubectl mcs status foo -n shop",
            ),
        ],
    );
}

#[test]
fn what_keeps_endpoints_from_an_import_is_reported() {
    hold(
        exported,
        &[
            (
                "a cluster without the namespace",
                |env| env.member("c").off("c", Kind::Namespace, "shop").settle(),
                true,
                Reason::NotImported,
                "in c: kubectl create namespace shop",
            ),
            (
                "a namespace that is terminating",
                terminate_namespace,
                false,
                Reason::NamespaceTerminating,
                "in b: kubectl describe namespace shop",
            ),
            (
                "no definitions",
                |env| {
                    env.silent_member("c");
                    env.server("c").served = Served::default();
                    env.introduce("c").list("c").settle()
                },
                false,
                Reason::DefinitionMissing,
                "kubectl mcs join c --member-kubeconfig FILE; \
                 or apply manifests/crds/member/ in c",
            ),
            (
                "somebody's Service of the derived name",
                |env| {
                    env.member("c")
                        .on("c", service("derived-foo").port("http", 80))
                        .settle()
                },
                false,
                Reason::ServiceConflict,
                "in c: kubectl -n shop delete service derived-foo",
            ),
            (
                "an address outside the ranges",
                |env| annotate(env, "a", labels::ENDPOINT_CIDRS, "10.9.0.0/16").settle(),
                false,
                Reason::AddressOutsideRanges,
                "kubectl annotate cluster a --overwrite mcs.causeway.dev/endpoint-cidrs=10.9.0.0/16,10.1.0.1/32",
            ),
            (
                "a person's import without the addresses of the derived Service",
                |env| {
                    env.member("c")
                        .on("c", import("foo").port("http", 80))
                        .settle()
                },
                false,
                Reason::NameNotResolved,
                "in c: kubectl -n shop patch serviceimport foo",
            ),
        ],
    );
}

#[test]
fn an_export_beyond_the_quota_is_reported_though_the_other_exports_are_not_seen() {
    let mut env = exported();
    env.settings.quota.exports = 1;
    env.pass(std::time::Duration::from_secs(1));
    env.on("a", service("bar").port("http", 80))
        .on("a", export("bar"))
        .settle();
    let (hub, mut members) = env.lists();
    let lists = members
        .get_mut("a")
        .expect("a member")
        .as_mut()
        .expect("lists");
    lists
        .exports
        .retain(|one| one.metadata.name.as_deref() == Some("bar"));
    let settings = Settings::default();
    let explanation = explain(&hub, &members, &settings, &key("bar"), env.now());
    let all = all(&explanation);
    let reported = all.iter().any(|one| one.reason == Reason::QuotaExceeded);
    assert!(reported, "{all:#?}");
}

#[test]
fn an_export_of_another_hubs_causeway_exposes_nothing() {
    let mut env = backed();
    let other = json!({"metadata": {"labels": {labels::HUB: "another"}}});
    env.on("a", foo())
        .on("a", export("foo").with(other))
        .settle();
    assert_said(&env, Reason::NotExposed, "no member exports");
}

#[test]
fn objects_kept_for_an_import_made_by_hand_are_no_leftovers() {
    fn by_hand() -> Object {
        import("foo").with(json!({"spec": {"ports": [{"port": 80}]}}))
    }
    let alone = |env: &mut Environment| {
        env.on("b", by_hand()).settle();
    };
    let beside_native = |env: &mut Environment| {
        env.on_hub(foo())
            .on_hub(mcs("foo").providers(&["a"]).consumers(&["b"]));
        env.on("b", by_hand()).settle();
    };
    let name_taken = |env: &mut Environment| {
        env.on("b", service("derived-foo").port("http", 80));
        env.on("b", by_hand()).settle();
    };
    let kept = "Service shop/derived-foo there, which gets endpoints once a member exports";
    type Make = fn(&mut Environment);
    let cases: [(&str, Make, &str); 3] = [
        ("nothing else", alone, kept),
        ("a MultiClusterService of the name", beside_native, kept),
        (
            "its Service's name is taken",
            name_taken,
            "it has no Service: b ",
        ),
    ];
    for (case, make, part) in cases {
        let mut env = backed();
        make(&mut env);
        let explanation = explained(&env);
        let mut diagnoses = explanation.diagnoses.iter();
        let is_it = |one: &&Diagnosis| {
            one.reason == Reason::ImportWithoutExport && one.message.contains(part)
        };
        assert!(diagnoses.any(|one| is_it(&one)), "{case}: {explanation:#?}");
        let mut diagnoses = explanation.diagnoses.iter();
        let is_left = diagnoses.any(|one| one.reason == Reason::Leftovers);
        assert!(!is_left, "{case}: {explanation:#?}");
    }
}

#[test]
fn native_leftovers_beside_an_export_are_reported() {
    let mut env = exported();
    env.on_hub(foo())
        .on_hub(mcs("foo").providers(&["a"]).consumers(&["b"]));
    env.settle();
    let (mut hub, members) = env.lists();
    hub.multi_cluster_services.clear();
    let explanation = explain(&hub, &members, &env.settings, &key("foo"), env.now());
    let mut diagnoses = explanation.diagnoses.iter();
    let is_left = |one: &Diagnosis| one.reason == Reason::Leftovers && one.message.contains(" b;");
    assert!(diagnoses.any(is_left), "{explanation:#?}");
}
