//! A fleet behind proxies, three services in it, and one case played through.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::eventually::{eventually, throughout};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, Fault, Fleet, Proxy, SOON, Space, multi_cluster_service, service};

use super::{At, Case, When};

/// Provider and consumer of each service. `foo` suffers when its provider does, `goo` when its consumer does, and `bar` never.
const SERVICES: [(&str, &str, &str); 3] = [
    ("foo", "member1", "member2"),
    ("goo", "member2", "member3"),
    ("bar", "member2", "member4"),
];
const HURT_PROVIDER: &str = "member1";
const HURT_CONSUMER: &str = "member3";

/// More than so few that their loss is believed at once.
const CROWD: usize = 16;

/// How long a fault lasts.
const LASTING: Duration = Duration::from_secs(3);
/// After a fault: the longest back-off, a probe, and a busy machine.
const HEALED: Duration = Duration::from_secs(90);

const NAMESPACE: &str = "crowd";

pub(super) struct Bed {
    controllers: [Running; 2],
    proxies: BTreeMap<String, Proxy>,
    backends: BTreeMap<&'static str, Vec<RunningPod>>,
    space: String,
    fleet: Fleet,
}

impl Bed {
    pub(super) async fn start() -> Self {
        let fleet = Fleet::builder().members(4).start().await;
        let installation = Installation::new(&fleet).await;
        let mut proxies = BTreeMap::new();
        for cluster in fleet.clusters() {
            proxies.insert(cluster.name().to_owned(), Proxy::before(cluster).await);
            crowd(cluster).await;
        }
        let url = proxies["hub"].url();
        let controller = || installation.controller_through(fleet.hub(), &url).start();
        let controllers = [controller().await, controller().await];
        for member in fleet.members() {
            let url = proxies[member.name()].url();
            installation.join_at(member, &url).await;
        }
        let space = fleet.space("matrix").await.name().to_owned();
        let mut bed = Self {
            controllers,
            proxies,
            backends: BTreeMap::new(),
            space,
            fleet,
        };
        for (name, provider, consumer) in SERVICES {
            bed.expose(name, provider, consumer).await;
        }
        bed.settled("at the start").await;
        bed
    }

    async fn expose(&mut self, name: &'static str, provider: &str, consumer: &str) {
        let space = Space::existing(&self.fleet, &self.space);
        service(name)
            .port("http", 80)
            .create(self.fleet.hub(), &space)
            .await;
        multi_cluster_service(name)
            .providers([provider])
            .consumers([consumer])
            .create(&space)
            .await;
        let provider = self.fleet.member(provider);
        let pods = space.backends(name).count(3).create(provider).await;
        self.backends.insert(name, pods);
    }

    /// Plays a case through.
    pub(super) async fn run(&mut self, case: Case) {
        let Case { fault, at, when } = case;
        let lasting: BTreeMap<_, _> = SERVICES
            .into_iter()
            .map(|(name, ..)| (name, self.addresses(name).split_off(1)))
            .collect();
        self.set(at, fault);
        match when {
            When::Steady => {}
            When::Change => {
                self.change("foo").await;
                self.change("goo").await;
            }
            When::Start => {
                for controller in &self.controllers {
                    controller.process().restart().await;
                }
            }
            When::HandOver => {
                self.controllers[self.leader().await]
                    .process()
                    .restart()
                    .await
            }
        }
        // Without the hub nobody leads, and a new leader waits for the old one's lease.
        if at == At::Members && when != When::HandOver {
            self.change("bar").await;
            self.reaches("bar", SOON).await;
        }
        throughout("what lasts stays", LASTING, async || {
            for (name, _, consumer) in SERVICES {
                let there = self.copied(name, consumer).await;
                let is_lost = |address: &&String| !there.contains(address);
                if let Some(lost) = lasting[name].iter().find(is_lost) {
                    return Err(format!("{lost} of {name} is gone: {there:?}"));
                }
            }
            Ok(())
        })
        .await;
        self.set(at, Fault::None);
        self.settled(&format!("after {case:?}")).await;
    }

    fn set(&self, at: At, fault: Fault) {
        let hurt: &[_] = match at {
            At::Members => &[HURT_PROVIDER, HURT_CONSUMER],
            At::Hub => &["hub"],
        };
        for name in hurt {
            self.proxies[*name].set(fault);
        }
    }

    /// One backend goes, another comes. The first of them stays for no more than one change.
    async fn change(&mut self, name: &'static str) {
        let space = Space::existing(&self.fleet, &self.space);
        let (_, provider, _) = of(name);
        let provider = self.fleet.member(provider);
        let new = space.backends(name).count(1).create(provider).await;
        let pods = self.backends.get_mut(name).expect("backends");
        pods.remove(0).delete().await;
        pods.extend(new);
    }

    async fn leader(&self) -> usize {
        let leads = async |number: usize| {
            let metrics = self.controllers[number].metrics().await;
            metrics.get("causeway_controller_leader", &[]) == Some(1.0)
        };
        usize::from(!leads(0).await)
    }

    /// The addresses of a service's backends, the next to go first.
    fn addresses(&self, name: &str) -> Vec<String> {
        let pods = &self.backends[name];
        pods.iter().map(|pod| pod.ip().to_owned()).collect()
    }

    /// The addresses of a service in its consumer; each that is there twice is told twice.
    async fn copied(&self, name: &str, consumer: &str) -> Vec<String> {
        let space = Space::existing(&self.fleet, &self.space);
        space
            .ready_addresses(self.fleet.member(consumer), name)
            .await
    }

    async fn reaches(&self, name: &str, within: Duration) {
        let (_, _, consumer) = of(name);
        let mut expected = self.addresses(name);
        expected.sort();
        eventually(
            &format!("{consumer} reaches {expected:?}"),
            within,
            async || {
                let there = self.copied(name, consumer).await;
                if there == expected {
                    Ok(())
                } else {
                    Err(format!("{there:?}"))
                }
            },
        )
        .await;
    }

    /// Waits until the controllers know every member: one that has just started has nothing to compare a list with.
    async fn known(&self) {
        for controller in &self.controllers {
            controller.ready().await;
            for member in self.fleet.members() {
                let labels = [("cluster", member.name()), ("state", "synced")];
                let what = format!("{} is known", member.name());
                eventually(&what, HEALED, async || {
                    let metrics = controller.metrics().await;
                    metrics.get("causeway_controller_member_state", &labels) == Some(1.0)
                })
                .await;
            }
        }
    }

    /// Waits until every consumer holds exactly what it should, the hub says so, and the controllers know it.
    async fn settled(&self, when: &str) {
        self.known().await;
        let space = Space::existing(&self.fleet, &self.space);
        for (name, ..) in SERVICES {
            self.reaches(name, HEALED).await;
            eventually(&format!("{name} is Ready {when}"), HEALED, async || {
                let hub = self.fleet.hub();
                let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")]}";
                let get = ["get", "mcs", name, "-n", space.name(), "-o", path];
                let said = hub.kubectl(get).await.stdout;
                if said.contains("\"status\":\"True\"") {
                    Ok(())
                } else {
                    Err(said)
                }
            })
            .await;
        }
    }
}

fn of(name: &str) -> (&'static str, &'static str, &'static str) {
    let found = SERVICES.into_iter().find(|(known, ..)| *known == name);
    found.expect("a service of the bed")
}

/// Services and EndpointSlices that nobody exposes, so many that a list without them is no small loss.
async fn crowd(cluster: &Cluster) {
    let mut objects = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n");
    for number in 0..CROWD {
        objects.push_str(&format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: crowd-{number}, namespace: {NAMESPACE}}}\nspec: {{ports: [{{port: 80}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: crowd-{number}, namespace: {NAMESPACE}, labels: {{kubernetes.io/service-name: crowd-{number}}}}}\n\
             addressType: IPv4\nendpoints: [{{addresses: [10.200.0.{number}]}}]\nports: [{{port: 80}}]\n"
        ));
    }
    cluster.apply(&objects).await;
}
