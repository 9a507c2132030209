//! A fleet behind proxies, the services in it, and one case played through.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway::api::{MultiClusterService, condition};
use causeway_tests::causeway::{Installation, Running};
use causeway_tests::eventually::{eventually, throughout};
use causeway_tests::fixtures::{RunningPod, crowd};
use causeway_tests::fleet::Builder;
use causeway_tests::reaper::Process;
use causeway_tests::tunnel::RelayedTunnel;
use causeway_tests::{Fault, Fleet, LONG, Proxy, SOON, Space};

use super::{Round, When};

mod entries;
mod restores;

/// A service, and the only clusters that provide and consume it.
struct Route {
    name: String,
    provider: String,
    consumer: String,
    /// Whether the consumer is of another network, and reaches the provider by node ports.
    is_entered: bool,
}

/// The service that no fault of a member concerns.
const CALM: &str = "calm";

/// Number of pods of a service.
const PODS: usize = 3;

/// Duration of a fault.
const LASTING: Duration = Duration::from_secs(3);
/// Time until a second list, which confirms that missing objects are deleted.
const CONFIRMATION_INTERVAL: Duration = Duration::from_secs(30);
/// After a fault: the longest back-off, a probe, and a busy machine.
const HEALED: Duration = LONG;

/// After a silence: how long it is borne, a new connection, and a busy machine.
const NOTICED: Duration = Duration::from_secs(90 + 30 + 30);

pub(super) struct Environment {
    controllers: [Running; 2],
    proxies: BTreeMap<String, Proxy>,
    routes: Vec<Route>,
    backends: BTreeMap<String, Vec<RunningPod>>,
    /// Addresses of nodes, by name.
    nodes: BTreeMap<String, String>,
    space: String,
    /// Way to member1, if it is reached through causeway-tunnel.
    tunnel: Option<Tunnelled>,
    fleet: Fleet,
}

/// causeway-tunnel with two replicas, and the agent of [`TUNNELLED`].
struct Tunnelled {
    tunnel: RelayedTunnel,
    _processes: [Process; 3],
}

/// Member that is reached through causeway-tunnel, if one is.
const TUNNELLED: &str = "member1";

/// Number of members beside those that suffer: two of their network, and one of another.
const CALM_MEMBERS: usize = 3;

/// Members 1 to `hurt` each provide a service, consume another, and provide one to a member of
/// another network. Three more are at the other ends; two of them have a service between them.
fn routes(hurt: usize) -> Vec<Route> {
    let calm = [1, 2, 3].map(|number| format!("member{}", hurt + number));
    let route = |name: String, provider: &str, consumer: &str| Route {
        name,
        provider: provider.to_owned(),
        consumer: consumer.to_owned(),
        is_entered: *consumer == *calm[2],
    };
    let of = |number| {
        let member = format!("member{number}");
        [
            route(format!("from-{number}"), &member, &calm[1]),
            route(format!("to-{number}"), &calm[0], &member),
            route(format!("across-{number}"), &member, &calm[2]),
        ]
    };
    let mut routes: Vec<_> = (1..=hurt).flat_map(of).collect();
    routes.push(route(CALM.to_owned(), &calm[0], &calm[1]));
    routes
}

impl Tunnelled {
    /// Starts both replicas, joins the member, and starts its agent.
    async fn start(
        tunnel: RelayedTunnel,
        fleet: &Fleet,
        installation: &Installation,
        url: &str,
    ) -> Self {
        let [one, other] = tunnel.start(fleet, installation).await;
        let member = fleet.member(TUNNELLED);
        let agent = tunnel.join(fleet, installation, member, url).await;
        Self {
            tunnel,
            _processes: [one, other, agent],
        }
    }
}

impl Environment {
    pub(super) async fn start(hurt: usize) -> Self {
        Self::start_in(Fleet::builder(), hurt).await
    }

    /// The same, in a fleet of that kind.
    pub(super) async fn start_in(builder: Builder, hurt: usize) -> Self {
        Self::start_by(builder, hurt, None).await
    }

    /// The same with a member that is reached through causeway-tunnel, and suffers.
    pub(super) async fn start_tunnelled() -> Self {
        let tunnel = RelayedTunnel::new().await;
        Self::start_by(Fleet::builder(), 1, Some(tunnel)).await
    }

    async fn start_by(builder: Builder, hurt: usize, tunnel: Option<RelayedTunnel>) -> Self {
        let fleet = builder.members(hurt + CALM_MEMBERS).start().await;
        let installation = Installation::new(&fleet).await;
        let mut proxies = BTreeMap::new();
        for cluster in fleet.clusters() {
            proxies.insert(cluster.name().to_owned(), Proxy::before(cluster).await);
            crowd(cluster).await;
        }
        let url = proxies["hub"].url();
        let front = tunnel.as_ref().map(RelayedTunnel::flag);
        let controller = || {
            let launch = installation.controller_through(fleet.hub(), &url);
            let launch = front.iter().fold(launch, |launch, flag| launch.arg(flag));
            launch.start()
        };
        let controllers = [controller().await, controller().await];
        let tunnel = match tunnel {
            None => None,
            Some(tunnel) => {
                let url = proxies[TUNNELLED].url();
                Some(Tunnelled::start(tunnel, &fleet, &installation, &url).await)
            }
        };
        let is_tunnelled = |name: &str| tunnel.is_some() && name == TUNNELLED;
        let dialled = fleet.members().iter();
        for member in dialled.filter(|member| !is_tunnelled(member.name())) {
            let url = proxies[member.name()].url();
            installation.join_at(member, &url).await;
        }
        let space = fleet.space("matrix").await.name().to_owned();
        let mut env = Self {
            controllers,
            proxies,
            routes: routes(hurt),
            backends: BTreeMap::new(),
            nodes: BTreeMap::new(),
            space,
            tunnel,
            fleet,
        };
        env.part_networks(&installation).await;
        for number in 0..env.routes.len() {
            env.expose(number).await;
        }
        env.settled("at the start").await;
        env
    }

    async fn expose(&mut self, route: usize) {
        let space = Space::existing(&self.fleet, &self.space);
        let Route {
            name,
            provider,
            consumer,
            ..
        } = &self.routes[route];
        space
            .expose(name, [provider.as_str()], [consumer.as_str()])
            .await;
        drop(space);
        self.add_pods(route, PODS).await;
    }

    /// Adds pods of a service, each on a node without a pod of it where nodes are what consumers
    /// reach.
    async fn add_pods(&mut self, route: usize, count: usize) {
        let space = Space::existing(&self.fleet, &self.space);
        let Route { name, provider, .. } = &self.routes[route];
        let provider = self.fleet.member(provider);
        for _ in 0..count {
            let node = self.free_node(route);
            let pods = space.backends(name).on_node(&node).create(provider).await;
            self.backends.entry(name.clone()).or_default().extend(pods);
        }
    }

    /// Plays rows of the table through.
    pub(super) async fn run(&mut self, round: &Round) {
        let companions = self.companions().await;
        // A change takes the first backend away; the others last.
        let lasting: Vec<_> = (0..self.routes.len())
            .map(|route| self.addresses(route).split_off(1))
            .collect();
        let begun = Instant::now();
        for (cluster, fault) in &round.faults {
            self.set_fault(cluster, *fault);
        }
        self.begin(round.when).await;
        let hub_is_well = round.faults.iter().all(|(cluster, _)| cluster != "hub");
        // Without the hub nobody leads, and a new leader waits for the old one's lease.
        if hub_is_well && round.when != When::HandOver {
            let calm = self.routes.len() - 1;
            self.change(calm).await;
            // After a start a new leader waits for the old one's lease.
            let within = match round.when {
                When::Start => HEALED,
                _ => SOON,
            };
            self.reaches(calm, within).await;
        }
        throughout("what lasts stays", LASTING, async || {
            let is_confirmed = begun.elapsed() > CONFIRMATION_INTERVAL;
            for (route, lasting) in lasting.iter().enumerate() {
                let may_go = is_confirmed && self.is_denied(route, round);
                if !may_go && self.companion(route).await != companions[route] {
                    let name = &self.routes[route].name;
                    return Err(format!("the companion of {name} is another: {round:?}"));
                }
                let there = self.copied(route).await;
                let is_lost = |address: &&String| !there.contains(address);
                let Some(lost) = lasting.iter().find(is_lost) else {
                    continue;
                };
                if !may_go {
                    let Route { name, provider, .. } = &self.routes[route];
                    let after = begun.elapsed();
                    return Err(format!(
                        "{lost} of {name} in {provider} is gone after {after:?}: {there:?}, {round:?}"
                    ));
                }
            }
            Ok(())
        })
        .await;
        for (cluster, _) in &round.faults {
            self.set_fault(cluster, Fault::None);
        }
        self.settled(&format!("after {round:?}")).await;
    }

    /// Begins a fault of the way to a cluster: before its API server, or between its agent and
    /// causeway-tunnel.
    fn set_fault(&self, cluster: &str, fault: Fault) {
        match &self.tunnel {
            Some(way) if cluster == TUNNELLED => way.tunnel.agents.set(fault),
            _ => self.proxies[cluster].set(fault),
        }
    }

    /// Plays rows of the table through, after which every watch of the member resumes: nothing in
    /// it is listed.
    pub(super) async fn run_without_lists(&mut self, round: &Round) {
        let mark = self.fleet.member(TUNNELLED).mark().await;
        self.run(round).await;
        let listed = self.fleet.member(TUNNELLED).whole_lists_since(mark).await;
        assert!(listed.is_empty(), "{round:?}: {listed:?}");
    }

    /// Whether lists of the service's provider, or of the hub, lack what is there.
    fn is_denied(&self, route: usize, round: &Round) -> bool {
        let provider = &self.routes[route].provider;
        let denies = |(cluster, fault): &(String, Fault)| {
            let is_concerned = cluster == provider || cluster == "hub";
            is_concerned && matches!(fault, Fault::Forgetful | Fault::Restored)
        };
        round.faults.iter().any(denies)
    }

    /// Freezes the connections to clusters, and waits until what changes afterwards is followed,
    /// there and elsewhere.
    pub(super) async fn freeze(&mut self, clusters: &[&str]) {
        for cluster in clusters {
            self.proxies[*cluster].set(Fault::Frozen);
        }
        for route in 0..self.routes.len() {
            self.change(route).await;
        }
        for route in 0..self.routes.len() {
            self.reaches(route, NOTICED).await;
        }
        self.withdrawn_and_back("member1").await;
        self.settled("while old connections are frozen").await;
    }

    async fn begin(&mut self, when: When) {
        match when {
            When::Steady => {}
            When::Change => {
                for route in 0..self.routes.len() {
                    if self.routes[route].name != CALM {
                        self.change(route).await;
                    }
                }
            }
            When::Start | When::HandOver => self.restart(when).await,
        }
    }

    /// Kills the controllers that the moment is about, and starts them again.
    async fn restart(&self, when: When) {
        match when {
            When::Steady | When::Change => {}
            When::Start => {
                for controller in &self.controllers {
                    controller.process().restart().await;
                }
            }
            When::HandOver => {
                let leader = &self.controllers[self.leader().await];
                leader.process().restart().await;
            }
        }
    }

    /// One backend goes, another comes.
    async fn change(&mut self, route: usize) {
        self.add_pods(route, 1).await;
        let pods = self.backends.get_mut(&self.routes[route].name);
        pods.expect("backends").remove(0).delete().await;
    }

    async fn leader(&self) -> usize {
        let leads = async |number: usize| {
            let metrics = self.controllers[number].metrics().await;
            metrics.get("causeway_controller_leader", &[]) == Some(1.0)
        };
        usize::from(!leads(0).await)
    }

    /// The addresses of a service's backends or of their nodes, the next to go first.
    fn addresses(&self, route: usize) -> Vec<String> {
        let Route {
            name, is_entered, ..
        } = &self.routes[route];
        let address = |pod: &RunningPod| match is_entered {
            true => self.nodes[pod.node()].clone(),
            false => pod.ip().to_owned(),
        };
        self.backends[name].iter().map(address).collect()
    }

    /// The addresses of a service in its consumer; each that is there twice counts twice.
    async fn copied(&self, route: usize) -> Vec<String> {
        let space = Space::existing(&self.fleet, &self.space);
        let Route { name, consumer, .. } = &self.routes[route];
        space
            .ready_addresses(self.fleet.member(consumer), name)
            .await
    }

    async fn reaches(&self, route: usize, within: Duration) {
        let Route { name, consumer, .. } = &self.routes[route];
        let mut expected = self.addresses(route);
        expected.sort();
        eventually(
            &format!("{consumer} reaches {expected:?} of {name}"),
            within,
            async || {
                let there = self.copied(route).await;
                if there == expected {
                    Ok(())
                } else {
                    Err(format!("{there:?}"))
                }
            },
        )
        .await;
    }

    /// Waits until the controllers know every member: one that has just started has nothing to
    /// compare a list with.
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

    /// Waits until every consumer holds exactly what it should, the hub says so, and the
    /// controllers know it.
    async fn settled(&self, when: &str) {
        self.known().await;
        let space = Space::existing(&self.fleet, &self.space);
        for (number, Route { name, .. }) in self.routes.iter().enumerate() {
            self.reaches(number, HEALED).await;
            self.enters(number, HEALED).await;
            let exposed = space.api::<MultiClusterService>(self.fleet.hub());
            eventually(&format!("{name} is Ready {when}"), HEALED, async || {
                let found = exposed.get(name).await.map_err(|e| e.to_string())?;
                let conditions = found.status.and_then(|status| status.conditions);
                let ready = condition::find(conditions.as_deref().unwrap_or_default(), "Ready");
                match ready {
                    Some(ready) if ready.status == "True" => Ok(()),
                    ready => Err(format!("{ready:?}")),
                }
            })
            .await;
        }
    }
}
