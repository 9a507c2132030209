//! Rare answers of API servers, from a server that the test directs.

use std::sync::{Arc, Mutex};

use causeway_engine::model::Signal;
use tokio::task::JoinHandle;

use super::*;
use crate::watch::tests::http::{self, PATIENCE, Received};

/// An API server with nothing but a Service and a Namespace; what it answers can be changed.
struct Server {
    answers: Arc<Mutex<Answers>>,
    /// Paths of all requests.
    asked: watch::Receiver<Vec<String>>,
    events: mpsc::Receiver<Event>,
    needs_nodes: watch::Sender<bool>,
    needs_paths: watch::Sender<bool>,
    _relist_requests: watch::Sender<RelistRequests>,
    tasks: Vec<JoinHandle<()>>,
}

struct Answers {
    uid: &'static str,
    may_discover: bool,
    may_read_nodes: bool,
    minor: Option<&'static str>,
    /// Id in the clusterset, or the status code of the answer.
    id: Result<&'static str, u16>,
    /// Status code and body of every answer about API groups.
    of_groups: (u16, &'static str),
}

/// A server that answers everything.
const WELL: Answers = Answers {
    uid: "one",
    may_discover: true,
    may_read_nodes: true,
    minor: Some("35"),
    id: Err(404),
    of_groups: (200, GROUPS),
};

const GROUPS: &str =
    r#"{"groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}"#;

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Server {
    async fn engaged(answers: Answers) -> Self {
        Self::engaged_by(answers, Settings::default()).await
    }

    async fn engaged_by(answers: Answers, settings: Settings) -> Self {
        let (client, mut requests, accepting) = http::listen().await;
        let answers = Arc::new(Mutex::new(answers));
        let current = answers.clone();
        let (paths, asked) = watch::channel(Vec::new());
        let answering = tokio::spawn(async move {
            let mut watches = Vec::new();
            while let Some(mut asked) = requests.recv().await {
                paths.send_modify(|all| all.push(asked.path.clone()));
                if asked.query.contains_key("watch") {
                    asked.accept().await;
                    watches.push(asked);
                } else {
                    answer(&current, asked).await;
                }
            }
        });
        let settings = Settings {
            probe_every: Duration::from_millis(20),
            ..settings
        };
        let (tell, events) = mpsc::channel(8);
        let name = ClusterName::try_from("member1").unwrap();
        let same = client.clone();
        let connect = Arc::new(move || Ok(same.clone()));
        let (requests, relist_requests) = watch::channel(RelistRequests::default());
        let (needs_nodes, nodes_needed) = watch::channel(false);
        let (needs_paths, paths_needed) = watch::channel(false);
        let (_, slice_scope) = watch::channel(Some(SliceScope::All));
        let member = Member {
            name,
            client,
            connect,
            generation: 1,
            events: tell,
            relist_requests,
            needs_nodes: nodes_needed,
            needs_paths: paths_needed,
            slice_scope,
            settings,
        };
        let running = tokio::spawn(member.run());
        Self {
            answers,
            asked,
            events,
            needs_nodes,
            needs_paths,
            _relist_requests: requests,
            tasks: vec![accepting, answering, running],
        }
    }

    fn change(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.answers.lock().unwrap());
    }

    /// Returns the next report, in short.
    async fn reported(&mut self) -> String {
        let event = loop {
            let event = timeout(PATIENCE, self.events.recv()).await;
            let Event::Member { event, .. } = event.expect("no event arrived").unwrap() else {
                panic!("not of the member")
            };
            if !matches!(event, MemberEvent::SliceScope(SliceScope::All)) {
                break event;
            }
        };
        match event {
            MemberEvent::SliceScope(_)
            | MemberEvent::OtherSlices(_)
            | MemberEvent::Rescoped(..) => panic!("all slices are watched"),
            MemberEvent::Identified(identity) => format!("is {}", identity.uid),
            MemberEvent::VersionChanged(identity) => {
                format!("{} is {} now", identity.uid, identity.release)
            }
            MemberEvent::ClusterId(id) => format!("has {id:?}"),
            MemberEvent::Probed(outcome) => format!("answers {}", outcome.is_ok()),
            MemberEvent::Served(served) => format!("serves {served:?}"),
            MemberEvent::NotDiscovered(failure) => format!("hides what it serves: {failure}"),
            MemberEvent::Services(signal) => summary("services", &signal),
            MemberEvent::Slices(signal) => summary("slices", &signal),
            MemberEvent::Namespaces(signal) => summary("namespaces", &signal),
            MemberEvent::Nodes(signal) => summary("nodes", &signal),
            MemberEvent::Paths(signal) => summary("paths", &signal),
            MemberEvent::Exports(signal) => summary("exports", &signal),
            MemberEvent::Imports(signal) => summary("imports", &signal),
        }
    }

    /// Checks that exactly these are reported, what is always watched, and that no definition is
    /// served, in any order.
    async fn tells_with_natives<const N: usize>(&mut self, first: [&str; N]) {
        let first = first.map(ToOwned::to_owned);
        let all = first.into_iter().chain(natives()).chain([serves_nothing()]);
        self.tells(all.collect()).await;
    }

    /// Checks that exactly this is reported, in any order.
    async fn tells(&mut self, mut expected: Vec<String>) {
        while !expected.is_empty() {
            let reported = self.reported().await;
            let at = expected.iter().position(|text| *text == reported);
            expected.remove(at.unwrap_or_else(|| panic!("{reported}, and not {expected:?}")));
        }
    }
}

fn summary<K>(kind: &str, signal: &Signal<K>) -> String {
    match signal {
        Signal::Listed(objects) => format!("{kind}: {}", objects.len()),
        Signal::Confirmed => format!("{kind} again"),
        Signal::Current(term) => format!("{kind} of term {term}"),
        Signal::DeletionsSuspended(missing) => format!("{kind} held: {missing}"),
        Signal::Connected => format!("{kind} watched"),
        Signal::Applied(_) | Signal::Deleted(_) => format!("{kind} changed"),
        Signal::Failed(failure) => format!("{kind} failed: {failure}"),
    }
}

async fn answer(answers: &Mutex<Answers>, asked: Received) {
    let (uid, may_discover, may_read_nodes, minor, id, of_groups) = {
        let answers = answers.lock().unwrap();
        (
            answers.uid,
            answers.may_discover,
            answers.may_read_nodes,
            answers.minor,
            answers.id,
            answers.of_groups,
        )
    };
    match &*asked.path {
        "/apis" => asked.answer(of_groups.0, of_groups.1).await,
        "/version" => match minor {
            Some(minor) => asked.answer(200, &VERSION.replace("MINOR", minor)).await,
            None => asked.refuse(403, "Forbidden", "no").await,
        },
        "/api/v1/namespaces/kube-system" => {
            let namespace = format!(r#"{{"metadata":{{"name":"kube-system","uid":"{uid}"}}}}"#);
            asked.answer(200, &namespace).await;
        }
        "/apis/about.k8s.io/v1alpha1/clusterproperties/cluster.clusterset.k8s.io" => match id {
            Ok(id) => {
                let property = format!(r#"{{"spec":{{"value":"{id}"}}}}"#);
                asked.answer(200, &property).await;
            }
            Err(code) => asked.refuse(code, "Refused", "no").await,
        },
        path if path.starts_with("/apis/about.k8s.io/") => {
            asked.answer(404, "404 page not found").await;
        }
        "/apis/multicluster.x-k8s.io/v1" => asked.answer(200, NEWER_EXPORTS).await,
        "/apis/multicluster.x-k8s.io/v2" => asked.answer(200, OTHER_KIND).await,
        path if path.starts_with("/apis/multicluster.x-k8s.io/") && may_discover => {
            asked.answer(404, "404 page not found").await;
        }
        path if path.starts_with("/apis/multicluster.x-k8s.io/") => {
            asked.refuse(403, "Forbidden", "no").await;
        }
        "/api/v1/nodes" if !may_read_nodes => asked.refuse(403, "Forbidden", "no").await,
        "/api/v1/services" | "/api/v1/namespaces" | "/api/v1/nodes" => {
            let list = r#"{"kind":"List","metadata":{"resourceVersion":"1"},
                "items":[{"metadata":{"name":"one"}}]}"#;
            asked.answer(200, list).await;
        }
        _ => {
            let list = r#"{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}"#;
            asked.answer(200, list).await;
        }
    }
}

const VERSION: &str = r#"{"major":"1","minor":"MINOR","gitVersion":"v1.MINOR.3","gitCommit":"","gitTreeState":"",
    "buildDate":"","goVersion":"","compiler":"","platform":""}"#;

fn natives() -> impl Iterator<Item = String> {
    let kinds = [("services", 1), ("slices", 0), ("namespaces", 1)];
    let reported = |(kind, count)| [format!("{kind}: {count}"), format!("{kind} watched")];
    kinds.into_iter().flat_map(reported)
}

fn serves_nothing() -> String {
    format!("serves {:?}", Served::default())
}

#[tokio::test]
async fn another_cluster_under_a_name_is_read_from_scratch() {
    let mut server = Server::engaged(WELL).await;
    assert_eq!(server.reported().await, "is one");
    assert_eq!(server.reported().await, "answers true");
    let all: Vec<_> = natives().chain([serves_nothing()]).collect();
    server.tells(all.clone()).await;
    server.change(|answers| answers.uid = "two");
    assert_eq!(server.reported().await, "is two");
    server.tells(all).await;
}

#[tokio::test]
async fn nodes_are_watched_only_while_they_are_needed() {
    let mut server = Server::engaged(WELL).await;
    server.tells_with_natives(["is one", "answers true"]).await;
    let nodes = ["nodes: 1", "nodes watched"].map(ToOwned::to_owned);
    for _ in 0..2 {
        server.needs_nodes.send_replace(true);
        server.tells(nodes.to_vec()).await;
        server.needs_nodes.send_replace(false);
        // The member has its turn.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn need_that_ends_and_comes_back_at_once_lists_again() {
    let mut server = Server::engaged(WELL).await;
    server.tells_with_natives(["is one", "answers true"]).await;
    for (need, reported) in [
        (server.needs_nodes.clone(), ["nodes: 1", "nodes watched"]),
        (server.needs_paths.clone(), ["paths: 0", "paths watched"]),
    ] {
        for _ in 0..2 {
            // The member has no turn between the two.
            need.send_replace(false);
            need.send_replace(true);
            server.tells(reported.map(ToOwned::to_owned).to_vec()).await;
        }
    }
}

#[tokio::test]
async fn forbidden_nodes_leave_other_watches_running() {
    let answers = Answers {
        may_read_nodes: false,
        ..WELL
    };
    let mut server = Server::engaged(answers).await;
    server.needs_nodes.send_replace(true);
    server
        .tells_with_natives(["is one", "answers true", "nodes failed: forbidden: no"])
        .await;
    server.change(|answers| answers.may_read_nodes = true);
    let nodes = ["nodes: 1", "nodes watched"].map(ToOwned::to_owned);
    server.tells(nodes.to_vec()).await;
}

#[tokio::test]
async fn forbidden_discovery_leaves_other_watches_running() {
    let mut server = Server::engaged(Answers {
        may_discover: false,
        ..WELL
    })
    .await;
    assert_eq!(server.reported().await, "is one");
    assert_eq!(server.reported().await, "answers true");
    let hidden = "hides what it serves: forbidden: no".to_owned();
    server.tells(natives().chain([hidden]).collect()).await;
    server.change(|answers| answers.may_discover = true);
    assert_eq!(server.reported().await, serves_nothing());
}

/// Whoever answers 404 to everything does not list the API groups.
#[tokio::test]
async fn absent_definitions_are_not_reported_without_proof() {
    let [served, in_v1, in_v3] = ["v1alpha1", "v1", "v3"].map(group_in);
    let versions = [r#"{"version":"v3"}"#; 17].join(",");
    let group = format!(r#"{{"name":"multicluster.x-k8s.io","versions":[{versions}]}}"#);
    let in_many: &str = format!(r#"{{"groups":[{group}]}}"#).leak();
    for (of_groups, why) in [
        (
            (404, "<html>404 page not found</html>"),
            "not serve the resource",
        ),
        ((200, r#"{"groups":[]}"#), "contradicts itself"),
        ((200, served), "contradicts itself"),
        ((200, in_v1), "it serves serviceexports in v1"),
        ((200, in_v3), "contradicts itself"),
        ((200, in_many), "serves more than 16 versions"),
    ] {
        let mut server = Server::engaged(Answers { of_groups, ..WELL }).await;
        assert_eq!(server.reported().await, "is one");
        assert_eq!(server.reported().await, "answers true");
        let mut left: Vec<_> = natives().collect();
        let hidden = loop {
            let reported = server.reported().await;
            match left.iter().position(|one| *one == reported) {
                Some(at) => left.remove(at),
                None => break reported,
            };
        };
        assert!(hidden.starts_with("hides what it serves: "), "{hidden}");
        assert!(hidden.contains(why), "{hidden}");
    }
}

/// Returns the list of API groups of a server with one version of the Multi-Cluster Services API.
fn group_in(version: &str) -> &'static str {
    let of_version = r#"{"groups":[{"name":"multicluster.x-k8s.io","versions":
        [{"groupVersion":"multicluster.x-k8s.io/VERSION","version":"VERSION"}]}]}"#;
    of_version.replace("VERSION", version).leak()
}

const NEWER_EXPORTS: &str = r#"{"kind":"APIResourceList","resources":[{"name":"serviceexports"}]}"#;
const OTHER_KIND: &str = r#"{"kind":"APIResourceList","resources":[{"name":"clusterprofiles"}]}"#;

#[tokio::test]
async fn other_kind_of_the_group_does_not_hide_that_exports_are_absent() {
    let of_groups = (200, group_in("v2"));
    let mut server = Server::engaged(Answers { of_groups, ..WELL }).await;
    server.tells_with_natives(["is one", "answers true"]).await;
}

#[tokio::test]
async fn definitions_that_stay_absent_are_proven_absent_twice_only() {
    let answers = Answers {
        id: Ok("eu-1"),
        ..WELL
    };
    let mut server = Server::engaged(answers).await;
    server
        .tells_with_natives(["is one", "answers true", r#"has Valid("eu-1")"#])
        .await;
    let requests = |all: &Vec<String>, path: &str| all.iter().filter(|one| *one == path).count();
    let looks = |all: &Vec<String>| requests(all, "/apis/multicluster.x-k8s.io/v1alpha1");
    let asked = timeout(PATIENCE, server.asked.wait_for(|all| looks(all) > 5)).await;
    let asked = asked.expect("no looks in time").expect("a server");
    assert_eq!(requests(&asked, "/apis"), 2);
}

#[tokio::test]
async fn unreadable_version_leaves_the_member_unknown() {
    let unread = Answers {
        minor: Some(""),
        ..WELL
    };
    let mut server = Server::engaged(unread).await;
    assert_eq!(server.reported().await, "answers false");
    server.change(|answers| answers.minor = Some("34"));
    assert_eq!(server.reported().await, "is one");
    assert_eq!(server.reported().await, "answers true");
    server.tells_with_natives([]).await;
    server.change(|answers| answers.minor = Some(""));
    server.change(|answers| answers.minor = Some("36"));
    assert_eq!(server.reported().await, "one is 1.36 now");
}

#[tokio::test]
async fn new_server_version_is_reported_without_a_relist() {
    let mut server = Server::engaged(WELL).await;
    assert_eq!(server.reported().await, "is one");
    assert_eq!(server.reported().await, "answers true");
    server.tells_with_natives([]).await;
    server.change(|answers| answers.minor = None);
    server.change(|answers| answers.minor = Some("36"));
    assert_eq!(server.reported().await, "one is 1.36 now");
    server.change(|answers| answers.minor = Some("34"));
    assert_eq!(server.reported().await, "one is 1.34 now");
}

#[tokio::test]
async fn failed_reading_of_the_id_reports_nothing() {
    let settings = Settings {
        schema_every: Duration::from_millis(20),
        ..Settings::default()
    };
    let failing = Answers {
        id: Err(503),
        ..WELL
    };
    let mut server = Server::engaged_by(failing, settings).await;
    server.tells_with_natives(["is one", "answers true"]).await;
    let steps = [
        (Ok("eu-1"), r#"has Valid("eu-1")"#),
        (Err(503), ""),
        (Err(403), ""),
        (Ok("EU"), r#"has Invalid("EU")"#),
        (Err(404), "has Absent"),
    ];
    for (id, reported) in steps {
        server.change(|answers| answers.id = id);
        if reported.is_empty() {
            sleep(Duration::from_millis(200)).await;
        } else {
            assert_eq!(server.reported().await, reported);
        }
    }
}

#[tokio::test]
async fn id_is_absent_only_with_proof() {
    let settings = Settings {
        schema_every: Duration::from_millis(20),
        ..Settings::default()
    };
    let contradicting = Answers {
        of_groups: (200, r#"{"groups":[]}"#),
        may_discover: false,
        ..WELL
    };
    let mut server = Server::engaged_by(contradicting, settings).await;
    let first = [
        "is one",
        "answers true",
        "hides what it serves: forbidden: no",
    ];
    let first = first.map(ToOwned::to_owned);
    server
        .tells(first.into_iter().chain(natives()).collect())
        .await;
    server.change(|answers| answers.of_groups = (200, GROUPS));
    assert_eq!(server.reported().await, "has Absent");
}

#[test]
fn a_change_of_health_is_reported_once_and_a_single_miss_is_not() {
    let refused = || Failure::new(FailureKind::Refused, "connection refused");
    let mut health = Health::default();
    assert_eq!(health.answered(), Some(Ok(())));
    assert_eq!(health.answered(), None);
    assert_eq!(health.failed(Failure::timeout()), None);
    assert_eq!(health.answered(), None, "one miss is forgotten");
    assert_eq!(health.failed(Failure::timeout()), None);
    assert_eq!(
        health.failed(Failure::timeout()),
        Some(Err(Failure::timeout()))
    );
    assert_eq!(health.failed(Failure::timeout()), None);
    assert_eq!(
        health.failed(refused()),
        Some(Err(refused())),
        "another reason is news"
    );
    assert_eq!(health.answered(), Some(Ok(())));
    assert_eq!(
        health.failed(refused()),
        Some(Err(refused())),
        "a refused connection is reported at once"
    );
}

#[test]
fn a_member_that_never_answered_is_reported_at_the_first_miss() {
    let mut health = Health::default();
    assert_eq!(
        health.failed(Failure::timeout()),
        Some(Err(Failure::timeout()))
    );
}
