//! Versions of the Multi-Cluster Services API that members serve, from real API servers.

use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceExportSpec, Version};
use causeway_controller::{member, watch};
use causeway_engine::model::FailureKind;
use causeway_engine::model::served::{ImportFields, Served, ServedImports};
use causeway_tests::{Cluster, Space, service_export};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::said::Reported;
use super::{fleet, patient};

/// An account with the rights that were enough before there was a clusterset.
const OLDER_RIGHTS: &str = "apiVersion: v1
kind: ServiceAccount
metadata: {name: older, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: older}
rules:
- {apiGroups: [''], resources: [services, namespaces], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: older}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: older}
subjects: [{kind: ServiceAccount, name: older, namespace: default}]
";

/// Rights that older members lack.
const NEWER_RIGHTS: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: newer}
rules:
- {apiGroups: [multicluster.x-k8s.io], resources: [serviceexports, serviceimports], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: newer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: newer}
subjects: [{kind: ServiceAccount, name: older, namespace: default}]
";

/// A member that holds it is listed once: an empty list is followed by a second.
const SLICE: &str = "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: any, namespace: default}
addressType: IPv4
endpoints: []
";

/// Second lists come soon, so that a test sees those that should not come.
fn settings() -> member::Settings {
    member::Settings {
        probe_every: Duration::from_millis(300),
        watch: watch::Settings {
            confirmation_interval: Duration::from_secs(1),
            ..patient(500)
        },
        ..member::Settings::default()
    }
}

fn served(version: Version, fields: ImportFields) -> Served {
    Served {
        exports: Some(version),
        export_clusters: fields == ImportFields::ALL,
        imports: Some(ServedImports { version, fields }),
    }
}

/// Waits until that is what is served, and both kinds were listed since the last change.
async fn serves(reported: &mut Reported, what: &str, expected: &Served) {
    reported
        .until(what, |said| said.serves() == Some(expected))
        .await;
    // What was listed before was listed by earlier watches.
    reported.said.listed.clear();
    let kinds = [
        ("exports", expected.exports.is_some()),
        ("imports", expected.imports.is_some()),
    ];
    reported
        .until(what, |said| {
            kinds
                .iter()
                .all(|(kind, is_served)| said.listed.contains_key(kind) == *is_served)
        })
        .await;
}

#[tokio::test]
async fn changing_definitions_affect_their_own_watches_only() {
    let fleet = fleet().await;
    let member = fleet.member("member3");
    let space = Space::create(fleet, "served", &[member]).await;
    member.apply(SLICE).await.ok();
    let mut reported = Reported::by(member, member.client(), settings());
    reported
        .until("nothing is served", |said| {
            said.serves() == Some(&Served::default()) && said.natives_connected() == 3
        })
        .await;

    member.serve_clusterset().await;
    let newest = served(Version::V1beta1, ImportFields::ALL);
    serves(&mut reported, "definitions appear", &newest).await;
    service_export("foo").create(member, &space).await;
    reported
        .until("an export", |said| said.knows("exports", "foo"))
        .await;

    member.forget_clusterset().await;
    serves(&mut reported, "they are gone", &Served::default()).await;

    member.serve_older_clusterset().await;
    let first = served(Version::V1alpha1, ImportFields::default());
    serves(&mut reported, "older ones appear", &first).await;
    export_as(Version::V1alpha1, member, &space, "bar").await;
    reported
        .until("an older export", |said| said.knows("exports", "bar"))
        .await;

    member.serve_clusterset().await;
    reported
        .until("newer ones take their place", |said| {
            said.serves() == Some(&newest) && said.knows("exports", "bar")
        })
        .await;

    let definition = "serviceimports.multicluster.x-k8s.io";
    member.kubectl(["delete", "crd", definition]).await.ok();
    let exports_alone = Served {
        export_clusters: false,
        imports: None,
        ..newest
    };
    reported
        .until("one of two goes", |said| {
            said.serves() == Some(&exports_alone)
        })
        .await;
    export_as(Version::V1beta1, member, &space, "baz").await;
    reported
        .until("the other stays", |said| said.knows("exports", "baz"))
        .await;

    let said = &reported.said;
    assert_eq!(said.natives_failed(), [""; 0]);
    assert_eq!(said.natives_connected(), 3, "a watch was begun again");
    assert_eq!((said.identities.len(), &*said.probes), (1, &[Ok(())][..]));
}

async fn export_as(version: Version, member: &Cluster, space: &Space<'_>, name: &str) {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let export = ServiceExport::new(version, metadata, ServiceExportSpec::default());
    let api = Api::<ServiceExport>::namespaced_with(member.client(), space.name(), &version);
    api.create(&PostParams::default(), &export).await.unwrap();
}

#[tokio::test]
async fn rights_that_lack_the_clusterset_fail_its_watches_alone() {
    let fleet = fleet().await;
    let member = fleet.member("member4");
    member.serve_clusterset().await;
    member.apply(OLDER_RIGHTS).await.ok();
    let token = member.token("default", "older").await;
    let mut reported = Reported::by(member, member.client_with_token(&token), settings());
    reported
        .until("both are refused", |said| {
            let refused = |kind| said.failed.get(kind).map(Vec::as_slice);
            let forbidden = Some(&[FailureKind::Forbidden][..]);
            refused("exports") == forbidden && refused("imports") == forbidden
        })
        .await;
    let newest = served(Version::V1beta1, ImportFields::ALL);
    assert_eq!(reported.said.served, [newest], "any account may ask");
    reported
        .until("the others are watched", |said| {
            said.natives_connected() == 3
        })
        .await;

    member.apply(NEWER_RIGHTS).await.ok();
    reported
        .until("the rights are noticed", |said| {
            ["exports", "imports"]
                .iter()
                .all(|kind| said.listed.contains_key(kind))
        })
        .await;
    assert_eq!(reported.said.natives_failed(), [""; 0]);
    assert_eq!(reported.said.served.len(), 1);
}

#[tokio::test]
async fn restarting_api_server_still_serves_the_definitions() {
    let fleet = fleet().await;
    let member = fleet.member("member5");
    let space = Space::create(fleet, "again", &[member]).await;
    member.serve_clusterset().await;
    // Discovery is at it all the time, so that no moment of the start is missed.
    let settings = member::Settings {
        probe_every: Duration::from_millis(20),
        ..settings()
    };
    let mut reported = Reported::by(member, member.client(), settings);
    let newest = served(Version::V1beta1, ImportFields::ALL);
    serves(&mut reported, "at first", &newest).await;

    member.stop().await;
    reported
        .until("it is gone", |said| !said.natives_failed().is_empty())
        .await;
    reported.said.forget_objects();
    member.start().await;
    service_export("foo").create(member, &space).await;
    reported
        .until("an export", |said| said.knows("exports", "foo"))
        .await;
    reported
        .until("all is watched", |said| said.natives_connected() >= 3)
        .await;
    assert_eq!(reported.said.served, [newest]);
}
