//! Rolling restarts under load.

use std::time::{Duration, Instant};

use causeway_tests::causeway::replicas::{Replicas, answered, register_by_service};
use causeway_tests::{Fleet, Installation, repository, soak};

use crate::writer::Writer;

/// How much is done at least, and for how long.
struct Extent {
    restarts: usize,
    time: Duration,
}

impl Extent {
    fn asked_for() -> Self {
        match soak() {
            Some(time) => Self { restarts: 20, time },
            None => Self {
                restarts: 2,
                time: Duration::ZERO,
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_while_webhooks_are_restarted_one_after_the_other() {
    let extent = Extent::asked_for();
    let fleet = Fleet::builder().start().await;
    let address = match fleet.endpoint_address() {
        Ok(address) => address,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let installation = Installation::new(&fleet).await;
    let hub = fleet.hub();
    let deployments = repository().join("manifests/hub/workloads.yaml");
    hub.kubectl(["apply", "-f", &deployments.display().to_string()])
        .await
        .ok();
    let mut replicas = Replicas::new(hub, || installation.webhook_at(address)).await;
    replicas.add().await;
    replicas.add().await;
    register_by_service(hub, Some(installation.authority().pem())).await;
    answered(hub).await;

    let space = fleet.space("rolling").await;
    let writer = Writer::start(&space).await;
    let begun = Instant::now();
    let mut restarts = 0;
    while restarts < extent.restarts || begun.elapsed() < extent.time {
        replicas.restart().await;
        replicas.settled().await;
        restarts += 1;
    }
    let seen = writer.stop().await;
    println!("{restarts} rolling restarts of 2 webhooks: {seen}");
    assert!(seen.errors.is_empty(), "{seen}: {:#?}", seen.errors);
    assert!(seen.took.len() > 100 * restarts, "hardly any load: {seen}");
}
