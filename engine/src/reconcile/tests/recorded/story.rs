//! Story of one service that a seed decides: always the same, whatever libraries come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::multicluster::Version;
use serde_json::{Value, json};

use super::written::line;
use crate::fixtures::objects::{
    Kind, NAMESPACE, Object, drained, export, import, is_ours, mcs, name_of, service, slice, work,
};
use crate::fixtures::{Environment, GRACE, env};
use crate::model::served::{ImportFields, ServedImports};
use crate::model::{Failure, FailureKind};

const MEMBERS: [&str; 4] = ["member1", "member2", "member3", "member4"];
/// Number of members at first.
const AT_FIRST: usize = 3;
/// Releases of Kubernetes around those that changed the writes; the first is too old to take part.
const RELEASES: [(u32, u32); 8] = [
    (1, 20),
    (1, 21),
    (1, 23),
    (1, 25),
    (1, 26),
    (1, 30),
    (1, 33),
    (1, 34),
];

/// Exposures of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exposures {
    /// A MultiClusterService.
    Native,
    /// ServiceExports.
    Clusterset,
    /// Both.
    Both,
}

/// State of a story: the service, its members, and the writes so far.
pub(super) struct Story {
    random: Random,
    env: Environment,
    exposures: Exposures,
    here: BTreeSet<&'static str>,
    unreachable: BTreeSet<&'static str>,
    lines: Vec<String>,
}

/// Step of a story. Returns its description for a person; empty if the step did nothing.
type Step = fn(&mut Story) -> String;

/// Steps for every exposure; a step in this list twice happens twice as often.
const ANYWHERE: [Step; 19] = [
    pods, pods, pods, pods, pods, no_pods, readiness, readiness, readiness, lose, lose, back, back,
    silence, drain, restart, crash, wait, upgrade,
];
/// Rare steps.
const SELDOM: [Step; 4] = [join, leave, refuse, clear];
const NATIVE: [Step; 9] = [
    exposure,
    exposure,
    exposure,
    no_exposure,
    hub_service,
    hub_service,
    no_hub_service,
    foreign_service,
    applied,
];
const CLUSTERSET: [Step; 11] = [
    exported,
    exported,
    exported,
    not_exported,
    not_exported,
    own_service,
    no_own_service,
    own_import,
    occupy,
    vacate,
    spoil,
];

impl Story {
    /// Returns the beginning of the story of that seed.
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random(seed);
        let exposures = match seed % 3 {
            0 => Exposures::Native,
            1 => Exposures::Clusterset,
            _ => Exposures::Both,
        };
        let mut env = env();
        env.keeps_clusters = random.once_in(2);
        env.settings.publish_exports = random.once_in(3);
        env.settings.provider_ttl = random.once_in(4).then_some(Duration::from_secs(600));
        if exposures == Exposures::Native && random.once_in(6) {
            env.hear_works(true)
                .on_hub(work("member1", "foo-5d5d", "foo"));
        }
        let mut story = Self {
            random,
            env,
            exposures,
            here: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            lines: Vec::new(),
        };
        story.begin();
        story
    }

    fn begin(&mut self) {
        let ports = self.ports();
        self.env.on_hub(ports);
        for member in MEMBERS.into_iter().take(AT_FIRST) {
            self.join(member);
        }
        if self.exposures == Exposures::Native {
            self.env.on_hub(mcs("foo"));
        } else {
            self.env.on(MEMBERS[0], export("foo"));
        }
        self.env.settle();
        self.note("the beginning");
    }

    /// Plays that number of steps. Returns all writes, by step.
    pub(super) fn play(mut self, steps: usize) -> Vec<String> {
        for _ in 0..steps {
            let step = self.choose();
            let done = step(&mut self);
            if done.is_empty() {
                continue;
            }
            match self.random.once_in(3) {
                true => {
                    let seconds = self.random.below(90);
                    self.env.pass(Duration::from_secs(seconds));
                }
                false => {
                    self.env.work();
                }
            }
            self.note(&done);
        }
        for member in self.here.clone() {
            self.return_to(member);
        }
        self.env.pass(GRACE + GRACE);
        self.note("the end");
        self.env.restart().pass(GRACE);
        self.note("another process");
        self.lines
    }

    fn choose(&mut self) -> Step {
        if self.random.once_in(16) {
            return *self.random.of(&SELDOM);
        }
        let of_both = self.random.once_in(2);
        match self.exposures {
            _ if self.random.once_in(2) => *self.random.of(&ANYWHERE),
            Exposures::Native => *self.random.of(&NATIVE),
            Exposures::Clusterset => *self.random.of(&CLUSTERSET),
            Exposures::Both if of_both => *self.random.of(&NATIVE),
            Exposures::Both => *self.random.of(&CLUSTERSET),
        }
    }

    /// Records the writes since the last step, below the description of the step.
    fn note(&mut self, done: &str) {
        self.lines.push(format!("# {done}"));
        let written = std::mem::take(&mut self.env.written);
        let lines = written.iter().map(|(to, write)| line(to, write));
        self.lines.extend(lines);
    }

    fn member(&mut self) -> &'static str {
        let at = self.random.index(self.here.len());
        let mut here = self.here.iter().copied();
        here.nth(at).expect("a member")
    }

    fn has(&self, member: &str, kind: Kind, name: &str) -> bool {
        self.env.members[member]
            .get(kind, NAMESPACE, name)
            .is_some()
    }

    fn remove(&mut self, member: &str, kind: Kind, name: &str) -> bool {
        let there = self.has(member, kind, name);
        if there {
            self.env.off(member, kind, name);
        }
        there
    }

    /// Returns `foo` with some ports, as a person writes it.
    fn ports(&mut self) -> Object {
        let named = [("http", 80, "TCP"), ("grpc", 81, "TCP"), ("dns", 53, "UDP")];
        let count = 1 + self.random.below(named.len() as u64);
        let mut made = service("foo");
        for (_, (name, port, protocol)) in (0..count).zip(named) {
            made = made.protocol_port(name, port, protocol);
        }
        if self.random.once_in(6) {
            made = made.headless();
        }
        if self.random.once_in(4) {
            made = made.with(json!({"spec": {"sessionAffinity": "ClientIP"}}));
        }
        if self.random.once_in(4) {
            let preferences = ["PreferClose", "PreferSameZone", "PreferSameNode"];
            let preference = *self.random.of(&preferences);
            made = made.with(json!({"spec": {"trafficDistribution": preference}}));
        }
        if self.random.once_in(8) {
            made = made.with(json!({"spec": {"internalTrafficPolicy": "Local"}}));
        }
        if self.random.once_in(4) {
            made = made.with(json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}));
        }
        made
    }

    /// Returns a slice of a member with some endpoints.
    fn slice(&mut self, member: &str, number: u64) -> Object {
        let mut made = slice(&format!("foo-{number}"), "foo")
            .port("http", 8080)
            .port("grpc", 8081);
        let of_ipv6 = number == 2;
        if of_ipv6 {
            made = made.with(json!({"addressType": "IPv6"}));
        }
        let digit = member.trim_start_matches("member").to_owned();
        for _ in 0..=self.random.below(3) {
            let host = 1 + self.random.below(5);
            let address = match of_ipv6 {
                true => format!("fd00:{digit}::{host}"),
                false => format!("10.{digit}.{number}.{host}"),
            };
            let mut endpoint = json!({"addresses": [address], "conditions": self.conditions()});
            if self.random.once_in(2) {
                endpoint["zone"] = json!(format!("zone-{}", self.random.below(2)));
                endpoint["nodeName"] = json!(format!("node-{host}"));
            }
            if self.random.once_in(4) {
                endpoint["hostname"] = json!(format!("foo-{host}"));
            }
            made = made.endpoint_with(endpoint);
        }
        made
    }

    /// Returns the conditions of an endpoint; most are ready.
    fn conditions(&mut self) -> Value {
        let ready = json!({"ready": true, "serving": true, "terminating": false});
        let others = [
            json!({"ready": true}),
            json!({"ready": false, "serving": false, "terminating": false}),
            json!({"ready": false, "serving": true, "terminating": true}),
            json!({"ready": false, "serving": false, "terminating": true}),
            json!({"ready": false}),
            json!({}),
        ];
        match self.random.once_in(2) {
            true => ready,
            false => self.random.of(&others).clone(),
        }
    }

    fn join(&mut self, member: &'static str) {
        let old = self.random.once_in(2);
        let release = match old {
            true => *self.random.of(&RELEASES),
            false => (1, 34),
        };
        self.env.silent_member(member);
        self.env.releases.insert(member.to_owned(), release);
        let dual = self.random.once_in(2);
        let first_definitions = self.random.once_in(4);
        let server = self.env.server(member);
        if dual {
            server.families = vec!["IPv4", "IPv6"];
        }
        if first_definitions {
            server.served.imports = Some(ServedImports {
                version: Version::V1alpha1,
                fields: ImportFields::default(),
            });
        }
        let native = self.exposures == Exposures::Native;
        if native && self.random.once_in(4) {
            self.env.off(member, Kind::Namespace, NAMESPACE);
        } else {
            let pods = self.slice(member, 0);
            self.env.on(member, pods);
        }
        if !native {
            self.env.on(member, service("foo").port("http", 80));
        }
        self.env.introduce(member).list(member);
        self.here.insert(member);
    }

    fn return_to(&mut self, member: &'static str) {
        self.unreachable.remove(member);
        self.env.reconnect(member).introduce(member).list(member);
    }
}

fn pods(story: &mut Story) -> String {
    let member = story.member();
    let number = story.random.below(3);
    let made = story.slice(member, number);
    let endpoints = made.value["endpoints"].to_string();
    story.env.on(member, made);
    format!("{member}: foo-{number} has {endpoints}")
}

fn no_pods(story: &mut Story) -> String {
    let member = story.member();
    for name in ["foo-0", "foo-1", "foo-2"] {
        story.remove(member, Kind::Slice, name);
    }
    format!("{member}: no pods")
}

/// Makes all endpoints of a member alike: ready, unready, or terminating.
fn readiness(story: &mut Story) -> String {
    let member = story.member();
    let conditions = story.conditions();
    let all = story.env.members[member].all(Kind::Slice);
    let sources: Vec<_> = all.filter(|slice| !is_ours(slice)).cloned().collect();
    if sources.is_empty() {
        return String::new();
    }
    for mut value in sources {
        let endpoints = value["endpoints"].as_array_mut();
        for endpoint in endpoints.into_iter().flatten() {
            endpoint["conditions"] = conditions.clone();
        }
        let kind = Kind::Slice;
        story.env.on(member, Object { kind, value });
    }
    format!("{member}: all endpoints become {conditions}")
}

fn lose(story: &mut Story) -> String {
    let member = story.member();
    story.unreachable.insert(member);
    story.env.lose(member);
    format!("{member}: unreachable")
}

fn back(story: &mut Story) -> String {
    let unreachable: Vec<_> = story.unreachable.iter().copied().collect();
    if unreachable.is_empty() {
        return String::new();
    }
    let member = *story.random.of(&unreachable);
    story.return_to(member);
    format!("{member}: back")
}

fn silence(story: &mut Story) -> String {
    let member = story.member();
    story.unreachable.insert(member);
    story.env.silence(member);
    format!("{member}: its watches say nothing")
}

fn drain(story: &mut Story) -> String {
    let member = story.member();
    let is_drained = story.random.once_in(2);
    story.env.on_hub(drained(member, is_drained));
    format!("{member}: drained: {is_drained}")
}

fn restart(story: &mut Story) -> String {
    story.env.restart();
    "restart".to_owned()
}

/// Changes pods, and kills the process while it writes.
fn crash(story: &mut Story) -> String {
    let done = pods(story);
    let arrived = u8::try_from(story.random.below(256)).expect("eight bits");
    story.env.crash(arrived);
    format!("{done}, and a crash")
}

fn wait(story: &mut Story) -> String {
    let seconds = story.random.below(700);
    story.env.pass(Duration::from_secs(seconds));
    format!("{seconds} s")
}

fn upgrade(story: &mut Story) -> String {
    let member = story.member();
    let (major, minor) = *story.random.of(&RELEASES);
    let uid = format!("uid-of-{member}");
    story.env.upgrade(member, &uid, (major, minor));
    format!("{member}: Kubernetes {major}.{minor}")
}

fn join(story: &mut Story) -> String {
    let missing = MEMBERS.into_iter();
    let mut missing = missing.filter(|member| !story.here.contains(member));
    let Some(member) = missing.next() else {
        return String::new();
    };
    story.join(member);
    format!("{member}: joined")
}

/// Removes a member, which leaves the story if the removal ends in time.
fn leave(story: &mut Story) -> String {
    if story.here.len() < AT_FIRST {
        return String::new();
    }
    let member = story.member();
    story.env.off_hub(Kind::Cluster, member);
    story.env.pass(GRACE);
    let gone = std::mem::take(&mut story.env.seen_out);
    if gone.iter().any(|(name, _)| name == member) {
        // What was to be listed a second time is so no more.
        story.env.lose(member);
        story.env.members.remove(member);
        story.here.remove(member);
        story.unreachable.remove(member);
    }
    format!("{member}: removed")
}

/// Makes a member refuse writes of a kind, or accept all again.
fn refuse(story: &mut Story) -> String {
    let member = story.member();
    let kind = *story.random.of(&[Kind::Slice, Kind::Service, Kind::Import]);
    let refuses = story.random.once_in(2);
    let failure = Failure::new(FailureKind::Forbidden, "no");
    story.env.server(member).refuses = refuses.then_some((kind, failure));
    format!("{member}: refuses {kind:?}: {refuses}")
}

/// Deletes objects that causeway wrote, as a person does.
fn clear(story: &mut Story) -> String {
    let member = story.member();
    let kind = *story.random.of(&[Kind::Slice, Kind::Service, Kind::Import]);
    let all = story.env.members[member].all(kind);
    let own: Vec<_> = all.filter(|object| is_ours(object)).map(name_of).collect();
    for name in &own {
        story.remove(member, kind, name);
    }
    format!("{member}: without {own:?}")
}

fn exposure(story: &mut Story) -> String {
    let going = story
        .env
        .mcs("foo")
        .is_some_and(|mcs| !mcs["metadata"]["deletionTimestamp"].is_null());
    if going {
        return String::new();
    }
    let [providers, consumers] = [0, 1].map(|_| story.random.some(&MEMBERS));
    let mut made = mcs("foo").providers(&providers).consumers(&consumers);
    if story.random.once_in(3) {
        made = made.port("http", 80);
    }
    if story.random.once_in(8) {
        made = made.consumers(&[]).load_balancer();
    }
    story.env.on_hub(made);
    format!("from {providers:?} to {consumers:?}")
}

fn no_exposure(story: &mut Story) -> String {
    if story.env.mcs("foo").is_none() {
        return String::new();
    }
    story.env.off_hub(Kind::Mcs, "foo");
    "no MultiClusterService".to_owned()
}

fn hub_service(story: &mut Story) -> String {
    no_hub_service(story);
    let made = story.ports();
    let spec = made.value["spec"].to_string();
    story.env.on_hub(made);
    format!("the hub's Service: {spec}")
}

fn no_hub_service(story: &mut Story) -> String {
    if story.env.hub.get(Kind::Service, NAMESPACE, "foo").is_none() {
        return String::new();
    }
    story.env.off_hub(Kind::Service, "foo");
    "no Service on the hub".to_owned()
}

fn foreign_service(story: &mut Story) -> String {
    let member = story.member();
    if story.has(member, Kind::Service, "foo") {
        return String::new();
    }
    story.env.on(member, service("foo").port("web", 80));
    format!("{member}: a Service of a person's")
}

/// Applies over an existing Service, as a person does.
fn applied(story: &mut Story) -> String {
    let member = story.member();
    let there = story.env.members[member].get(Kind::Service, NAMESPACE, "foo");
    let Some(value) = there.cloned() else {
        return String::new();
    };
    let fields = json!({"f:spec": {"f:selector": {}}});
    let entry = json!({"manager": "flux", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields});
    let applied =
        json!({"metadata": {"managedFields": [entry]}, "spec": {"selector": {"app": "theirs"}}});
    let kind = Kind::Service;
    story.env.on(member, Object { kind, value }.with(applied));
    format!("{member}: its Service is applied over")
}

fn exported(story: &mut Story) -> String {
    let member = story.member();
    let team = story.random.below(3);
    let labels = json!({"spec": {"exportedLabels": {"team": team.to_string()}}});
    let made = match team {
        0 => export("foo"),
        _ => export("foo").with(labels),
    };
    story.env.on(member, made);
    format!("{member}: exports foo for team {team}")
}

fn not_exported(story: &mut Story) -> String {
    let member = story.member();
    match story.remove(member, Kind::Export, "foo") {
        true => format!("{member}: exports foo no more"),
        false => String::new(),
    }
}

fn own_service(story: &mut Story) -> String {
    let member = story.member();
    story.remove(member, Kind::Service, "foo");
    let made = story.ports();
    let spec = made.value["spec"].to_string();
    story.env.on(member, made);
    format!("{member}: its Service: {spec}")
}

fn no_own_service(story: &mut Story) -> String {
    let member = story.member();
    match story.remove(member, Kind::Service, "foo") {
        true => format!("{member}: no Service"),
        false => String::new(),
    }
}

fn own_import(story: &mut Story) -> String {
    let member = story.member();
    if story.has(member, Kind::Import, "foo") {
        return String::new();
    }
    story.env.on(member, import("foo").port("http", 80));
    format!("{member}: an import of a person's")
}

/// Creates a Service of the derived name, as a person does, if it is missing.
fn occupy(story: &mut Story) -> String {
    let member = story.member();
    if story.has(member, Kind::Service, "derived-foo") {
        return String::new();
    }
    let occupies = service("derived-foo").port("http", 80);
    story.env.on(member, occupies);
    format!("{member}: a derived-foo of a person's")
}

fn vacate(story: &mut Story) -> String {
    let member = story.member();
    let there = story.env.members[member].get(Kind::Service, NAMESPACE, "derived-foo");
    if there.is_none_or(is_ours) {
        return String::new();
    }
    story.remove(member, Kind::Service, "derived-foo");
    format!("{member}: the person's derived-foo is gone")
}

/// Changes an object that causeway wrote, as a person does.
fn spoil(story: &mut Story) -> String {
    let member = story.member();
    let there = story.env.members[member].get(Kind::Import, NAMESPACE, "foo");
    let Some(value) = there.filter(|object| is_ours(object)).cloned() else {
        return String::new();
    };
    let spoils = json!({"spec": {"sessionAffinity": "ClientIP", "ports": []}});
    let kind = Kind::Import;
    story.env.on(member, Object { kind, value }.with(spoils));
    format!("{member}: its import is changed")
}

/// Random choices that depend on a seed (splitmix64) alone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true once in `times`, on average.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn index(&mut self, length: usize) -> usize {
        let at = self.below(length as u64);
        usize::try_from(at).expect("a small number")
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// Returns some of these, in their order; perhaps none, perhaps all.
    fn some<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().copied().filter(|_| self.once_in(2)).collect()
    }
}
