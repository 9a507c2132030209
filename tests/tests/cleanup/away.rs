//! Deletions while a member is away.

use causeway_tests::{Fault, service, service_export};

use super::{env, lose};

#[tokio::test]
async fn deletion_reaches_an_unreachable_member_on_its_return() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let space = env.space("away").await;
    let giver = env.member("giver");
    for name in ["foo", "orphaned"] {
        space.expose(name, ["giver"], ["taker", "absent"]).await;
        let address = space.pod(name, "giver").await.ip().to_owned();
        space.reaches("absent", name, &[&address]).await;
    }
    service("exported")
        .port("http", 80)
        .create(giver, &space)
        .await;
    service_export("exported").create(giver, &space).await;
    let address = space.pod("exported", "giver").await.ip().to_owned();
    space
        .reaches("absent", "derived-exported", &[&address])
        .await;
    let before = space.own_objects("absent").await;

    lose(env, "absent").await;
    space.on_hub(["delete", "service", "orphaned"]).await;
    space
        .kubectl(giver, ["delete", "serviceexport", "exported"])
        .await;
    for name in ["foo", "orphaned"] {
        space.delete(name).await;
    }
    space.is_clean("giver").await;
    space.is_clean("taker").await;
    assert_eq!(space.own_objects("absent").await, before);

    env.set("absent", Fault::None);
    space.is_clean("absent").await;
}
