//! MultiClusterServices on a hub and three members.

mod copies;
mod names;
mod placement;
mod services;
mod status;

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, Fleet, SOON, Space, eventually, multi_cluster_service, service};
use tokio::sync::OnceCell;

/// A hub with three members that are joined, and one controller; shared by all tests here.
struct Environment {
    fleet: Fleet,
    #[allow(dead_code, reason = "it is there to run")]
    controller: Running,
}

async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    ENVIRONMENT
        .get_or_init(async || {
            let fleet = Fleet::builder().members(3).start().await;
            let installation = Installation::new(&fleet).await;
            let controller = installation.controller().start().await;
            for member in fleet.members() {
                installation.join(member).await;
            }
            Environment { fleet, controller }
        })
        .await
}

/// One test's namespace, and words for what tests here do again and again.
struct Stage {
    space: Space<'static>,
}

impl Stage {
    async fn new(prefix: &str) -> Self {
        let space = env().await.fleet.space(prefix).await;
        Self { space }
    }

    fn hub(&self) -> &'static Cluster {
        self.space.fleet().hub()
    }

    fn member(&self, name: &str) -> &'static Cluster {
        self.space.fleet().member(name)
    }

    /// `foo` on the hub, port 80, provided by member1 and consumed by member2.
    async fn serve_http(&self) {
        service("foo")
            .port("http", 80)
            .create(self.hub(), &self.space)
            .await;
        self.carry_from_member1_to_member2().await;
    }

    async fn carry_from_member1_to_member2(&self) {
        let object = multi_cluster_service("foo")
            .providers(["member1"])
            .consumers(["member2"]);
        object.create(&self.space).await;
    }

    /// Pods that back `foo` in a member.
    async fn pods(&self, member: &str, count: usize) -> Vec<RunningPod> {
        self.space
            .backends("foo")
            .count(count)
            .create(self.member(member))
            .await
    }

    /// The one pod of member1, once member2 reaches it.
    async fn pod_that_member2_reaches(&self) -> RunningPod {
        let pod = self.pods("member1", 1).await.remove(0);
        self.reaches("member2", &[pod.ip()]).await;
        pod
    }

    /// kubectl on the hub, in the namespace; it must succeed.
    async fn hub_kubectl<const N: usize>(&self, args: [&str; N]) -> String {
        self.kubectl(self.hub(), args).await
    }

    /// kubectl on a cluster, in the namespace; it must succeed.
    async fn kubectl<const N: usize>(&self, cluster: &Cluster, args: [&str; N]) -> String {
        let all = args.into_iter().chain(["-n", self.space.name()]);
        cluster.kubectl(all).await.ok()
    }

    /// Changes the spec of `mcs/foo` by a merge patch.
    async fn edit_spec(&self, spec: &str) {
        let patch = format!("{{\"spec\":{spec}}}");
        self.hub_kubectl(["patch", "mcs", "foo", "--type=merge", "-p", &patch])
            .await;
    }

    /// Waits until exactly these addresses are ready behind `foo` in a member.
    async fn reaches<A: AsRef<str>>(&self, member: &str, addresses: &[A]) {
        let mut expected: Vec<&str> = addresses.iter().map(AsRef::as_ref).collect();
        expected.sort_unstable();
        let what = format!("{member} reaches {expected:?}");
        eventually(&what, SOON, async || {
            let ready = self.space.ready_addresses(self.member(member), "foo").await;
            if ready == expected {
                Ok(())
            } else {
                Err(format!("{ready:?}"))
            }
        })
        .await;
    }

    /// Waits until a condition of `mcs/foo` has that status and reason, and gives its message.
    async fn condition(&self, type_: &str, status: &str, reason: &str) -> String {
        let path = format!(
            "jsonpath={{range .status.conditions[?(@.type==\"{type_}\")]}}{{.status}}|{{.reason}}|{{.message}}{{end}}"
        );
        let wanted = format!("{status}|{reason}|");
        let what = format!("{type_} is {status} because {reason}");
        eventually(&what, SOON, async || {
            let seen = self.hub_kubectl(["get", "mcs", "foo", "-o", &path]).await;
            seen.strip_prefix(&wanted).map(str::to_owned).ok_or(seen)
        })
        .await
    }

    async fn ready(&self) -> String {
        self.condition("Ready", "True", "Ready").await
    }

    /// Waits until kubectl prints exactly that for an object of a member.
    async fn prints<const N: usize>(&self, cluster: &Cluster, args: [&str; N], expected: &str) {
        let what = format!("{args:?} in {} prints {expected:?}", cluster.name());
        eventually(&what, SOON, async || {
            let all = args.into_iter().chain(["-n", self.space.name()]);
            let output = cluster.kubectl(all).await;
            let seen = format!("{}{}", output.stdout, output.stderr);
            if seen.trim() == expected {
                Ok(())
            } else {
                Err(seen)
            }
        })
        .await;
    }

    /// Waits until nothing of that kind and name is in a cluster.
    async fn gone(&self, cluster: &Cluster, kind: &str, name: &str) {
        self.prints(
            cluster,
            ["get", kind, name, "--ignore-not-found", "-o", "name"],
            "",
        )
        .await;
    }

    /// Waits until causeway's own objects are gone from a member.
    async fn clean(&self, member: &str) {
        let kinds = "services,endpointslices";
        let own = "--selector=app.kubernetes.io/managed-by=causeway";
        self.prints(
            self.member(member),
            ["get", kinds, own, "-o", "name", "--ignore-not-found"],
            "",
        )
        .await;
    }
}
