//! Failures of members, of the hub's objects and of the controller. Each test has a separate fleet.

mod controller;
mod credentials;
mod events;
mod evidence;
mod fights;
mod frontends;
mod joining;
mod karmada;
mod karmada_imports;
mod leaving;
mod lookups;
mod members;
mod networks;
mod old;
mod profiles;
mod proxies;
mod quota;
mod rights;
mod versions;

use std::time::Duration;

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::{Cluster, Fleet, Space, eventually, multi_cluster_service, service};

/// Long enough for a probe to miss a member, or to find it again.
const NOTICED: Duration = Duration::from_secs(45);

/// A hub with joined members, one controller, and `foo` provided by member1 and consumed by the others.
struct Environment {
    controller: Running,
    installation: Installation,
    fleet: Fleet,
}

impl Environment {
    async fn start(members: usize, flags: &[&str]) -> Self {
        let fleet = Fleet::builder().members(members).start().await;
        let installation = Installation::new(&fleet).await;
        let mut controller = installation.controller();
        for flag in flags {
            controller = controller.arg(*flag);
        }
        let controller = controller.start().await;
        for member in fleet.members() {
            installation.join(member).await;
        }
        let known = ["wait", "--for=condition=ClustersetAPI", "--all", "clusters"];
        let known = known.into_iter().chain(["--timeout=60s"]);
        fleet.hub().kubectl(known).await.ok();
        Self {
            controller,
            installation,
            fleet,
        }
    }

    fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    fn member(&self, name: &str) -> &Cluster {
        self.fleet.member(name)
    }

    /// `foo` in a fresh namespace, provided by member1 and consumed by member2, and already reached.
    async fn foo(&self, prefix: &str) -> (Space<'_>, Vec<String>) {
        let space = self.fleet.space(prefix).await;
        service("foo")
            .port("http", 80)
            .create(self.hub(), &space)
            .await;
        multi_cluster_service("foo")
            .providers(["member1"])
            .consumers(["member2"])
            .create(&space)
            .await;
        let pods = space
            .backends("foo")
            .count(2)
            .create(self.member("member1"))
            .await;
        let mut addresses: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
        addresses.sort();
        reaches(
            &space,
            self.member("member2"),
            &addresses,
            causeway_tests::SOON,
        )
        .await;
        says(&space, "Ready", "True|Ready|", causeway_tests::SOON).await;
        (space, addresses)
    }

    /// Waits until a Cluster's Ready condition begins with `status|reason|`, and gives its message.
    async fn cluster_says(&self, name: &str, expected: &str) -> String {
        condition(
            self.hub(),
            &["get", "cluster", name],
            "Ready",
            expected,
            NOTICED,
        )
        .await
    }
}

async fn reaches(space: &Space<'_>, member: &Cluster, expected: &[String], within: Duration) {
    let what = format!("{} reaches {expected:?}", member.name());
    eventually(&what, within, async || {
        let ready = space.ready_addresses(member, "foo").await;
        if ready == expected {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    })
    .await;
}

/// Waits until a condition of `mcs/foo` begins with `status|reason|`, and gives its message.
async fn says(space: &Space<'_>, type_: &str, expected: &str, within: Duration) -> String {
    let object = ["get", "mcs", "foo", "-n", space.name()];
    condition(space.fleet().hub(), &object, type_, expected, within).await
}

async fn condition(
    hub: &Cluster,
    object: &[&str],
    type_: &str,
    expected: &str,
    within: Duration,
) -> String {
    eventually(
        &format!("{object:?}: {type_} says {expected}"),
        within,
        async || {
            let seen = condition_now(hub, object, type_).await;
            seen.strip_prefix(expected).map(str::to_owned).ok_or(seen)
        },
    )
    .await
}

/// A condition as `status|reason|message`.
async fn condition_now(hub: &Cluster, object: &[&str], type_: &str) -> String {
    let path = format!(
        "jsonpath={{range .status.conditions[?(@.type==\"{type_}\")]}}{{.status}}|{{.reason}}|{{.message}}{{end}}"
    );
    let seen = hub.kubectl(object.iter().copied().chain(["-o", &path]));
    seen.await.stdout
}

/// The names of causeway's own objects in a namespace of a member.
async fn own_objects(space: &Space<'_>, member: &Cluster) -> Vec<String> {
    let own = "--selector=app.kubernetes.io/managed-by=causeway,endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
    let output = member
        .kubectl([
            "get",
            "services,endpointslices",
            own,
            "-o",
            "name",
            "-n",
            space.name(),
        ])
        .await
        .ok();
    output.lines().map(str::to_owned).collect()
}

async fn cleaned(space: &Space<'_>, member: &Cluster, within: Duration) {
    eventually(&format!("{} is clean", member.name()), within, async || {
        let left = own_objects(space, member).await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
}
