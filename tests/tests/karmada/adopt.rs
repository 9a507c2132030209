//! `kubectl mcs adopt` and `kubectl mcs hand-over`.

use std::time::Duration;

use causeway_tests::karmada::{at_rest, names, works_of};
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{LONG, SOON, binaries, eventually};
use kube::ResourceExt;
use serde_json::Value;

use crate::churn::Churn;
use crate::environment::{Turn, bears};

/// Time in which the commands wait for answers of Karmada's controllers: the imitation has no rate
/// limits.
const OBSERVE: &str = "--observe=3s";
/// Maximum time until a conflict is over that both controllers had while the service was new. It is
/// reported for a minute after the pause.
const SETTLED: Duration = Duration::from_secs(150);

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn adoption_and_hand_over_lose_no_endpoint_under_churn() {
    let turn = Turn::set("moves").await;
    turn.karmada.gate(true);
    turn.expose("foo", ["member1", "member2"], ["member2", "member3"])
        .await;
    let mut stayed = turn.pods("foo", "member1", 1).await;
    let local = stayed.clone();
    stayed.extend(turn.pods("foo", "member2", 1).await);
    turn.is_karmadas("member2", &stayed).await;
    turn.is_karmadas("member3", &stayed).await;

    let observer = turn.observer(&["member1", "member2", "member3"]);
    observer.sees(3).await;
    let churns = [1, 2].map(|number| Churn::begin(&turn, turn.member(&format!("member{number}"))));
    is_refused_while_the_gate_is_on(&turn).await;
    turn.karmada.gate(false);
    adopt_however_often_it_is_killed(&turn).await;
    nothing_of_karmadas_is_left(&turn).await;
    rolls_on(&churns).await;

    turn.karmada.gate(true);
    turn.mcs(&format!("hand-over foo {OBSERVE} --timeout=180s"))
        .await
        .ok();
    nothing_of_causeways_is_left(&turn).await;
    rolls_on(&churns).await;
    let mut all = stayed.clone();
    for churn in churns {
        all.extend(churn.end().await);
    }
    turn.is_karmadas("member2", &all).await;
    turn.is_karmadas("member3", &all).await;
    observer.nothing_lacked(&[
        ("member1", &local),
        ("member2", &stayed),
        ("member3", &stayed),
    ]);
    observer.kubernetes_slices_stayed("member1");
}

#[tokio::test]
async fn adoption_steps_are_commands_and_typed_steps_are_skipped() {
    let turn = Turn::set("typed").await;
    turn.karmada.gate(true);
    turn.expose("foo", ["member1"], ["member2"]).await;
    let pods = turn.pods("foo", "member1", 1).await;
    turn.is_karmadas("member2", &pods).await;
    let observer = turn.observer(&["member1", "member2"]);
    observer.sees(2).await;
    at_rest(turn.hub(), &turn, "foo").await;
    turn.karmada.gate(false);

    let mut left = commands(&turn).await;
    assert!(left.len() > 4, "{left:?}");
    while !left.is_empty() {
        let (member, command) = left.remove(0);
        if member.is_some() {
            eventually("causeway's copies are there", SOON, async || {
                !turn.own_objects("member2").await.is_empty()
            })
            .await;
        }
        let cluster = member
            .as_deref()
            .map_or(turn.hub(), |name| turn.fleet().member(name));
        let (words, patch) = command.split_once(" -p ").unwrap_or((&command, ""));
        let patch = patch.trim_matches('\'');
        let words = words.split_whitespace().skip(1);
        let patch = ["-p", patch]
            .into_iter()
            .take(if patch.is_empty() { 0 } else { 2 });
        cluster.kubectl(words.chain(patch)).await.ok();
        let planned = commands(&turn).await;
        let same = |one: &[(Option<String>, String)]| -> Vec<String> {
            one.iter()
                .map(|(_, command)| without_patch(command))
                .collect()
        };
        assert_eq!(same(&planned), same(&left), "after {command}");
        left = planned;
    }
    turn.mcs(&format!("adopt foo {OBSERVE}")).await.ok();
    nothing_of_karmadas_is_left(&turn).await;
    observer.nothing_lacked(&[("member1", &pods), ("member2", &pods)]);
    observer.kubernetes_slices_stayed("member1");
}

/// Returns the writes of `adopt --dry-run`: the member, and the command.
async fn commands(turn: &Turn) -> Vec<(Option<String>, String)> {
    let planned = turn
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

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn adopted_service_keeps_the_endpoints_of_a_user() {
    let turn = Turn::set("byhand").await;
    turn.karmada.gate(true);
    turn.expose("foo", ["member1"], ["member2"]).await;
    let pods = turn.pods("foo", "member1", 1).await;
    let by_hand = "10.129.200.7";
    let slice = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: foo-by-hand, labels: {{kubernetes.io/service-name: foo, endpointslice.kubernetes.io/managed-by: staff}}}}\naddressType: IPv4\nendpoints: [{{addresses: [{by_hand}]}}]\nports: [{{name: http, port: 80, protocol: TCP}}]\n"
    );
    let create = ["create", "-n", turn.name(), "-f", "-"];
    turn.member("member1")
        .kubectl_with(create, &slice)
        .await
        .ok();
    let both = async || {
        let ready = turn.ready_addresses(turn.member("member2"), "foo").await;
        let expected = [pods[0].ip(), by_hand];
        let all = expected.iter().all(|ip| ready.iter().any(|one| one == ip));
        all.then_some(()).ok_or(format!("{ready:?}"))
    };
    eventually("Karmada carries it", LONG, both).await;
    turn.gives_way("member2").await;
    at_rest(turn.hub(), &turn, "foo").await;
    turn.karmada.gate(false);

    turn.mcs(&format!("adopt foo {OBSERVE}")).await.ok();
    nothing_of_karmadas_is_left(&turn).await;
    both().await.expect("both endpoints");
}

async fn is_refused_while_the_gate_is_on(turn: &Turn) {
    let refused = turn.mcs(&format!("adopt foo {OBSERVE}")).await;
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(!refused.exit.success(), "{said}");
    assert!(
        said.contains("--feature-gates=MultiClusterService=false"),
        "{said}"
    );
    let works = works_of(turn.hub(), turn, "foo").await;
    assert!(
        works
            .iter()
            .any(|work| work.contains(names::MULTI_CLUSTER_SERVICE))
    );
}

/// Killed a little later every time, until it ends by itself.
async fn adopt_however_often_it_is_killed(turn: &Turn) {
    let mut patience = Duration::from_millis(1000);
    loop {
        let adopt = start(turn, "adopt foo --observe=1s");
        if ends_within(&adopt, patience).await {
            let exit = adopt.exit().expect("it ended");
            assert!(exit.success(), "{exit:?}: {}", adopt.log_tail(40));
            return;
        }
        adopt.kill().await;
        patience += Duration::from_millis(250);
        assert!(patience < LONG, "adopt never ends: {}", adopt.log_tail(40));
    }
}

fn start(turn: &Turn, command: &str) -> Process {
    let fleet = turn.fleet();
    let log = fleet.directory().join("adopt.log");
    let program = Program::new(binaries::causeway("kubectl-mcs"), &log).stderr(&log);
    let program = program.env("KUBECONFIG", turn.hub().kubeconfig().display().to_string());
    let words = command.split_whitespace().chain(["-n", turn.name()]);
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

async fn nothing_of_karmadas_is_left(turn: &Turn) {
    let works = works_of(turn.hub(), turn, "foo").await;
    let works: Vec<_> = works.iter().map(ResourceExt::name_any).collect();
    assert_eq!(works, Vec::<String>::new());
    for number in [2, 3] {
        let slices = turn
            .slices(turn.member(&format!("member{number}")), "foo")
            .await;
        let theirs = slices.iter().filter(|slice| {
            bears(*slice, names::MANAGED)
                && slice
                    .labels()
                    .get(names::SLICE_MANAGED_BY)
                    .is_some_and(|by| by == names::DISPATCHER)
        });
        assert_eq!(theirs.count(), 0, "member{number}");
    }
    assert!(!finalizers(turn).await.contains("karmada.io"));
    let settled = turn.within(SETTLED);
    settled.says("foo", "Ready", "True|Ready|").await;
}

async fn nothing_of_causeways_is_left(turn: &Turn) {
    for number in [1, 2, 3] {
        let own = turn.own_objects(&format!("member{number}")).await;
        assert_eq!(own, Vec::<String>::new(), "member{number}");
    }
    turn.nothing_is_marked().await;
    assert!(!finalizers(turn).await.contains("causeway"));
}

async fn finalizers(turn: &Turn) -> String {
    let path = "-o=jsonpath={.metadata.finalizers}";
    let get = ["get", "mcs", "foo", "-n", turn.name(), path];
    turn.hub().kubectl(get).await.ok()
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
