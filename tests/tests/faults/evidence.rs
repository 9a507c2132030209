//! Suspended deletions, and the person who confirms them.

use causeway_tests::causeway::Installation;
use causeway_tests::reaper::Exit;
use causeway_tests::{Fault, Fleet, Proxy, SOON, eventually, multi_cluster_service, service};

use super::{NOTICED, condition, reaches};

/// More than so few that their deletions count at once.
const CROWD: usize = 16;

#[tokio::test]
async fn many_deletions_wait_for_a_confirmation_and_few_do_not() {
    let fleet = Fleet::builder().members(2).start().await;
    let installation = Installation::new(&fleet).await;
    let (hub, provider, consumer) = (
        fleet.hub(),
        fleet.member("member1"),
        fleet.member("member2"),
    );
    let proxy = Proxy::before(provider).await;
    let controller = installation.controller().start().await;
    installation.join_at(provider, &proxy.url()).await;
    installation.join(consumer).await;
    let space = fleet.space("confirm").await;
    for number in 0..CROWD {
        let name = format!("crowd-{number}");
        service(&name)
            .port("http", 80)
            .create(provider, &space)
            .await;
    }
    service("foo").port("http", 80).create(hub, &space).await;
    let foo = multi_cluster_service("foo").providers(["member1"]);
    foo.consumers(["member2"]).create(&space).await;
    let pods = space.backends("foo").count(2).create(provider).await;
    let mut addresses: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    addresses.sort();
    reaches(&space, consumer, &addresses, SOON).await;
    let confirm = async |flag| {
        let args = ["confirm-deletions", "member1", flag];
        installation.kubectl_mcs(args).await
    };
    let nothing = confirm("--dry-run").await;
    assert!(
        nothing
            .stdout
            .contains("no deletions of member1 are suspended"),
        "{nothing:?}"
    );

    proxy.set(Fault::Forgetful);
    let cluster = ["get", "cluster", "member1"];
    let suspended = "DeletionsSuspended";
    let expected = "True|DeletionsSuspended|";
    let message = condition(hub, &cluster, suspended, expected, NOTICED).await;
    assert!(
        message.contains("kubectl mcs confirm-deletions member1"),
        "{message}"
    );
    reaches(&space, consumer, &addresses, SOON).await;
    let said = confirm("--wait").await;
    assert_eq!(said.exit, Exit::Code(0), "{said:?}");
    assert!(
        said.stdout
            .contains("no deletions of member1 are suspended any more"),
        "{said:?}"
    );
    reaches(&space, consumer, &[], SOON).await;

    proxy.set(Fault::None);
    reaches(&space, consumer, &addresses, NOTICED * 2).await;
    // One service is not much, however it goes: seen by nobody, in an initial list.
    controller.process().pause();
    for pod in pods {
        pod.delete().await;
    }
    let gone = ["delete", "service", "foo", "-n", space.name()];
    provider.kubectl(gone).await.ok();
    let left = async || space.ready_addresses(provider, "foo").await;
    eventually(
        "the provider has no endpoints of foo",
        SOON,
        async || match left().await {
            none if none.is_empty() => Ok(()),
            some => Err(format!("{some:?}")),
        },
    )
    .await;
    controller.process().restart().await;
    reaches(&space, consumer, &[], NOTICED).await;
    let stranger = installation
        .kubectl_mcs(["confirm-deletions", "nobody"])
        .await;
    assert_eq!(stranger.exit, Exit::Code(1), "{stranger:?}");
}
