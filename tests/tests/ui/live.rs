use causeway::api::labels::{CONSUMERS, HOSTNAME};
use causeway::domain::path::Path;
use causeway_tests::external_dns::{define, undefine};
use causeway_tests::path_reports::{report_path, with_path_reports, without_path_reports};
use causeway_tests::ui::Page;
use causeway_tests::{
    Cluster, Environment, Fault, LONG, Space, multi_cluster_service, service, service_export,
};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{copied, env, is_copied, members};

#[tokio::test]
async fn the_page_is_sent_what_changes_without_being_asked() {
    let env = env().await;
    let ui = env.ui(&[]).await;
    let mut page = ui.page().await;
    all_are_connected(env, &mut page).await;
    let space = env.space("live").await;
    let backends = space.backends("foo").count(2);
    let pods = backends.create(env.fleet.member("a")).await;
    space.expose("foo", ["a"], ["b"]).await;
    let namespace = space.name();
    page.until("the service appears, and its endpoints", LONG, |page| {
        is_copied(page.service(namespace, "foo"), 2)
    })
    .await;
    let row = page.service(namespace, "foo").clone();
    assert_eq!(row["address"], format!("foo.{namespace}.svc"), "{row:#}");
    let provider = json!([{ "cluster": "a", "endpoints": 2, "ready": 2 }]);
    assert_eq!(row["providers"], provider, "{row:#}");

    let mut explanation = ui
        .events(&format!("api/services/{namespace}/foo/events"))
        .await;
    let printed = explanation
        .until("explain", LONG, |explanation| explanation["ready"] == true)
        .await;
    assert_eq!(printed, explained(env, namespace).await);

    pods[0].set_ready(false).await;
    page.until("one endpoint is not ready", LONG, |page| {
        is_copied(page.service(namespace, "foo"), 1)
    })
    .await;
    explanation
        .until("explain", LONG, |explanation| {
            reasons(explanation) == ["Copied", "NotReady"]
        })
        .await;
    assert_eq!(page.snapshots, 1, "only what changed was sent");

    let services: Api<causeway::api::MultiClusterService> = space.api(env.fleet.hub());
    services
        .delete("foo", &DeleteParams::default())
        .await
        .expect("it is deleted");
    page.until("the service disappears", LONG, |page| {
        page.service(namespace, "foo").is_null()
    })
    .await;
    explanation.until("gone", LONG, |_| true).await;
    space.offer("foo", ["a"], ["b"]).await;
    explanation
        .until("explain", LONG, |explanation| explanation["ready"] == true)
        .await;
}

async fn all_are_connected(env: &Environment, page: &mut Page) {
    page.until("both clusters are connected", LONG, |page| {
        let is_ready = |name| {
            let row = page.cluster(name);
            row["state"] == "Ready" && row["reason"] == "Synced" && row["connected"] == true
        };
        page.server["synced"] == true && ["a", "b"].into_iter().all(is_ready)
    })
    .await;
    assert_eq!(page.server["hub"], env.fleet.hub().url(), "{page:?}");
    assert_eq!(page.server["connected"], true, "{page:?}");
}

/// Returns the output of `kubectl mcs explain -o json`.
async fn explained(env: &Environment, namespace: &str) -> Value {
    let args = ["explain", "foo", "-n", namespace, "-o", "json"];
    let output = env.mcs(args).await;
    serde_json::from_str(&output.stdout).expect("JSON")
}

fn reasons(explanation: &Value) -> Vec<&str> {
    let endpoints = explanation["exposures"][0]["providers"][0]["endpoints"].as_array();
    let endpoints = endpoints.into_iter().flatten();
    let reasons = endpoints.filter_map(|one| one["consumers"][0]["reason"].as_str());
    let mut reasons: Vec<_> = reasons.collect();
    reasons.sort_unstable();
    reasons
}

#[tokio::test]
async fn name_in_dns_follows_its_definition_and_its_object() {
    let env = Environment::start(members().await).await;
    let ui = env.ui(&[]).await;
    let (space, a) = (env.space("named").await, env.fleet.member("a"));
    let balanced = || service("foo").port("http", 80).type_("LoadBalancer");
    balanced().create(space.hub(), &space).await;
    balanced().create(a, &space).await;
    space.set_ingress(a, json!({ "ip": "192.0.2.1" })).await;
    space.pod("foo", "a").await;
    let named = multi_cluster_service("foo").type_("LoadBalancer");
    let named = named
        .providers(["a"])
        .annotation(HOSTNAME, "named.example.com");
    named.create(&space).await;
    let url = format!("api/services/{}/foo/events", space.name());
    let mut explanation = ui.events(&url).await;
    let mut is = async |reason: &str, part: &str| {
        let said = |explanation: &Value| {
            let diagnoses = explanation["exposures"][0]["diagnoses"].as_array();
            diagnoses.into_iter().flatten().any(|one| {
                let message = one["message"].as_str().unwrap_or_default();
                one["reason"] == reason && message.contains(part)
            })
        };
        explanation.until("explain", LONG, said).await;
    };
    is("NameNotPublished", "the hub has no definition").await;
    define(env.fleet.hub()).await;
    is("NamePublished", "leads to 192.0.2.1 (a)").await;
    undefine(env.fleet.hub()).await;
    is("NameNotPublished", "the hub has no definition").await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn reported_paths_come_expire_and_go_with_the_annotation() {
    let env = Environment::builder().proxies();
    let env = env.start(members().await).await;
    let b = env.fleet.member("b");
    let ui = env.ui(&[]).await;
    let mut page = ui.page().await;
    all_are_connected(&env, &mut page).await;
    assert!(page.cluster("b")["paths"].is_null(), "{page:?}");
    with_path_reports(&env, b).await;
    let is = async |page: &mut Page, what: &str, paths: &[&str]| {
        page.until(what, LONG, |page| {
            let rows = page.cluster("b")["paths"].as_array();
            let said = rows.map(|rows| rows.iter().filter_map(|row| row["path"].as_str()));
            said.is_some_and(|said| said.eq(paths.iter().copied()))
        })
        .await;
    };
    is(&mut page, "paths are unknown without a report", &[]).await;
    report_path(b, "a", Some(Path::Good), 0).await;
    is(&mut page, "the path is good", &["good"]).await;
    let row = &page.cluster("b")["paths"][0];
    assert_eq!(row["cluster"], "a");
    assert!(row["since"].is_string(), "{row}");
    report_path(b, "nobody", Some(Path::Good), 0).await;
    report_path(b, "a", None, 0).await;
    is(&mut page, "an unreadable report is unknown", &[]).await;
    report_path(b, "a", Some(Path::Bad), 55).await;
    is(&mut page, "the path is bad", &["bad"]).await;
    env.set("b", Fault::Refused);
    is(&mut page, "a report of 90 seconds has expired", &[]).await;
    assert!(is_disconnected(&page, "b"), "{page:?}");
    env.set("b", Fault::None);
    without_path_reports(&env, b).await;
    page.until("b reports no paths", LONG, |page| {
        page.cluster("b")["paths"].is_null()
    })
    .await;
    assert_eq!(page.snapshots, 1, "only what changed was sent");
}

#[tokio::test]
async fn one_namespace_is_shown_where_one_is_named() {
    let env = env().await;
    let (shown, other) = tokio::join!(copied(env, "shown"), copied(env, "other"));
    let ui = env.ui(&["-n", shown.name()]).await;
    let mut page = ui.page().await;
    page.until("the service of the namespace", LONG, |page| {
        is_copied(page.service(shown.name(), "foo"), 2) && page.server["synced"] == true
    })
    .await;
    assert_eq!(page.server["namespace"], shown.name());
    assert!(page.service(other.name(), "foo").is_null(), "{page:?}");
}

#[tokio::test]
async fn what_members_export_has_a_row_of_its_own() {
    let env = env().await;
    let space = env.space("exported").await;
    let provider = env.fleet.member("a");
    space.pod("foo", "a").await;
    service("foo")
        .port("http", 80)
        .create(provider, &space)
        .await;
    let export = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": { "name": "foo", "namespace": space.name() },
    });
    let file = env.fleet.directory().join("ui-export.json");
    std::fs::write(&file, export.to_string()).unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    provider.kubectl(apply).await.ok();
    let key = format!("ServiceExport/{}/foo", space.name());
    let ui = env.ui(&[]).await;
    let mut page = ui.page().await;
    page.until("the export is ready, and imported by b", LONG, |page| {
        let row = page.services.get(&key).unwrap_or(&Value::Null);
        let mut consumers = row["consumers"].as_array().into_iter().flatten();
        row["state"] == "Ready" && consumers.any(|one| one["cluster"] == "b" && one["ready"] == 1)
    })
    .await;
    let address = format!("foo.{}.svc.clusterset.local", space.name());
    assert_eq!(page.services[&key]["address"], address);
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn lost_cluster_is_shown_disconnected_until_it_returns() {
    let env = Environment::builder().proxies();
    let env = env.start(members().await).await;
    let space = copied(&env, "lost").await;
    exported_to_nobody(&space, env.fleet.member("a")).await;
    let ui = env.ui(&[]).await;
    let mut page = ui.page().await;
    let name = space.name();
    let key = format!("ServiceExport/{name}/own");
    let unread = |page: &Page| {
        let row = page.services.get(&key)?;
        let problems = row["problems"].as_array().into_iter().flatten();
        let is_unread = problems
            .map(|one| &one["reason"])
            .any(|it| it == "MemberNotRead");
        (row["state"] == "Ready").then_some(is_unread)
    };
    page.until("all is well", LONG, |page| {
        is_copied(page.service(name, "foo"), 2) && unread(page) == Some(false)
    })
    .await;
    for fault in [Fault::Refused, Fault::Silent, Fault::Answers(503)] {
        env.set("a", fault);
        page.until("the provider is disconnected", LONG, |page| {
            is_disconnected(page, "a")
        })
        .await;
        let b = page.cluster("b").clone();
        assert_eq!(b["connected"], true, "{b:#}");
        page.until("it is said what b keeps", LONG, |page| {
            let row = page.service(name, "foo");
            let provider = &row["providers"][0];
            provider["problem"]["reason"].is_string() && row["consumers"][0]["ready"] == 2
        })
        .await;
        page.until("the export remains and is unread", LONG, |page| {
            unread(page) == Some(true)
        })
        .await;
        env.set("a", Fault::None);
        page.until("it is back", LONG, |page| {
            page.cluster("a")["connected"] == true
                && page.cluster("a")["disconnectedSince"].is_null()
                && is_copied(page.service(name, "foo"), 2)
                && unread(page) == Some(false)
        })
        .await;
    }
    assert_eq!(page.snapshots, 1, "only what changed was sent");
    the_hub_is_lost(&env, &mut page).await;
}

/// Exports Service `own` from a member that alone imports it.
async fn exported_to_nobody(space: &Space<'_>, member: &Cluster) {
    space.pod("own", member.name()).await;
    service("own").port("http", 80).create(member, space).await;
    let export = service_export("own").own_annotation(CONSUMERS, member.name());
    export.create(member, space).await;
}

fn is_disconnected(page: &Page, name: &str) -> bool {
    let row = page.cluster(name);
    row["connected"] == false
        && row["disconnectedSince"].is_string()
        && row["disconnectedWhy"].is_string()
}

async fn the_hub_is_lost(env: &Environment, page: &mut Page) {
    env.fleet.hub().stop().await;
    page.until("the hub is disconnected", LONG, |page| {
        page.server["connected"] == false && page.server["disconnectedSince"].is_string()
    })
    .await;
    env.fleet.hub().start().await;
    page.until("the hub is back", LONG, |page| {
        page.server["connected"] == true && page.server["disconnectedSince"].is_null()
    })
    .await;
}
