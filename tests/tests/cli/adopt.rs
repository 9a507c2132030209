//! Services between Karmada's controllers and causeway.

mod karmada;

use causeway::api::MultiClusterService;
use causeway_tests::karmada::{Observer, names};
use causeway_tests::kubectl::Output;
use causeway_tests::{Environment, Fleet, Karmada, SOON, Space, eventually};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

use self::karmada::Carried;
use crate::{ends, json};

/// A hub with Karmada's definitions, and members a and b, joined; causeway's controller is at work.
async fn start() -> Environment {
    let fleet = Fleet::builder().named_members(["a", "b"]).start().await;
    let env = Environment::builder().unjoined().start(fleet).await;
    Karmada::install(&env.fleet).await;
    env.controller.restart_in_order().await;
    for member in env.fleet.members() {
        env.join(member).await;
    }
    env
}

async fn observed(env: &Environment, command: &str, space: &Space<'_>, more: &[&str]) -> Output {
    let words = command
        .split(' ')
        .chain(["-n", space.name(), "--observe=3s"]);
    let words = words.chain(more.iter().copied());
    env.mcs(words).await
}

async fn finalizers(env: &Environment, space: &Space<'_>) -> Vec<String> {
    let api = space.api::<MultiClusterService>(env.hub());
    api.get("foo").await.expect("it").finalizers().to_vec()
}

/// Lists the provider's own slices, and those in a consumer from other clusters.
async fn slices(env: &Environment, space: &Space<'_>, member: &str) -> Vec<EndpointSlice> {
    let mut slices = space.slices(env.member(member), "foo").await;
    slices.retain(|slice| member == "a" || karmada::is_from_elsewhere(slice));
    slices
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn adopt_leaves_slices_without_a_replacement() {
    let env = start().await;
    what_karmada_carries_is_decided_by_its_own_slices(&env).await;
    a_gate_that_is_on_is_found(&env).await;
    a_service_is_adopted_without_a_gap(&env).await;
    what_was_interrupted_is_gone_on_with(&env).await;
    deprecated_field_that_karmada_ignores_is_refused(&env).await;
    a_slice_without_a_replacement_is_left(&env).await;
    a_deletion_that_hangs_on_karmada_ends(&env).await;
    what_is_not_there_and_who_may_not_see_it(&env).await;
    nothing_is_given_to_a_karmada_that_does_not_answer(&env).await;
    // It ends the controller, so it is the last one.
    nobody_would_carry_on(&env).await;
    causeway_goes_and_the_services_stay(&env).await;
}

async fn what_karmada_carries_is_decided_by_its_own_slices(env: &Environment) {
    let carried = Carried::new(&env.fleet, "decided").await;
    let space = &carried.space;
    let words = |command: &'static str| {
        let words = [command, "foo", "-n", space.name()];
        env.mcs(words)
    };
    let remedy = format!("kubectl mcs adopt foo -n {}", space.name());
    let well = "every ready endpoint is in every consumer";
    let said = format!("{well} | 2 ready | CopiedByKarmada | ManagedByKarmada: | {remedy}");
    ends(&words("explain").await, 0, &said);
    ends(&words("status").await, 0, &format!("{well} | {remedy}"));

    // A third pod, which Karmada does not bring any more, for its gate was switched off; and one
    // that is gone.
    space.pods("foo", "a", 1).await;
    carried.karmada.stop();
    carried.offer_in_b("10.99.0.9").await;
    let stale = format!(
        "1 ready | NotDispatchedByKarmada: | StaleEndpoints: b offers 10.99.0.9 of a | {remedy}"
    );
    eventually("the third endpoint is there, and counted", SOON, || async {
        let output = words("explain").await;
        let missing = stale
            .split(" | ")
            .find(|words| !output.stdout.contains(words));
        missing.map_or(Ok(()), |words| {
            Err(format!("no {words:?} in {}", output.stdout))
        })
    })
    .await;
    ends(&words("explain").await, 1, "");
    ends(
        &words("status").await,
        1,
        &format!("ManagedByKarmada | no EndpointSlice of theirs in b holds it | {remedy}"),
    );

    let delete = ["delete", "mcs", "foo", "-n", space.name(), "--wait=false"];
    env.hub().kubectl(delete).await.ok();
    let hangs = format!(
        "Karmada's finalizer: {} | {remedy}, with karmada-controller-manager started with --feature-gates=",
        names::SERVICE_FINALIZER
    );
    ends(&words("explain").await, 1, &hangs);
    ends(&observed(env, "adopt foo", space, &[]).await, 0, "adopted");
}

async fn causeway_goes_and_the_services_stay(env: &Environment) {
    let hub = env.hub();
    let ours = [
        "get",
        "mcs",
        "-A",
        "-o=jsonpath={.items[*].metadata.finalizers}",
    ];
    let before = hub.kubectl(ours).await.ok();
    assert!(before.contains("mcs.causeway.dev/cleanup"), "{before}");
    let slices = ["get", "endpointslices", "-A", "-o=name"];
    let member = env.member("b");
    let there = member.kubectl(slices).await.ok();
    let removed = env
        .installation
        .kubectl_mcs(["uninstall", "--yes", "--keep-services"])
        .await;
    ends(
        &removed,
        0,
        "left as they are, because Karmada manages them: | nobody- | nothing updates multi-cluster services | \
         patch mcs foo --type=merge -p | patch cluster a --type=merge -p | clusterrole.rbac.authorization.k8s.io/causeway-controller deleted | \
         kubectl mcs install manages it again",
    );
    let after = hub.kubectl(ours).await.ok();
    assert!(
        !after.contains("causeway") && after.contains(names::SERVICE_FINALIZER),
        "{after}"
    );
    let clusters = [
        "get",
        "clusters.cluster.karmada.io",
        "-o=jsonpath={.items[*].metadata.finalizers}",
    ];
    assert_eq!(hub.kubectl(clusters).await.ok(), "");
    assert_eq!(member.kubectl(slices).await.ok(), there);
}

async fn a_gate_that_is_on_is_found(env: &Environment) {
    let carried = Carried::new(&env.fleet, "gate-on").await;
    let space = &carried.space;
    let before = carried.snapshot().await;
    carried.karmada.gate(true);
    // The command ends with the first write that it observes, at the latest after this time.
    let adopt = ["adopt", "foo", "-n", space.name(), "--observe=60s"];
    let refused = env.mcs(adopt).await;
    carried.karmada.gate(false);
    ends(
        &refused,
        1,
        "not adopted: Karmada's MultiClusterService controllers are running | --feature-gates=MultiClusterService=false | \
         annotate mcs foo --overwrite mcs.causeway.dev/probe",
    );
    assert_eq!(carried.snapshot().await, before, "nothing is changed");
    let annotations = carried
        .object()
        .await
        .metadata
        .annotations
        .unwrap_or_default();
    assert!(
        !annotations.contains_key("mcs.causeway.dev/probe"),
        "{annotations:?}"
    );
}

async fn a_service_is_adopted_without_a_gap(env: &Environment) {
    let carried = Carried::new(&env.fleet, "adopt").await;
    let space = &carried.space;
    let before = carried.snapshot().await;
    let plan = observed(env, "adopt foo --dry-run", space, &[]).await;
    ends(
        &plan,
        0,
        "would be adopted (dry run) | delete endpointslice",
    );
    assert_eq!(
        carried.snapshot().await,
        before,
        "a dry run changes nothing"
    );

    let (provider, consumer) = (env.member("a"), env.member("b"));
    let observer = Observer::begin(space.name(), &[provider, consumer]);
    observer.sees(2).await;
    let adopted = observed(env, "adopt foo", space, &["-o", "json"]).await;
    ends(&adopted, 0, "");
    observer.nothing_lacked(&[("a", &carried.pods), ("b", &carried.pods)]);
    observer.kubernetes_slices_stayed("a");
    let report = json(&adopted);
    assert_eq!(
        (&report["done"], &report["services"][0]["state"]),
        (&true.into(), &"Done".into())
    );
    let commands = report["services"][0]["commands"]
        .as_array()
        .expect("commands");
    let kinds: Vec<_> = commands.iter().map(|one| karmada::kind_of(one)).collect();
    assert_eq!(
        kinds,
        [
            "free", "free", "delete", "delete", "delete", "slice", "release"
        ],
        "{report}"
    );
    assert_eq!(carried.works().await, Vec::<String>::new());
    let names: Vec<_> = slices(env, space, "b")
        .await
        .iter()
        .map(|one| one.name_any())
        .collect();
    assert!(
        matches!(&names[..], [one] if one.starts_with("a-foo-") && *one != carried.dispatched),
        "{names:?}"
    );
    assert_eq!(finalizers(env, space).await, ["mcs.causeway.dev/cleanup"]);
    ends(
        &observed(env, "adopt foo", space, &[]).await,
        0,
        "nothing of Karmada's remains",
    );
}

async fn deprecated_field_that_karmada_ignores_is_refused(env: &Environment) {
    let carried = Carried::new(&env.fleet, "ignored").await;
    let space = &carried.space;
    // The hub has no webhook, which would convert the field.
    let range = r#"{"spec":{"consumerClusters":null,"range":{"clusterNames":["a"]}}}"#;
    carried.patch(range).await;
    let before = carried.snapshot().await;
    for command in ["adopt foo --dry-run", "adopt foo"] {
        let refused = observed(env, command, space, &[]).await;
        let said = "not adopted: Karmada ignores | remove spec.range.clusterNames to keep them";
        ends(&refused, 1, said);
    }
    assert_eq!(carried.snapshot().await, before, "nothing is changed");
    let list = r#"{"spec":{"consumerClusters":[{"name":"b"}],"range":null}}"#;
    carried.patch(list).await;
    ends(&observed(env, "adopt foo", space, &[]).await, 0, "adopted");
}

async fn what_was_interrupted_is_gone_on_with(env: &Environment) {
    let carried = Carried::new(&env.fleet, "interrupted").await;
    let space = &carried.space;
    // As if it had ended after the first finalizer; and somebody had deleted a Work as it was
    // reported before: it hangs.
    carried.karmada.stop();
    carried.free_dispatched().await;
    carried.delete_collected().await;
    let all = ["--all", "--wait", "--timeout", "60s"];
    let mut words = vec!["adopt"];
    words.extend(all);
    words.extend(["-n", space.name(), "--observe=3s"]);
    let output = env.mcs(words).await;
    ends(&output, 0, "1 of 1 service adopted");
    assert_eq!(carried.works().await, Vec::<String>::new());
    assert_eq!(
        space.ready_addresses(env.member("b"), "foo").await,
        carried.addresses()
    );
}

async fn a_slice_without_a_replacement_is_left(env: &Environment) {
    let carried = Carried::new(&env.fleet, "ghost").await;
    let space = &carried.space;
    // Not asked for by name: every member provides, also one that is not joined any more.
    carried.provided_by_all().await;
    carried.leave_in_b("ghost", "foo-xyz", "10.99.0.1").await;
    let left = observed(env, "adopt foo --timeout 8s", space, &[]).await;
    ends(
        &left,
        1,
        "not adopted yet within 8 s: run this again | left: b: EndpointSlice ghost-foo-xyz: ghost is not joined",
    );
    let finalizers = finalizers(env, space).await;
    assert!(
        finalizers.iter().any(|one| one == names::SERVICE_FINALIZER),
        "{finalizers:?}"
    );
    let mut reached = carried.addresses();
    reached.push("10.99.0.1".to_owned());
    reached.sort();
    let ready = space.ready_addresses(env.member("b"), "foo").await;
    assert_eq!(
        ready, reached,
        "what is replaced is gone, and what is not stays"
    );
    let by_hand = [
        "delete",
        "endpointslice",
        "ghost-foo-xyz",
        "-n",
        space.name(),
    ];
    env.member("b").kubectl(by_hand).await.ok();
    ends(&observed(env, "adopt foo", space, &[]).await, 0, "adopted");
}

async fn a_deletion_that_hangs_on_karmada_ends(env: &Environment) {
    let carried = Carried::new(&env.fleet, "hangs").await;
    let space = &carried.space;
    let delete = ["delete", "mcs", "foo", "-n", space.name(), "--wait=false"];
    env.hub().kubectl(delete).await.ok();
    ends(&observed(env, "adopt foo", space, &[]).await, 0, "adopted");
    let api = space.api::<MultiClusterService>(env.hub());
    eventually("the deletion ends", SOON, || async {
        api.get_opt("foo").await.expect("an answer").is_none()
    })
    .await;
    assert_eq!(carried.works().await, Vec::<String>::new());
    assert_eq!(slices(env, space, "b").await.len(), 0);
    assert_eq!(
        slices(env, space, "a").await.len(),
        1,
        "the provider keeps its own"
    );
}

async fn what_is_not_there_and_who_may_not_see_it(env: &Environment) {
    let space = env.space("nothing").await;
    ends(
        &observed(env, "adopt foo", &space, &[]).await,
        1,
        "not found on the hub | kubectl mcs status -A",
    );
    let reader = crate::reader(env.hub(), space.name()).await;
    let hidden = observed(env, "adopt foo", &space, &["--kubeconfig", &reader]).await;
    assert_eq!(
        hidden.exit,
        causeway_tests::reaper::Exit::Code(3),
        "{}",
        hidden.stderr
    );
}

async fn nothing_is_given_to_a_karmada_that_does_not_answer(env: &Environment) {
    let carried = Carried::new(&env.fleet, "silent").await;
    let space = &carried.space;
    ends(&observed(env, "adopt foo", space, &[]).await, 0, "adopted");
    let before = carried.snapshot().await;
    ends(
        &observed(env, "hand-over foo", space, &[]).await,
        1,
        "not handed over: Karmada's MultiClusterService controllers do not react | --feature-gates=MultiClusterService=true",
    );
    assert_eq!(carried.snapshot().await, before, "nothing is changed");
    let plan = observed(env, "hand-over foo --dry-run", space, &[]).await;
    ends(
        &plan,
        0,
        "a: Karmada has no Work with the MultiClusterService there | causeway's copy still exists",
    );
}

async fn nobody_would_carry_on(env: &Environment) {
    let carried = Carried::new(&env.fleet, "nobody").await;
    env.controller.process().terminate();
    eventually("the controller has ended", SOON, || async {
        !env.controller.process().is_running()
    })
    .await;
    let before = carried.snapshot().await;
    ends(
        &observed(env, "adopt foo", &carried.space, &[]).await,
        1,
        "not adopted: causeway-controller is not running | nothing would manage the service afterwards",
    );
    assert_eq!(carried.snapshot().await, before);
}
