//! Exports come and go while the controller is killed at random: what is left is what the final
//! state asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway::api::labels;
use causeway_tests::{Cluster, LONG, eventually, service, service_export};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};

use super::Turn;
use super::turn::sources;

/// Longer than a lease lasts, and than it takes to see all of it through.
const SETTLED: Duration = LONG;

const ROUNDS: usize = 20;
const NAMES: [&str; 3] = ["foo", "bar", "baz"];
const MEMBERS: [&str; 2] = ["member1", "member2"];

/// Numbers that a seed gives (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % end
    }

    /// Less than it takes to carry an export everywhere, or a little more.
    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.below(400))
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let index = self.below(all.len() as u64);
        all[usize::try_from(index).unwrap_or_default()]
    }
}

/// `CAUSEWAY_SEED`, or one that nobody knows.
fn seed() -> u64 {
    let given = std::env::var("CAUSEWAY_SEED").ok();
    let given = given.map(|seed| seed.parse().expect("CAUSEWAY_SEED is a number"));
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("a time after 1970").as_secs()
    })
}

/// Import's objects of one member, without values of the API servers.
#[derive(Debug, Default, PartialEq)]
struct Held {
    /// By name: the clusters that it comes from, and the numbers of its ports.
    imports: BTreeMap<String, (Vec<String>, Vec<i32>)>,
    /// By name: the numbers of its ports.
    derived: BTreeMap<String, Vec<i32>>,
    /// Service, source, addresses and ports of each.
    slices: BTreeSet<(String, String, Vec<String>, Vec<i32>)>,
    /// Number of slices: two may be equal.
    count: usize,
}

/// Exporters, with their pods.
struct Environment {
    turn: Turn,
    exported: BTreeSet<(&'static str, &'static str)>,
    addresses: BTreeMap<(&'static str, &'static str), String>,
}

impl Environment {
    async fn new(turn: Turn) -> Self {
        let mut addresses = BTreeMap::new();
        for member in MEMBERS {
            for name in NAMES {
                let cluster = turn.member(member);
                // member2 has a port more, so that the ports tell who exports.
                let mut exported = service(name).port("http", 80);
                if member == "member2" {
                    exported = exported.port("metrics", 9090);
                }
                exported.create(cluster, &turn).await;
                let pods = turn.backends(name).create(cluster).await;
                addresses.insert((member, name), pods[0].ip().to_owned());
            }
        }
        Self {
            turn,
            exported: BTreeSet::new(),
            addresses,
        }
    }

    async fn toggle(&mut self, member: &'static str, name: &'static str) {
        let cluster = self.turn.member(member);
        if self.exported.remove(&(member, name)) {
            let exports = self.turn.exports(cluster);
            let deleted = exports.delete(name, &DeleteParams::default()).await;
            deleted.expect("the export is there");
        } else {
            self.exported.insert((member, name));
            let export = service_export(name);
            export.create(cluster, &self.turn).await;
        }
    }

    /// Returns the desired objects of every member.
    fn wanted(&self) -> Held {
        let mut held = Held::default();
        for name in NAMES {
            let exports = |member: &&&str| self.exported.contains(&(**member, name));
            let exporters: Vec<&str> = MEMBERS.iter().filter(exports).copied().collect();
            if exporters.is_empty() {
                continue;
            }
            let ports = |both: bool| if both { vec![80, 9090] } else { vec![80] };
            let union = ports(exporters.contains(&"member2"));
            let from = exporters.iter().map(ToString::to_string).collect();
            held.imports.insert(name.to_owned(), (from, union.clone()));
            held.derived.insert(format!("derived-{name}"), union);
            for member in exporters {
                held.slices.insert((
                    name.to_owned(),
                    member.to_owned(),
                    vec![self.addresses[&(member, name)].clone()],
                    ports(member == "member2"),
                ));
            }
        }
        held.count = held.slices.len();
        held
    }

    async fn held(&self, cluster: &Cluster) -> Result<Held, kube::Error> {
        let all = ListParams::default();
        let own = ListParams::default().labels("app.kubernetes.io/managed-by=causeway");
        let space = &self.turn;
        let imports = space.imports(cluster).list(&all).await?.items;
        let services = space.api::<Service>(cluster).list(&own).await?.items;
        let marked = ListParams::default().labels(labels::SOURCE_CLUSTER);
        let slices = space.api::<EndpointSlice>(cluster).list(&marked).await?;
        let mut held = Held {
            count: slices.items.len(),
            ..Held::default()
        };
        for import in imports {
            let from = sources(&import).iter().map(ToString::to_string).collect();
            let ports = import.spec.ports.iter().map(|port| port.port);
            let ports = sorted(ports.collect());
            let name = import.metadata.name.unwrap_or_default();
            held.imports.insert(name, (from, ports));
        }
        for derived in services {
            let ports = derived.spec.and_then(|spec| spec.ports).unwrap_or_default();
            let ports = sorted(ports.iter().map(|port| port.port).collect());
            let name = derived.metadata.name.unwrap_or_default();
            held.derived.insert(name, ports);
        }
        held.slices = slices.items.into_iter().map(described).collect();
        Ok(held)
    }

    /// Waits until all members hold exactly what the exports ask for.
    async fn settled(&self, when: &str) {
        let wanted = self.wanted();
        for member in MEMBERS {
            let what = format!("{when}: {member} holds {wanted:#?}");
            eventually(&what, SETTLED, async || {
                let cluster = self.turn.member(member);
                let held = self.held(cluster).await.map_err(|e| e.to_string())?;
                if held == wanted {
                    Ok(())
                } else {
                    Err(format!("{held:#?}"))
                }
            })
            .await;
        }
    }
}

fn described(slice: EndpointSlice) -> (String, String, Vec<String>, Vec<i32>) {
    let marks = slice.metadata.labels.unwrap_or_default();
    let mark = |key: &str| marks.get(key).cloned().unwrap_or_default();
    let addresses = slice
        .endpoints
        .into_iter()
        .flat_map(|endpoint| endpoint.addresses);
    let ports = slice.ports.unwrap_or_default();
    (
        mark(labels::MULTICLUSTER_SERVICE_NAME),
        mark(labels::SOURCE_CLUSTER),
        addresses.collect(),
        sorted(ports.iter().filter_map(|port| port.port).collect()),
    )
}

fn sorted(mut numbers: Vec<i32>) -> Vec<i32> {
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn churn_of_exports_under_kills_ends_in_the_desired_state() {
    let mut env = Environment::new(Turn::alone().await).await;
    let seed = seed();
    eprintln!("CAUSEWAY_SEED={seed}");
    let mut random = Random(seed);
    let controller = &env.turn.set.controller;
    for round in 0..ROUNDS {
        let toggles: Vec<_> = (0..=random.below(6))
            .map(|_| {
                (
                    random.one_of(&MEMBERS),
                    random.one_of(&NAMES),
                    random.pause(),
                )
            })
            .collect();
        let kills: Vec<_> = (0..=random.below(2)).map(|_| random.pause()).collect();
        // Moments are what is varied here.
        let toggling = async {
            for (member, name, pause) in toggles {
                env.toggle(member, name).await;
                tokio::time::sleep(pause).await;
            }
        };
        let killing = async {
            for pause in kills {
                tokio::time::sleep(pause).await;
                controller.process().kill().await;
                tokio::time::sleep(pause / 2).await;
                controller.restart().await;
            }
        };
        tokio::join!(toggling, killing);
        env.settled(&format!("round {round} of seed {seed}")).await;
    }
    let exported: Vec<_> = env.exported.iter().copied().collect();
    for (member, name) in exported {
        env.toggle(member, name).await;
    }
    controller.process().kill().await;
    controller.restart().await;
    env.settled(&format!("the end of seed {seed}")).await;
}
