//! A fleet behind proxies, two controllers, and one round after the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway::api::labels;
use causeway_tests::causeway::{Installation, MEMBERS_NAMESPACE, Running};
use causeway_tests::clock::Clocks;
use causeway_tests::eventually::eventually;
use causeway_tests::reaper::Exit;
use causeway_tests::soak::{
    Churn, Lines, Network, Observer, ROCK, ROCK_PODS, Random, STANDBY, Sight, balanced, entered,
    give_addresses, rock, settle, soak,
};
use causeway_tests::tunnel::RelayedTunnel;
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fault, Fleet, Proxy};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use self::tunnel::Tunnelled;
use super::faults::{Blow, Outage};
use super::memory::{Memory, resident};

mod tunnel;

const MEMBERS: [&str; 4] = ["member1", "member2", "member3", "member4"];
/// The members that stay, and that provide and consume all services of [`ROCK`].
const STEADY: [&str; 2] = [MEMBERS[0], MEMBERS[1]];
const CLUSTERS: [&str; 5] = ["hub", "member1", "member2", "member3", "member4"];
/// The member that leaves and comes back.
const GUEST: &str = MEMBERS[2];
/// The member that stays, always of another network than [`STEADY`]. The controllers reach it by
/// causeway-tunnel.
const FAR: &str = MEMBERS[3];
/// Networks of the members. The first is that at the start.
const NETWORKS: [(&str, &[Network]); MEMBERS.len()] = [
    (MEMBERS[0], &[None]),
    (MEMBERS[1], &[None]),
    (GUEST, &[Some("edge"), Some("far"), None]),
    (FAR, &[Some("far"), Some("edge")]),
];

/// Objects that nobody exposes, so many that a list without them is no small loss.
const CROWD: &str = "crowd";
const CROWDED: usize = 20;

/// Longer than anybody is away, and shorter than clocks are set forward by.
const PROVIDER_TTL: &str = "--provider-ttl=30m";
/// Step of a clock, in seconds; certificates last longer.
const STEP: i64 = 10 * 3600;
/// The release before that of the fleet.
const BEFORE: &str = "1.33";

/// Number of rounds of the long form between two losses of a provider.
const ROUNDS_BETWEEN_LOSSES: usize = 8;

/// After the faults of a round: the longest back-off, a probe, a lease, and a busy machine.
const HEALED: Duration = Duration::from_secs(180);

pub(super) struct Environment {
    seed: u64,
    random: Random,
    begun: Instant,
    rounds: usize,
    joined: bool,
    churn: Churn,
    memory: Memory,
    observers: Vec<Observer>,
    clocks: Clocks,
    controllers: [Running; 2],
    tunnelled: Tunnelled,
    proxies: BTreeMap<String, Proxy>,
    clients: BTreeMap<String, Client>,
    installation: Installation,
    fleet: Fleet,
}

impl Environment {
    pub(super) async fn start(seed: u64) -> Self {
        eprintln!("seed {seed}: CAUSEWAY_SOAK_SEED={seed} makes the same choices");
        let begun = Instant::now();
        let fleet = Fleet::builder()
            .members(MEMBERS.len())
            .clusterset()
            .start()
            .await;
        let installation = Installation::new(&fleet).await;
        let (mut proxies, mut clients) = (BTreeMap::new(), BTreeMap::new());
        for cluster in fleet.clusters() {
            let name = cluster.name().to_owned();
            proxies.insert(name.clone(), Proxy::before(cluster).await);
            clients.insert(name, cluster.client());
            crowd(cluster).await;
        }
        let tunnel = RelayedTunnel::new().await;
        let replicas = tunnel.start(&fleet, &installation).await;
        let url = proxies["hub"].url();
        let clocks = Clocks::new(fleet.directory());
        let controller = |number| {
            let launch = installation.controller_through(fleet.hub(), &url);
            clocks
                .give(number, launch.arg(PROVIDER_TTL).arg(tunnel.flag()))
                .start()
        };
        let controllers = [controller(0).await, controller(1).await];
        rock(&fleet, STEADY).await;
        entered(&fleet, [STEADY[0], FAR]).await;
        balanced(&fleet, STEADY).await;
        let observer = |member: &Cluster| Observer::of(member, member.client());
        let mut env = Self {
            seed,
            random: Random::new(seed),
            begun,
            rounds: 0,
            joined: true,
            churn: Churn::new(&fleet, MEMBERS.to_vec())
                .await
                .with_preferences()
                .with_entries()
                .with_networks(NETWORKS),
            memory: Memory::default(),
            observers: {
                let of_members = fleet.members().iter().map(observer);
                of_members
                    .chain([Observer::of_hub(clients["hub"].clone())])
                    .collect()
            },
            clocks,
            controllers,
            tunnelled: Tunnelled::new(tunnel, replicas),
            proxies,
            clients,
            installation,
            fleet,
        };
        for name in MEMBERS {
            env.join(name).await;
        }
        env.settled(&mut Vec::new(), false).await;
        give_addresses(&env.fleet, STEADY).await;
        env.settled(&mut Vec::new(), false).await;
        env
    }

    async fn join(&mut self, name: &str) {
        let (fleet, installation) = (&self.fleet, &self.installation);
        let member = fleet.member(name);
        let url = self.proxies[name].url();
        match name {
            FAR => self.tunnelled.join(fleet, installation, member, &url).await,
            _ => installation.join_at(member, &url).await,
        }
        let nodes = self.installation.manifest("member/networks.yaml");
        member.kubectl(["apply", "-f", &nodes]).await.ok();
        assert!(
            self.churn.locate(&self.fleet, name).await,
            "{name} has no Cluster"
        );
    }

    /// Changes, faults, and how they end.
    pub(super) async fn round(&mut self) {
        self.rounds += 1;
        let outage = Outage::choose(&mut self.random, &CLUSTERS);
        let moved = self.random.once_in(6);
        self.churn
            .note(format!("-- round {}: {outage:?}", self.rounds));
        if outage.blow.changes_definitions() {
            self.churn.keep_namespaces(&self.fleet).await;
        }
        if soak().is_some() && self.rounds.is_multiple_of(ROUNDS_BETWEEN_LOSSES) {
            self.lose_provider().await;
        }
        if moved {
            self.guest().await;
        }
        let mut sights = Vec::new();
        self.suffer(&outage).await;
        sights.extend(self.observers.iter().flat_map(Observer::noted));
        let begun = Instant::now();
        let lines = self.settled(&mut sights, moved).await;
        self.churn.free_namespaces();
        self.sample().await;
        let (native, imported) = (
            lines.count("native endpoint"),
            lines.count("imported endpoint"),
        );
        let held: Vec<_> = self
            .held()
            .iter()
            .map(|held| format!("{held:.0}"))
            .collect();
        eprintln!(
            "{:4} s, round {}: {outage:?}; {} steps so far; as it should be after {:.1} s: {native} native and {imported} imported \
             endpoints, {} members; MiB {}",
            self.begun.elapsed().as_secs(),
            self.rounds,
            self.churn.count(),
            begun.elapsed().as_secs_f64(),
            MEMBERS.len() - usize::from(!self.joined),
            held.join(" and "),
        );
    }

    /// Keeps one provider unreachable until its endpoints of [`STANDBY`] are on standby in the
    /// other one, and waits for their return. No other endpoint may change.
    async fn lose_provider(&mut self) {
        let lost = *self.random.of(&STEADY);
        let [first, second] = STEADY;
        let consumer = if lost == first { second } else { first };
        let begun = Instant::now();
        self.proxies[lost].set(*self.random.of(&[Fault::Silent, Fault::Refused]));
        self.waits_for_ready(consumer, lost, 0).await;
        let notice = begun.elapsed();
        self.proxies[lost].set(Fault::None);
        self.waits_for_ready(consumer, lost, ROCK_PODS).await;
        let withdrawn = self.observers.iter().flat_map(Observer::noted);
        let of_others = withdrawn.filter(|sight| !is_standby(sight) && !self.churn.explains(sight));
        let of_others: Vec<_> = of_others.map(|sight| sight.to_string()).collect();
        if !of_others.is_empty() {
            self.violated("withdrawn while their provider was unreachable", &of_others);
        }
        self.churn
            .note(format!("{lost} was lost, standby after {notice:.0?}"));
    }

    /// Waits until the copies of [`STANDBY`] from a provider have so many ready endpoints.
    async fn waits_for_ready(&self, consumer: &str, provider: &str, expected: usize) {
        let slices = Api::<EndpointSlice>::namespaced(self.clients[consumer].clone(), ROCK);
        let of_provider = ListParams::default().labels(&format!(
            "{}={STANDBY},{}={provider}",
            labels::SERVICE_NAME,
            labels::SOURCE_CLUSTER
        ));
        let what = format!("{expected} endpoints of {provider} are ready in {consumer}");
        eventually(&what, HEALED, async || {
            let copies = slices.list(&of_provider).await.map_err(|e| e.to_string())?;
            let endpoints = copies.items.iter().flat_map(|copy| &copy.endpoints);
            let is_ready = |endpoint: &&Endpoint| {
                let conditions = endpoint.conditions.as_ref();
                conditions.and_then(|one| one.ready).unwrap_or(true)
            };
            match endpoints.filter(is_ready).count() {
                ready if ready == expected => Ok(()),
                ready => Err(format!("{ready} are ready")),
            }
        })
        .await;
    }

    /// One member leaves, or comes back.
    async fn guest(&mut self) {
        if self.joined {
            let kubeconfig = self.fleet.member(GUEST).kubeconfig().display().to_string();
            let unjoin = ["unjoin", GUEST, "--member-kubeconfig", &kubeconfig];
            self.installation.kubectl_mcs(unjoin).await.ok();
        } else {
            self.join(GUEST).await;
        }
        self.joined = !self.joined;
        self.churn
            .note(format!("{GUEST} is joined: {}", self.joined));
    }

    async fn suffer(&mut self, outage: &Outage) {
        let begun = Instant::now();
        for (cluster, fault) in &outage.faults {
            self.proxies[*cluster].set(*fault);
        }
        let mut forgotten = None;
        let stopped = match outage.blow {
            Blow::None => None,
            Blow::Forget(name) => {
                forgotten = self.forget_credentials(name).await;
                None
            }
            Blow::Kill => {
                self.controllers[1].process().restart().await;
                None
            }
            Blow::End => {
                let process = self.controllers[1].process();
                process.terminate();
                assert_eq!(
                    process.exited(HEALED).await,
                    Exit::Code(0),
                    "{}",
                    process.log_tail(30)
                );
                process.restart().await;
                None
            }
            Blow::Restart(name) => {
                let cluster = self.cluster(name);
                cluster.stop().await;
                cluster.start().await;
                None
            }
            Blow::Downgrade(name) => {
                let cluster = self.cluster(name);
                cluster.stop().await;
                cluster.start_as(BEFORE).await;
                None
            }
            Blow::Clocks => {
                self.set_clocks(STEP);
                None
            }
            Blow::Stop => {
                let leader = self.leader().await;
                self.controllers[leader].process().pause();
                Some(leader)
            }
        };
        let most = if outage.lies() { 3 } else { 24 };
        for _ in 0..=self.random.below(most) {
            self.churn.step(&self.fleet, &mut self.random).await;
            sleep(
                self.random
                    .between(Duration::ZERO, Duration::from_millis(300)),
            )
            .await;
        }
        sleep(outage.lasting.saturating_sub(begun.elapsed())).await;
        for proxy in self.proxies.values() {
            proxy.set(Fault::None);
        }
        if let Some(leader) = stopped {
            self.controllers[leader].process().resume();
        }
        self.set_clocks(0);
        if let Blow::Downgrade(name) = outage.blow {
            let cluster = self.cluster(name);
            cluster.stop().await;
            cluster.start().await;
        }
        if let Some(secret) = forgotten {
            let created = self
                .credentials()
                .create(&PostParams::default(), &secret)
                .await;
            created.expect("the Secret is stored again");
        }
    }

    fn cluster(&self, name: &str) -> &Cluster {
        let mut all = self.fleet.clusters();
        let cluster = all.find(|cluster| cluster.name() == name);
        cluster.expect("a cluster of the fleet")
    }

    /// Sets the clocks of the controllers, in seconds from the right time.
    fn set_clocks(&self, seconds: i64) {
        for number in 0..self.controllers.len() {
            self.clocks.set(number, seconds);
        }
    }

    fn credentials(&self) -> Api<Secret> {
        Api::namespaced(self.clients["hub"].clone(), MEMBERS_NAMESPACE)
    }

    /// Deletes the Secret of a member that is joined, and has its Cluster looked at again; gives
    /// what is to be stored again.
    async fn forget_credentials(&self, name: &str) -> Option<Secret> {
        let secrets = self.credentials();
        let secret = secrets.get_opt(name).await.expect("an answer of the hub")?;
        let deleted = secrets.delete(name, &DeleteParams::default()).await;
        deleted.expect("the Secret goes");
        let touch = json!({ "metadata": { "annotations": { "round": self.rounds.to_string() } } });
        let clusters = Api::<causeway::api::Cluster>::all(self.clients["hub"].clone());
        merge(&clusters, name, touch).await;
        Some(Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: secret.metadata.labels,
                ..ObjectMeta::default()
            },
            data: secret.data,
            type_: secret.type_,
            ..Secret::default()
        })
    }

    async fn leader(&self) -> usize {
        let metrics = self.controllers[0].metrics().await;
        let leads = metrics.get("causeway_controller_leader", &[]) == Some(1.0);
        usize::from(!leads)
    }

    /// Waits until every cluster holds exactly what it should, and checks what was seen meanwhile.
    async fn settled(&mut self, sights: &mut Vec<Sight>, moved: bool) -> Lines {
        self.known().await;
        let settled = settle(
            &self.fleet,
            &self.clients,
            &self.churn,
            &self.observers,
            HEALED,
        );
        let lines = settled.await.unwrap_or_else(|differences| {
            self.violated(
                &format!("not within {HEALED:?} as it should be"),
                &differences,
            )
        });
        sights.extend(self.observers.iter().flat_map(Observer::noted));
        let known = |sight: &Sight| self.churn.explains(sight) || (moved && touches(sight));
        let odd = sights.iter().filter(|sight| !known(sight));
        let odd: Vec<_> = odd.map(ToString::to_string).collect();
        // The first copies come one after the other.
        if !odd.is_empty() && self.rounds > 0 {
            self.violated("of services that nobody changed", &odd);
        }
        self.churn.settled();
        lines
    }

    fn violated(&self, what: &str, found: &[String]) -> ! {
        let first: String = found
            .iter()
            .take(40)
            .map(|line| format!("  {line}\n"))
            .collect();
        for controller in &self.controllers {
            eprintln!(
                "---- the end of a controller's log\n{}",
                controller.process().log_tail(60)
            );
        }
        panic!(
            "round {} of seed {}: {what}, {} differences:\n{first}the last steps:\n{}",
            self.rounds,
            self.seed,
            found.len(),
            self.churn.steps()
        );
    }

    /// Waits until the controllers know every member: one that has just started has nothing to
    /// compare a list with.
    async fn known(&self) {
        for controller in &self.controllers {
            controller.ready().await;
            for name in MEMBERS
                .into_iter()
                .filter(|name| self.joined || *name != GUEST)
            {
                let labels = [("cluster", name), ("state", "synced")];
                eventually(&format!("{name} is known"), HEALED, async || {
                    let metrics = controller.metrics().await;
                    metrics.get("causeway_controller_member_state", &labels) == Some(1.0)
                })
                .await;
            }
        }
    }

    async fn sample(&mut self) {
        for controller in &self.controllers {
            let metrics = controller.metrics().await;
            let panics = metrics
                .get("causeway_panics_total", &[])
                .unwrap_or_default();
            assert_eq!(panics, 0.0, "{}", controller.process().log_tail(60));
        }
        // The first is never started again.
        self.memory.sample(self.held()[0]);
    }

    fn held(&self) -> [f64; 2] {
        self.controllers
            .each_ref()
            .map(|controller| resident(controller.process().pid()))
    }

    /// Whether memory stayed as it was is asked only of a run that was long enough.
    pub(super) fn check_memory(&self, long: bool) {
        eprintln!(
            "{} rounds, {} steps; of the first controller's memory the means of the first and the last third, in MiB: {:.1?}",
            self.rounds,
            self.churn.count(),
            self.memory.thirds()
        );
        assert!(
            !long || self.memory.is_flat(),
            "memory grows: {:?}",
            self.memory.thirds()
        );
    }
}

fn is_standby(sight: &Sight) -> bool {
    sight.service == (ROCK.to_owned(), STANDBY.to_owned())
}

/// Whether it may come of a member that leaves or comes.
fn touches(sight: &Sight) -> bool {
    sight.service.0 != ROCK || sight.member == GUEST
}

async fn crowd(cluster: &Cluster) {
    let mut objects = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {CROWD}}}\n");
    for number in 0..CROWDED {
        objects.push_str(&format!(
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {CROWD}-{number}}}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {{name: crowd-{number}, namespace: {CROWD}}}\nspec: {{ports: [{{port: 80}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: crowd-{number}, namespace: {CROWD}, labels: {{kubernetes.io/service-name: crowd-{number}}}}}\n\
             addressType: IPv4\nendpoints: [{{addresses: [10.200.0.{number}]}}]\nports: [{{port: 80}}]\n"
        ));
        if cluster.name() != "hub" {
            // Of no Service.
            objects.push_str(&format!(
                "---\napiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {{name: export-{number}, namespace: {CROWD}}}\n"
            ));
        }
    }
    cluster.apply(&objects).await;
}
