//! Quota of one member's exports.

use causeway::api::condition::{self, READY};
use causeway_tests::causeway::Lent;
use causeway_tests::{SOON, Space, eventually, service, service_export};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// member1 exports that service; what its export says of itself then.
async fn export(space: &Space<'_>, name: &str) -> Condition {
    let member = space.fleet().member("member1");
    service(name).port("http", 80).create(member, space).await;
    service_export(name).create(member, space).await;
    ready(space, name, |_| true).await
}

/// Waits until the Ready condition of an export in member1 is so and settled.
async fn ready(space: &Space<'_>, name: &str, holds: impl Fn(&Condition) -> bool) -> Condition {
    let exports = space.exports(space.fleet().member("member1"));
    eventually(&format!("{name} is settled"), SOON, async || {
        let export = exports.get(name).await.map_err(|e| e.to_string())?;
        let conditions = export.status.unwrap_or_default().conditions;
        let ready =
            condition::find(&conditions, READY).filter(|one| one.reason != "Pending" && holds(one));
        ready.cloned().ok_or(format!("{conditions:?}"))
    })
    .await
}

/// The imports in member2, and who they are.
async fn imported(space: &Space<'_>) -> Vec<(String, String)> {
    let imports = space.imports(space.fleet().member("member2"));
    let all = imports
        .list(&Default::default())
        .await
        .expect("the imports");
    let all = all.items.into_iter().map(|import| import.metadata);
    let all = all.map(|meta| (meta.name.unwrap_or_default(), meta.uid.unwrap_or_default()));
    all.collect()
}

#[tokio::test]
async fn oldest_exports_keep_their_place_under_a_lower_quota() {
    let mut env = Lent::with_flags(&["--max-member-exports=2"]).await;
    let space = env.space("quota").await;
    let name = space.name().to_owned();
    for name in ["a", "b"] {
        assert_eq!(export(&space, name).await.reason, "Exported", "{name}");
    }
    let before = imported(&space).await;
    let reported = export(&space, "c").await;
    assert_eq!(
        (&*reported.status, &*reported.reason),
        ("False", "QuotaExceeded")
    );
    let flag =
        "the cluster exports more than 2 services (--max-member-exports of causeway-controller)";
    assert!(reported.message.starts_with(flag), "{}", reported.message);
    drop(space);
    let lower = env.installation.controller();
    env.relaunch(lower.arg("--max-member-exports=1")).await;
    let space = Space::existing(&env.fleet, &name);
    assert_eq!(export(&space, "d").await.reason, "QuotaExceeded");
    ready(&space, "c", |ready| {
        ready.message.contains("more than 1 services")
    })
    .await;
    assert_eq!(ready(&space, "b", |_| true).await.reason, "Exported");
    let names: Vec<_> = before.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(imported(&space).await, before);
}
