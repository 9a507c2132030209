//! A hub and two members, three controllers, a load, and one blow after the other at the process
//! that leads.

use std::time::{Duration, Instant};

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::eventually::eventually;
use causeway_tests::reaper::Exit;
use causeway_tests::write::merge;
use causeway_tests::{Fleet, LONG, SOON, Space};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde_json::json;
use tokio::time::sleep;

use super::Blow;
use super::load::{CONSUMER, Load, MOVING, PROVIDER, TURNING, number};
use super::observer::Observer;
use super::terms::{self, Term, Write};
use causeway_tests::clock::Clocks;

pub(super) const CONTROLLERS: usize = 3;
const NAMESPACE: &str = "handover";
const LEASES: &str = "causeway-system";
const LEASE: &str = "causeway-controller";

/// A little longer than the Lease lasts.
const LONGER: Duration = Duration::from_secs(13);
/// After a blow: until somebody leads, and a busy machine.
const HEALED: Duration = LONG;
/// Promised time until a successor writes.
const PROMISED: Duration = Duration::from_secs(15);
/// Time in which a resumed API server receives requests from before its pause. Nobody waits for
/// their answers, and only their resourceVersion can refuse them.
const LATE: Duration = Duration::from_secs(2);

/// Offsets of the clocks, in seconds. All are ahead: they can go back by days without certificates
/// that are not valid yet.
const SHOWN: [i64; 5] = [3600, 5 * DAY, 10 * DAY, 2 * DAY, 7 * DAY];
const DAY: i64 = 24 * 3600;

pub(super) struct Environment {
    load: Load,
    observer: Observer,
    clocks: Clocks,
    controllers: Vec<Running>,
    blows: Vec<(Blow, Timestamp)>,
    resumed: Vec<Timestamp>,
    fleet: Fleet,
}

impl Environment {
    pub(super) async fn start() -> Self {
        let fleet = Fleet::builder().members(2).start().await;
        let installation = Installation::new(&fleet).await;
        let clocks = Clocks::new(fleet.directory());
        let mut controllers = Vec::new();
        for number in 0..CONTROLLERS {
            let launch = clocks.give(number, installation.controller());
            controllers.push(launch.start().await);
        }
        for member in fleet.members() {
            installation.join(member).await;
        }
        let clusters: Vec<_> = fleet.clusters().collect();
        let space = Space::existing(&fleet, NAMESPACE);
        for cluster in clusters {
            space.create_in(cluster).await;
        }
        let load = Load::start(&fleet, &space).await;
        drop(space);
        let observer = Observer::of(fleet.member(CONSUMER), NAMESPACE);
        Self {
            load,
            observer,
            clocks,
            controllers,
            blows: Vec::new(),
            resumed: Vec::new(),
            fleet,
        }
    }

    /// One blow, until the load goes on arriving. `turn` chooses what the clocks show.
    pub(super) async fn suffer(&mut self, blow: Blow, turn: usize) {
        for number in 0..CONTROLLERS {
            self.clocks
                .set(number, SHOWN[(turn + 2 * number) % SHOWN.len()]);
        }
        let leader = self.leader().await;
        let process = self.controllers[leader].process();
        self.blows.push((blow, Timestamp::now()));
        match blow {
            Blow::Kill => {
                process.kill().await;
                self.goes_on().await;
                process.restart().await;
            }
            Blow::End => {
                process.terminate();
                assert_eq!(
                    process.exited(HEALED).await,
                    Exit::Code(0),
                    "{}",
                    process.log_tail(30)
                );
                self.goes_on().await;
                process.restart().await;
            }
            Blow::Stop => {
                process.pause();
                sleep(LONGER).await;
                self.goes_on().await;
                process.resume();
            }
            Blow::PausedHub => {
                self.fleet.hub().pause();
                sleep(LONGER).await;
                self.fleet.hub().resume();
                self.resumed.push(Timestamp::now());
            }
            Blow::Clocks => self.keeps(leader).await,
        }
        for controller in &self.controllers {
            controller.ready().await;
        }
        self.goes_on().await;
        self.observer.versions();
    }

    /// While clocks jump to and fro, and the Lease says that it was renewed at whatever time, the
    /// same process leads.
    async fn keeps(&self, leader: usize) {
        let leases = Api::<Lease>::namespaced(self.fleet.hub().client(), LEASES);
        let holder = |lease: Lease| lease.spec.and_then(|spec| spec.holder_identity);
        let before = holder(leases.get(LEASE).await.expect("the Lease"));
        let mut renewed =
            ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"].into_iter();
        let begun = Instant::now();
        let mut jumped = false;
        for turn in 0.. {
            if begun.elapsed() > LONGER {
                break;
            }
            for number in 0..CONTROLLERS {
                self.clocks
                    .set(number, SHOWN[(turn + number) % SHOWN.len()]);
            }
            if let Some(renewed) = renewed.next() {
                let patch = json!({ "spec": { "renewTime": renewed } });
                merge(&leases, LEASE, patch).await;
            }
            sleep(Duration::from_millis(500)).await;
            let lease = leases.get(LEASE).await.expect("the Lease");
            jumped |= is_ahead(&lease);
            assert_eq!(holder(lease), before, "lease held by another process");
            assert!(self.leads(leader).await, "nobody leads");
        }
        assert!(jumped, "the clock of the leader did not jump");
    }

    async fn leads(&self, number: usize) -> bool {
        let metrics = self.controllers[number].metrics().await;
        metrics.get("causeway_controller_leader", &[]) == Some(1.0)
    }

    async fn leader(&self) -> usize {
        eventually("somebody leads", HEALED, async || {
            for number in 0..CONTROLLERS {
                if self.leads(number).await {
                    return Some(number);
                }
            }
            None
        })
        .await
    }

    /// Waits until a change arrives that was made after now.
    async fn goes_on(&self) {
        let now = self.load.numbers();
        eventually("the load arrives", HEALED, async || {
            let arrived = self.observer.numbers();
            if arrived.iter().zip(now).all(|(arrived, now)| *arrived > now) {
                Ok(())
            } else {
                Err(format!("{arrived:?}, of at least {now:?}"))
            }
        })
        .await;
    }

    /// Ends the load, and checks all that happened.
    pub(super) async fn check(self) {
        let numbers = self.load.numbers();
        let (leases, writes) = self.audited().await;
        let terms = terms::terms(leases);
        self.check_writes(&terms, &writes);
        self.check_hand_overs(&terms, &writes);
        eprintln!(
            "{} versions of copies seen, {} writes of controllers, {} terms",
            self.observer.versions(),
            writes.len(),
            terms.len()
        );
        drop(self.load);
        Self::holds(&self.fleet, &self.observer, numbers).await;
        for controller in &self.controllers {
            let metrics = controller.metrics().await;
            assert_eq!(
                metrics
                    .get("causeway_panics_total", &[])
                    .unwrap_or_default(),
                0.0
            );
        }
    }

    async fn audited(&self) -> (Vec<Write>, Vec<Write>) {
        let (mut leases, mut writes) = (Vec::new(), Vec::new());
        for cluster in self.fleet.clusters() {
            let audited = cluster.all_writes_since(Default::default()).await;
            let (of_leases, others) = terms::of_controllers(cluster.name(), &audited);
            leases.extend(of_leases);
            writes.extend(others);
        }
        (leases, writes)
    }

    /// At no time do two processes write, and no copy is deleted.
    fn check_writes(&self, terms: &[Term], writes: &[Write]) {
        let (late, wrong): (Vec<_>, Vec<_>) = terms::strays(terms, writes)
            .into_iter()
            .partition(|write| write.cluster == "hub" && self.was_on_its_way(write));
        assert_eq!(
            wrong,
            Vec::<&Write>::new(),
            "not by the holder of the Lease; the terms: {terms:#?}"
        );
        let refused = writes.iter().filter(|write| !write.accepted).count();
        eprintln!(
            "{refused} writes were refused; {} were on their way to a hub that was paused",
            late.len()
        );
        let deleted = writes
            .iter()
            .filter(|write| write.what.starts_with("delete endpointslices"));
        assert_eq!(deleted.collect::<Vec<_>>(), Vec::<&Write>::new());
        for cluster in self.fleet.clusters() {
            let here = writes
                .iter()
                .filter(|write| write.cluster == cluster.name() && write.accepted);
            assert!(
                here.count() > 0,
                "nothing was written in {}",
                cluster.name()
            );
        }
    }

    fn was_on_its_way(&self, write: &Write) -> bool {
        let since = |resumed: &Timestamp| write.at.duration_since(*resumed);
        self.resumed
            .iter()
            .map(since)
            .any(|since| since.unsigned_abs() < LATE)
    }

    /// A successor writes within the promised time; twice that on a busy machine.
    fn check_hand_overs(&self, terms: &[Term], writes: &[Write]) {
        for (blow, at) in self.blows.iter().filter(|(blow, _)| blow.deposes()) {
            let (by, after) = terms::taken_over(terms, writes, *at).expect("a successor");
            eprintln!("{blow:?}: {by} writes {:.1} s later", after.as_secs_f64());
            assert!(after < 2 * PROMISED, "{blow:?}: {after:?}");
        }
    }

    /// Every cluster holds what the load says: `least` or later, for changes under way when that
    /// was asked still arrive.
    async fn holds(fleet: &Fleet, observer: &Observer, least: [u32; super::load::SLICES]) {
        let space = Space::existing(fleet, NAMESPACE);
        for name in [MOVING, TURNING] {
            let (provider, consumer) = (fleet.member(PROVIDER), fleet.member(CONSUMER));
            eventually(&format!("{name} is the same in both"), SOON, async || {
                let source = space.ready_addresses(provider, name).await;
                let copies = space.ready_addresses(consumer, name).await;
                if source == copies {
                    Ok(())
                } else {
                    Err(format!("{source:?}, but {copies:?}"))
                }
            })
            .await;
            let there = space.ready_addresses(consumer, name).await;
            for (slice, number) in there.iter().filter_map(|address| number(address)) {
                assert!(number >= least[slice], "{slice}: {number} after {least:?}");
            }
        }
        observer.versions();
    }
}

/// Whether the Lease was renewed by a clock of [`SHOWN`].
fn is_ahead(lease: &Lease) -> bool {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let ahead = renewed.map(|renewed| renewed.0.duration_since(Timestamp::now()).as_secs());
    ahead.is_some_and(|ahead| (SHOWN[0] / 2..SHOWN[2] * 2).contains(&ahead))
}
