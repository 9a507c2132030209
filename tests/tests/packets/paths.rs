//! Reports of causeway-agent on paths, and what becomes of clients while a path fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use causeway::api::labels;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::clock::Clocks;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{
    Cluster, Environment, Fleet, LONG, Space, binaries, eventually, same, throughout,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;

use super::client::Client;
use super::{packets, said_by, started, web};

/// Pods of member1, which the consumer, member3, does not reach while the path is cut.
const CUT: [&str; 3] = [
    "nft add table ip cut",
    "nft add chain ip cut o { type filter hook output priority 0 ; }",
    "nft add rule ip cut o ip daddr 10.129.0.0/16 drop",
];
/// Number of the clock of causeway-agent.
const AGENT: usize = 1;
const MEND: [&str; 1] = ["nft delete table ip cut"];

async fn run(member: &Cluster, commands: &[&str]) {
    for command in commands {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        member.exec(program, words).await.ok();
    }
}

/// Starts causeway-agent on the node of a member, with the account of
/// `manifests/member/paths.yaml`.
async fn start_agent(env: &Environment, member: &Cluster, clocks: &Clocks) -> Process {
    for file in ["member/paths.yaml", "member/paths-provider-ttl.yaml"] {
        let manifest = env.installation.manifest(file);
        member.kubectl(["apply", "-f", &manifest]).await.ok();
    }
    let kubeconfig = member.kubeconfig_as(NAMESPACE, "causeway-paths").await;
    let log = env.fleet.directory().join("causeway-paths.log");
    env.fleet.add_log(&log);
    let program = Program::new(binaries::causeway("causeway-agent"), log)
        .arg("--report-paths")
        .arg("--provider-ttl=5m")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg("--admin-bind=127.0.0.1:8094")
        .in_network(member.network_namespace().expect("a fleet with packets"));
    env.fleet.reaper().run(clocks.give_both(AGENT, program))
}

/// Returns the annotations of the Lease about the path to a cluster.
async fn annotations(member: &Cluster, source: &str) -> Result<BTreeMap<String, String>, String> {
    let leases = Api::<Lease>::namespaced(member.client(), "causeway-system");
    let lease = leases.get(&format!("causeway-path-{source}")).await;
    let meta = lease.map_err(|error| error.to_string())?.metadata;
    Ok(meta.annotations.unwrap_or_default())
}

async fn reports(member: &Cluster, source: &str, path: &str) {
    let what = format!("the path to {source} is {path}");
    eventually(&what, LONG, async || {
        let report = annotations(member, source).await?.remove(labels::PATH);
        let report = report.unwrap_or_default();
        let is_so = report.contains(&format!("\"path\":\"{path}\""));
        is_so.then_some(()).ok_or(report)
    })
    .await;
}

/// Waits until the Events at the Lease about member1 have these reasons.
async fn tells(member: &Cluster, reasons: &[&str]) {
    eventually(&format!("Events of {reasons:?}"), LONG, async || {
        let about = "involvedObject.kind=Lease,involvedObject.name=causeway-path-member1";
        let path = "jsonpath={range .items[*]}{.reason}{\"\\n\"}{end}";
        let get = ["get", "events", "-n", "causeway-system"];
        let select = ["--field-selector", about, "-o", path];
        let said = member.kubectl([&get[..], &select].concat()).await.ok();
        let said: BTreeSet<&str> = said.lines().collect();
        same(said.into_iter().collect::<Vec<_>>(), reasons)
    })
    .await;
}

/// Waits until the copy of a provider in the consumer is standby, or is not; returns whether
/// causeway-agent made it so.
async fn stands_by(space: &Space<'_>, consumer: &Cluster, provider: &str, expected: bool) -> bool {
    let slices = space.api::<EndpointSlice>(consumer);
    let what = format!("standby of {provider} is {expected}");
    eventually(&what, LONG, async || {
        let of_hub = kube::api::ListParams::default().labels(labels::HUB);
        let all = slices
            .list(&of_hub)
            .await
            .map_err(|error| error.to_string())?;
        let copy = all.items.into_iter().find(|slice| {
            let annotations = slice.metadata.annotations.as_ref();
            annotations
                .and_then(|all| all.get(labels::PROVISION_CLUSTER))
                .map(String::as_str)
                == Some(provider)
        });
        let copy = copy.ok_or("no copy of it")?;
        let annotations = copy.metadata.annotations.unwrap_or_default();
        let is_standby = annotations.contains_key(labels::STANDBY);
        (is_standby == expected)
            .then(|| annotations.contains_key(labels::LOWERED))
            .ok_or_else(|| format!("{annotations:?}"))
    })
    .await
}

/// A service of member1 and member2 whose clients are in member3.
struct Story<'a> {
    space: Space<'a>,
    consumer: &'a Cluster,
    pods: [RunningPod; 2],
}

impl<'a> Story<'a> {
    async fn begin(env: &'a Environment) -> Self {
        let space = env.fleet.space("paths").await;
        web().create(env.fleet.hub(), &space).await;
        let pods = [
            space.pod("foo", "member1").await,
            space.pod("foo", "member2").await,
        ];
        space
            .offer("foo", ["member1", "member2"], ["member3"])
            .await;
        let consumer = env.fleet.member("member3");
        space
            .reaches(
                "member3",
                "foo",
                &pods.each_ref().map(|pod| pod.ip().to_owned()),
            )
            .await;
        Self {
            space,
            consumer,
            pods,
        }
    }

    /// Waits until clients are answered by member2 alone, after the path to member1 was cut.
    /// Returns the time until no request failed any more.
    async fn cut(&self, env: &Environment) -> Duration {
        let url = format!("http://foo.{}.svc.cluster.local", self.space.name());
        let client = Client::start(&env.fleet, self.consumer, &url);
        let both = said_by(&[(&self.pods[0], "member1"), (&self.pods[1], "member2")]);
        client.answered_by(&both[..1], SystemTime::now()).await;
        run(self.consumer, &CUT).await;
        let (begun, wall) = (Instant::now(), SystemTime::now());
        reports(self.consumer, "member1", "bad").await;
        eprintln!(
            "path reported bad after {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        stands_by(&self.space, self.consumer, "member1", true).await;
        eprintln!("standby after {:.1} s", begun.elapsed().as_secs_f64());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let requests = client.stop().await;
        let failed = requests
            .iter()
            .filter(|one| one.begun >= wall && one.answer.is_err());
        let last = failed.map(|one| one.begun).max();
        let last = last
            .and_then(|last| last.duration_since(wall).ok())
            .unwrap_or_default();
        eprintln!("no request fails {:.1} s after the cut", last.as_secs_f64());
        last
    }
}

/// The time to live of the provider ends; the other provider serves alone.
async fn silent_provider_is_deleted_after_its_time(story: &Story<'_>, clocks: &Clocks) {
    let slices = story.space.api::<EndpointSlice>(story.consumer);
    let providers = async || {
        let all = slices.list(&kube::api::ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items.into_iter();
        let of = |slice: EndpointSlice| {
            slice
                .metadata
                .annotations?
                .remove(labels::PROVISION_CLUSTER)
        };
        Ok::<BTreeSet<String>, String>(all.filter_map(of).collect())
    };
    let both = ["member1", "member2"].map(str::to_owned);
    assert_eq!(providers().await, Ok(both.into()), "it has time left");
    clocks.set(AGENT, 300);
    eventually("the copy of member1 is deleted", LONG, async || {
        same(providers().await?, &BTreeSet::from(["member2".to_owned()]))
    })
    .await;
    let ready = story.space.ready_addresses(story.consumer, "foo").await;
    assert_eq!(ready, [story.pods[1].ip()]);
    let reasons = ["Deleted", "MadeStandby", "PathBad", "PathGood"];
    tells(story.consumer, &reasons).await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn path_that_fails_moves_clients_with_and_without_a_hub() {
    if !packets() {
        return;
    }
    let env = started(Fleet::builder().members(3).packets()).await;
    let story = Story::begin(&env).await;
    let consumer = story.consumer;
    let clocks = Clocks::new(env.fleet.directory());
    let agent = start_agent(&env, consumer, &clocks).await;
    let annotation = format!("{}=true", labels::PATH_REPORTS);
    let annotate = ["annotate", "cluster", "member3", &annotation];
    env.fleet.hub().kubectl(annotate).await.ok();
    for source in ["member1", "member2"] {
        reports(consumer, source, "good").await;
    }

    let with_hub = story.cut(&env).await;
    assert!(with_hub < Duration::from_secs(60), "{with_hub:?}");
    let is_lowered = stands_by(&story.space, consumer, "member1", true).await;
    assert!(!is_lowered, "the controller answers");
    let name = story.space.name();
    let expected = format!(
        "True|Ready|{name}/foo can be reached from 1 cluster, backed by 2 clusters; no endpoint of \
         member1 answers in member3"
    );
    story.space.says("foo", "Ready", &expected).await;
    run(consumer, &MEND).await;
    stands_by(&story.space, consumer, "member1", false).await;
    tells(consumer, &["PathBad", "PathGood"]).await;

    // Without a hub the agent decides.
    env.controller.process().end().await;
    let without_hub = story.cut(&env).await;
    assert!(without_hub < Duration::from_secs(60), "{without_hub:?}");
    let is_lowered = stands_by(&story.space, consumer, "member1", true).await;
    assert!(is_lowered, "only the agent is there");
    tells(consumer, &["MadeStandby", "PathBad", "PathGood"]).await;
    silent_provider_is_deleted_after_its_time(&story, &clocks).await;

    // The hub is back: it decides, and nothing of the agent's is left.
    env.controller.restart().await;
    eventually("the controller has noted the path", LONG, async || {
        let annotations = annotations(consumer, "member1").await?;
        let seen = annotations
            .get(labels::PATH_SEEN)
            .cloned()
            .unwrap_or_default();
        let report = annotations.get(labels::PATH).cloned().unwrap_or_default();
        let is_noted = !seen.is_empty() && report.contains(&seen);
        is_noted.then_some(()).ok_or(report)
    })
    .await;
    run(consumer, &MEND).await;
    let is_lowered = stands_by(&story.space, consumer, "member1", false).await;
    assert!(!is_lowered, "the controller has written it");

    // No path works: it may be the network of the agent.
    let all = CUT.map(|command| command.replace("10.129.0.0/16", "10.128.0.0/9"));
    run(consumer, &all.each_ref().map(String::as_str)).await;
    throughout(
        "both providers are used",
        Duration::from_secs(30),
        async || {
            let ready = story.space.ready_addresses(consumer, "foo").await;
            (ready.len() == 2).then_some(()).ok_or(format!("{ready:?}"))
        },
    )
    .await;
    run(consumer, &MEND).await;
    assert!(agent.is_running(), "{}", agent.log_tail(20));
    agent.terminate();
    let exit = agent.exited(Duration::from_secs(5)).await;
    assert!(exit.success(), "{exit:?}");
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn standby_cluster_serves_where_the_preferred_path_fails_without_a_hub() {
    if !packets() {
        return;
    }
    let env = started(Fleet::builder().members(3).packets()).await;
    let story = Story::begin(&env).await;
    let consumer = story.consumer;
    let clocks = Clocks::new(env.fleet.directory());
    let _agent = start_agent(&env, consumer, &clocks).await;
    let prefer = format!("{}=cluster/member1, cluster/member2", labels::PREFER);
    let prefer = ["annotate", "mcs", "foo", prefer.as_str()];
    story.space.kubectl(env.fleet.hub(), prefer).await;
    assert!(!stands_by(&story.space, consumer, "member2", true).await);
    for source in ["member1", "member2"] {
        reports(consumer, source, "good").await;
    }

    env.controller.process().end().await;
    let without_hub = story.cut(&env).await;
    assert!(without_hub < Duration::from_secs(60), "{without_hub:?}");
    let ready = story.space.ready_addresses(consumer, "foo").await;
    assert_eq!(ready, [story.pods[1].ip()]);

    // The hub is back: it decides.
    run(consumer, &MEND).await;
    env.controller.restart().await;
    assert!(!stands_by(&story.space, consumer, "member1", false).await);
    assert!(!stands_by(&story.space, consumer, "member2", true).await);
}
