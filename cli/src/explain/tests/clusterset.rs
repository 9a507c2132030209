use serde_json::json;

use super::*;
use crate::reach::ReachError;
use crate::status::fixtures::{self, cluster, condition};

/// The same service, exported by a and imported by both.
fn exported() -> Scene {
    let mut scene = healthy();
    scene.wish = None;
    for name in ["a", "b"] {
        let member = scene.member(name);
        let mut derived = core_service(true, &[("http", 80)]);
        derived.metadata.name = Some("derived-foo".to_owned());
        let marks = derived.metadata.labels.get_or_insert_default();
        marks.insert(
            "multicluster.kubernetes.io/service-name".to_owned(),
            "foo".to_owned(),
        );
        let mut copied = copy("7", &BOTH);
        let labels = copied.metadata.labels.as_mut().expect("labels");
        labels.insert(
            "kubernetes.io/service-name".to_owned(),
            "derived-foo".to_owned(),
        );
        member.services.push(derived);
        member
            .slices
            .retain(|slice| slice.metadata.name.as_deref() == Some("foo-abc"));
        member.slices.push(copied);
        member.imports = vec![fixtures::import("foo", &["10.65.0.1"], &["a"])];
    }
    scene.member("a").exports = vec![fixtures::export("foo", fixtures::exported())];
    scene
}

#[test]
fn an_exported_service_is_explained_in_every_cluster_with_the_namespace() {
    let explanation = explain(&exported());
    assert!(explanation.ready, "{:#?}", all(&explanation));
    let way = &explanation.ways[0];
    assert_eq!(way.address, "foo.shop.svc.clusterset.local");
    let consumers: Vec<_> = way
        .consumers
        .iter()
        .map(|one| one.cluster.as_str())
        .collect();
    assert_eq!(consumers, ["a", "b"], "the exporter imports it too");
}

#[test]
fn what_is_wrong_with_an_export_is_told() {
    let forbidden = |s: &mut Scene| {
        s.annotate("a", "mcs.causeway.dev/export-namespaces", "web");
    };
    let invalid = |s: &mut Scene| {
        let conditions = json!([condition("Valid", "False", "NoService", "there is none")]);
        s.member("a").exports = vec![fixtures::export("foo", conditions)];
    };
    let not_served = |s: &mut Scene| {
        let served = condition("ClustersetAPI", "False", "NotServed", "not installed there");
        s.replace(cluster(
            "b",
            json!([ready("True", "Synced", "watched"), served]),
        ));
        s.without_copies();
    };
    let not_exported = |s: &mut Scene| s.member("b").slices.push(source(&BOTH));
    hold_in(
        exported,
        &[
            (
                "a namespace that it may not export from",
                forbidden,
                false,
                Reason::ExportRefused,
                "export-namespaces=web,shop",
            ),
            (
                "an invalid export",
                invalid,
                false,
                Reason::ExportRefused,
                "kubectl mcs status foo -n shop",
            ),
            (
                "no definitions",
                not_served,
                false,
                Reason::DefinitionMissing,
                "kubectl mcs join b",
            ),
            (
                "pods that are not exported",
                not_exported,
                true,
                Reason::NotNamed,
                "make a ServiceExport shop/foo",
            ),
        ],
    );
}

#[test]
fn what_is_wrong_with_a_cluster_of_the_clusterset_is_told() {
    let lost_exporter = |s: &mut Scene| {
        s.replace(cluster(
            "a",
            json!([ready("False", "Unreachable", "connection refused")]),
        ));
        s.members.insert(
            "a".to_owned(),
            Err(ReachError::Failed("connection refused".to_owned())),
        );
    };
    hold_in(
        exported,
        &[
            (
                "the exporter is drained",
                |s| {
                    s.without_copies()
                        .annotate("a", "mcs.causeway.dev/withdraw", "true");
                },
                false,
                Reason::Drained,
                "kubectl mcs drain a --undo",
            ),
            (
                "the exporter is out of reach, and what it gave is kept",
                lost_exporter,
                false,
                Reason::Kept,
                "",
            ),
            (
                "the exporter is out of reach",
                lost_exporter,
                false,
                Reason::MemberUnreachable,
                "kubectl mcs drain a",
            ),
            (
                "the importer is out of reach",
                |s| {
                    s.replace(cluster(
                        "b",
                        json!([ready("False", "Unreachable", "connection refused")]),
                    ));
                    s.without_copies();
                },
                false,
                Reason::MemberUnreachable,
                "--api-endpoint",
            ),
            (
                "the importer is refused",
                |s| {
                    s.replace(cluster(
                        "b",
                        json!([ready("False", "Refused", "another cluster")]),
                    ))
                },
                false,
                Reason::MemberRefused,
                "kubectl mcs join b",
            ),
            (
                "the importer's namespace is on its way out",
                |s| {
                    s.without_copies().member("b").namespace = from(
                        json!({ "metadata": { "deletionTimestamp": "2026-11-20T23:00:00Z" } }),
                    );
                },
                false,
                Reason::NamespaceTerminating,
                "in b: kubectl describe namespace shop",
            ),
            (
                "a cluster without the namespace",
                |s| {
                    s.clusters.push(synced("c"));
                    s.members.insert("c".to_owned(), Ok(Held::default()));
                },
                true,
                Reason::NotImported,
                "in c: kubectl create namespace shop",
            ),
            (
                "a list that is not believed",
                |s| {
                    let believed =
                        condition("ListsBelieved", "False", "LossHeld", "it lacks 20 objects");
                    s.replace(cluster(
                        "a",
                        json!([ready("True", "Synced", "watched"), believed]),
                    ));
                },
                true,
                Reason::ListNotBelieved,
                "wait half a minute",
            ),
        ],
    );
}

#[test]
fn what_keeps_endpoints_from_an_import_is_told() {
    let derived = |s: &mut Scene| {
        let services = &mut s.without_copies().member("b").services;
        services.retain(|one| one.metadata.name.as_deref() != Some("derived-foo"));
    };
    hold_in(
        exported,
        &[
            (
                "exports that disagree",
                |s| {
                    let conflict = condition(
                        "Conflict",
                        "True",
                        "TypeConflict",
                        "ClusterSetIP here, Headless in c",
                    );
                    s.member("a").exports = vec![fixtures::export("foo", json!([conflict]))];
                },
                true,
                Reason::ExportsDisagree,
                "kubectl mcs status foo -n shop",
            ),
            (
                "a port that another cluster exports",
                |s| {
                    for name in ["a", "b"] {
                        let member = s.member(name);
                        let mut admin = member.imports[0].spec.ports[0].clone();
                        (admin.name, admin.port) = (Some("admin".to_owned()), 81);
                        member.imports[0].spec.ports.push(admin);
                        let derived = member.services.iter_mut();
                        let mut derived = derived
                            .filter(|one| one.metadata.name.as_deref() == Some("derived-foo"));
                        let spec = derived.next().and_then(|one| one.spec.as_mut());
                        spec.expect("a spec").ports = from(json!([
                            { "name": "http", "port": 80, "protocol": "TCP" },
                            { "name": "admin", "port": 81, "protocol": "TCP" },
                        ]));
                    }
                },
                true,
                Reason::Copied,
                "",
            ),
            (
                "no derived Service",
                derived,
                false,
                Reason::ServiceMissing,
                "kubectl mcs status foo -n shop",
            ),
            (
                "a person's import without the addresses of the derived Service",
                |s| {
                    let member = s.member("b");
                    let mut theirs = fixtures::import("foo", &[], &["a"]);
                    theirs.metadata.labels = None;
                    member.imports = vec![theirs];
                    let mut derived = member.services.iter_mut();
                    let derived =
                        derived.find(|one| one.metadata.name.as_deref() == Some("derived-foo"));
                    let spec = derived.and_then(|one| one.spec.as_mut()).expect("a spec");
                    spec.cluster_ips = Some(vec!["10.65.0.9".to_owned()]);
                },
                false,
                Reason::NameNotResolved,
                "in b: kubectl -n shop patch serviceimport foo --type=merge -p '{\"spec\":{\"ips\":[\"10.65.0.9\"]}}'",
            ),
            (
                "somebody's Service of the derived name",
                |s| {
                    let mut theirs = core_service(false, &[("http", 80)]);
                    theirs.metadata.name = Some("derived-foo".to_owned());
                    s.without_copies().member("b").services = vec![theirs];
                },
                false,
                Reason::ServiceConflict,
                "in b: kubectl -n shop delete service derived-foo",
            ),
            (
                "somebody's Service of the derived name, to which copies still belong",
                |s| {
                    let mut theirs = core_service(false, &[("http", 80)]);
                    theirs.metadata.name = Some("derived-foo".to_owned());
                    s.member("b").services = vec![theirs];
                },
                false,
                Reason::ServiceConflict,
                "in b: kubectl -n shop delete service derived-foo",
            ),
            (
                "a Service of the derived name that a MultiClusterService delivers",
                |s| {
                    let mut theirs = core_service(true, &[("http", 80)]);
                    theirs.metadata.name = Some("derived-foo".to_owned());
                    s.without_copies().member("b").services = vec![theirs];
                },
                false,
                Reason::ServiceConflict,
                "give MultiClusterService shop/derived-foo another name",
            ),
            (
                "an exporter without the Service",
                |s| {
                    s.without_copies();
                    s.member("a")
                        .services
                        .retain(|one| one.metadata.name.as_deref() != Some("foo"));
                },
                false,
                Reason::NoProviderService,
                "in a: kubectl -n shop create service clusterip foo",
            ),
            (
                "no endpoints",
                |s| {
                    s.without_copies();
                    s.member("a").slices.clear();
                },
                false,
                Reason::NoEndpoints,
                "kubectl -n shop get pods",
            ),
            (
                "an address outside the ranges",
                |s| {
                    s.without_copies().annotate(
                        "a",
                        "mcs.causeway.dev/endpoint-cidrs",
                        "10.9.0.0/16",
                    );
                },
                false,
                Reason::AddressOutsideRanges,
                "kubectl annotate cluster a --overwrite mcs.causeway.dev/endpoint-cidrs=10.9.0.0/16,10.1.0.1/32",
            ),
            (
                "a slice that a person keeps and that is on its way",
                |s| {
                    s.without_copies();
                    let labels = json!({ "kubernetes.io/service-name": "foo" });
                    s.member("a").slices[0].metadata.labels = from(labels);
                },
                false,
                Reason::UnderWay,
                "the log of causeway-controller",
            ),
            (
                "an export of another hub's causeway",
                |s| {
                    let export = &mut s.member("a").exports[0];
                    export.metadata.labels = from(json!({ "mcs.causeway.dev/hub": "another" }));
                    s.member("a").imports.clear();
                    s.member("b").imports.clear();
                },
                false,
                Reason::NotAsked,
                "a ServiceExport called foo",
            ),
            (
                "a copy that is older",
                |s| {
                    let copies = s.member("b").slices.iter_mut();
                    copies.for_each(|copy| copy.endpoints.truncate(1));
                    s.member("a").slices[0].metadata.resource_version = Some("8".to_owned());
                },
                false,
                Reason::UnderWay,
                "the log of causeway-controller",
            ),
        ],
    );
}

#[test]
fn what_nothing_explains_is_told_in_the_words_of_the_export() {
    let mut scene = exported();
    let said = "exported; not carried: 1200 EndpointSlices of a (of a service no more than 1000 are carried)";
    let conditions = json!([condition("Ready", "True", "Exported", said)]);
    scene.member("a").exports = vec![fixtures::export("foo", conditions)];
    scene.without_copies();
    let findings = all(&explain(&scene));
    let told = |one: &Finding| {
        one.reason == Reason::UnderWay
            && one
                .message
                .contains(&format!("the controller says Exported ({said})"))
    };
    assert!(findings.iter().any(told), "{findings:#?}");
}

#[test]
fn an_import_that_says_why_it_has_no_service_is_quoted() {
    let mut scene = exported();
    let unsupported = condition(
        "Ready",
        "False",
        "IPFamilyNotSupported",
        "the cluster has no IPv6",
    );
    let member = scene.without_copies().member("b");
    member.services.clear();
    let status = member.imports[0].status.as_mut().expect("a status");
    status.conditions = from(json!([unsupported]));
    let findings = all(&explain(&scene));
    let quoted = |one: &Finding| {
        one.reason == Reason::ServiceMissing
            && one
                .message
                .ends_with(": IPFamilyNotSupported (the cluster has no IPv6)")
    };
    assert!(findings.iter().any(quoted), "{findings:#?}");
}

#[test]
fn what_karmadas_own_controllers_import_is_told_of_each_cluster_that_is_left_to_them() {
    let told = || {
        let mut scene = exported();
        let conditions = json!([
            condition("Valid", "True", "Valid", ""),
            condition("Ready", "False", "ManagedByKarmada", "they import it"),
        ]);
        scene.member("a").exports = vec![fixtures::export("foo", conditions)];
        scene
    };
    let explanation = explain(&told());
    let way = &explanation.ways[0];
    let of_way: Vec<_> = way.findings.iter().map(|one| one.reason).collect();
    assert_eq!(of_way, [Reason::ManagedByKarmada]);
    let states = way.providers.iter().flat_map(|one| &one.endpoints);
    let mut states = states.flat_map(|one| &one.consumers);
    assert!(
        states.all(|fate| fate.finding.reason == Reason::Copied),
        "causeway goes on where it was first: {:#?}",
        all(&explanation)
    );
    for (what, service, said) in [
        (
            "theirs",
            Some(json!({"karmada.io/managed": "true"})),
            "is theirs",
        ),
        ("none yet", None, "makes nothing of it in b"),
    ] {
        let mut scene = told();
        let member = scene.member("b");
        member.slices.clear();
        let mut derived = member.services.pop().expect("a derived Service");
        if let Some(labels) = service {
            derived.metadata.labels = Some(from(labels));
            member.services.push(derived);
        }
        let explanation = explain(&scene);
        assert!(!explanation.ready, "{what}");
        let findings = all(&explanation);
        let mut findings = findings.iter();
        let found = findings.find(|one| one.message.contains(said));
        let found = found.unwrap_or_else(|| panic!("{what}: {:#?}", all(&explanation)));
        assert_eq!(found.reason, Reason::ManagedByKarmada, "{what}");
        let remedy = found.remedy.as_deref().expect("a remedy");
        assert!(remedy.contains("kubectl -n shop delete serviceimport foo"));
    }
}
