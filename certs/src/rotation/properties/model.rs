//! The model: replicas, one Secret, two caBundles and a clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use super::super::*;
use super::{CONFIGURATIONS, DAY, Event, KEYS, Overwrite, REPLICAS, TURNS};
use crate::Authority;
use crate::stored::Contents;
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

/// What a replica is about to write.
enum Write {
    Publish(usize, u64, Vec<Trusted>),
    Store(Option<u64>, Contents, bool),
}

#[derive(Default)]
struct Replica {
    tracker: PublicationTracker,
    last_good: Option<Stored>,
    serving: Option<Served>,
    /// What it read of the configurations, on its way to read the Secret.
    read: Option<Vec<Option<Configuration>>>,
    writes: VecDeque<Write>,
}

pub(super) struct Model {
    now: SystemTime,
    monotonic: Instant,
    version: u64,
    secret: Option<Secret>,
    history: Vec<Contents>,
    configurations: Vec<Option<Configuration>>,
    replicas: Vec<Replica>,
    names: Names,
    lifetimes: Lifetimes,
    /// A clock that is set may make valid what was expired and taken out, and a Secret that looks whole and misses an
    /// authority is trusted by a replica that knows no better: until it is in its normal form again nobody is blamed.
    excused: bool,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            now: SystemTime::UNIX_EPOCH + DAY * 20_000,
            monotonic: Instant::now(),
            version: 0,
            secret: None,
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

    fn stored(&self) -> Stored {
        Stored::read(self.secret.as_ref().map(|secret| secret.contents.clone()))
    }

    pub(super) fn happens(&mut self, event: &Event) {
        match event {
            Event::Step(replica) => self.step(*replica),
            Event::Observe(replica) => self.observe_secret(*replica),
            Event::Turn(replica) => self.turn(*replica),
            Event::Crash(replica) => self.replicas[*replica] = Replica::default(),
            Event::Advance(by) => self.advance(*by),
            Event::Jump { days, back } => self.jump(DAY * u32::try_from(*days).unwrap(), *back),
            Event::DeleteSecret => self.secret = None,
            Event::EmptySecret => {
                self.somebody_stores(|contents, _| *contents = Contents::default())
            }
            Event::RemoveKey(key) => {
                self.somebody_stores(|contents, _| contents.remove(KEYS[*key]))
            }
            Event::Spoil(key) => {
                self.somebody_stores(|contents, _| contents.set(KEYS[*key], "-----BEGIN \u{fffd}"));
            }
            Event::Confuse(one, other) => self.somebody_stores(|contents, _| {
                let value = contents.get(KEYS[*other]).unwrap_or_default().to_vec();
                contents.set(KEYS[*one], value);
            }),
            Event::PutBack(back) => self.somebody_stores(|contents, history| {
                let index = history.len().saturating_sub(*back + 1);
                *contents = history.get(index).cloned().unwrap_or_default();
            }),
            Event::Overwrite(one, with) => {
                let version = self.next_version();
                let bundle = self.overwritten(*with);
                if let Some(configuration) = &mut self.configurations[*one] {
                    *configuration = Configuration {
                        version,
                        bundle,
                        touched: true,
                    };
                }
            }
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
                if let Some(secret) = &mut self.secret {
                    secret.request = Some(*request);
                    secret.version = version;
                }
            }
        }
    }

    fn overwritten(&self, with: Overwrite) -> Vec<u8> {
        match with {
            Overwrite::Nothing => Vec::new(),
            Overwrite::Rubbish => {
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec()
            }
            Overwrite::Foreign => {
                let foreign = Authority::new("foreign", DAY * 9, self.now).unwrap();
                foreign.pem().as_bytes().to_vec()
            }
        }
    }

    fn somebody_stores(&mut self, change: impl FnOnce(&mut Contents, &[Contents])) {
        let version = self.next_version();
        let secret = self.secret.get_or_insert_with(|| Secret {
            version,
            contents: Contents::default(),
            request: None,
        });
        change(&mut secret.contents, &self.history);
        secret.version = version;
        let after = self.stored().trust(self.now);
        let looks_whole = !after.is_empty();
        let mut serving = self.replicas.iter().filter_map(|one| one.serving.as_ref());
        self.excused |= looks_whole && serving.any(|leaf| !after.contains(&leaf.issuer));
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.monotonic += by;
    }

    fn jump(&mut self, by: Duration, back: bool) {
        self.now = if back { self.now - by } else { self.now + by };
        self.excused = true;
    }

    /// A replica learns what is stored, and serves it if it should.
    fn observe_secret(&mut self, replica: usize) {
        let stored = self.stored();
        let configurations = self.configurations.clone();
        let request = None;
        let (published, _) = self.observe_configurations(replica, &configurations);
        let situation = self.situation(replica, &stored, &published, request);
        let Some(leaf) = situation.servable().cloned() else {
            return;
        };
        let before = self.replicas[replica].serving.clone();
        self.check_trusted(&leaf, before.as_ref());
        if stored.signing(self.now).is_ok() {
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

    fn situation<'a>(
        &'a self,
        replica: usize,
        stored: &'a Stored,
        published: &'a Publication,
        request: Option<RotationRequest>,
    ) -> Situation<'a> {
        Situation {
            stored,
            last_good: self.replicas[replica].last_good.as_ref(),
            serving: self.replicas[replica].serving.as_ref(),
            published,
            request,
            names: &self.names,
            lifetimes: self.lifetimes,
            now: self.now,
        }
    }

    /// One request of a replica: it reads the configurations, then the Secret, then writes what it decided on.
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
        let stored = self.stored();
        let current = self.configurations.clone();
        // Where nothing can sign the configurations are read again after the Secret.
        let signs = stored.signing(self.now).is_ok();
        let configurations = if signs { configurations } else { &current };
        let (published, read) = self.observe_configurations(replica, configurations);
        let request = self.secret.as_ref().and_then(|secret| secret.request);
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
            let contents = situation.apply(change).expect("it was decided on");
            let version = self.secret.as_ref().map(|secret| secret.version);
            let fulfilled = decision.fulfils_request;
            writes.push_back(Write::Store(version, contents, fulfilled));
        }
        self.replicas[replica].writes = writes;
        // That somebody makes a Secret, publishes, serves and deletes it between these two requests is left out.
        if self.secret.is_none() {
            self.step(replica);
        }
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
            Write::Store(version, contents, fulfilled) => {
                if self.secret.as_ref().map(|secret| secret.version) != version {
                    return;
                }
                let request = self.secret.as_ref().and_then(|secret| secret.request);
                let next = self.next_version();
                self.history.push(contents.clone());
                self.secret = Some(Secret {
                    version: next,
                    contents,
                    request: request.filter(|_| !fulfilled),
                });
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

    /// A replica's write takes no authority out of a caBundle by which somebody is known who serves a valid leaf.
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

    /// A replica that moves to the leaf of another authority is trusted by every caBundle that nobody else wrote since.
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
                .secret
                .as_ref()
                .is_some_and(|secret| secret.request.is_none())
            && configurations.all(|one| Bundle::read(&one.bundle).is_just(&trust))
            && self
                .replicas
                .iter()
                .all(|replica| replica.serving.as_ref() == Some(leaf))
    }

    pub(super) fn settle(&mut self) {
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
        panic!(
            "not settled; stored: {:?}",
            self.secret.as_ref().map(|secret| &secret.contents)
        );
    }

    /// At rest nothing is written, and what the bundles trust shrinks to the one authority when the others' time is over.
    pub(super) fn rests(&mut self) {
        for _ in 0..12 {
            self.advance(DAY * 9);
            self.settle();
        }
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
