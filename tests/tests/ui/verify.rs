//! `kubectl mcs ui --verify`: who starts a run, and what is left of it. No pod runs here.

use causeway_tests::reaper::Exit;
use causeway_tests::{Fleet, LONG, SOON, Ui, eventually};
use http::StatusCode;

use crate::{copied, env};

/// Lists the pods of `verify` in both members.
async fn pods(fleet: &Fleet) -> String {
    let mut all = String::new();
    for member in fleet.members() {
        let get = ["get", "pods", "-n", "causeway-system", "-o", "name"];
        let label = ["-l", "mcs.causeway.dev/verify"];
        all += &member.kubectl(get.into_iter().chain(label)).await.ok();
    }
    all
}

/// Sends the POST that starts a run of `verify`, as the page does.
async fn start(ui: &Ui, namespace: &str, name: &str) -> StatusCode {
    let path = format!("api/services/{namespace}/{name}/verify");
    let origin = format!("http://{}", ui.address());
    let request = ui.request("POST", &path).header("origin", origin);
    ui.send(request).await.status
}

#[tokio::test]
async fn ended_page_deletes_the_pods_of_its_run() {
    let env = env().await;
    let space = copied(env, "verified").await;
    let shown =
        |page: &causeway_tests::ui::Page| page.service(space.name(), "foo")["state"] == "Ready";
    let silent = env.ui(&[]).await;
    let mut page = silent.page().await;
    page.until("the service is ready", LONG, shown).await;
    assert!(page.server["verify"].is_null(), "{:#}", page.server);
    let refused = start(&silent, space.name(), "foo").await;
    assert_eq!(refused, StatusCode::FORBIDDEN, "without --verify");

    let members = env.fleet.kubeconfig().display().to_string();
    let image = "registry.example/kubectl-mcs:none";
    let args = [
        "--verify",
        "--member-kubeconfig",
        &members,
        "--image",
        image,
        "--timeout",
        "10m",
    ];
    let ui = env.ui(&args).await;
    let mut page = ui.page().await;
    page.until("the service is ready", LONG, shown).await;
    assert!(page.server["verify"].is_object(), "{:#}", page.server);
    let unknown = start(&ui, space.name(), "unknown").await;
    assert_eq!(unknown, StatusCode::NOT_FOUND);
    assert_eq!(pods(&env.fleet).await, "");

    assert_eq!(start(&ui, space.name(), "foo").await, StatusCode::ACCEPTED);
    let second = start(&ui, space.name(), "foo").await;
    assert_eq!(second, StatusCode::CONFLICT, "one run at a time");
    let service = format!("{}/foo", space.name());
    page.until("the run is shown", LONG, |page| {
        page.server["verify"]["running"]["service"] == service.as_str()
    })
    .await;
    eventually("its pods exist", LONG, async || {
        let found = pods(&env.fleet).await;
        match found.is_empty() {
            false => Ok(()),
            true => Err("none".to_owned()),
        }
    })
    .await;
    ui.process().terminate();
    let ended = eventually("it ends", SOON, || async { ui.process().exit() }).await;
    assert_eq!(ended, Exit::Code(0), "{}", ui.process().log_tail(20));
    assert_eq!(pods(&env.fleet).await, "");
}
