//! Wall clocks that are set while something is waited for.

use std::time::Duration;

use causeway_tests::eventually::{eventually, throughout};
use causeway_tests::{Cluster, Fleet, Installation, Space};

use causeway_tests::clock::Clocks;

const DAY: i64 = 24 * 3600;
/// `--service-grace` and `--provider-ttl`.
const GRACE: Duration = Duration::from_secs(60);
/// So long a withdrawal that does not wait would take.
const AT_ONCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(60);
const CONSUMER: &str = "member3";

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn a_step_of_the_clock_neither_ends_a_grace_nor_prolongs_it() {
    let fleet = Fleet::builder().members(3).start().await;
    let installation = Installation::new(&fleet).await;
    let clocks = Clocks::new(fleet.directory());
    let launch = clocks.give(0, installation.controller());
    let launch = ["service-grace", "provider-ttl"]
        .iter()
        .fold(launch, |launch, flag| {
            launch.arg(format!("--{flag}={}s", GRACE.as_secs()))
        });
    clocks.set(0, 5 * DAY);
    let _controller = launch.start().await;
    for member in fleet.members() {
        installation.join(member).await;
    }
    let space = fleet.space("steps").await;
    let (hub, away) = (fleet.hub(), fleet.member("member2"));
    expose(&space, "lost", "member1").await;
    expose(&space, "away", away.name()).await;

    away.stop().await;
    let lost = ["delete", "service", "lost", "-n", space.name()];
    hub.kubectl(lost).await.ok();
    says(hub, &space, "lost", "kept until").await;
    says(hub, &space, "away", "unreachable since").await;
    clocks.set(0, 10 * DAY);
    touch(hub, &space, "ahead=", away.name()).await;
    throughout("nothing is withdrawn", AT_ONCE, async || {
        let there = (reached(&space, "lost").await, reached(&space, "away").await);
        match there {
            (1, 1) => Ok(()),
            counts => Err(format!("{counts:?}")),
        }
    })
    .await;
    clocks.set(0, 0);
    touch(hub, &space, "back=", away.name()).await;
    eventually("both are withdrawn", GRACE + PATIENCE, async || {
        reached(&space, "lost").await + reached(&space, "away").await == 0
    })
    .await;
}

async fn expose(space: &Space<'_>, name: &str, provider: &str) {
    let fleet = space.fleet();
    space.expose(name, [provider], [CONSUMER]).await;
    let provider = fleet.member(provider);
    space.backends(name).count(1).create(provider).await;
    let what = format!("{CONSUMER} reaches {name}");
    eventually(&what, PATIENCE, async || reached(space, name).await == 1).await;
}

async fn reached(space: &Space<'_>, name: &str) -> usize {
    let consumer = space.fleet().member(CONSUMER);
    space.ready_addresses(consumer, name).await.len()
}

async fn says(hub: &Cluster, space: &Space<'_>, name: &str, words: &str) {
    eventually(&format!("{name} says {words:?}"), PATIENCE, async || {
        let get = [
            "get",
            "mcs",
            name,
            "-n",
            space.name(),
            "-o",
            "jsonpath={.status.conditions}",
        ];
        let said = hub.kubectl(get).await.stdout;
        match said.contains(words) {
            true => Ok(()),
            false => Err(said),
        }
    })
    .await;
}

/// Has the controller look at the services and the member again.
async fn touch(hub: &Cluster, space: &Space<'_>, mark: &str, cluster: &str) {
    let note = format!("test.causeway.dev/{mark}");
    let services = ["annotate", "--all", "-n", space.name(), "mcs", &note];
    hub.kubectl(services).await.ok();
    let cluster = ["annotate", "clusters.cluster.karmada.io", cluster, &note];
    hub.kubectl(cluster).await.ok();
}
