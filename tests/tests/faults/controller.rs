//! The controller at rest, killed, restarted, and in two.

use std::time::Duration;

use causeway_tests::causeway::Lent;
use causeway_tests::log_pipe::LogPipe;
use causeway_tests::{
    Running, SOON, Space, addresses, eventually, service, service_export, throughout,
};

use super::own;

/// Longer than the controller waits for its loop, plus a lease.
const WEDGED: Duration = Duration::from_secs(90);

/// Exports `bar` of both members, and waits until both import it.
async fn export_bar(space: &Space<'_>) {
    let members = ["member1", "member2"];
    let mut pods = Vec::new();
    for name in members {
        let member = space.member(name);
        let bar = service("bar").port("http", 80);
        bar.create(member, space).await;
        pods.push(space.pod("bar", name).await);
        service_export("bar").create(member, space).await;
    }
    let expected = addresses(&pods);
    let status = "jsonpath={.status.clusters[*].cluster} {.status.endpointSliceObjects} \
                  {.status.conditions[?(@.type==\"Ready\")].status}";
    let (import, said) = (["serviceimport", "bar"], "member1 member2 Present True");
    let exported = "True|Exported|";
    for member in members {
        space.reaches(member, "derived-bar", &expected).await;
        space.shows(member, import, status, said).await;
        space.export_says(member, "bar", "Ready", exported).await;
    }
}

#[tokio::test]
async fn at_rest_and_over_a_restart_nothing_is_written_but_the_lease() {
    let env = own().await;
    let (space, _) = env.foo("rest").await;
    export_bar(&space).await;
    space.events_are_written().await;
    let marks = [
        env.hub().mark().await,
        env.member("member1").mark().await,
        env.member("member2").mark().await,
    ];
    let counts = env.hub().request_counts().await;
    // The new process leads at once. No list is empty and confirmed by a second one, because both
    // members export. Every timer of 30 s expires before the log is compared.
    env.controller.restart_in_order().await;
    tokio::time::sleep(Duration::from_secs(32)).await;
    let log = || std::fs::read_to_string(env.controller.process().log()).expect("the log");
    let logged = log();
    throughout(
        "nothing is logged at rest",
        Duration::from_secs(20),
        || async {
            let log = log();
            match log.strip_prefix(logged.as_str()) {
                Some("") => Ok(()),
                _ => Err(log),
            }
        },
    )
    .await;
    for (cluster, mark) in env.fleet.clusters().zip(marks) {
        let mut writes = cluster.writes_since(mark, "causeway").await;
        writes.retain(|write| write.resource != "leases");
        assert_eq!(writes, [], "{}", cluster.name());
    }
    let written = env.hub().request_counts().await.since(&counts).writes();
    assert_eq!(written.of("multiclusterservices").total(), 0, "{written:?}");
    assert_eq!(written.of("clusters").total(), 0, "{written:?}");
    assert_eq!(
        env.controller
            .metrics()
            .await
            .get("causeway_panics_total", &[])
            .unwrap_or_default(),
        0.0
    );
}

#[tokio::test]
async fn controller_killed_at_any_moment_leaves_nothing_undone() {
    // The next one need not wait for a Lease: that is the hand-over's subject.
    let env = Lent::with_flags(&["--leader-elect=false"]).await;
    let space = env.space("kill").await;
    let pods = space.pods("foo", "member1", 1).await;
    let expected = addresses(&pods);
    for pause in [0_u64, 15, 40, 80, 160, 320] {
        space.expose("foo", ["member1"], ["member2"]).await;
        // The moment of the kill is what is varied here.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        env.controller.restart().await;
        space.reaches("member2", "foo", &expected).await;
        space.says("foo", "Ready", "True|Ready|").await;
        assert_eq!(space.own_objects("member2").await.len(), 2, "{pause}");
        let delete = ["delete", "mcs", "foo", "--wait=false"];
        space.kubectl(env.hub(), delete).await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        env.controller.restart().await;
        space.is_gone(env.hub(), "mcs", "foo").await;
        for member in ["member1", "member2"] {
            let left = space.own_objects(member).await;
            assert_eq!(left, Vec::<String>::new(), "{pause}");
        }
        space.on_hub(["delete", "svc", "foo"]).await;
    }
}

#[tokio::test]
async fn of_two_controllers_one_writes_and_the_other_takes_over() {
    let env = Lent::take().await;
    let second = env.installation.controller().start().await;
    let (space, addresses) = env.foo("two").await;
    assert_eq!(
        (leads(&env.controller).await, leads(&second).await),
        (1.0, 0.0)
    );
    env.controller.process().kill().await;
    let more = space.pods("foo", "member1", 1).await;
    let all = [addresses.clone(), vec![more[0].ip().to_owned()]].concat();
    space.reaches("member2", "foo", &all).await;
    assert_eq!(leads(&second).await, 1.0);

    // One that ends in order hands over at once.
    env.controller.restart().await;
    second.process().terminate();
    eventually(
        "the first leads again",
        Duration::from_secs(10),
        async || leads(&env.controller).await == 1.0,
    )
    .await;
    more[0].delete().await;
    space.reaches("member2", "foo", &addresses).await;
    throughout("nothing is withdrawn", Duration::from_secs(1), async || {
        space.ready_addresses(env.member("member2"), "foo").await == addresses
    })
    .await;
}

async fn leads(running: &Running) -> f64 {
    let metrics = running.metrics().await;
    let leader = metrics.get("causeway_controller_leader", &[]);
    leader.unwrap_or_default()
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn wedged_loop_fails_livez_and_loses_the_lease() {
    let mut env = Lent::take().await;
    let log = LogPipe::new(env.fleet.directory());
    let debug = "--log=info,kube_client=off,causeway_controller::controller=debug";
    let launch = env.installation.controller().arg(debug);
    env.relaunch(launch.log_to(log.pipe())).await;
    let first = &env.controller;
    eventually("it leads", SOON, async || leads(first).await == 1.0).await;
    let livez = async || first.get("/livez").await.expect("an answer");
    assert_eq!(livez().await.0, 200);

    // The thread of changes blocks when it logs what it plans for the service.
    log.block();
    let space = env.space("wedged").await;
    space.expose("foo", ["member1"], ["member2"]).await;
    eventually("livez fails for the loop", WEDGED, async || {
        let (status, text) = livez().await;
        let is_wedged = status == 503 && text.contains("loop");
        is_wedged.then_some(()).ok_or(text)
    })
    .await;
    let second = env.installation.controller().start().await;
    eventually("the second leads", WEDGED, async || {
        leads(&second).await == 1.0
    })
    .await;

    log.unblock();
    eventually("the first is alive and follows", SOON, async || {
        livez().await.0 == 200 && leads(first).await == 0.0
    })
    .await;
    assert_eq!(leads(&second).await, 1.0);
    second.process().end().await;
    space.says("foo", "ServiceApplied", "True|").await;
}
