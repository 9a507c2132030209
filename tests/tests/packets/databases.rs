//! A database whose members find each other by the names of the clusterset: etcd, with one member
//! in each of three clusters.

use causeway_tests::binaries::Testbed;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::kubectl::Output;
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{
    Cluster, Environment, Fleet, LONG, Space, eventually, network, pod, service, service_export,
};

use crate::packets;

/// One member of the database.
struct Member<'a> {
    cluster: &'a Cluster,
    pod: RunningPod,
    process: Process,
}

/// Name of a member's pod in the clusterset.
fn host(cluster: &Cluster, space: &Space<'_>) -> String {
    let (cluster, namespace) = (cluster.name(), space.name());
    format!("db-0.{cluster}.db.{namespace}.svc.clusterset.local")
}

impl<'a> Member<'a> {
    /// Creates the pod, and starts etcd in it. The pod is not ready before etcd answers.
    async fn start(env: &Environment, space: &Space<'_>, cluster: &'a Cluster) -> Self {
        let db = pod("db-0", "db").hostname("db-0", "db").unready();
        let pod = db.create(cluster, space).await;
        let own = host(cluster, space);
        let all = env.fleet.members().iter();
        let all = all.map(|one| format!("{}=http://{}:2380", one.name(), host(one, space)));
        let directory = cluster.directory().join("db");
        let log = cluster.directory().join("db.log");
        let etcd = Program::new(Testbed::get().program("etcd"), log)
            .args([
                format!("--name={}", cluster.name()),
                format!("--data-dir={}", directory.display()),
                format!("--listen-peer-urls=http://{}:2380", pod.ip()),
                format!("--listen-client-urls=http://{}:2379", pod.ip()),
                format!("--initial-advertise-peer-urls=http://{own}:2380"),
                format!("--advertise-client-urls=http://{own}:2379"),
                format!("--initial-cluster={}", all.collect::<Vec<_>>().join(",")),
            ])
            .in_network(pod.network().namespace());
        let process = env.fleet.reaper().run(etcd);
        Self {
            cluster,
            pod,
            process,
        }
    }

    /// Posts a request to its own client port.
    async fn post(&self, path: &str, body: &str) -> Output {
        let url = format!("http://{}:2379/v3/{path}", self.pod.ip());
        let curl = ["-sSf", "--max-time", "5", "-d", body, &url];
        self.pod.network().exec(self.cluster, "curl", curl).await
    }

    /// Writes a value, which takes a quorum.
    async fn write(&self, value: &str) {
        let body = format!(r#"{{"key": "Zm9v", "value": "{value}"}}"#);
        let what = format!("{} writes {value}", self.cluster.name());
        eventually(&what, LONG, async || {
            let answer = self.post("kv/put", &body).await;
            let log = || format!("{}{}", answer.stderr, self.process.log_tail(5));
            answer.exit.success().then_some(()).ok_or_else(log)
        })
        .await;
    }

    /// Waits until it reads that value, which takes a quorum too.
    async fn reads(&self, value: &str) {
        let what = format!("{} reads {value}", self.cluster.name());
        eventually(&what, LONG, async || {
            let answer = self.post("kv/range", r#"{"key": "Zm9v"}"#).await;
            let log = || format!("{answer:?}{}", self.process.log_tail(5));
            let is_read = answer.stdout.contains(&format!(r#""value":"{value}""#));
            is_read.then_some(()).ok_or_else(log)
        })
        .await;
        self.pod.set_ready(true).await;
    }
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn etcd_of_three_clusters_keeps_its_quorum_while_one_is_lost_and_returns() {
    if !packets() {
        return;
    }
    if let Err(missing) = network::dig() {
        eprintln!("skipped, no names: {missing}");
        return;
    }
    let fleet = Fleet::builder()
        .members(3)
        .packets()
        .clusterset()
        .start()
        .await;
    let env = &Environment::start(fleet).await;
    let space = env.fleet.space("db").await;
    let [first, second, third] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    for cluster in [first, second, third] {
        let db = service("db")
            .port("peer", 2380)
            .port("client", 2379)
            .headless();
        let db = db.with(|spec| spec.publish_not_ready_addresses = Some(true));
        db.create(cluster, &space).await;
        service_export("db").create(cluster, &space).await;
    }
    let one = Member::start(env, &space, first).await;
    let two = Member::start(env, &space, second).await;
    let three = Member::start(env, &space, third).await;
    one.write("MQ==").await;
    for member in [&one, &two, &three] {
        member.reads("MQ==").await;
    }

    // The third cluster is lost, with its API server.
    three.process.kill().await;
    third.pause();
    two.write("Mg==").await;
    one.reads("Mg==").await;

    // It returns, and its pod has another address.
    third.resume();
    three.pod.delete().await;
    let three = Member::start(env, &space, third).await;
    three.reads("Mg==").await;

    // Its vote counts: the others are no quorum without it.
    one.process.kill().await;
    one.pod.delete().await;
    three.write("Mw==").await;
    two.reads("Mw==").await;
    let one = Member::start(env, &space, first).await;
    one.reads("Mw==").await;
}
