use causeway_tests::reaper::Exit;
use causeway_tests::{Fleet, Installation, SOON, eventually};

use crate::{ends, join, json};

/// Waits until a check says all of this and ends so.
async fn says(installation: &Installation, said: &str, code: i32) {
    let what = format!("the check says {said}");
    let output = eventually(&what, SOON, async || {
        let output = installation.kubectl_mcs(["check"]).await;
        let mut parts = said.split('|').map(str::trim);
        let is_said = parts.all(|part| output.stdout.contains(part));
        match is_said && output.exit == Exit::Code(code) {
            true => Ok(output),
            false => Err(format!("{output:?}")),
        }
    });
    ends(&output.await, code, said);
}

#[tokio::test]
async fn an_installation_is_checked_part_by_part_as_it_comes_and_goes() {
    let fleet = Fleet::builder().members(1).start().await;
    let hub = fleet.hub();
    let installation = Installation::new(&fleet).await;
    let check = async |said: &str, code: i32| says(&installation, said, code).await;
    check(
        "no configuration named causeway | runs elsewhere, or not at all | not found on the hub | no member is joined",
        1,
    )
    .await;

    let webhook = installation.webhook().start().await;
    installation.register(&webhook).await;
    let controller = installation.controller().start().await;
    ends(
        &join(&installation, "member1", fleet.member("member1"), &[]).await,
        0,
        "",
    );
    check("registered, with a caBundle | leads | Synced", 0).await;
    let output = installation.kubectl_mcs(["check", "-o", "json"]).await;
    let report = json(&output);
    assert_eq!(report["healthy"], true, "{report}");

    // On a hub that runs it, too few pods of it are reported; nothing makes pods here.
    let create = [
        "create",
        "deployment",
        "causeway-webhook",
        "--image=causeway/causeway-webhook:9.9.9",
    ];
    hub.kubectl(create.into_iter().chain(["-n", "causeway-system"]))
        .await
        .ok();
    let label = [
        "label",
        "deployment",
        "causeway-webhook",
        "app.kubernetes.io/name=causeway",
    ];
    hub.kubectl(label.into_iter().chain(["-n", "causeway-system"]))
        .await
        .ok();
    check(
        "not observed by its controller yet | describe deployment causeway-webhook",
        1,
    )
    .await;
    hub.kubectl([
        "delete",
        "deployment",
        "causeway-webhook",
        "-n",
        "causeway-system",
    ])
    .await
    .ok();

    // A registration that leads nowhere is complete, and lets nothing be created.
    webhook.process().terminate();
    check("registered, with a caBundle | fails in a dry run: ", 1).await;

    let remove = r#"[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]"#;
    let patch = [
        "patch",
        "validatingwebhookconfiguration",
        "causeway",
        "--type=json",
        "-p",
        remove,
    ];
    hub.kubectl(patch).await.ok();
    check("has no caBundle | docs/certificates.md", 1).await;
    hub.kubectl(["delete", "validatingwebhookconfiguration", "causeway"])
        .await
        .ok();
    check(
        "ValidatingWebhookConfiguration | no configuration named causeway",
        1,
    )
    .await;
    controller.process().terminate();
    check(
        "nobody holds Lease causeway-system/causeway-controller | the log of causeway-controller",
        1,
    )
    .await;
}
