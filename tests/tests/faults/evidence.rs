//! Suspended deletions, and the person who confirms them.

use causeway_tests::causeway::Lent;
use causeway_tests::fixtures::crowd;
use causeway_tests::reaper::Exit;
use causeway_tests::{Fault, LONG, Proxy};

#[tokio::test]
async fn many_deletions_wait_for_a_confirmation_and_few_do_not() {
    let env = Lent::take().await;
    let provider = env.member("member1");
    let proxy = Proxy::before(provider).await;
    env.installation.join_at(provider, &proxy.url()).await;
    let space = env.space("confirm").await;
    crowd(provider).await;
    let addresses = space.foo().await;
    let confirm = async |flag| {
        let args = ["confirm-deletions", "member1", flag];
        env.mcs(args).await
    };
    let nothing = confirm("--dry-run").await;
    assert!(
        nothing
            .stdout
            .contains("no deletions of member1 are suspended"),
        "{nothing:?}"
    );

    proxy.set(Fault::Forgetful);
    let (suspended, expected) = ("DeletionsSuspended", "True|DeletionsSuspended|");
    let message = env
        .hub()
        .says("clusters/member1", suspended, expected, LONG)
        .await;
    assert!(
        message.contains("kubectl mcs confirm-deletions member1"),
        "{message}"
    );
    space.reaches("member2", "foo", &addresses).await;
    let said = confirm("--wait").await;
    assert_eq!(said.exit, Exit::Code(0), "{said:?}");
    assert!(
        said.stdout
            .contains("no deletions of member1 are suspended any more"),
        "{said:?}"
    );
    space.reaches_none("member2", "foo").await;

    proxy.set(Fault::None);
    space.reaches("member2", "foo", &addresses).await;
    // One service is not much, however it goes: seen by nobody, in an initial list.
    let controller = env.controller.process();
    controller.end().await;
    let pods = ["delete", "pods", "--all", "--force", "--grace-period=0"];
    space.kubectl(provider, pods).await;
    space.kubectl(provider, ["delete", "service", "foo"]).await;
    space.reaches_none("member1", "foo").await;
    controller.restart().await;
    space.reaches_none("member2", "foo").await;
    let stranger = env.mcs(["confirm-deletions", "nobody"]).await;
    assert_eq!(stranger.exit, Exit::Code(1), "{stranger:?}");
    env.join(provider).await;
}
