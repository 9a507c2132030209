//! A member of which the EndpointSlices of exposed Services alone are watched.

use causeway::api::labels::WATCH;
use causeway_tests::audit::Mark;
use causeway_tests::causeway::Lent;
use causeway_tests::{
    Cluster, Environment, Fault, Proxy, SOON, Space, eventually, service, service_export,
};
use serde_json::json;

const EXPOSED: &str = "True|Synced|Services and the EndpointSlices of exposed Services are watched";
const ALL: &str = "True|Synced|Services and EndpointSlices are watched";
/// Changes of slices of a Service that nobody exposes.
const CHANGES: usize = 10;
/// Maximum number of bytes of bookmarks in the time of these changes.
const BOOKMARKS: u64 = 1000;

async fn annotate(env: &Environment, value: Option<&str>, said: &str) {
    let patch = json!({"metadata": {"annotations": {WATCH: value}}});
    env.patch_cluster("member1", patch).await;
    env.cluster_says("member1", said).await;
}

/// Service of a name that no other test exposes: an environment keeps the objects of those before,
/// and a name of theirs is watched already.
const LATE: &str = "late";

/// Returns the lists of EndpointSlices since then, by their queries.
async fn lists_since(member: &Cluster, mark: Mark) -> Vec<String> {
    let mut listed = member.whole_lists_since(mark).await;
    listed.retain(|uri| uri.contains("/endpointslices?"));
    listed
}

async fn writes_since(consumer: &Cluster, mark: Mark) -> Vec<String> {
    let writes = consumer.writes_since(mark, "causeway").await.into_iter();
    let slices = writes.filter(|write| write.resource == "endpointslices");
    slices
        .map(|write| format!("{} {}", write.verb, write.name))
        .collect()
}

/// Returns the bytes of EndpointSlices that the changes of a Service that nobody exposes take.
async fn bytes_of_churn(space: &Space<'_>, proxy: &Proxy, addresses: &mut Vec<String>) -> u64 {
    let before = proxy.slice_bytes();
    let mut quiet = Vec::new();
    for _ in 0..CHANGES {
        quiet.push(space.pod("quiet", "member1").await);
    }
    let after = proxy.slice_bytes();
    for pod in quiet {
        pod.delete().await;
    }
    // The watch is at work all the while.
    space.grows(addresses).await;
    after - before
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn exposed_slices_alone_are_sent_and_endpoints_stay() {
    let env = Lent::take().await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.member(name));
    let proxy = Proxy::before(provider).await;
    env.installation.join_at(provider, &proxy.url()).await;
    let (space, mut addresses) = env.foo("narrow").await;
    for name in ["quiet", LATE] {
        service(name)
            .port("http", 80)
            .create(provider, &space)
            .await;
    }
    space.pod("quiet", "member1").await;
    let late = space.pod(LATE, "member1").await;
    let of_all = bytes_of_churn(&space, &proxy, &mut addresses).await;

    let mark = consumer.mark().await;
    annotate(&env, Some("exposed"), EXPOSED).await;
    env.controller.restart_in_order().await;
    env.is_synced("member1").await;
    annotate(&env, None, ALL).await;
    annotate(&env, Some("exposed"), EXPOSED).await;
    assert_eq!(writes_since(consumer, mark).await, [""; 0]);
    space.grows(&mut addresses).await;
    let of_exposed = bytes_of_churn(&space, &proxy, &mut addresses).await;
    eprintln!("{CHANGES} changes: {of_all} bytes of all slices, {of_exposed} of exposed ones");
    assert!(of_exposed < BOOKMARKS && BOOKMARKS < of_all);

    // A new name is listed alone, and one that goes not at all.
    let mark = provider.mark().await;
    space.expose(LATE, ["member1"], ["member2"]).await;
    space.reaches("member2", LATE, &[late.ip()]).await;
    space.reaches("member2", "foo", &addresses).await;
    let listed = lists_since(provider, mark).await;
    let is_of_late = |uri: &String| uri.contains("service-name+in+%28late%29");
    assert!(
        listed.len() == 1 && listed.iter().all(is_of_late),
        "{listed:?}"
    );
    let more = space.pod(LATE, "member1").await;
    let both = [late.ip(), more.ip()];
    space.reaches("member2", LATE, &both).await;
    space.delete(LATE).await;
    space.reaches_none("member2", LATE).await;
    assert_eq!(lists_since(provider, mark).await.len(), 1);

    // An expired version, a cut, and a restart of the controller take nothing away.
    let mark = consumer.mark().await;
    let relisted = provider.mark().await;
    proxy.set(Fault::Refused);
    env.cluster_says("member1", "False|Unreachable|").await;
    proxy.set(Fault::Expired);
    eventually("the names are listed again", SOON, async || {
        let listed = lists_since(provider, relisted).await;
        let is_of_foo = |uri: &String| uri.contains("service-name+in") && uri.contains("foo");
        let any = listed.iter().any(is_of_foo);
        any.then_some(()).ok_or_else(|| listed.join(" "))
    })
    .await;
    proxy.set(Fault::None);
    env.cluster_says("member1", "True|Synced|").await;
    let restarted = provider.mark().await;
    env.controller.restart_in_order().await;
    env.is_synced("member1").await;
    assert_eq!(writes_since(consumer, mark).await, [""; 0]);
    space.grows(&mut addresses).await;
    let listed = lists_since(provider, restarted).await;
    // Of the slices of Kubernetes those of a name, and all of other writers.
    let is_narrow = |uri: &String| {
        uri.contains("service-name+in+%28foo%29") || uri.contains("managed-by+notin")
    };
    assert!(
        !listed.is_empty() && listed.iter().all(is_narrow),
        "{listed:?}"
    );

    annotate(&env, None, ALL).await;
    space.grows(&mut addresses).await;
    env.join(provider).await;
    env.is_synced("member1").await;
}

#[tokio::test]
async fn exports_of_a_member_with_a_narrow_watch_are_served() {
    let env = Lent::take().await;
    annotate(&env, Some("exposed"), EXPOSED).await;
    let space = env.space("narrowed").await;
    let provider = env.member("member1");
    service("foo")
        .port("http", 80)
        .create(provider, &space)
        .await;
    let pod = space.pod("foo", "member1").await;
    service_export("foo").create(provider, &space).await;
    let derived = "derived-foo";
    space.reaches("member2", derived, &[pod.ip()]).await;
    let more = space.pod("foo", "member1").await;
    space
        .reaches("member2", derived, &[pod.ip(), more.ip()])
        .await;
    space
        .reaches("member1", derived, &[pod.ip(), more.ip()])
        .await;
    let delete = ["delete", "serviceexport", "foo"];
    space.kubectl(provider, delete).await;
    space.reaches_none("member2", derived).await;
    annotate(&env, None, ALL).await;
}
