use serde_json::json;

use super::*;
use crate::status::fixtures::{self, cluster, condition};

/// The same service, exported by a and imported by both.
fn exported() -> Scene {
    let mut scene = healthy();
    scene.wish = None;
    for name in ["a", "b"] {
        let member = scene.member(name);
        let mut derived = core_service(true, &[("http", 80)]);
        derived.metadata.name = Some("derived-foo".to_owned());
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
