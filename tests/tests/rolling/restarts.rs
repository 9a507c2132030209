//! Rolling restarts under load, and new certificates meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::causeway::replicas::{Replicas, answered, register_by_service};
use causeway_tests::{Fleet, Installation, repository, soak};

use crate::rotations::{Rotations, SECRET};
use crate::writer::Writer;

/// Minimum of actions, and their duration.
struct Extent {
    restarts: usize,
    rotations: usize,
    time: Duration,
}

impl Extent {
    fn asked_for() -> Self {
        match soak() {
            Some(time) => Self {
                restarts: 20,
                rotations: 100,
                time,
            },
            None => Self {
                restarts: 2,
                rotations: 7,
                time: Duration::ZERO,
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_while_webhooks_and_certificates_change() {
    let extent = Extent::asked_for();
    let fleet = Fleet::builder().start().await;
    let address = match fleet.endpoint_address() {
        Ok(address) => address,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let installation = Installation::new(&fleet).await;
    let hub = fleet.hub();
    let workloads = repository().join("manifests/hub/workloads.yaml");
    hub.kubectl(["apply", "-f", &workloads.display().to_string()])
        .await
        .ok();
    let launch = || {
        let webhook = installation.webhook_without_certificate(address, Path::new(""));
        webhook
            .arg(format!("--self-managed-certs={NAMESPACE}/{SECRET}"))
            .arg("--leaf-validity=30s")
            .arg("--ca-validity=10m")
    };
    let mut replicas = Replicas::new(hub, launch).await;
    replicas.add().await;
    replicas.add().await;
    register_by_service(hub, None).await;
    answered(hub).await;

    let space = fleet.space("rolling").await;
    let writer = Writer::start(&space).await;
    let rotations = Rotations::start(hub);
    let begun = Instant::now();
    let mut restarts = 0;
    while restarts < extent.restarts
        || rotations.replaced.leaves() < extent.rotations
        || begun.elapsed() < extent.time
    {
        replicas.restart().await;
        restarts += 1;
    }
    replicas.settled().await;
    let replaced = rotations.stop().await;
    let seen = writer.stop().await;
    let (leaves, authorities) = (replaced.leaves(), replaced.authorities());
    println!(
        "{restarts} rolling restarts of 2 webhooks and {leaves} rotations, {authorities} of them of the authority too, in {:.0?}: {seen}",
        begun.elapsed()
    );
    assert!(seen.errors.is_empty(), "{seen}: {:#?}", seen.errors);
    assert!(seen.took.len() > 20 * restarts, "hardly any load: {seen}");
    assert!(authorities > 0, "no authority was replaced");
}
