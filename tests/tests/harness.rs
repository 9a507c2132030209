//! The testbed itself. Tests of features that every other test uses are slow ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use causeway_tests::audit::Mark;
use causeway_tests::reaper::{Exit, Program, Reaper, Undo};
use causeway_tests::{Fleet, SOON, eventually, service};
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use tokio::sync::OnceCell;

async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET
        .get_or_init(|| Fleet::builder().members(2).start())
        .await
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn every_cluster_has_its_own_authority_and_its_own_data() {
    let fleet = fleet().await;
    let space = fleet.space("own").await;
    service("foo")
        .port("http", 80)
        .create(fleet.member("member1"), &space)
        .await;
    for (cluster, count) in [("hub", 0), ("member1", 1), ("member2", 0)] {
        let cluster = fleet
            .clusters()
            .find(|c| c.name() == cluster)
            .expect("a cluster");
        let services = space.api::<Service>(cluster);
        let found = services.list(&ListParams::default()).await.unwrap();
        assert_eq!(found.items.len(), count);
    }
    let authorities: std::collections::BTreeSet<_> =
        fleet.clusters().map(|c| c.ca_pem().to_owned()).collect();
    assert_eq!(authorities.len(), 3);
    let other = std::fs::read_to_string(fleet.member("member1").kubeconfig())
        .unwrap()
        .replace(fleet.member("member1").url(), fleet.hub().url());
    let mixed = fleet.directory().join("mixed.kubeconfig");
    std::fs::write(&mixed, other).unwrap();
    let refused = fleet
        .hub()
        .kubectl(["get", "ns", "--kubeconfig", &mixed.display().to_string()])
        .await
        .refused();
    assert!(refused.contains("certificate"), "{refused}");
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn slices_come_from_pods_and_services() {
    let fleet = fleet().await;
    let space = fleet.space("slices").await;
    let member = fleet.member("member1");
    service("foo")
        .port_to("http", 80, 8080)
        .create(member, &space)
        .await;
    let pods = space.backends("foo").count(3).create(member).await;
    let mut expected: Vec<String> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    expected.sort();
    eventually("all three pods are endpoints", SOON, || async {
        space.ready_addresses(member, "foo").await == expected
    })
    .await;
    let slices = space.slices(member, "foo").await;
    assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(8080));
    assert_eq!(slices[0].endpoints[0].zone, Some(member.zone()));

    pods[0].set_ready(false).await;
    pods[1].delete().await;
    eventually("one ready endpoint is left", SOON, || async {
        space.ready_addresses(member, "foo").await == [pods[2].ip()]
    })
    .await;
}

#[tokio::test]
async fn rbac_denies_what_no_role_allows() {
    let fleet = fleet().await;
    let space = fleet.space("rbac").await;
    let hub = fleet.hub();
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("nobody".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    let accounts = space.api::<ServiceAccount>(hub);
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let token = hub.token(space.name(), "nobody").await;
    let as_nobody = hub.client_with_token(&token);
    let refused = Api::<Namespace>::all(as_nobody)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(status.code, 403);

    let stranger = hub.client_with_token("a-token-that-nobody-gave");
    let refused = Api::<Namespace>::all(stranger)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(status.code, 401);
}

#[tokio::test]
async fn writes_are_counted_and_their_authors_known() {
    let fleet = fleet().await;
    let space = fleet.space("audit").await;
    let hub = fleet.hub();
    let mark = hub.mark().await;
    let before = hub.request_counts().await;
    service("foo").port("http", 80).create(hub, &space).await;
    space
        .api::<Service>(hub)
        .delete("foo", &DeleteParams::default())
        .await
        .unwrap();

    let writes = hub.writes_since(mark, "admin").await;
    let ours: Vec<_> = writes
        .iter()
        .filter(|write| write.namespace == space.name())
        .map(|write| (write.verb.as_str(), write.resource.as_str(), write.code))
        .collect();
    assert_eq!(
        ours,
        [("create", "services", 201), ("delete", "services", 200)]
    );
    assert!(hub.writes_since(mark, "causeway").await.is_empty());
    let counted = hub.request_counts().await.since(&before);
    assert!(counted.writes().of("services").total() >= 2, "{counted:?}");
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn a_stopped_api_server_comes_back_with_its_data() {
    let fleet = Fleet::builder().members(1).start().await;
    let space = fleet.space("stopped").await;
    let member = fleet.member("member1");
    service("foo").port("http", 80).create(member, &space).await;
    member.stop().await;
    assert!(!member.api_server().is_running());
    let services = space.api::<Service>(member);
    assert!(services.get("foo").await.is_err());
    member.start().await;
    assert_eq!(
        space
            .api::<Service>(member)
            .get("foo")
            .await
            .unwrap()
            .metadata
            .name
            .as_deref(),
        Some("foo")
    );

    member.pause();
    let unanswered = tokio::time::timeout(Duration::from_millis(300), services.get("foo")).await;
    assert!(unanswered.is_err(), "a paused API server answered");
    member.resume();
    eventually("it answers again", SOON, || services.get("foo")).await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn two_fleets_live_side_by_side() {
    let ours = fleet().await;
    let other = Fleet::builder().members(1).dual_stack("member1").start();
    let other = other.await;
    let space = other.space("side").await;
    let namespaces = Api::<Namespace>::all(ours.hub().client());
    assert_eq!(namespaces.get_opt(space.name()).await.unwrap(), None);
    let directory = other.directory().to_path_buf();
    drop(space);
    drop(other);
    assert!(!directory.exists(), "its directory is still there");
    ours.hub().ready().await;
}

/// A definition, an object of it, and a namespace.
const LEFT: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leftovers.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Leftover, plural: leftovers}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
---
apiVersion: v1
kind: Namespace
metadata: {name: left}
"#;

const LEFTOVER: &str = "{apiVersion: example.com/v1, kind: Leftover, metadata: {name: foo}}";

#[tokio::test]
async fn clusters_are_used_again_as_they_were_at_the_start() {
    // No other test has members of these names.
    let members =
        |count| Fleet::builder().named_members(["first", "second"].into_iter().take(count));
    let fleet = members(1).start().await;
    let urls = [fleet.hub().url(), fleet.member("first").url()].map(str::to_owned);
    for cluster in fleet.clusters() {
        cluster.apply(LEFT).await.ok();
        let served = [
            "wait",
            "--for=condition=Established",
            "crd/leftovers.example.com",
        ];
        cluster.kubectl(served).await.ok();
        cluster.apply(LEFTOVER).await.ok();
        let label = ["label", "namespace", "kube-system", "left=behind"];
        cluster.kubectl(label).await.ok();
        cluster
            .kubectl(["delete", "clusterrole", "view"])
            .await
            .ok();
    }
    drop(fleet);

    let fleet = members(2).start().await;
    let again = [fleet.hub().url(), fleet.member("first").url()].map(str::to_owned);
    assert_eq!(again, urls);
    for cluster in fleet.clusters() {
        let writes = cluster.writes_since(Mark::default(), "admin").await;
        let writes = writes
            .into_iter()
            .filter(|write| write.user_agent.contains("kubectl"));
        let earlier = writes.filter(|write| write.name != "kubernetes").count();
        assert_eq!(earlier, 0, "writes to {}", cluster.name());
        let namespaces = ["get", "namespaces", "-o", "name"];
        let namespaces = cluster.kubectl(namespaces).await.ok();
        let expected = ["default", "kube-node-lease", "kube-public", "kube-system"];
        let expected = expected.map(|name| format!("namespace/{name}"));
        assert_eq!(namespaces.lines().collect::<Vec<_>>(), expected);
        cluster.kubectl(["get", "clusterrole", "view"]).await.ok();
        let labelled = ["get", "namespaces", "-l", "left", "-o", "name"];
        assert_eq!(cluster.kubectl(labelled).await.ok(), "");
        let refused = cluster.kubectl(["get", "leftovers"]).await.refused();
        assert!(
            refused.contains("the server doesn't have a resource type"),
            "{refused}"
        );
    }
    let (space, member) = (fleet.space("again").await, fleet.member("first"));
    service("foo").port("http", 80).create(member, &space).await;
    let pods = space.backends("foo").create(member).await;
    eventually("its controllers are at work", SOON, || async {
        space.ready_addresses(member, "foo").await == [pods[0].ip()]
    })
    .await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn clusters_whose_api_server_was_stopped_are_not_used_again() {
    let members = || Fleet::builder().named_members(["stopped"]);
    let fleet = members().start().await;
    fleet.member("stopped").stop().await;
    fleet.member("stopped").start().await;
    let directory = fleet.directory().to_path_buf();
    drop(fleet);
    assert!(!directory.exists(), "its directory is still there");
    members().start().await.hub().ready().await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn dual_stack_members_have_both_families() {
    let fleet = Fleet::builder()
        .members(1)
        .dual_stack("member1")
        .start()
        .await;
    let space = fleet.space("dual").await;
    let made = service("foo")
        .port("http", 80)
        .with(|spec| spec.ip_family_policy = Some("RequireDualStack".to_owned()))
        .create(fleet.member("member1"), &space)
        .await;
    let families = made.spec.unwrap().ip_families.unwrap();
    assert_eq!(families, ["IPv4", "IPv6"]);
}

#[tokio::test]
async fn a_process_that_ends_says_how() {
    let directory = tempfile::tempdir().unwrap();
    let reaper = Reaper::start();
    let shell = |script: &str| {
        Program::new("sh", directory.path().join("log"))
            .args(["-c", script])
            .env("WORD", "passed")
    };
    let exit = reaper.run(shell("echo $WORD; exit 7"));
    assert_eq!(exit.exited(SOON).await, Exit::Code(7));
    assert_eq!(exit.log_tail(5), "passed");
    let killed = reaper.run(shell("sleep 1000"));
    assert!(killed.is_running());
    killed.kill().await;
    assert_eq!(killed.exit(), Some(Exit::Signal(9)));
}

#[tokio::test]
#[ignore = "the process that another test starts and kills"]
async fn the_parent_to_be_killed() {
    let Some(directory) = std::env::var_os("CAUSEWAY_TEST_VICTIM").map(PathBuf::from) else {
        return;
    };
    let reaper = Reaper::start();
    let removed = directory.join("removed");
    std::fs::create_dir(&removed).unwrap();
    reaper.at_the_end(&Undo::Remove(removed.clone()));
    reaper.at_the_end(&Undo::Run(vec![
        "touch".to_owned(),
        directory.join("undone").display().to_string(),
    ]));
    let children =
        [1, 2].map(|_| reaper.run(Program::new("sleep", removed.join("log")).arg("1000")));
    children[1].pause();
    let pids = children.each_ref().map(|child| child.pid().to_string());
    std::fs::write(directory.join("pids.new"), pids.join("\n")).unwrap();
    std::fs::rename(directory.join("pids.new"), directory.join("pids")).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn processes_die_with_a_parent_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "the_parent_to_be_killed"])
        .env("CAUSEWAY_TEST_VICTIM", directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pids = eventually("the parent has children", SOON, || async {
        std::fs::read_to_string(directory.path().join("pids"))
    })
    .await;
    let alive = |pid: &str| Path::new("/proc").join(pid).exists();
    assert!(pids.lines().all(alive), "{pids}");
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("its children have died", SOON, || async {
        !pids.lines().any(alive)
    })
    .await;
    eventually("its directory is gone", SOON, || async {
        directory.path().join("undone").exists() && !directory.path().join("removed").exists()
    })
    .await;
}
