//! Every deletion ends, and what is left anywhere is collected as soon as that can be done, never sooner: of
//! MultiClusterServices, of ServiceExports, of Clusters, of namespaces; whoever is away meanwhile.

mod away;
mod departures;
mod labels;
mod namespaces;
mod restarts;

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::{
    Cluster, Fault, Fleet, Proxy, Space, eventually, multi_cluster_service, service,
};
use tokio::sync::{OnceCell, RwLock, oneshot};

/// Longer than anything here may take: a member's time to be cleaned, a probe, and a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// A hub with members that are joined, each behind a proxy, and one controller. `giver` provides and `taker` consumes in
/// every test; the others are there to fail.
struct Environment {
    controller: Running,
    proxies: BTreeMap<&'static str, Proxy>,
    installation: Installation,
    fleet: Fleet,
    /// Read by tests that leave the controller alone, written by those that do not.
    peace: RwLock<()>,
}

const MEMBERS: [&str; 5] = ["giver", "taker", "absent", "lost", "late"];

async fn env() -> &'static Environment {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    ENVIRONMENT
        .get_or_init(async || {
            let (reported, env) = oneshot::channel();
            // The proxies are to outlive the test that came first.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    reported.send(Environment::start().await).ok();
                    pending::<()>().await;
                });
            });
            env.await.expect("a env")
        })
        .await
}

impl Environment {
    async fn start() -> Self {
        let fleet = Fleet::builder().named_members(MEMBERS).start().await;
        let installation = Installation::new(&fleet).await;
        // It is started again often, and would wait each time for the lease of the one before.
        let controller = installation.controller().arg("--leader-elect=false");
        let controller = controller.start().await;
        let mut proxies = BTreeMap::new();
        for name in MEMBERS {
            let member = fleet.member(name);
            let proxy = Proxy::before(member).await;
            installation.join_at(member, &proxy.url()).await;
            proxies.insert(name, proxy);
        }
        let env = Self {
            controller,
            proxies,
            installation,
            fleet,
            peace: RwLock::default(),
        };
        for name in MEMBERS {
            env.cluster_says(name, "ClustersetAPI", "True|").await;
        }
        env
    }

    fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    fn member(&self, name: &str) -> &Cluster {
        self.fleet.member(name)
    }

    fn set(&self, member: &str, fault: Fault) {
        self.proxies[member].set(fault);
    }

    /// A member cannot be reached any more, and the controller knows.
    async fn lose(&self, member: &str) {
        self.set(member, Fault::Refused);
        self.cluster_says(member, "Ready", "False|Unreachable|")
            .await;
    }

    /// Joins a member, through its proxy.
    async fn join(&self, name: &str) {
        let url = self.proxies[name].url();
        self.installation.join_at(self.member(name), &url).await;
        self.cluster_says(name, "ClustersetAPI", "True|").await;
    }

    /// Waits until a Cluster's condition begins with `status|reason|`, and gives its message.
    async fn cluster_says(&self, name: &str, type_: &str, expected: &str) -> String {
        says(self.hub(), &["get", "cluster", name], type_, expected).await
    }
}

/// Waits until a condition of a hub's object begins with `status|reason|`, and gives its message.
async fn says(hub: &Cluster, object: &[&str], type_: &str, expected: &str) -> String {
    let path = format!(
        "jsonpath={{range .status.conditions[?(@.type==\"{type_}\")]}}{{.status}}|{{.reason}}|{{.message}}{{end}}"
    );
    let what = format!("{object:?}: {type_} says {expected}");
    eventually(&what, LONG, async || {
        let get = object.iter().copied().chain(["-o", &path]);
        let seen = hub.kubectl(get).await.stdout;
        let rest = seen.strip_prefix(expected).map(str::to_owned);
        rest.ok_or(seen)
    })
    .await
}

async fn mcs_says(space: &Space<'_>, name: &str, expected: &str) -> String {
    let object = ["get", "mcs", name, "-n", space.name()];
    says(space.fleet().hub(), &object, "Ready", expected).await
}

/// A Service and a MultiClusterService of it on the hub.
async fn expose<const P: usize, const C: usize>(
    space: &Space<'_>,
    name: &str,
    providers: [&str; P],
    consumers: [&str; C],
) {
    let hub = space.fleet().hub();
    service(name).port("http", 80).create(hub, space).await;
    let object = multi_cluster_service(name);
    let object = object.providers(providers).consumers(consumers);
    object.create(space).await;
}

/// One backend in a member; its address.
async fn back(space: &Space<'_>, name: &str, member: &str) -> String {
    let member = space.fleet().member(member);
    let pods = space.backends(name).create(member).await;
    pods[0].ip().to_owned()
}

/// Waits until exactly these addresses are ready behind a Service in a member.
async fn reaches(space: &Space<'_>, member: &str, service: &str, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let what = format!("{member} reaches {expected:?} by {service}");
    eventually(&what, LONG, async || {
        let member = space.fleet().member(member);
        let ready = space.ready_addresses(member, service).await;
        if ready == expected {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    })
    .await;
}

/// kubectl in the namespace of a test; it must succeed.
async fn kubectl<const N: usize>(space: &Space<'_>, cluster: &Cluster, args: [&str; N]) -> String {
    let all = args.into_iter().chain(["-n", space.name()]);
    cluster.kubectl(all).await.ok()
}

/// Deletes MultiClusterServices, and waits until they are gone from the hub.
async fn end<const N: usize>(space: &Space<'_>, names: [&str; N]) {
    let delete = ["delete", "mcs", "--timeout=100s", "-n", space.name()];
    let delete = delete.into_iter().chain(names);
    space.fleet().hub().kubectl(delete).await.ok();
}

/// Lists causeway's objects in a namespace of a member, by kind and name.
async fn written(space: &Space<'_>, member: &str) -> Vec<String> {
    let kinds = "services,endpointslices,serviceexports,serviceimports";
    let own = "--selector=app.kubernetes.io/managed-by=causeway,endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
    let member = space.fleet().member(member);
    let said = kubectl(space, member, ["get", kinds, own, "-o", "name"]).await;
    let mut all: Vec<_> = said.lines().map(str::to_owned).collect();
    all.sort();
    all
}

/// Waits until causeway's own objects in a namespace of a member are exactly these.
async fn holds(space: &Space<'_>, member: &str, expected: &[String]) {
    eventually(&format!("{member} holds {expected:?}"), LONG, async || {
        let written = written(space, member).await;
        if written == expected {
            Ok(())
        } else {
            Err(format!("{written:?}"))
        }
    })
    .await;
}

async fn is_clean(space: &Space<'_>, member: &str) {
    holds(space, member, &[]).await;
}
