//! Real packets between clusters. Skipped, with a line that says so, where there is no root.

mod behind_nat;
mod client;
mod databases;
mod entry_clusters;
mod konnectivity;
mod near;
mod networks;
mod paths;
mod standby;
mod tunnel;
mod verify;

use std::time::Duration;

use causeway::api::MultiClusterService;
use causeway_tests::fixtures::{RunningPod, ServiceFixture};
use causeway_tests::fleet::Builder;
use causeway_tests::reaper::Exit;
use causeway_tests::{
    Cluster, Environment, Fleet, SOON, Space, eventually, multi_cluster_service, network, pod,
    same, service, service_export,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use tokio::sync::OnceCell;

/// Whether packets can be sent here; says so where not.
fn packets() -> bool {
    let prerequisites = network::prerequisites();
    if let Err(missing) = &prerequisites {
        eprintln!("skipped, no real packets: {missing}");
    }
    prerequisites.is_ok()
}

/// Three members with packets, and causeway at work; shared by the tests here.
async fn env() -> Option<&'static Environment> {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    if !packets() {
        return None;
    }
    let start = || started(Fleet::builder().members(3).packets().clusterset());
    Some(ENVIRONMENT.get_or_init(start).await)
}

/// Starts a fleet, and causeway with a webhook in it.
async fn started(builder: Builder) -> Environment {
    let fleet = builder.start().await;
    Environment::builder().webhook().start(fleet).await
}

/// Returns the answer of a Service to a client on the cluster's node.
async fn answer(cluster: &Cluster, space: &Space<'_>, service: &str) -> Result<String, String> {
    let url = format!("http://{service}.{}.svc.cluster.local", space.name());
    answer_at(cluster, &url).await
}

/// Returns the answer of a URL to a client on the cluster's node.
async fn answer_at(cluster: &Cluster, url: &str) -> Result<String, String> {
    let output = cluster.curl(url).await;
    if output.exit.success() {
        Ok(output.stdout.trim().to_owned())
    } else {
        Err(output.stderr)
    }
}

/// The pods, among these, that answer a client in the cluster, and what else it gets, over many
/// requests.
async fn answering(cluster: &Cluster, space: &Space<'_>, service: &str) -> Vec<String> {
    let url = format!("http://{service}.{}.svc.cluster.local", space.name());
    answering_at(cluster, &url).await
}

/// Returns the answers of a URL to many requests of a client on the cluster's node.
async fn answering_at(cluster: &Cluster, url: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for _ in 0..25 {
        let answer = answer_at(cluster, url).await;
        answers.push(answer.unwrap_or_else(|failure| failure));
    }
    answers.sort();
    answers.dedup();
    answers
}

/// Returns the answers of these pods of a member, sorted like those of [`answering`].
fn said_by(pods: &[(&RunningPod, &str)]) -> Vec<String> {
    let mut all: Vec<String> = pods
        .iter()
        .map(|(pod, member)| format!("pod {} in {member}", pod.name()))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_pod_of_another_cluster_answers_through_causeway() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("native").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    web().create(env.fleet.hub(), &space).await;
    let pod = space.pod("foo", provider.name()).await;
    space.offer("foo", ["member1"], ["member2"]).await;
    let expected = said_by(&[(&pod, "member1")]).remove(0);
    eventually("the consumer's node is answered", SOON, || async {
        let text = answer(consumer, &space, "foo").await?;
        assert_eq!(text, expected);
        Ok::<(), String>(())
    })
    .await;

    let client = space.pod("client", consumer.name()).await;
    let url = format!("http://foo.{}", space.name());
    let from_pod = ["-sS", "--max-time", "3", &url];
    let from_pod = client.network().exec(consumer, "curl", from_pod).await.ok();
    assert_eq!(from_pod.trim(), expected);

    space
        .api::<MultiClusterService>(env.fleet.hub())
        .delete("foo", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the name is gone in the consumer", SOON, || async {
        match answer(consumer, &space, "foo").await {
            Err(failure) if failure.contains("Could not resolve host") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn pods_of_all_providers_answer_until_they_are_deleted() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("all").await;
    let [first, second, consumer] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    web().create(env.fleet.hub(), &space).await;
    multi_cluster_service("foo").create(&space).await;
    let near = space.pod("foo", first.name()).await;
    let far = space.pod("foo", second.name()).await;
    let both = said_by(&[(&near, "member1"), (&far, "member2")]);
    for client in [first, consumer] {
        eventually("pods of both providers answer", SOON, || async {
            same(answering(client, &space, "foo").await, &both)
        })
        .await;
    }
    far.delete().await;
    let left = said_by(&[(&near, "member1")]);
    eventually("only the pod that is left answers", SOON, || async {
        same(answering(consumer, &space, "foo").await, &left)
    })
    .await;
}

/// Returns Service `foo`, of one port.
fn web() -> ServiceFixture {
    service("foo").port_to("http", 80, 8080)
}

/// `foo` in a member, exported, with one pod.
async fn export(member: &Cluster, space: &Space<'_>, fixture: ServiceFixture) -> RunningPod {
    fixture.create(member, space).await;
    let pod = space.pod("foo", member.name()).await;
    service_export("foo").create(member, space).await;
    pod
}

fn in_clusterset(space: &Space<'_>) -> String {
    format!("foo.{}.svc.clusterset.local", space.name())
}

/// Waits until a client in the cluster gets exactly these answers there.
async fn answered_by(cluster: &Cluster, url: &str, expected: &[String]) {
    answered_within(SOON, cluster, url, expected).await;
}

async fn answered_within(within: Duration, cluster: &Cluster, url: &str, expected: &[String]) {
    let what = format!("{url} in {} is answered by {expected:?}", cluster.name());
    eventually(&what, within, || async {
        same(answering_at(cluster, url).await, &expected)
    })
    .await;
}

#[tokio::test]
async fn pods_of_all_exporters_answer_under_the_clusterset_name() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("exported").await;
    let [first, second, importer] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    let fixture = web();
    let near = export(first, &space, fixture.clone()).await;
    let url = format!("http://{}", in_clusterset(&space));
    answered_by(importer, &url, &said_by(&[(&near, "member1")])).await;
    let far = export(second, &space, fixture).await;
    let both = said_by(&[(&near, "member1"), (&far, "member2")]);
    for client in [first, second, importer] {
        answered_by(client, &url, &both).await;
        let import = space.imports(client).get("foo").await.expect("the import");
        let by_address = format!("http://{}", import.spec.ips[0]);
        answered_by(client, &by_address, &both).await;
    }
    let client = space.pod("client", importer.name()).await;
    let from_pod = ["-sS", "--max-time", "3", &url];
    let from_pod = client.network().exec(importer, "curl", from_pod).await.ok();
    assert!(both.contains(&from_pod.trim().to_owned()), "{from_pod}");

    for exporter in [first, second] {
        let exports = space.exports(exporter);
        let deleted = exports.delete("foo", &DeleteParams::default()).await;
        deleted.expect("the export is there");
    }
    eventually("the name is gone", SOON, || async {
        match answer_at(importer, &url).await {
            Err(failure) if failure.contains("Could not resolve host") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn packets_for_a_port_go_to_the_exporters_that_expose_it() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("ports").await;
    let [first, second, importer] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    let http = web();
    let one = export(first, &space, http.clone()).await;
    let two = export(second, &space, http.port_to("more", 8000, 80)).await;
    let url = format!("http://{}", in_clusterset(&space));
    let both = said_by(&[(&one, "member1"), (&two, "member2")]);
    answered_by(importer, &url, &both).await;
    let more = format!("{url}:8000");
    answered_by(importer, &more, &said_by(&[(&two, "member2")])).await;
    // In the cluster that does not expose it, too.
    answered_by(first, &more, &said_by(&[(&two, "member2")])).await;
}

#[tokio::test]
async fn own_service_of_a_name_answers_in_the_cluster_zone_only() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("zones").await;
    let [exporter, importer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    let fixture = web();
    fixture.clone().create(importer, &space).await;
    let local = space.pod("foo", importer.name()).await;
    let remote = export(exporter, &space, fixture).await;
    let url = format!("http://{}", in_clusterset(&space));
    answered_by(importer, &url, &said_by(&[(&remote, "member1")])).await;
    let local = said_by(&[(&local, "member2")]);
    assert_eq!(answering(importer, &space, "foo").await, local);
}

#[tokio::test]
async fn own_service_of_the_derived_name_never_answers_for_an_import() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("derived").await;
    let [exporter, occupied, importer] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    let own = service("derived-foo").port_to("http", 80, 8080);
    own.create(occupied, &space).await;
    let local = space.backends("derived-foo").create(occupied).await;
    let local = said_by(&[(&local[0], "member2")]);
    eventually("the own Service answers", SOON, || async {
        same(answering(occupied, &space, "derived-foo").await, &local)
    })
    .await;
    let remote = export(exporter, &space, web()).await;
    let exported = said_by(&[(&remote, "member1")]);
    let url = format!("http://{}", in_clusterset(&space));
    answered_by(importer, &url, &exported).await;
    // It is settled there, and reported; and all that was asked before and after is answered by the
    // own pods alone.
    eventually("the import says what is in the way", SOON, || async {
        let import = space
            .imports(occupied)
            .get("foo")
            .await
            .map_err(|e| e.to_string())?;
        let status = import.status.clone().unwrap_or_default();
        let reported = status
            .conditions
            .iter()
            .any(|one| one.reason == "ServiceConflict");
        if reported && import.spec.ips.is_empty() {
            Ok(())
        } else {
            Err(format!("{import:?}"))
        }
    })
    .await;
    assert_eq!(answering(occupied, &space, "derived-foo").await, local);
    let failure = answer_at(occupied, &url)
        .await
        .expect_err("the name has no address");
    assert!(failure.contains("Could not resolve host"), "{failure}");
    let services = space.api::<Service>(occupied);
    services
        .delete("derived-foo", &DeleteParams::default())
        .await
        .expect("the own Service");
    answered_by(occupied, &url, &exported).await;
    let by_name = format!("http://derived-foo.{}.svc.cluster.local", space.name());
    answered_by(occupied, &by_name, &exported).await;
}

#[tokio::test]
async fn session_affinity_keeps_a_client_on_one_pod() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("sticky").await;
    let [first, second, importer] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    let fixture = web();
    let fixture = fixture.with(|spec| spec.session_affinity = Some("ClientIP".to_owned()));
    let near = export(first, &space, fixture.clone()).await;
    let far = export(second, &space, fixture).await;
    let url = format!("http://{}", in_clusterset(&space));
    let all = said_by(&[(&near, "member1"), (&far, "member2")]);
    eventually("one pod answers", SOON, || async {
        let answers = answering_at(importer, &url).await;
        if answers.len() == 1 && all.contains(&answers[0]) {
            Ok(())
        } else {
            Err(format!("{answers:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn pods_of_a_headless_service_answer_at_names_of_their_own() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("hosts").await;
    let [first, second, importer] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    for member in [first, second] {
        let fixture = service("foo").port("http", 80).headless();
        fixture.create(member, &space).await;
        let db = pod("db-0", "foo").hostname("db-0", "foo");
        db.create(member, &space).await;
        service_export("foo").create(member, &space).await;
    }
    for member in ["member1", "member2"] {
        let url = format!("http://db-0.{member}.{}", in_clusterset(&space));
        let expected = format!("pod db-0 in {member}");
        answered_by(importer, &url, &[expected]).await;
    }
    if let Err(missing) = network::dig() {
        eprintln!("skipped, no names: {missing}");
        return;
    }
    let zone = in_clusterset(&space);
    let answer = importer.dig(&format!("_http._tcp.{zone}"), "SRV").await;
    let targets = ["member1", "member2"].map(|member| format!("80 db-0.{member}.{zone}."));
    assert_eq!(answer.targets(), targets, "{answer:?}");
}

#[tokio::test]
async fn traffic_continues_without_api_server_and_controller() {
    if !packets() {
        return;
    }
    let fleet = Fleet::builder().members(2).packets().start().await;
    // A controller is killed, and the next one need not wait for its Lease.
    let env = Environment::builder().flag("--leader-elect=false");
    let env = env.start(fleet).await;
    let space = env.fleet.space("away").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    web().create(env.fleet.hub(), &space).await;
    let pod = space.pod("foo", provider.name()).await;
    space.offer("foo", ["member1"], ["member2"]).await;
    eventually("the consumer is answered", SOON, || {
        answer(consumer, &space, "foo")
    })
    .await;
    let expected = said_by(&[(&pod, "member1")]);

    provider.pause();
    env.controller.restart().await;
    eventually(
        "the controller knows that it cannot reach it",
        SOON,
        || async {
            let state = [("cluster", "member1"), ("state", "unreachable")];
            let metrics = env.controller.metrics().await;
            metrics.get("causeway_controller_member_state", &state) == Some(1.0)
        },
    )
    .await;
    assert_eq!(answering(consumer, &space, "foo").await, expected);
    env.controller.process().kill().await;
    assert_eq!(answering(consumer, &space, "foo").await, expected);

    provider.resume();
    env.controller.restart().await;
    let more = space.pod("foo", provider.name()).await;
    let both = said_by(&[(&pod, "member1"), (&more, "member1")]);
    eventually("a new pod of the provider answers too", SOON, || async {
        answering(consumer, &space, "foo").await == both
    })
    .await;
}

#[tokio::test]
async fn testbed_routes_packets_to_a_slice_copied_by_hand() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("hand").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    for member in [provider, consumer] {
        service("foo")
            .port_to("http", 80, 8080)
            .create(member, &space)
            .await;
    }
    let pod = space.pod("foo", provider.name()).await;
    let expected = said_by(&[(&pod, "member1")]).remove(0);
    eventually("the provider's own clients are answered", SOON, || async {
        let text = answer(provider, &space, "foo").await?;
        assert_eq!(text, expected);
        Ok::<(), String>(())
    })
    .await;
    let refused = answer(consumer, &space, "foo").await;
    assert!(refused.is_err(), "{refused:?}");

    copy_by_hand(&space, provider, consumer).await;
    eventually("the consumer's node is answered", SOON, || async {
        let text = answer(consumer, &space, "foo").await?;
        assert_eq!(text, expected);
        Ok::<(), String>(())
    })
    .await;

    pod.network().kill().await;
    let url = format!("http://foo.{}", space.name());
    let refused = consumer.curl(&url).await;
    assert_eq!(refused.exit, Exit::Code(7), "{}", refused.stderr);
}

async fn copy_by_hand(space: &Space<'_>, provider: &Cluster, consumer: &Cluster) {
    let mut copy = space.slices(provider, "foo").await.remove(0);
    for endpoint in &mut copy.endpoints {
        endpoint.target_ref = None;
        endpoint.node_name = None;
    }
    copy.metadata = ObjectMeta {
        name: Some("copied-by-hand".to_owned()),
        labels: Some([("kubernetes.io/service-name".to_owned(), "foo".to_owned())].into()),
        ..ObjectMeta::default()
    };
    space
        .api::<EndpointSlice>(consumer)
        .create(&PostParams::default(), &copy)
        .await
        .unwrap();
}

#[tokio::test]
async fn nothing_of_a_fleet_with_packets_is_left() {
    if !packets() {
        return;
    }
    let fleet = Fleet::builder().members(1).packets().start().await;
    let member = fleet.member("member1");
    let own = member.network_namespace().unwrap();
    let prefix = own.strip_suffix("-member1").unwrap().to_owned();
    let space = fleet.space("left").await;
    space.backends("foo").create(member).await;
    drop(space);
    drop(fleet);
    let list = |args: &[&str]| {
        let output = std::process::Command::new("ip")
            .args(args)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let left = list(&["netns", "list"]) + &list(&["-brief", "link", "show"]);
    assert!(!left.contains(&prefix), "{left}");
    let resolv_conf = std::fs::read_dir("/etc/netns").unwrap().flatten();
    let left: Vec<_> = resolv_conf
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with(&prefix))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
