//! Deletions that no process observes.

use std::time::Duration;

use causeway_tests::{Fault, LONG, Space, eventually, same, service, service_export, throughout};

use super::{Shared, env, join};

/// Time during which nothing is deleted without confirmation.
const UNCONFIRMED: Duration = Duration::from_secs(4);

const NO_FINALIZERS: &str = r#"{"metadata":{"finalizers":null}}"#;

/// Deletes a MultiClusterService and takes its finalizers, as a person does who has lost patience.
async fn force_away(space: &Space<'_>, env: &Shared, name: &str) {
    space.on_hub(["delete", "mcs", name, "--wait=false"]).await;
    let patch = ["patch", "mcs", name, "--type=merge", "-p", NO_FINALIZERS];
    space.kubectl(env.hub(), patch).await;
}

async fn exported(space: &Space<'_>, env: &Shared, name: &str, member: &str) -> String {
    let cluster = env.member(member);
    service(name).port("http", 80).create(cluster, space).await;
    service_export(name).create(cluster, space).await;
    let address = space.pod(name, member).await.ip().to_owned();
    space
        .reaches("taker", &format!("derived-{name}"), &[&address])
        .await;
    address
}

/// Objects as a controller of this hub left them in taker, in an earlier life: for `orphan` nothing
/// is there any more, `stays` had another slice in late, and so had the export `imported`.
fn of_an_earlier_life(space: &Space<'_>, hub: &str) -> String {
    let meta = |name: &str, owner: &str, more: &str| {
        format!(
            "metadata: {{name: {name}, namespace: {}, labels: {{app.kubernetes.io/managed-by: causeway, \
             mcs.causeway.dev/hub: {hub}, {more}}}, annotations: {{mcs.causeway.dev/owner: {owner}}}}}",
            space.name()
        )
    };
    let (native, export) = ("MultiClusterService/gone", "ServiceExport/orphan");
    let service = |name: &str, owner: &str, more: &str| {
        let meta = meta(name, owner, more);
        format!(
            "{{apiVersion: v1, kind: Service, {meta}, spec: {{ports: [{{name: http, port: 80}}]}}}}"
        )
    };
    let copy = |name: &str, service: &str, from: &str, owner: &str, of: &str| {
        let labels = format!(
            "kubernetes.io/service-name: {service}, multicluster.kubernetes.io/source-cluster: {from}, \
             endpointslice.kubernetes.io/managed-by: endpointslice-dispatch-controller.karmada.io, {of}"
        );
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, {}, addressType: IPv4, \
             endpoints: [{{addresses: [10.9.9.9]}}], ports: [{{name: http, port: 80}}]}}",
            meta(name, owner, &labels)
        )
    };
    let of = |name: &str| format!("multicluster.kubernetes.io/service-name: {name}");
    [
        service("orphan", native, ""),
        copy("giver-orphan-1", "orphan", "giver", native, ""),
        service("derived-orphan", export, &of("orphan")),
        copy("imported-giver-orphan-1", "derived-orphan", "giver", export, &of("orphan")),
        format!(
            "{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, {}, spec: {{type: ClusterSetIP, ports: [{{port: 80}}]}}}}",
            meta("orphan", export, "")
        ),
        format!("{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, {}}}", meta("orphan", native, "")),
        copy("late-stays-1", "stays", "late", native, ""),
        copy("imported-late-imported-1", "derived-imported", "late", export, &of("imported")),
    ]
    .join("\n---\n")
}

/// Makes these in taker. An import says where it comes from.
async fn leave(space: &Space<'_>, objects: &str) {
    let taker = space.fleet().member("taker");
    // What is applied is a person's.
    taker
        .kubectl_with(["create", "-f", "-"], objects)
        .await
        .ok();
    let status = r#"{"status":{"clusters":[{"cluster":"giver"}]}}"#;
    let patch = [
        "patch",
        "serviceimport",
        "orphan",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ];
    space.kubectl(taker, patch).await;
}

/// Those of a member's objects that are not of these services.
async fn without(space: &Space<'_>, member: &str, gone: &[&str]) -> Vec<String> {
    let mut all = space.own_objects(member).await;
    all.retain(|name| !gone.iter().any(|gone| name.contains(gone)));
    all
}

/// `deleted` and `forced` of giver, `stays` of late, and an export of giver; the address of
/// `stays`.
async fn exposed_and_exported(space: &Space<'_>, env: &Shared) -> String {
    for name in ["deleted", "forced"] {
        space.expose(name, ["giver"], ["taker", "absent"]).await;
        let address = space.pod(name, "giver").await.ip().to_owned();
        space.reaches("taker", name, &[&address]).await;
        space.reaches("absent", name, &[&address]).await;
    }
    space.expose("stays", ["late"], ["taker"]).await;
    let stays = space.pod("stays", "late").await.ip().to_owned();
    space.reaches("taker", "stays", &[&stays]).await;
    space.says("stays", "Ready", "True|").await;
    exported(space, env, "unexported", "giver").await;
    stays
}

/// Deletes objects as a user while no controller runs, and creates leftovers of an earlier one.
async fn delete_all(space: &Space<'_>, env: &Shared) {
    let delete = ["delete", "mcs", "deleted", "--wait=false"];
    space.kubectl(env.hub(), delete).await;
    force_away(space, env, "forced").await;
    let giver = env.member("giver");
    space
        .kubectl(giver, ["delete", "serviceexport", "unexported"])
        .await;
    let delete = ["delete", "cluster", "lost", "--wait=false"];
    env.hub().kubectl(delete).await.ok();
    let uid = env.hub().uid().await;
    leave(space, &of_an_earlier_life(space, &uid)).await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn deletions_without_a_controller_are_collected_if_confirmed() {
    let env = env().await;
    let _peace = env.peace.write().await;
    let space = env.space("down").await;
    let stays = exposed_and_exported(&space, env).await;
    let imported = exported(&space, env, "imported", "late").await;
    for member in ["giver", "absent"] {
        space
            .reaches(member, "derived-imported", &[&imported])
            .await;
    }
    let ends = ["deleted", "forced", "unexported"];
    let rightful = without(&space, "taker", &ends).await;
    let givers = without(&space, "giver", &ends).await;
    let absents = without(&space, "absent", &ends).await;

    env.controller.process().kill().await;
    delete_all(&space, env).await;
    let before = space.own_objects("absent").await;
    env.set("absent", Fault::Refused);
    env.set("late", Fault::Withholds(&["endpointslices"]));
    env.controller.restart().await;

    // The hub says what it wants no more; of late it is not known what it has.
    let kept = ["imported-late-imported-1", "late-stays-1"];
    let kept = kept.map(|name| format!("endpointslice/{name}"));
    let mut doubtful = [rightful.clone(), kept.into()].concat();
    doubtful.sort();
    space.holds("taker", &doubtful).await;
    space.holds("giver", &givers).await;
    let gone = ["wait", "--for=delete", "--timeout=100s"];
    let gone = gone.into_iter().chain(["cluster/lost"]);
    env.hub().kubectl(gone).await.ok();
    throughout("what is unconfirmed stays", UNCONFIRMED, async || {
        same(space.own_objects("taker").await, &doubtful)
    })
    .await;
    assert_eq!(space.own_objects("absent").await, before);

    env.set("late", Fault::None);
    space.holds("taker", &rightful).await;
    space.reaches("taker", "stays", &[&stays]).await;
    space
        .reaches("taker", "derived-imported", &[&imported])
        .await;
    env.set("absent", Fault::None);
    space.holds("absent", &absents).await;
    space.delete("stays").await;
    join(env, "lost").await;
}

#[tokio::test]
async fn objects_without_finalizers_are_collected_by_their_label() {
    let env = env().await;
    let _peace = env.peace.write().await;
    let space = env.space("forced").await;
    for name in ["foo", "shared"] {
        space.expose(name, ["giver"], ["taker", "lost"]).await;
        let address = space.pod(name, "giver").await.ip().to_owned();
        space.reaches("taker", name, &[&address]).await;
        space.reaches("lost", name, &[&address]).await;
    }
    // It learns of both when they are gone.
    env.controller.process().pause();
    force_away(&space, env, "foo").await;
    let delete = ["delete", "cluster", "lost", "--wait=false"];
    env.hub().kubectl(delete).await.ok();
    let patch = [
        "patch",
        "cluster",
        "lost",
        "--type=merge",
        "-p",
        NO_FINALIZERS,
    ];
    env.hub().kubectl(patch).await.ok();
    env.controller.process().resume();
    eventually("foo is collected", LONG, async || {
        let left = space.own_objects("taker").await;
        let of_foo = left
            .iter()
            .any(|name| name.ends_with("/foo") || name.contains("giver-foo"));
        if of_foo {
            Err(format!("{left:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    space.is_clean("lost").await;
    assert_ne!(
        space.own_objects("taker").await,
        Vec::<String>::new(),
        "shared is wanted"
    );
    join(env, "lost").await;
    space.delete("shared").await;
}
