//! `kubectl mcs adopt` and `kubectl mcs hand-over`.

use std::time::Duration;

use causeway_tests::binaries;
use causeway_tests::karmada::{at_rest, names, works_of};
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{SOON, eventually, multi_cluster_service};
use kube::ResourceExt;
use serde_json::Value;

use crate::churn::Churn;
use crate::environment::{NOTICED, Stage, bears};

/// Time in which the commands wait for answers of Karmada's controllers: the imitation has no rate
/// limits.
const OBSERVE: &str = "--observe=3s";

#[tokio::test]
async fn adoption_and_hand_over_lose_no_endpoint_under_churn() {
    let stage = Stage::set("moves").await;
    stage.karmada.gate(true);
    stage.service().await;
    let mcs = multi_cluster_service("foo")
        .providers(["member1", "member2"])
        .consumers(["member2", "member3"]);
    mcs.create(&stage.space).await;
    let mut stayed = stage.pods(1).await;
    let local = stayed.clone();
    stayed.extend(stage.space.backends("foo").create(stage.member(2)).await);
    stage.is_karmadas(2, &stayed).await;
    stage.is_karmadas(3, &stayed).await;

    let observer = stage.observer(&[1, 2, 3]);
    observer.sees(3).await;
    let churns = [1, 2].map(|number| Churn::begin(&stage.space, stage.member(number)));
    is_refused_while_the_gate_is_on(&stage).await;
    stage.karmada.gate(false);
    adopt_however_often_it_is_killed(&stage).await;
    nothing_of_karmadas_is_left(&stage).await;
    rolls_on(&churns).await;

    stage.karmada.gate(true);
    stage
        .mcs(&format!("hand-over foo {OBSERVE} --timeout=60s"))
        .await
        .ok();
    nothing_of_causeways_is_left(&stage).await;
    rolls_on(&churns).await;
    let mut all = stayed.clone();
    for churn in churns {
        all.extend(churn.end().await);
    }
    stage.is_karmadas(2, &all).await;
    stage.is_karmadas(3, &all).await;
    observer.nothing_lacked(&[
        ("member1", &local),
        ("member2", &stayed),
        ("member3", &stayed),
    ]);
    observer.kubernetes_slices_stayed("member1");
}

#[tokio::test]
async fn adoption_steps_are_commands_and_typed_steps_are_skipped() {
    let stage = Stage::set("typed").await;
    stage.karmada.gate(true);
    stage.service().await;
    stage.carry().await;
    let pods = stage.pods(1).await;
    stage.is_karmadas(2, &pods).await;
    let observer = stage.observer(&[1, 2]);
    observer.sees(2).await;
    at_rest(stage.hub(), &stage.space, "foo").await;
    stage.karmada.gate(false);

    let mut left = commands(&stage).await;
    assert!(left.len() > 4, "{left:?}");
    while !left.is_empty() {
        let (member, command) = left.remove(0);
        if member.is_some() {
            eventually("causeway's copies are there", SOON, async || {
                !stage.own_objects(2).await.is_empty()
            })
            .await;
        }
        let cluster = member
            .as_deref()
            .map_or(stage.hub(), |name| stage.space.fleet().member(name));
        let (words, patch) = command.split_once(" -p ").unwrap_or((&command, ""));
        let patch = patch.trim_matches('\'');
        let words = words.split_whitespace().skip(1);
        let patch = ["-p", patch]
            .into_iter()
            .take(if patch.is_empty() { 0 } else { 2 });
        cluster.kubectl(words.chain(patch)).await.ok();
        let planned = commands(&stage).await;
        let same = |one: &[(Option<String>, String)]| -> Vec<String> {
            one.iter()
                .map(|(_, command)| without_patch(command))
                .collect()
        };
        assert_eq!(same(&planned), same(&left), "after {command}");
        left = planned;
    }
    stage.mcs(&format!("adopt foo {OBSERVE}")).await.ok();
    nothing_of_karmadas_is_left(&stage).await;
    observer.nothing_lacked(&[("member1", &pods), ("member2", &pods)]);
    observer.kubernetes_slices_stayed("member1");
}

/// Returns the writes of `adopt --dry-run`: the member, and the command.
async fn commands(stage: &Stage) -> Vec<(Option<String>, String)> {
    let planned = stage
        .mcs("adopt foo --dry-run --observe=1s -o json")
        .await
        .ok();
    let planned: Value = serde_json::from_str(&planned).expect("JSON");
    let commands = planned["services"][0]["commands"]
        .as_array()
        .expect("commands")
        .iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    commands
        .map(|one| {
            (
                text(&one["member"]),
                text(&one["command"]).expect("a command"),
            )
        })
        .collect()
}

/// A patch holds the version that was read.
fn without_patch(command: &str) -> String {
    command.split(" -p ").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn adopted_service_keeps_the_endpoints_of_a_user() {
    let stage = Stage::set("byhand").await;
    stage.karmada.gate(true);
    stage.service().await;
    stage.carry().await;
    let pods = stage.pods(1).await;
    let by_hand = "10.129.200.7";
    let slice = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: foo-by-hand, labels: {{kubernetes.io/service-name: foo, endpointslice.kubernetes.io/managed-by: staff}}}}\naddressType: IPv4\nendpoints: [{{addresses: [{by_hand}]}}]\nports: [{{name: http, port: 80, protocol: TCP}}]\n"
    );
    let create = ["create", "-n", stage.space.name(), "-f", "-"];
    stage.member(1).kubectl_with(create, &slice).await.ok();
    let both = async || {
        let ready = stage.space.ready_addresses(stage.member(2), "foo").await;
        let expected = [pods[0].ip(), by_hand];
        let all = expected.iter().all(|ip| ready.iter().any(|one| one == ip));
        all.then_some(()).ok_or(format!("{ready:?}"))
    };
    eventually("Karmada carries it", NOTICED, both).await;
    stage.gives_way(2).await;
    at_rest(stage.hub(), &stage.space, "foo").await;
    stage.karmada.gate(false);

    stage.mcs(&format!("adopt foo {OBSERVE}")).await.ok();
    nothing_of_karmadas_is_left(&stage).await;
    both().await.expect("both endpoints");
}

async fn is_refused_while_the_gate_is_on(stage: &Stage) {
    let refused = stage.mcs(&format!("adopt foo {OBSERVE}")).await;
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(!refused.exit.success(), "{said}");
    assert!(
        said.contains("--feature-gates=MultiClusterService=false"),
        "{said}"
    );
    let works = works_of(stage.hub(), &stage.space, "foo").await;
    assert!(
        works
            .iter()
            .any(|work| work.contains(names::MULTI_CLUSTER_SERVICE))
    );
}

/// Killed a little later every time, until it ends by itself.
async fn adopt_however_often_it_is_killed(stage: &Stage) {
    let mut patience = Duration::from_millis(1000);
    loop {
        let adopt = start(stage, "adopt foo --observe=1s");
        if ends_within(&adopt, patience).await {
            let exit = adopt.exit().expect("it ended");
            assert!(exit.success(), "{exit:?}: {}", adopt.log_tail(40));
            return;
        }
        adopt.kill().await;
        patience += Duration::from_millis(250);
        assert!(
            patience < NOTICED,
            "adopt never ends: {}",
            adopt.log_tail(40)
        );
    }
}

fn start(stage: &Stage, command: &str) -> Process {
    let fleet = stage.space.fleet();
    let log = fleet.directory().join("adopt.log");
    let program = Program::new(binaries::causeway("kubectl-mcs"), &log).stderr(&log);
    let program = program.env("KUBECONFIG", stage.hub().kubeconfig().display().to_string());
    let words = command.split_whitespace().chain(["-n", stage.space.name()]);
    fleet.reaper().run(program.args(words))
}

async fn ends_within(process: &Process, patience: Duration) -> bool {
    let ended = async {
        while process.is_running() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(patience, ended).await.is_ok()
}

async fn nothing_of_karmadas_is_left(stage: &Stage) {
    let works = works_of(stage.hub(), &stage.space, "foo").await;
    let works: Vec<_> = works.iter().map(ResourceExt::name_any).collect();
    assert_eq!(works, Vec::<String>::new());
    for number in [2, 3] {
        let slices = stage.space.slices(stage.member(number), "foo").await;
        let theirs = slices.iter().filter(|slice| {
            bears(*slice, names::MANAGED)
                && slice
                    .labels()
                    .get(names::SLICE_MANAGED_BY)
                    .is_some_and(|by| by == names::DISPATCHER)
        });
        assert_eq!(theirs.count(), 0, "member{number}");
    }
    assert!(!finalizers(stage).await.contains("karmada.io"));
    stage.says("True|Ready|").await;
}

async fn nothing_of_causeways_is_left(stage: &Stage) {
    for number in [1, 2, 3] {
        let own = stage.own_objects(number).await;
        assert_eq!(own, Vec::<String>::new(), "member{number}");
    }
    stage.nothing_is_marked().await;
    assert!(!finalizers(stage).await.contains("causeway"));
}

async fn finalizers(stage: &Stage) -> String {
    let path = "-o=jsonpath={.metadata.finalizers}";
    let get = ["get", "mcs", "foo", "-n", stage.space.name(), path];
    stage.hub().kubectl(get).await.ok()
}

/// Two more pods in each member are replaced.
async fn rolls_on(churns: &[Churn]) {
    for churn in churns {
        let before = churn.rounds();
        eventually("pods come and go", SOON, async || {
            churn.rounds() >= before + 2
        })
        .await;
    }
}
