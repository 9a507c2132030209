//! A name outside all clusters, published by ExternalDNS in BIND.

use causeway::api::labels::{HOSTNAME, HOSTNAME_ROUTING, HOSTNAME_ROUTING_VALUE};
use causeway_tests::causeway::Lent;
use causeway_tests::external_dns::{ExternalDns, define, prerequisites, undefine};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::reaper::Exit;
use causeway_tests::{LONG, Space, eventually, multi_cluster_service, same, service};
use serde_json::json;

const NAME: &str = "foo.example.com";
/// The name of the second test: an environment keeps the objects of the tests before.
const OWNED: &str = "owned.example.com";
const ROUTED: &str = "routed.example.com";
const ONE: &str = "192.0.2.1";
const TWO: &str = "192.0.2.2";

/// Creates the Service of a member, as its load balancer would leave it.
async fn balance(space: &Space<'_>, member: &str, address: &str) {
    let cluster = space.member(member);
    let balanced = service("foo").port("http", 80).type_("LoadBalancer");
    balanced.create(cluster, space).await;
    space.set_ingress(cluster, json!({ "ip": address })).await;
}

/// Waits until the name has exactly these addresses.
async fn leads_to(dns: &ExternalDns<'_>, addresses: &[&str]) {
    eventually(
        &format!("{NAME} leads to {addresses:?}"),
        LONG,
        async || same(dns.dig(NAME, "A").await.records, addresses),
    )
    .await;
}

/// Creates the Services, and the MultiClusterService with this name.
async fn request(space: &Space<'_>, name: &str) {
    let balanced = service("foo").port("http", 80).type_("LoadBalancer");
    balanced.create(space.hub(), space).await;
    let named = multi_cluster_service("foo").type_("LoadBalancer");
    let named = named.providers(["member1", "member2"]);
    named.annotation(HOSTNAME, name).create(space).await;
    for (member, address) in [("member1", ONE), ("member2", TWO)] {
        balance(space, member, address).await;
    }
}

/// Waits until Ready, which is true, says this too.
async fn reports(space: &Space<'_>, part: &str) {
    eventually(&format!("Ready says {part}"), LONG, async || {
        let said = space.says("foo", "Ready", "True|Ready|").await;
        said.contains(part).then_some(()).ok_or(said)
    })
    .await;
}

/// Lets the pods of both clusters die and return, and an API server; then edits the object.
async fn play(space: &Space<'_>, dns: &ExternalDns<'_>, [one, two]: [&RunningPod; 2]) {
    one.set_ready(false).await;
    leads_to(dns, &[TWO]).await;
    // The last one stays.
    two.set_ready(false).await;
    reports(
        space,
        &format!("{NAME} leads to {TWO} (member2) still, although"),
    )
    .await;
    leads_to(dns, &[TWO]).await;
    one.set_ready(true).await;
    leads_to(dns, &[ONE]).await;
    two.set_ready(true).await;
    leads_to(dns, &[ONE, TWO]).await;
    // An API server that does not answer proves nothing.
    space.member("member1").stop().await;
    two.set_ready(false).await;
    leads_to(dns, &[ONE]).await;
    space.member("member1").start().await;
    two.set_ready(true).await;
    leads_to(dns, &[ONE, TWO]).await;
    let edit = r#"[{"op":"replace","path":"/spec/endpoints/0/targets","value":["203.0.113.9"]}]"#;
    let edit = ["patch", "dnsendpoint", "foo", "--type=json", "-p", edit];
    space.kubectl(space.hub(), edit).await;
    let targets = "jsonpath={.spec.endpoints[0].targets}";
    let repaired = format!("[\"{ONE}\",\"{TWO}\"]");
    let object = ["dnsendpoint", "foo"];
    space
        .shows(space.hub().name(), object, targets, &repaired)
        .await;
    leads_to(dns, &[ONE, TWO]).await;
}

/// Makes both clusters entries, which lead to the pods of both. Their load balancers lose addresses
/// and get them again.
async fn play_entries(space: &Space<'_>, dns: &ExternalDns<'_>, [one, two]: [&RunningPod; 2]) {
    let entries = r#"{"consumerClusters":[{"name":"member1"},{"name":"member2"}]}"#;
    space.edit("foo", entries).await;
    for member in ["member1", "member2"] {
        space.reaches(member, "foo", &[one.ip(), two.ip()]).await;
    }
    // Its address returns without a pod of its own.
    one.set_ready(false).await;
    space.reaches("member1", "foo", &[two.ip()]).await;
    space.set_ingress(space.member("member1"), None).await;
    leads_to(dns, &[TWO]).await;
    // The last one stays.
    space.set_ingress(space.member("member2"), None).await;
    space.says("foo", "Ready", "False|NoEntryAddress|").await;
    leads_to(dns, &[TWO]).await;
    for (member, address) in [("member1", ONE), ("member2", TWO)] {
        let cluster = space.member(member);
        space.set_ingress(cluster, json!({ "ip": address })).await;
    }
    leads_to(dns, &[ONE, TWO]).await;
    one.set_ready(true).await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn published_name_follows_clusters_and_is_never_empty() {
    if let Err(missing) = prerequisites() {
        return eprintln!("skipped, a published name: {missing}");
    }
    let env = Lent::take().await;
    let space = env.space("names").await;
    request(&space, NAME).await;
    let one = space.pod("foo", "member1").await;
    let two = space.pod("foo", "member2").await;
    // A controller that has seen a definition learns a moment later that it is gone.
    reports(
        &space,
        &format!("{NAME} is not published: the hub has no definition"),
    )
    .await;
    define(env.hub()).await;
    let dns = ExternalDns::start(&env.fleet).await;
    leads_to(&dns, &[ONE, TWO]).await;
    tokio::select! {
        () = async {
            play(&space, &dns, [&one, &two]).await;
            play_entries(&space, &dns, [&one, &two]).await;
        } => {}
        never = dns.is_never_empty(NAME) => match never {},
    }
    let remove = ["annotate", "mcs", "foo", &format!("{HOSTNAME}-")];
    space.kubectl(env.hub(), remove).await;
    eventually("the name is gone", LONG, async || {
        let answer = dns.dig(NAME, "A").await;
        let is_gone = answer.status == "NXDOMAIN";
        is_gone.then_some(()).ok_or(format!("{answer:?}"))
    })
    .await;
    undefine(env.hub()).await;
}

/// Waits until a command ends with this code and prints all these parts.
async fn prints<const N: usize>(env: &Lent, args: [&str; N], code: i32, parts: &[&str]) {
    eventually(&format!("{args:?} prints {parts:?}"), LONG, async || {
        let output = env.mcs(args).await;
        let text = format!("{}{}", output.stdout, output.stderr);
        let has_all = parts.iter().all(|part| text.contains(part));
        let is_it = has_all && output.exit == Exit::Code(code);
        is_it
            .then_some(())
            .ok_or(format!("{:?}: {text}", output.exit))
    })
    .await;
}

#[tokio::test]
async fn explain_and_diff_read_the_owner_of_a_name() {
    let env = Lent::take().await;
    let space = env.space("owner").await;
    let own = space.name();
    define(env.hub()).await;
    request(&space, OWNED).await;
    space.pod("foo", "member1").await;
    let [foo, bar] = ["foo", "bar"].map(|name| ["explain", name, "-n", own]);
    let leads = format!("{OWNED} leads to {ONE} (member1)");
    prints(&env, foo, 0, &["NamePublished", &leads]).await;
    service("bar")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    let second = multi_cluster_service("bar").type_("LoadBalancer");
    second.annotation(HOSTNAME, OWNED).create(&space).await;
    let taken = format!("MultiClusterService {own}/foo has the name");
    prints(&env, bar, 1, &["NameNotPublished", &taken]).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut named = json!({
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": { "name": "foo", "namespace": own, "annotations": {} },
        "spec": { "types": ["LoadBalancer"], "providerClusters": [{ "name": "member1" }] },
    });
    named["metadata"]["annotations"][HOSTNAME] = json!("other.example.com");
    std::fs::write(file.path(), named.to_string()).expect("it is written");
    let path = file.path().display().to_string();
    let parts = [
        &*format!("hub DNSEndpoint {own}/foo"),
        "-  - dnsName: owned.example.com",
        "+  - dnsName: other.example.com",
    ];
    prints(&env, ["diff", "-f", &path], 1, &parts).await;
    named["metadata"]["name"] = json!("baz");
    named["metadata"]["annotations"][HOSTNAME] = json!(OWNED);
    std::fs::write(file.path(), named.to_string()).expect("it is written");
    let not = format!("# hub: {OWNED} is not published: {taken}");
    prints(&env, ["diff", "-f", &path], 1, &[&not]).await;
    space.kubectl(env.hub(), ["delete", "mcs", "foo"]).await;
    let free = "no cluster has a load balancer with an address";
    prints(&env, bar, 1, &["NameNotPublished", free]).await;
    undefine(env.hub()).await;
}

#[tokio::test]
async fn routed_name_has_a_record_for_each_value() {
    let env = Lent::take().await;
    let space = env.space("routed").await;
    let hub = env.hub();
    define(hub).await;
    request(&space, ROUTED).await;
    let one = space.pod("foo", "member1").await;
    space.pod("foo", "member2").await;
    reports(&space, &format!("{ROUTED} leads to {ONE} (member1), {TWO}")).await;
    let annotate = async |kind: &str, name: &str, annotation: String| {
        let args = ["annotate", "--overwrite", kind, name, &annotation];
        space.kubectl(hub, args).await;
    };
    annotate("mcs", "foo", format!("{HOSTNAME_ROUTING}=aws/region")).await;
    let why = "(without a value: member1, member2)";
    let explain = ["explain", "foo", "-n", space.name()];
    prints(&env, explain, 1, &["NoRoutingValue", why]).await;
    let object = ["dnsendpoint", "foo"];
    let records = "jsonpath={.spec.endpoints[*]['setIdentifier','targets']}";
    let shows = async |expected: String| {
        space.shows(hub.name(), object, records, &expected).await;
    };
    shows(format!("[\"{ONE}\",\"{TWO}\"]")).await;
    for (member, region) in [("member1", "eu-west-1"), ("member2", "us-east-1")] {
        let value = format!("{HOSTNAME_ROUTING_VALUE}={region}");
        annotate("cluster", member, value).await;
    }
    shows(format!("eu-west-1 us-east-1 [\"{ONE}\"] [\"{TWO}\"]")).await;
    reports(&space, &format!("{ONE} (member1: eu-west-1)")).await;
    one.set_ready(false).await;
    shows(format!("us-east-1 [\"{TWO}\"]")).await;
    for member in ["member1", "member2"] {
        annotate("cluster", member, format!("{HOSTNAME_ROUTING_VALUE}-")).await;
    }
    undefine(hub).await;
}
