//! The model: replicas, two Secrets, two caBundles and a clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use super::super::*;
use super::{CONFIGURATIONS, DAY, Event, KEYS, Overwrite, REPLICAS, TURNS, Version, Which};
use crate::Authority;
use crate::stored::{CERTIFICATE, Contents, Secrets};
use crate::trust::{Bundle, PublicationTracker, bundle_pem};

/// A caBundle in a webhook configuration.
#[derive(Clone, Default)]
struct Configuration {
    version: u64,
    bundle: Vec<u8>,
    /// Somebody wrote it after the last replica did.
    touched: bool,
}

#[derive(Clone)]
struct Secret {
    version: u64,
    contents: Contents,
    request: Option<RotationRequest>,
}

/// Next write of a replica.
enum Write {
    Publish(usize, u64, Vec<Trusted>),
    Store(Which, Option<u64>, Contents, bool),
}

#[derive(Default)]
struct Replica {
    version: Version,
    /// Time by which its clock is behind.
    behind: Duration,
    /// Time at which it first saw the key of the authority in the serving Secret.
    combined_since: Option<Instant>,
    tracker: PublicationTracker,
    last_good: Option<Stored>,
    serving: Option<Served>,
    /// Configurations that it has read, before it reads the Secrets.
    read: Option<Vec<Option<Configuration>>>,
    writes: VecDeque<Write>,
}

pub(super) struct Model {
    now: SystemTime,
    monotonic: Instant,
    version: u64,
    serving: Option<Secret>,
    authority: Option<Secret>,
    history: Vec<Secrets>,
    configurations: Vec<Option<Configuration>>,
    replicas: Vec<Replica>,
    names: Names,
    lifetimes: Lifetimes,
    /// Suspends the checks until all is settled. A clock that is set may make valid what was
    /// expired and taken out. A replica that serves nothing cannot detect that consistent Secrets
    /// miss an authority.
    excused: bool,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            now: SystemTime::UNIX_EPOCH + DAY * 20_000,
            monotonic: Instant::now(),
            version: 0,
            serving: None,
            authority: None,
            history: Vec::new(),
            configurations: vec![Some(Configuration::default()); CONFIGURATIONS],
            replicas: (0..REPLICAS).map(|_| Replica::default()).collect(),
            names: Names {
                names: vec!["webhook.example".to_owned()],
                addresses: Vec::new(),
            },
            lifetimes: Lifetimes::new(DAY * 200, DAY * 30).unwrap(),
            excused: false,
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn secret(&mut self, which: Which) -> &mut Option<Secret> {
        match which {
            Which::Serving => &mut self.serving,
            Which::Authority => &mut self.authority,
        }
    }

    fn secrets(&self) -> Secrets {
        let contents = |secret: &Option<Secret>| secret.as_ref().map(|one| one.contents.clone());
        Secrets {
            serving: contents(&self.serving),
            authority: contents(&self.authority),
        }
    }

    fn stored(&self) -> Stored {
        Stored::read(self.secrets())
    }

    /// Reads the Secrets as a replica of that version does: the version before ignores the Secret
    /// of the authority, and takes what can sign from the other.
    fn stored_for(&self, version: Version) -> Stored {
        let secrets = self.secrets();
        Stored::read(match version {
            Version::This => secrets,
            Version::Before => Secrets {
                authority: secrets.serving.as_ref().map(|_| Contents::default()),
                ..secrets
            },
        })
    }

    pub(super) fn happens(&mut self, event: &Event) {
        match event {
            Event::Step(replica) => self.step(*replica),
            Event::Observe(replica) => self.observe_secret(*replica),
            Event::Turn(replica) => self.turn(*replica),
            Event::Crash(replica) => self.replace(*replica, self.replicas[*replica].version),
            Event::Replace(replica, version) => self.replace(*replica, *version),
            Event::Advance(by) => self.advance(*by),
            Event::Jump { days, back } => self.jump(DAY * u32::try_from(*days).unwrap(), *back),
            Event::DeleteSecret(which) => *self.secret(*which) = None,
            Event::EmptySecret(which) => {
                self.somebody_stores(*which, |contents, _| *contents = Contents::default())
            }
            Event::RemoveKey(which, key) => {
                self.somebody_stores(*which, |contents, _| contents.remove(KEYS[*key]))
            }
            Event::Spoil(which, key) => {
                self.somebody_stores(*which, |contents, _| {
                    contents.set(KEYS[*key], "-----BEGIN \u{fffd}")
                });
            }
            Event::Confuse(which, one, other) => self.somebody_stores(*which, |contents, _| {
                let value = contents.get(KEYS[*other]).unwrap_or_default().to_vec();
                contents.set(KEYS[*one], value);
            }),
            Event::PutBack(which, back) => self.somebody_stores(*which, |contents, history| {
                let index = history.len().saturating_sub(*back + 1);
                let earlier = history.get(index).cloned().unwrap_or_default();
                let earlier = match which {
                    Which::Serving => earlier.serving,
                    Which::Authority => earlier.authority,
                };
                *contents = earlier.unwrap_or_default();
            }),
            Event::Overwrite(one, with) => self.overwrite(*one, *with),
            Event::DeleteConfiguration(one) => self.configurations[*one] = None,
            Event::CreateConfiguration(one) => {
                let version = self.next_version();
                self.configurations[*one].get_or_insert(Configuration {
                    version,
                    touched: true,
                    ..Configuration::default()
                });
            }
            Event::Request(request) => {
                let version = self.next_version();
                if let Some(secret) = &mut self.serving {
                    secret.request = Some(*request);
                    secret.version = version;
                }
            }
        }
    }

    fn overwrite(&mut self, one: usize, with: Overwrite) {
        let bundle = match with {
            Overwrite::Nothing => Vec::new(),
            Overwrite::Rubbish => {
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec()
            }
            Overwrite::Foreign => {
                let foreign = Authority::new("foreign", DAY * 9, self.now).unwrap();
                foreign.pem().as_bytes().to_vec()
            }
        };
        let version = self.next_version();
        if let Some(configuration) = &mut self.configurations[one] {
            *configuration = Configuration {
                version,
                bundle,
                touched: true,
            };
        }
    }

    fn replace(&mut self, replica: usize, version: Version) {
        self.replicas[replica] = Replica {
            version,
            ..Replica::default()
        };
    }

    fn somebody_stores(&mut self, which: Which, change: impl FnOnce(&mut Contents, &[Secrets])) {
        let version = self.next_version();
        let history = std::mem::take(&mut self.history);
        let secret = self.secret(which).get_or_insert_with(|| Secret {
            version,
            contents: Contents::default(),
            request: None,
        });
        change(&mut secret.contents, &history);
        secret.version = version;
        self.history = history;
        let stored = self.stored();
        let after = stored.trust(self.now);
        let is_consistent = stored.is_consistent(self.now);
        let mut serving = self.replicas.iter().filter_map(|one| one.serving.as_ref());
        self.excused |= is_consistent && serving.any(|leaf| !after.contains(&leaf.issuer));
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.monotonic += by;
    }

    fn jump(&mut self, by: Duration, back: bool) {
        self.now = if back { self.now - by } else { self.now + by };
        self.excused = true;
    }

    /// Sets the clock of a replica back.
    pub(super) fn set_back(&mut self, replica: usize, by: Duration) {
        self.replicas[replica].behind = by;
    }

    fn clock(&self, replica: usize) -> SystemTime {
        self.now - self.replicas[replica].behind
    }

    /// Returns the number of changes of the stored leaf, the first one included.
    pub(super) fn leaf_changes(&self) -> usize {
        let serving = self.history.iter().flat_map(|secrets| &secrets.serving);
        let mut leaves: Vec<_> = serving.flat_map(|all| all.get(CERTIFICATE)).collect();
        leaves.dedup();
        leaves.len()
    }

    /// A replica learns what is stored, and serves it if it should.
    fn observe_secret(&mut self, replica: usize) {
        let stored = self.stored_for(self.replicas[replica].version);
        self.note_combined(replica, &stored);
        let configurations = self.configurations.clone();
        let request = None;
        let (published, _) = self.observe_configurations(replica, &configurations);
        let situation = self.situation(replica, &stored, &published, request);
        let Some(leaf) = situation.servable().cloned() else {
            return;
        };
        let before = self.replicas[replica].serving.clone();
        self.check_trusted(&leaf, before.as_ref());
        if stored.signing(self.clock(replica)).is_ok() {
            self.replicas[replica].last_good = Some(stored);
        }
        self.replicas[replica].serving = Some(leaf);
    }

    fn observe_configurations(
        &mut self,
        replica: usize,
        configurations: &[Option<Configuration>],
    ) -> (Publication, Vec<(usize, u64, Bundle)>) {
        let read: Vec<_> = configurations
            .iter()
            .enumerate()
            .filter_map(|(index, one)| {
                let one = one.as_ref()?;
                Some((index, one.version, Bundle::read(&one.bundle)))
            })
            .collect();
        let bundles = read.iter().map(|(_, _, bundle)| bundle.clone()).collect();
        let published = self.replicas[replica]
            .tracker
            .observe(bundles, self.monotonic);
        (published, read)
    }

    fn note_combined(&mut self, replica: usize, stored: &Stored) {
        let since = &mut self.replicas[replica].combined_since;
        *since = stored
            .is_combined()
            .then(|| since.unwrap_or(self.monotonic));
    }

    fn situation<'a>(
        &'a self,
        replica: usize,
        stored: &'a Stored,
        published: &'a Publication,
        request: Option<RotationRequest>,
    ) -> Situation<'a> {
        let one = &self.replicas[replica];
        let combined_for = one.combined_since.filter(|_| one.version == Version::This);
        Situation {
            stored,
            combined_for: combined_for.map_or(Duration::ZERO, |since| self.monotonic - since),
            last_good: one.last_good.as_ref(),
            serving: one.serving.as_ref(),
            published,
            request,
            names: &self.names,
            lifetimes: self.lifetimes,
            now: self.clock(replica),
        }
    }

    /// One request of a replica: it reads the configurations, then the Secret, then writes what it
    /// decided on.
    fn step(&mut self, replica: usize) {
        if let Some(write) = self.replicas[replica].writes.pop_front() {
            self.write(replica, write);
        } else if let Some(configurations) = self.replicas[replica].read.take() {
            self.decide(replica, &configurations);
        } else {
            self.replicas[replica].read = Some(self.configurations.clone());
        }
    }

    fn decide(&mut self, replica: usize, configurations: &[Option<Configuration>]) {
        let version = self.replicas[replica].version;
        let stored = self.stored_for(version);
        self.note_combined(replica, &stored);
        let current = self.configurations.clone();
        // Unless the Secrets are consistent, the configurations are read again after them.
        let is_consistent = stored.is_consistent(self.clock(replica));
        let configurations = if is_consistent {
            configurations
        } else {
            &current
        };
        let (published, read) = self.observe_configurations(replica, configurations);
        let request = self.serving.as_ref().and_then(|secret| secret.request);
        let situation = self.situation(replica, &stored, &published, request);
        let decision = decide(&situation);
        let mut writes = VecDeque::new();
        if let Some(trust) = &decision.trust {
            for (index, version, bundle) in read {
                if !bundle.is_just(trust) {
                    writes.push_back(Write::Publish(index, version, trust.clone()));
                }
            }
        }
        if let Some(change) = decision.change {
            let changed = situation.apply(change).expect("it was decided on");
            let fulfilled = decision.fulfils_request;
            writes.extend(self.writes_of(version, &changed, fulfilled));
        }
        self.replicas[replica].writes = writes;
        // That somebody makes a Secret, publishes, serves and deletes it between these two requests
        // is left out.
        if self.serving.is_none() && self.authority.is_none() {
            self.step(replica);
        }
    }

    fn writes_of(&self, version: Version, changed: &Secrets, fulfilled: bool) -> Vec<Write> {
        let held = |secret: &Option<Secret>| secret.as_ref().map(|one| one.version);
        let (serving, authority) = (held(&self.serving), held(&self.authority));
        if version == Version::Before {
            let all = Stored::read(changed.clone()).contents().clone();
            return vec![Write::Store(Which::Serving, serving, all, fulfilled)];
        }
        let before = self.secrets();
        let contents = |contents: &Option<Contents>| contents.clone().expect("to be written");
        let mut writes = Vec::new();
        if changed.authority != before.authority {
            let contents = contents(&changed.authority);
            writes.push(Write::Store(Which::Authority, authority, contents, false));
        }
        if changed.serving != before.serving || fulfilled {
            let contents = contents(&changed.serving);
            writes.push(Write::Store(Which::Serving, serving, contents, fulfilled));
        }
        writes
    }

    fn write(&mut self, replica: usize, write: Write) {
        match write {
            Write::Publish(index, version, trust) => {
                let next = self.next_version();
                let Some(one) = &self.configurations[index] else {
                    return;
                };
                if one.version != version {
                    self.replicas[replica].writes.clear();
                    return;
                }
                self.check_nobody_is_abandoned(&one.bundle, &trust);
                self.configurations[index] = Some(Configuration {
                    version: next,
                    bundle: bundle_pem(&trust).into_bytes(),
                    touched: false,
                });
            }
            Write::Store(which, version, contents, fulfilled) => {
                let next = self.next_version();
                let secret = self.secret(which);
                if secret.as_ref().map(|secret| secret.version) != version {
                    self.replicas[replica].writes.clear();
                    return;
                }
                let request = secret.as_ref().and_then(|secret| secret.request);
                *secret = Some(Secret {
                    version: next,
                    contents,
                    request: request.filter(|_| !fulfilled),
                });
                self.history.push(self.secrets());
            }
        }
    }

    fn turn(&mut self, replica: usize) {
        self.observe_secret(replica);
        self.step(replica);
        while self.replicas[replica].read.is_some() || !self.replicas[replica].writes.is_empty() {
            self.step(replica);
        }
    }

    /// A replica's write takes no authority out of a caBundle by which somebody is known who serves
    /// a valid leaf.
    fn check_nobody_is_abandoned(&self, before: &[u8], after: &[Trusted]) {
        for replica in &self.replicas {
            let Some(leaf) = replica.serving.as_ref().filter(|_| !self.excused) else {
                continue;
            };
            let valid = leaf.period.check(self.now).is_ok();
            let held = Bundle::read(before).authorities.contains(&leaf.issuer);
            assert!(
                !valid || !held || after.contains(&leaf.issuer),
                "{:?} is served and was taken out; {after:?} is left",
                leaf.issuer
            );
        }
    }

    /// A replica that moves to the leaf of another authority is trusted by every caBundle that
    /// nobody else wrote since.
    fn check_trusted(&self, leaf: &Served, before: Option<&Served>) {
        let served = before.filter(|before| before.period.check(self.now).is_ok());
        if self.excused || served.is_none_or(|before| before.issuer == leaf.issuer) {
            return;
        }
        for one in self
            .configurations
            .iter()
            .flatten()
            .filter(|one| !one.touched)
        {
            let bundle = Bundle::read(&one.bundle);
            assert!(
                bundle.authorities.contains(&leaf.issuer),
                "{:?} is served next and not in {:?}",
                leaf.issuer,
                bundle.authorities
            );
        }
    }

    /// Whether everything is as it should be, and stays so.
    fn is_settled(&self) -> bool {
        let stored = self.stored();
        let Ok(signing) = stored.signing(self.now) else {
            return false;
        };
        let Ok(leaf) = stored.leaf(&self.names, self.now) else {
            return false;
        };
        let trust = stored.trust(self.now);
        let mut configurations = self.configurations.iter().flatten();
        leaf.issuer == signing.certificate
            && stored.next(self.now).is_none()
            && self
                .serving
                .as_ref()
                .is_some_and(|secret| secret.request.is_none())
            && (stored.is_combined() || self.is_apart())
            && configurations.all(|one| Bundle::read(&one.bundle).is_just(&trust))
            && self
                .replicas
                .iter()
                .all(|replica| replica.serving.as_ref() == Some(leaf))
    }

    /// The key of the authority is in its own Secret alone.
    fn is_apart(&self) -> bool {
        let stored = self.stored();
        *stored.secrets() == Secrets::split(stored.contents(), false)
    }

    /// All replicas are of this version in the end.
    pub(super) fn settle(&mut self) {
        for replica in 0..REPLICAS {
            if self.replicas[replica].version == Version::Before {
                self.replace(replica, Version::This);
            }
        }
        for _ in 0..TURNS {
            for replica in 0..REPLICAS {
                self.turn(replica);
            }
            if self.is_settled() {
                self.excused = false;
                return;
            }
            self.advance(Duration::from_secs(3));
        }
        panic!("not settled; stored: {:?}", self.secrets());
    }

    /// At rest nothing is written, and what the bundles trust shrinks to the one authority when the
    /// others' time is over.
    pub(super) fn rests(&mut self) {
        for _ in 0..12 {
            self.advance(DAY * 9);
            self.settle();
        }
        assert!(
            self.is_apart(),
            "the serving Secret holds more than it needs"
        );
        let version = self.version;
        for replica in 0..REPLICAS {
            self.turn(replica);
        }
        assert_eq!(version, self.version, "something is written at rest");
        let trust = self.stored().trust(self.now);
        assert!(
            trust.len() <= 2,
            "{trust:?} is trusted after all others' time is over"
        );
    }
}
