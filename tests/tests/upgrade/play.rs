//! A fleet on which one version follows the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use causeway_tests::causeway::replicas::answered;
use causeway_tests::causeway::{Installation, Replicas, Running};
use causeway_tests::eventually::eventually;
use causeway_tests::soak::{Churn, Lines, Observer, ROCK, Random, Sight, rock, seed, settle};
use causeway_tests::{Cluster, Fleet, Release};
use kube::Client;
use tokio::time::sleep;

use crate::MEMBERS;
use crate::install::{apply, kubectl_mcs, webhook};
use crate::writes::{Marks, Writes};

const CONTROLLERS: usize = 2;

/// Number of changes of services while nothing is replaced.
const STEPS: usize = 30;
/// Maximum time until rest: a second list half a minute later, a lease, and a busy machine.
const SETTLED: Duration = Duration::from_secs(180);
/// A process that is asked to end has ended.
const ENDED: Duration = Duration::from_secs(60);
/// So long nothing is written at rest.
const REST: Duration = Duration::from_secs(8);

/// So many objects that were written although nobody touched them are named.
const SHOWN: usize = 10;
/// Maximum number of writes of an untouched object between the versions, and of its status.
const WRITES_MAX: usize = 1;

pub(super) struct Play<'a> {
    begun: Instant,
    fleet: &'a Fleet,
    release: Release,
    installation: Installation,
    address: IpAddr,
    webhooks: Replicas<'a>,
    controllers: Vec<Running>,
    random: Random,
    churn: Churn,
    observers: Vec<Observer>,
    clients: BTreeMap<String, Client>,
    /// Lines of the report.
    lines: Vec<String>,
    explained: usize,
}

impl<'a> Play<'a> {
    /// Installs that version as its own `kubectl mcs` does, starts it, and makes the first
    /// services.
    pub(super) async fn start(fleet: &'a Fleet, release: Release) -> Self {
        let begun = Instant::now();
        let seed = seed();
        eprintln!("seed {seed}: CAUSEWAY_SOAK_SEED={seed} makes the same choices");
        let address = fleet.endpoint_address();
        let address = address.unwrap_or_else(|missing| panic!("an upgrade needs {missing}"));
        let hub = fleet.hub();
        kubectl_mcs(fleet, release, &["install", "--wait=false"])
            .await
            .ok();
        let installation = Installation::applied(fleet).await;
        let mut webhooks = Replicas::new(hub, webhook(&installation, release, address)).await;
        webhooks.add().await;
        webhooks.add().await;
        answered(hub).await;
        let mut controllers = Vec::new();
        for _ in 0..CONTROLLERS {
            controllers.push(installation.of(release).controller().start().await);
        }
        for member in fleet.members() {
            installation.of(release).join(member).await;
        }
        rock(fleet, [MEMBERS[0], MEMBERS[1]]).await;
        let client = |cluster: &Cluster| (cluster.name().to_owned(), cluster.client());
        let observer = |member: &Cluster| Observer::of(member, member.client());
        let mut play = Self {
            begun,
            fleet,
            release,
            installation,
            address,
            webhooks,
            controllers,
            random: Random::new(seed),
            churn: Churn::new(fleet, MEMBERS.to_vec()).await,
            observers: fleet.members().iter().map(observer).collect(),
            clients: fleet.clusters().map(client).collect(),
            lines: Vec::new(),
            explained: 0,
        };
        play.settled().await;
        // The first copies come one after the other.
        play.observers.iter().for_each(|one| drop(one.noted()));
        play.explained = 0;
        play
    }

    /// Services come, change and go while nothing is replaced.
    pub(super) async fn change_services(&mut self) {
        let begun = Instant::now();
        let marks = Marks::now(self.fleet).await;
        for _ in 0..STEPS {
            step(self.fleet, &mut self.churn, &mut self.random).await;
        }
        let lines = self.settled().await;
        let writes = Writes::since(self.fleet, &marks).await;
        let version = self.release.version();
        let said = format!(
            "{version}: {STEPS} changes of services and {} writes in {:.0} s; then {} native and {} imported endpoints",
            writes.by(version),
            begun.elapsed().as_secs_f64(),
            lines.count("native endpoint"),
            lines.count("imported endpoint"),
        );
        self.say(said);
    }

    /// Replaces what runs by that version, one process after the other, while services change.
    pub(super) async fn replace_all(&mut self, release: Release) {
        let way = format!("{} -> {}", self.release.version(), release.version());
        self.churn.note(format!("-- {way}"));
        self.at_rest().await;
        let spared = self.churn.spare();
        let (begun, marks) = (Instant::now(), Marks::now(self.fleet).await);
        let steps = self.roll(release).await;
        self.release = release;
        let rolled = begun.elapsed();
        let lines = self.settled().await;
        self.at_rest().await;
        self.churn.spare_nothing();
        let spared_lines = [ROCK, spared].map(|namespace| lines.count(&format!(" {namespace}/")));
        let writes = Writes::since(self.fleet, &marks).await;
        let (all, by) = (writes.count(), writes.by(release.version()));
        let untouched = writes.of_untouched(spared);
        let objects = untouched.by_object();
        let most = objects.values().copied().max().unwrap_or_default();
        self.say(format!(
            "{way} in {:.0} s, with {steps} changes of services: {all} writes, {by} of them by {}; {} of what nobody touched \
             ({} objects and endpoints), at most {most} of an object",
            rolled.as_secs_f64(),
            release.version(),
            untouched.count(),
            spared_lines.iter().sum::<usize>(),
        ));
        for (object, count) in objects.iter().take(SHOWN) {
            self.say(format!("  untouched, and written {count} times: {object}"));
        }
        assert!(by > 0, "{way}: {} wrote nothing", release.version());
        let often = objects.iter().filter(|(_, count)| **count > WRITES_MAX);
        let often: Vec<_> = often.collect();
        assert!(often.is_empty(), "{way}: written too often: {often:#?}");
    }

    /// Applies what a person applies, and replaces each process when its successor is ready.
    /// Services change meanwhile; gives how often.
    async fn roll(&mut self, release: Release) -> usize {
        let Self {
            fleet,
            installation,
            address,
            webhooks,
            controllers,
            random,
            churn,
            ..
        } = self;
        let fleet = *fleet;
        let before = churn.count();
        churn.keep_namespaces(fleet).await;
        let applying = apply(fleet, installation, release);
        while_changing(fleet, churn, random, applying).await;
        churn.free_namespaces();
        let replacing = async {
            webhooks.relaunch(webhook(installation, release, *address));
            webhooks.restart().await;
            webhooks.settled().await;
            for _ in 0..controllers.len() {
                let successor = installation.of(release).controller().start().await;
                let old = controllers.remove(0);
                old.process().terminate();
                let exit = old.process().exited(ENDED).await;
                assert!(exit.success(), "{exit:?}: {}", old.process().log_tail(40));
                controllers.push(successor);
            }
        };
        while_changing(fleet, churn, random, replacing).await;
        churn.count() - before
    }

    /// Waits until every cluster holds exactly what it should, and checks what was seen meanwhile.
    async fn settled(&mut self) -> Lines {
        self.known().await;
        let settled = settle(
            self.fleet,
            &self.clients,
            &self.churn,
            &self.observers,
            SETTLED,
        );
        let lines = match settled.await {
            Ok(lines) => lines,
            Err(found) => self.violated("is not as it should be", &found),
        };
        let sights = self.observers.iter().flat_map(Observer::noted);
        let (known, odd): (Vec<Sight>, Vec<Sight>) =
            sights.partition(|sight| self.churn.explains(sight));
        let is_first = self.churn.count() == 0;
        if !odd.is_empty() && !is_first {
            let odd: Vec<_> = odd.iter().map(ToString::to_string).collect();
            self.violated("lost or doubled endpoints that nobody touched", &odd);
        }
        self.explained += known.len();
        self.churn.settled();
        lines
    }

    /// Waits until the controllers know every member, and have not panicked.
    async fn known(&self) {
        for controller in &self.controllers {
            controller.ready().await;
            for name in MEMBERS {
                let labels = [("cluster", name), ("state", "synced")];
                eventually(&format!("{name} is known"), SETTLED, async || {
                    let metrics = controller.metrics().await;
                    let panics = metrics.get("causeway_panics_total", &[]);
                    assert_eq!(panics.unwrap_or_default(), 0.0);
                    metrics.get("causeway_controller_member_state", &labels) == Some(1.0)
                })
                .await;
            }
        }
    }

    /// Waits until nothing is written any more: by what is not of the churn, which has settled, and
    /// of it.
    async fn at_rest(&self) {
        eventually("nothing is written at rest", SETTLED, async || {
            let marks = Marks::now(self.fleet).await;
            sleep(REST).await;
            let writes = Writes::since(self.fleet, &marks).await;
            match writes.count() {
                0 => Ok(()),
                _ => Err(format!("{:?}", writes.by_object())),
            }
        })
        .await;
    }

    fn say(&mut self, line: String) {
        eprintln!("{:4} s: {line}", self.begun.elapsed().as_secs());
        self.lines.push(line);
    }

    /// Prints all that was found.
    pub(super) fn report(&self) {
        eprintln!("{}", self.lines.join("\n"));
        eprintln!(
            "of services that nobody touched 0 endpoints were withdrawn or there twice; of those that were changed {}",
            self.explained,
        );
    }

    fn violated(&self, what: &str, found: &[String]) -> ! {
        for controller in &self.controllers {
            let log = controller.process().log_tail(60);
            eprintln!("---- the end of a controller's log\n{log}");
        }
        let first: Vec<&str> = found.iter().take(40).map(String::as_str).collect();
        panic!(
            "{} {what}, {} differences:\n  {}\nthe last steps:\n{}",
            self.release.version(),
            found.len(),
            first.join("\n  "),
            self.churn.steps()
        );
    }
}

/// Does something while services change.
async fn while_changing(
    fleet: &Fleet,
    churn: &mut Churn,
    random: &mut Random,
    work: impl Future<Output = ()>,
) {
    let done = Cell::new(false);
    let changing = async {
        while !done.get() {
            step(fleet, churn, random).await;
        }
    };
    let working = async {
        work.await;
        done.set(true);
    };
    tokio::join!(changing, working);
}

/// One change of a service, and a pause.
async fn step(fleet: &Fleet, churn: &mut Churn, random: &mut Random) {
    churn.step(fleet, random).await;
    let pause = random.between(Duration::ZERO, Duration::from_millis(300));
    sleep(pause).await;
}
