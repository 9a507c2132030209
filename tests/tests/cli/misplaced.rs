//! ServiceExports and ServiceImports that somebody made on the hub.

use causeway_tests::{
    Cluster, Fleet, Installation, LONG, SOON, Space, eventually, service, service_export,
    service_import,
};

use crate::{ends, join, json, reader};

/// The Events about what is on the hub and does nothing there: of which object, and what they say.
async fn events(hub: &Cluster, space: &Space<'_>) -> Vec<String> {
    let path = "jsonpath={range .items[?(@.reason==\"NotAMember\")]}{.regarding.kind}/{.regarding.name} {.series.count} {.note}{\"\\n\"}{end}";
    let events = ["get", "events.events.k8s.io", "-n", space.name()];
    let events = events.into_iter().chain(["-o", path]);
    let events = hub.kubectl(events).await.ok();
    events.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn export_on_a_hub_is_reported_with_its_remedy() {
    let fleet = Fleet::builder().members(1).start().await;
    let (hub, installation) = (fleet.hub(), Installation::new(&fleet).await);
    let _controller = installation.controller().start().await;
    let member = fleet.member("member1");
    ends(&join(&installation, "member1", member, &[]).await, 0, "");
    hub.serve_clusterset().await;
    let space = fleet.space("misplaced").await;
    service_export("foo").create(hub, &space).await;
    let import = service_import("bar").port("http", 80);
    import.create(hub, &space).await;

    let n = space.name();
    let delete = format!("kubectl -n {n} delete serviceexport foo");
    let typed = format!("kubectl --context MEMBER -n {n} apply -f FILE | {delete}");
    let status = async |more: &[&str]| {
        let args = ["status", "-n", n].into_iter();
        installation
            .kubectl_mcs(args.chain(more.iter().copied()))
            .await
    };
    let said = format!("ServiceExport {n}/foo is on the hub, which is no member | {typed}");
    ends(&status(&["foo"]).await, 1, &said);
    ends(
        &status(&[]).await,
        1,
        &format!("{said} | ServiceImport {n}/bar"),
    );
    let late = status(&["foo", "--wait", "--timeout=3s"]).await;
    ends(&late, 1, "not ready within 3 s: ServiceExport");
    let checked = installation.kubectl_mcs(["check"]).await;
    ends(
        &checked,
        1,
        &format!("exports on the hub | Unhealthy | {said}"),
    );

    let reported = eventually("an Event tells of it", LONG, async || {
        let reported = events(hub, &space).await;
        (!reported.is_empty()).then_some(reported)
    });
    let reported = reported.await;
    let of_foo = |all: &[String]| {
        let of_foo = all
            .iter()
            .filter(|one| one.starts_with("ServiceExport/foo "));
        of_foo.cloned().collect::<Vec<_>>()
    };
    assert!(reported[0].contains(&delete), "{reported:?}");
    // Once, whatever becomes of it.
    let label = ["label", "serviceexport", "foo", "team=a", "-n", n];
    hub.kubectl(label).await.ok();
    service_export("later").create(hub, &space).await;
    let all = eventually("an Event tells of the next one", SOON, async || {
        let all = events(hub, &space).await;
        let is_reported = all
            .iter()
            .any(|one| one.starts_with("ServiceExport/later "));
        is_reported.then_some(all)
    });
    assert_eq!(of_foo(&all.await), reported);

    who_may_not_see_it_learns_that_it_is_unknown(&installation, hub, &space).await;
    for (kind, name) in [("export", "foo"), ("export", "later"), ("import", "bar")] {
        let kind = format!("service{kind}");
        hub.kubectl(["delete", &kind, name, "-n", n]).await.ok();
    }
    let report = json(&status(&["-o=json"]).await);
    assert_eq!(report["ready"], true, "{report:#}");
}

/// Somebody who sees causeway's objects on the hub, and neither ServiceExports nor ServiceImports.
async fn who_may_not_see_it_learns_that_it_is_unknown(
    installation: &Installation,
    hub: &Cluster,
    space: &Space<'_>,
) {
    let n = space.name();
    let kubeconfig = reader(hub, n).await;
    let args = ["status", "-n", n, "--kubeconfig", &kubeconfig];
    let seen = installation.kubectl_mcs(args).await;
    ends(&seen, 3, "member1 | on the hub are not shown");
    assert!(!seen.stdout.contains("on the hub,"), "{}", seen.stdout);
}

#[tokio::test]
async fn an_export_on_a_hub_that_is_a_member_is_where_it_belongs() {
    let fleet = Fleet::builder().members(1).start().await;
    let (hub, installation) = (fleet.hub(), Installation::new(&fleet).await);
    hub.serve_clusterset().await;
    let _controller = installation.controller().start().await;
    for (name, cluster) in [("itself", hub), ("member1", fleet.member("member1"))] {
        ends(&join(&installation, name, cluster, &[]).await, 0, "");
    }
    let space = fleet.space("itself").await;
    service("foo").port("http", 80).create(hub, &space).await;
    service_export("foo").create(hub, &space).await;
    let args = [
        "status",
        "foo",
        "-n",
        space.name(),
        "--wait",
        "--timeout=180s",
    ];
    let ready = installation.kubectl_mcs(args).await;
    ends(&ready, 0, "True (Exported) | Exported by:   itself");
    assert!(!ready.stdout.contains("on the hub,"), "{}", ready.stdout);
    let checked = installation.kubectl_mcs(["check"]).await;
    assert!(!checked.stdout.contains("exports on the hub"));
    assert_eq!(events(hub, &space).await, Vec::<String>::new());
    // Once it is no member, that is reported.
    let delete = ["delete", "cluster", "itself", "--timeout=180s"];
    hub.kubectl(delete).await.ok();
    eventually("an Event tells of it", LONG, async || {
        !events(hub, &space).await.is_empty()
    })
    .await;
}
