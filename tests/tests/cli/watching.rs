//! `kubectl mcs status -w`: what changes is shown as it changes.

use causeway_tests::reaper::{Process, Program};
use causeway_tests::{
    Fleet, Installation, SOON, binaries, eventually, multi_cluster_service, service,
};
use serde_json::Value;

use crate::{ends, join_all};

/// A `kubectl mcs status -w` that runs.
struct Watch {
    process: Process,
}

impl Watch {
    fn start(fleet: &Fleet, args: &[&str]) -> Self {
        let name = args
            .join("")
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let log = fleet.directory().join(format!("watch-{name}"));
        let errors = log.with_extension("errors");
        let program = Program::new(binaries::causeway("kubectl-mcs"), log)
            .stderr(errors)
            .arg("status")
            .args(args.iter().copied())
            .env("KUBECONFIG", fleet.hub().kubeconfig().display().to_string());
        Self {
            process: fleet.reaper().run(program),
        }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Waits until it has printed a line with all these words.
    async fn says(&self, words: &[&str]) {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        eventually(&format!("it says {words:?}"), SOON, async || {
            let text = self.text();
            assert!(self.process.is_running(), "it ended:\n{text}");
            text.lines().any(has_all).then_some(()).ok_or(text)
        })
        .await;
    }
}

async fn foo(fleet: &Fleet, space: &causeway_tests::Space<'_>) {
    service("foo")
        .port("http", 80)
        .create(fleet.hub(), space)
        .await;
}

#[tokio::test]
async fn status_watch_shows_changes_of_hub_and_members() {
    let fleet = Fleet::builder().members(2).start().await;
    let hub = fleet.hub();
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    join_all(&installation, &fleet, &["member1", "member2"]).await;
    let space = fleet.space("watched").await;
    let name = space.name();
    foo(&fleet, &space).await;
    let mcs = multi_cluster_service("foo").providers(["member1"]);
    mcs.consumers(["member2"]).create(&space).await;

    let overview = Watch::start(&fleet, &["-A", "-w"]);
    let one = Watch::start(&fleet, &["foo", "-n", name, "-w"]);
    let stream = Watch::start(&fleet, &["-n", name, "-w", "-o", "json"]);
    overview.says(&["member2", "Synced"]).await;
    overview.says(&[name, "foo", "True", "Ready"]).await;
    one.says(&[name, "foo", "True", "Ready"]).await;
    stream.says(&["ADDED", "Service", "\"foo\""]).await;

    hub.kubectl(["delete", "service", "foo", "-n", name])
        .await
        .ok();
    overview.says(&["foo", "False", "ServiceNotFound"]).await;
    one.says(&["foo", "False", "ServiceNotFound"]).await;
    stream
        .says(&["MODIFIED", "Service", "ServiceNotFound"])
        .await;

    // What a member exports is seen in the member itself.
    let member = fleet.member("member1");
    let export = format!(
        "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {{name: bar, namespace: {name}}}\n"
    );
    member.apply(&export).await.ok();
    overview.says(&["EXPORTED BY", "IMPORTED BY"]).await;
    overview.says(&[name, "bar", "member1"]).await;
    stream.says(&["ADDED", "Export", "\"bar\""]).await;
    let delete = ["delete", "serviceexport", "bar", "-n", name];
    member.kubectl(delete).await.ok();
    overview.says(&["bar", "Deleted"]).await;
    stream.says(&["DELETED", "Export", "\"bar\""]).await;

    let drain = installation.kubectl_mcs(["drain", "member1"]).await;
    ends(&drain, 0, "");
    overview.says(&["member1", "Synced,Drained"]).await;
    stream
        .says(&["MODIFIED", "Member", "\"drained\":true"])
        .await;
    let unjoin = installation.kubectl_mcs(["unjoin", "member2"]).await;
    ends(&unjoin, 0, "");
    overview.says(&["member2", "Deleted"]).await;

    assert!(!one.text().contains("MEMBER"), "{}", one.text());
    let text = stream.text();
    for line in text.lines() {
        let object: Value = serde_json::from_str(line).expect(line);
        assert!(object["object"].is_object(), "{line}");
    }
}

#[tokio::test]
async fn status_watch_lists_each_kind_once_per_cluster() {
    let fleet = Fleet::builder().members(1).start().await;
    let (hub, member) = (fleet.hub(), fleet.member("member1"));
    let installation = Installation::new(&fleet).await;
    let controller = installation.controller().start().await;
    join_all(&installation, &fleet, &["member1"]).await;
    // From here on nobody else lists on the hub.
    controller.process().terminate();
    controller.process().exited(SOON).await;
    let space = fleet.space("listed").await;
    let name = space.name();
    let mark = member.mark().await;
    let before = hub.request_counts().await;

    let overview = Watch::start(&fleet, &["-A", "-w"]);
    overview.says(&["member1", "Synced"]).await;
    let mcs = multi_cluster_service("foo").providers(["member1"]);
    mcs.consumers(["member1"]).create(&space).await;
    overview.says(&[name, "foo", "Pending"]).await;
    let export = format!(
        "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {{name: bar, namespace: {name}}}\n"
    );
    member.apply(&export).await.ok();
    overview.says(&[name, "bar", "member1"]).await;
    // A Cluster that changes has nothing listed again.
    let drain = [
        "annotate",
        "cluster",
        "member1",
        "mcs.causeway.dev/withdraw=true",
    ];
    hub.kubectl(drain).await.ok();
    overview.says(&["member1", "Synced,Drained"]).await;

    let on_hub = hub.request_counts().await.since(&before).with("LIST");
    let in_member = member.lists_of_since("kubectl-mcs/", mark).await;
    for kind in ["serviceexports", "serviceimports"] {
        let of_kind = in_member.iter().filter(|uri| uri.contains(kind)).count();
        assert_eq!(of_kind, 1, "{kind}: {in_member:?}");
    }
    for kind in ["multiclusterservices", "clusters"] {
        assert_eq!(on_hub.of(kind).total(), 1, "{kind}: {on_hub:?}");
    }
    for kind in ["serviceexports", "serviceimports"] {
        assert!(on_hub.of(kind).total() <= 1, "{kind}: {on_hub:?}");
    }
}

#[tokio::test]
async fn status_watch_of_a_missing_object_ends_at_once() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    let installation = Installation::new(&fleet).await;
    let missing = installation.kubectl_mcs(["status", "foo", "-w"]).await;
    ends(&missing, 1, "\"foo\" not found");

    hub.kubectl(["create", "serviceaccount", "lister"])
        .await
        .ok();
    let role = [
        "create",
        "clusterrole",
        "lister",
        "--verb=list",
        "--resource=multiclusterservices,clusters.cluster.karmada.io",
    ];
    hub.kubectl(role).await.ok();
    let bind = ["create", "clusterrolebinding", "lister"];
    let of = ["--clusterrole=lister", "--serviceaccount=default:lister"];
    hub.kubectl(bind.into_iter().chain(of)).await.ok();
    let kubeconfig = hub.kubeconfig_as("default", "lister").await;
    let kubeconfig = kubeconfig.display().to_string();
    let watch = ["status", "-A", "-w", "--kubeconfig", &kubeconfig];
    let refused = installation.kubectl_mcs(watch).await;
    ends(&refused, 3, "forbidden by the hub | cannot watch");
}
