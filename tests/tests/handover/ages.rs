//! Ages of exports, from one controller to the next.

use std::time::Duration;

use causeway_tests::{
    Cluster, Fault, Fleet, Installation, Proxy, Space, eventually, service, service_export,
};

use causeway_tests::clock::Clocks;

const HOUR: i64 = 3600;
const PATIENCE: Duration = Duration::from_secs(60);

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn backdated_export_wins_no_conflict_under_any_leader() {
    let fleet = Fleet::builder().members(2).clusterset().start().await;
    let installation = Installation::new(&fleet).await;
    let (honest, forger) = (fleet.member("member1"), fleet.member("member2"));
    let proxy = Proxy::before(forger).await;
    let clocks = Clocks::new(fleet.directory());
    let controller = clocks.give(0, installation.controller()).start().await;
    installation.join(honest).await;
    installation.join_at(forger, &proxy.url()).await;
    let space = fleet.space("ages").await;
    let sticky = service("foo")
        .port("http", 80)
        .with(|spec| spec.session_affinity = Some("ClientIP".to_owned()));
    sticky.create(honest, &space).await;
    service_export("foo").create(honest, &space).await;
    says(&space, honest, "Ready", "True Exported").await;

    clocks.set(0, HOUR);
    proxy.set(Fault::Backdates);
    controller.restart().await;
    service("foo").port("http", 80).create(forger, &space).await;
    service_export("foo").create(forger, &space).await;
    for member in [honest, forger] {
        let said = "True SessionAffinityConflict Conflicting sessionAffinity: using that of the oldest export, in member1";
        says(&space, member, "Conflict", said).await;
    }
    clocks.set(0, 2 * HOUR);
    controller.restart().await;
    says(&space, forger, "Ready", "True Exported").await;
    let affinity = [
        "get",
        "serviceimport",
        "foo",
        "-o",
        "jsonpath={.spec.sessionAffinity}",
    ];
    let affinity = affinity.into_iter().chain(["-n", space.name()]);
    assert_eq!(forger.kubectl(affinity).await.stdout, "ClientIP");
}

async fn says(space: &Space<'_>, member: &Cluster, type_: &str, words: &str) {
    let path = format!(
        "jsonpath={{range .status.conditions[?(@.type==\"{type_}\")]}}{{.status}} {{.reason}} {{.message}}{{end}}"
    );
    let get = [
        "get",
        "serviceexport",
        "foo",
        "-n",
        space.name(),
        "-o",
        &path,
    ];
    eventually(
        &format!("{type_} in {}", member.name()),
        PATIENCE,
        async || {
            let said = member.kubectl(get).await.stdout;
            if said.starts_with(words) {
                Ok(())
            } else {
                Err(said)
            }
        },
    )
    .await;
}
