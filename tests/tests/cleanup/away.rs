//! Deletions while a member is away.

use causeway_tests::{Fault, service, service_export};

use super::{back, end, env, expose, is_clean, kubectl, reaches, written};

#[tokio::test]
async fn deletion_reaches_an_unreachable_member_on_its_return() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let space = env.fleet.space("away").await;
    let giver = env.member("giver");
    for name in ["foo", "orphaned"] {
        expose(&space, name, ["giver"], ["taker", "absent"]).await;
        let address = back(&space, name, "giver").await;
        reaches(&space, "absent", name, &[&address]).await;
    }
    service("exported")
        .port("http", 80)
        .create(giver, &space)
        .await;
    service_export("exported").create(giver, &space).await;
    let address = back(&space, "exported", "giver").await;
    reaches(&space, "absent", "derived-exported", &[&address]).await;
    let before = written(&space, "absent").await;

    env.lose("absent").await;
    kubectl(&space, env.hub(), ["delete", "service", "orphaned"]).await;
    kubectl(&space, giver, ["delete", "serviceexport", "exported"]).await;
    end(&space, ["foo", "orphaned"]).await;
    is_clean(&space, "giver").await;
    is_clean(&space, "taker").await;
    assert_eq!(written(&space, "absent").await, before);

    env.set("absent", Fault::None);
    is_clean(&space, "absent").await;
}
