//! Endpoints of an unreachable provider, by the request of each service: they stay, become standby,
//! or are withdrawn. This holds for every cause of the outage, and never because a controller has
//! just started.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::{self, labels};
use causeway_tests::causeway::{Installation, Running};
use causeway_tests::eventually::{eventually, throughout};
use causeway_tests::write::merge;
use causeway_tests::{
    Cluster, Fault, Fleet, LONG, Proxy, SOON, Space, multi_cluster_service, service,
};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointConditions;
use kube::Api;
use serde_json::json;

/// Faults that leave nothing of a provider to be seen, each at another.
const FAULTS: [Fault; 4] = [
    Fault::Refused,
    Fault::Silent,
    Fault::Answers(503),
    Fault::Impostor,
];

/// Requests of services, by name, and the state of the endpoints of an unreachable provider.
const ANSWERS: [(&str, &str, State); 3] = [
    ("keeps", "keep", State::Ready),
    ("stands-by", "standby", State::Standby),
    ("withdraws", "withdraw-after=60s", State::Gone),
];

/// Number of consumers.
const CONSUMERS: usize = 2;

/// State of an endpoint in the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Standby,
    Gone,
    /// Neither used nor standby.
    Unready,
}

/// A provider that does not answer is noticed within half a minute, standby comes a minute later,
/// and machines are busy.
const DECIDED: Duration = Duration::from_secs(60 + 90);
/// After a fault: the longest back-off, a probe, and a busy machine.
const HEALED: Duration = LONG;
/// Longer than it takes until endpoints would be standby.
const PATIENCE: Duration = Duration::from_secs(80);

/// The members that are lost, at once, change nothing for the services of another.
pub(super) async fn play() {
    let env = Environment::start().await;
    tokio::join!(env.lose_and_find(), env.others_go_on());
    env.start_without().await;
}

struct Environment {
    controller: Running,
    proxies: BTreeMap<String, Proxy>,
    /// The address that each provider gives to each service.
    addresses: BTreeMap<(String, &'static str), String>,
    /// Addresses of the providers' nodes.
    nodes: BTreeMap<String, String>,
    space: String,
    fleet: Fleet,
}

impl Environment {
    /// A member for each fault, one that provides the same services, and two that consume them. The
    /// last is of another network.
    async fn start() -> Self {
        let members = Fleet::builder().members(FAULTS.len() + 1 + CONSUMERS);
        let fleet = members.start().await;
        let installation = Installation::new(&fleet).await;
        let mut proxies = BTreeMap::new();
        for member in fleet.members() {
            proxies.insert(member.name().to_owned(), Proxy::before(member).await);
        }
        let controller = installation.controller().start().await;
        for member in fleet.members() {
            let url = proxies[member.name()].url();
            installation.join_at(member, &url).await;
        }
        let space = fleet.space("unreachable").await.name().to_owned();
        let mut env = Self {
            controller,
            proxies,
            addresses: BTreeMap::new(),
            nodes: BTreeMap::new(),
            space,
            fleet,
        };
        env.part_networks(&installation).await;
        env.expose().await;
        env.all_are(HEALED, |_| State::Ready).await;
        env
    }

    fn providers(&self) -> &[Cluster] {
        let members = self.fleet.members();
        &members[..members.len() - CONSUMERS]
    }

    fn consumers(&self) -> [&Cluster; CONSUMERS] {
        let [.., near, far] = self.fleet.members() else {
            panic!("two consumers");
        };
        [near, far]
    }

    /// Puts the last member into a network of its own, which reaches the others by node ports.
    async fn part_networks(&mut self, installation: &Installation) {
        let clusters = Api::<api::Cluster>::all(self.fleet.hub().client());
        for member in self.fleet.members() {
            let rights = installation.manifest("member/networks.yaml");
            member.kubectl(["apply", "-f", &rights]).await.ok();
            let is_far = self.consumers()[1].name() == member.name();
            let network = is_far.then_some("far");
            let annotations = json!({ labels::NETWORK: network, labels::REACH: "node-ports" });
            let patch = json!({ "metadata": { "annotations": annotations } });
            merge(&clusters, member.name(), patch).await;
        }
        let mut nodes = BTreeMap::new();
        for provider in self.providers() {
            let found = Api::<Node>::all(provider.client());
            let node = found.get(&provider.node_name()).await.expect("a node");
            let addresses = node.status.and_then(|status| status.addresses);
            let address = addresses.into_iter().flatten().next().expect("an address");
            nodes.insert(provider.name().to_owned(), address.address);
        }
        self.nodes = nodes;
    }

    async fn expose(&mut self) {
        let space = Space::existing(&self.fleet, &self.space);
        let consumers = self.consumers().map(|consumer| consumer.name());
        let mut addresses = BTreeMap::new();
        for (name, answer, _) in ANSWERS {
            let exposed = service(name).port("http", 80);
            exposed.create(self.fleet.hub(), &space).await;
            let exposed = multi_cluster_service(name).consumers(consumers);
            let exposed = exposed.annotation(labels::UNREACHABLE, answer);
            exposed.create(&space).await;
            for provider in self.providers() {
                let pods = space.backends(name).create(provider).await;
                let place = (provider.name().to_owned(), name);
                addresses.insert(place, pods[0].ip().to_owned());
            }
        }
        self.addresses = addresses;
    }

    /// Faults begin at rest: each service gets what it asks for, and back what it had.
    async fn lose_and_find(&self) {
        self.set_faults(true);
        self.all_are(DECIDED, |state| state).await;
        self.set_faults(false);
        self.all_are(HEALED, |_| State::Ready).await;
    }

    /// The controller starts while they last: of a provider that it never saw it says nothing,
    /// however long.
    async fn start_without(&self) {
        self.set_faults(true);
        self.controller.restart().await;
        throughout("what nobody saw stays", PATIENCE, async || {
            let wrong = self.unlike(|_| State::Ready).await;
            let withdrawn = |line: &String| line.contains(ANSWERS[2].0);
            match wrong.iter().find(|line| !withdrawn(line)) {
                Some(line) => Err(line.clone()),
                None => Ok(()),
            }
        })
        .await;
        self.set_faults(false);
        self.all_are(HEALED, |_| State::Ready).await;
    }

    /// Pods of the provider without a fault are followed meanwhile.
    async fn others_go_on(&self) {
        let space = Space::existing(&self.fleet, &self.space);
        let [consumer, _] = self.consumers();
        let provider = self.providers().last().expect("providers");
        for (name, ..) in ANSWERS {
            let pods = space.backends(name).create(provider).await;
            let address = pods[0].ip().to_owned();
            eventually(&format!("{name} has {address}"), SOON, async || {
                let ready = space.ready_addresses(consumer, name).await;
                ready.contains(&address)
            })
            .await;
        }
    }

    fn set_faults(&self, begin: bool) {
        for (member, fault) in self.fleet.members().iter().zip(FAULTS) {
            let fault = if begin { fault } else { Fault::None };
            self.proxies[member.name()].set(fault);
        }
    }

    /// Waits until the endpoints of the providers with faults are so; those of the other are ready
    /// all the time.
    async fn all_are(&self, within: Duration, expected: impl Fn(State) -> State) {
        eventually(
            "endpoints are as their services ask for",
            within,
            async || match self.unlike(&expected).await.as_slice() {
                [] => Ok(()),
                wrong => Err(wrong.join("\n")),
            },
        )
        .await;
    }

    /// Lists the differences from the expected states.
    async fn unlike(&self, expected: impl Fn(State) -> State) -> Vec<String> {
        let space = Space::existing(&self.fleet, &self.space);
        let mut wrong = Vec::new();
        let consumers = self.consumers().into_iter();
        let both = consumers.flat_map(|consumer| ANSWERS.map(|answer| (consumer, answer)));
        for (consumer, (name, _, lost)) in both {
            let slices = space.slices(consumer, name).await;
            let endpoints: Vec<_> = slices.iter().flat_map(|slice| &slice.endpoints).collect();
            for (number, provider) in self.providers().iter().enumerate() {
                let place = (provider.name().to_owned(), name);
                let is_far = self.consumers()[1].name() == consumer.name();
                let address = match is_far {
                    true => &self.nodes[provider.name()],
                    false => &self.addresses[&place],
                };
                let mut own = endpoints
                    .iter()
                    .filter(|one| one.addresses.contains(address));
                let is = own.next().map(|one| state(one.conditions.as_ref()));
                let is = is.unwrap_or(State::Gone);
                let is_lost = number < FAULTS.len();
                let should_be = if is_lost {
                    expected(lost)
                } else {
                    State::Ready
                };
                if is != should_be || own.next().is_some() {
                    let fault = FAULTS.get(number);
                    wrong.push(format!(
                        "{name} of {} ({fault:?}) is {is:?} in {}, not {should_be:?}",
                        provider.name(),
                        consumer.name()
                    ));
                }
            }
        }
        wrong
    }
}

fn state(conditions: Option<&EndpointConditions>) -> State {
    let conditions = conditions.cloned().unwrap_or_default();
    let is = |one: Option<bool>, without| one.unwrap_or(without);
    let (ready, serving) = (is(conditions.ready, true), is(conditions.serving, true));
    match (ready, serving, is(conditions.terminating, false)) {
        (true, ..) => State::Ready,
        (false, true, true) => State::Standby,
        _ => State::Unready,
    }
}
