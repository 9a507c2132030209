//! One task that keeps certificate and trust as they should be.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use causeway::process::readiness::{Awaited, Readiness};
use causeway::process::supervise::with_causes;
use causeway_certs::{
    CERTIFICATE, Change, ChangeError, Decision, Fault, KEY, Publication, Served, Situation, Stored,
    Trusted, Wish, Witness, decide,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use super::cache::Cache;
use super::hub::{Hub, HubError};
use super::look::{Kind, Look, Registration, contents};
use super::pace::Pace;
use super::{ROTATE, SelfManaged};
use crate::metrics::Metrics;
use crate::tls::{Certificate, Resolver, TlsError};

/// The clock may be set at any time, so it is looked at again and again.
const LONGEST_REST: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Where the certificate goes.
pub(super) struct Serving {
    resolver: Arc<Resolver>,
    metrics: Metrics,
    awaited: Option<Awaited>,
    served: Option<Served>,
}

impl Serving {
    pub(super) fn new(resolver: Arc<Resolver>, metrics: Metrics, readiness: &Readiness) -> Self {
        Self {
            resolver,
            metrics,
            awaited: Some(readiness.awaits("the serving certificate")),
            served: None,
        }
    }

    /// Serves a leaf, unless it is served already.
    fn take_up(&mut self, leaf: &Served, stored: &Stored) -> Result<(), TlsError> {
        if self.served.as_ref() == Some(leaf) {
            return Ok(());
        }
        let contents = stored.contents();
        let part = |key| contents.get(key).unwrap_or_default();
        let certificate = Certificate::parse(part(CERTIFICATE), part(KEY))?;
        tracing::info!(
            not_after = certificate.not_after(),
            "new serving certificate"
        );
        self.resolver.swap(certificate, &self.metrics);
        self.served = Some(leaf.clone());
        if let Some(awaited) = self.awaited.take() {
            awaited.ready();
        }
        Ok(())
    }
}

/// Keeps the certificates.
pub(super) struct Keeper {
    config: SelfManaged,
    hub: Hub,
    cache: Cache,
    serving: Serving,
    /// What was stored when all was well.
    memory: Option<Arc<Stored>>,
    decoded: Option<(Option<Arc<Secret>>, Arc<Stored>)>,
    witness: Witness,
    /// What each configuration, by its UID, held when it held all that it should.
    complete: HashMap<Kind, (String, Vec<Trusted>)>,
    pace: Pace,
    said: HashSet<String>,
}

/// A decision and what it was made on.
struct Judged {
    look: Look,
    stored: Arc<Stored>,
    published: Publication,
    wish: Option<Wish>,
    now: SystemTime,
    decision: Decision,
}

impl Keeper {
    pub(super) fn new(config: SelfManaged, hub: Hub, cache: Cache, serving: Serving) -> Self {
        Self {
            config,
            hub,
            cache,
            serving,
            memory: None,
            decoded: None,
            witness: Witness::default(),
            complete: HashMap::new(),
            pace: Pace::default(),
            said: HashSet::new(),
        }
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        loop {
            let turn = tokio::select! {
                () = shutdown.cancelled() => return,
                turn = self.turn() => turn,
            };
            let rest = match turn {
                Ok(rest) => {
                    pause = FIRST_PAUSE;
                    rest
                }
                Err(KeepError::Hub(HubError::Lost(what))) => {
                    tracing::debug!("{what} has changed meanwhile");
                    FIRST_PAUSE
                }
                Err(error) => {
                    tracing::warn!("certificates are not kept: {}", with_causes(&error));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    pause
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.cache.changed() => {}
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// Does what is to be done now, and says how long to rest if nothing changes.
    async fn turn(&mut self) -> Result<Duration, KeepError> {
        let Some(cached) = self.cache.look() else {
            return Ok(LONGEST_REST);
        };
        let mut judged = self.judge(cached);
        if self.take_up(&judged) {
            judged.decision = decide(&self.situation(&judged));
        }
        self.note_complete(&judged);
        if !self.has_work(&judged) {
            return Ok(rest(&judged.decision));
        }
        let wait = self.pace.wait(Instant::now());
        if self.repairs(&judged) && !wait.is_zero() {
            return Ok(wait);
        }
        let fresh = self.hub.look().await?;
        let judged = self.judge(fresh);
        let published = self.publish(&judged).await;
        self.change(&judged).await?;
        published?;
        Ok(rest(&judged.decision))
    }

    /// Serves the stored leaf where it should; says whether anything has changed by that.
    fn take_up(&mut self, judged: &Judged) -> bool {
        let Some(leaf) = self.situation(judged).servable().cloned() else {
            return false;
        };
        let known = self.memory.as_ref();
        if known.is_some_and(|known| known.contents() == judged.stored.contents()) {
            return false;
        }
        if let Err(error) = self.serving.take_up(&leaf, &judged.stored) {
            self.say_once(format!(
                "the stored certificate cannot be served: {}",
                with_causes(&error)
            ));
            return false;
        }
        if judged.stored.signing(judged.now).is_ok() {
            self.memory = Some(Arc::clone(&judged.stored));
        }
        true
    }

    /// Decodes a Secret, once.
    fn decode(&mut self, secret: Option<Arc<Secret>>) -> Arc<Stored> {
        if let Some((known, stored)) = &self.decoded
            && *known == secret
        {
            return Arc::clone(stored);
        }
        let stored = Arc::new(Stored::read(secret.as_deref().map(contents)));
        self.decoded = Some((secret, Arc::clone(&stored)));
        stored
    }

    fn judge(&mut self, look: Look) -> Judged {
        let stored = self.decode(look.secret.clone());
        let bundles = look.kept().flat_map(|one| one.bundles.clone()).collect();
        let published = self.witness.observe(bundles, Instant::now());
        let wish = self.wish(look.secret.as_deref());
        let mut judged = Judged {
            look,
            stored,
            published,
            wish,
            now: SystemTime::now(),
            decision: Decision::default(),
        };
        judged.decision = decide(&self.situation(&judged));
        judged
    }

    fn situation<'a>(&'a self, judged: &'a Judged) -> Situation<'a> {
        Situation {
            stored: &judged.stored,
            memory: self.memory.as_deref(),
            serving: self.serving.served.as_ref(),
            published: &judged.published,
            wish: judged.wish,
            names: &self.config.names,
            lifetimes: self.config.lifetimes,
            now: judged.now,
        }
    }

    fn wish(&mut self, secret: Option<&Secret>) -> Option<Wish> {
        match secret?.annotations().get(ROTATE)?.as_str() {
            "leaf" => Some(Wish::Leaf),
            "ca" => Some(Wish::Authority),
            other => {
                self.say_once(format!(
                    "annotation {ROTATE}={other} of {} is not understood; it is leaf or ca",
                    self.hub.secret()
                ));
                None
            }
        }
    }

    /// Remembers which configurations hold all that they should, so that it is a repair when one does no longer.
    fn note_complete(&mut self, judged: &Judged) {
        for registration in judged.look.registrations.iter().filter(|one| one.injected) {
            self.say_once(format!(
                "{} is annotated for cert-manager, so its caBundle is left alone; serve cert-manager's certificate with \
                 --tls-dir, or remove the annotation",
                registration.kind
            ));
        }
        let Some(trust) = &judged.decision.trust else {
            return;
        };
        for registration in judged.look.kept().filter(|one| one.is_just(trust)) {
            let held = (registration.uid.clone(), trust.clone());
            self.complete.insert(registration.kind, held);
        }
    }

    fn has_work(&self, judged: &Judged) -> bool {
        judged.decision.change.is_some() || self.unpublished(judged).next().is_some()
    }

    fn unpublished<'a>(&self, judged: &'a Judged) -> impl Iterator<Item = &'a Registration> {
        let trust = judged.decision.trust.as_deref();
        judged
            .look
            .kept()
            .filter(move |one| trust.is_some_and(|trust| !one.is_just(trust)))
    }

    /// Whether anything that is to be done puts right what was right before.
    fn repairs(&self, judged: &Judged) -> bool {
        judged.decision.repairs.is_some()
            || self
                .unpublished(judged)
                .any(|one| self.was_complete(one.kind, &one.uid, judged))
    }

    fn was_complete(&self, kind: Kind, uid: &str, judged: &Judged) -> bool {
        let held = self.complete.get(&kind);
        held.is_some_and(|(known, trust)| {
            known == uid && Some(trust) == judged.decision.trust.as_ref()
        })
    }

    async fn publish(&mut self, judged: &Judged) -> Result<(), KeepError> {
        let Some(trust) = &judged.decision.trust else {
            return Ok(());
        };
        let mut outcome = Ok(());
        let stale: Vec<_> = self.unpublished(judged).cloned().collect();
        for registration in stale {
            match self.hub.publish(&registration, trust).await {
                Ok(()) if self.was_complete(registration.kind, &registration.uid, judged) => {
                    self.repaired(Fault::CaBundle, &registration.kind.to_string());
                }
                Ok(()) => tracing::info!(
                    authorities = trust.len(),
                    "published in {}",
                    registration.kind
                ),
                Err(error) => outcome = Err(error.into()),
            }
        }
        outcome
    }

    async fn change(&mut self, judged: &Judged) -> Result<(), KeepError> {
        let Some(change) = judged.decision.change else {
            return Ok(());
        };
        let contents = self.situation(judged).carry_out(change)?;
        let fulfilled = fulfils(change, judged.wish);
        let secret = judged.look.secret.as_deref();
        self.hub.store(secret, &contents, fulfilled).await?;
        tracing::info!(?change, "{} written", self.hub.secret());
        if let Some(fault) = judged.decision.repairs {
            let secret = self.hub.secret();
            self.repaired(fault, &secret);
        }
        Ok(())
    }

    fn repaired(&mut self, fault: Fault, object: &str) {
        self.pace.repaired(Instant::now());
        self.serving.metrics.certificate_repaired(fault.word());
        tracing::warn!(reason = fault.word(), "{object} is repaired: {fault}");
    }

    fn say_once(&mut self, text: String) {
        if !self.said.contains(&text) {
            tracing::warn!("{text}");
            self.said.insert(text);
        }
    }
}

fn rest(decision: &Decision) -> Duration {
    decision.again.unwrap_or(LONGEST_REST).min(LONGEST_REST)
}

/// Whether a change does what somebody asked for.
fn fulfils(change: Change, wish: Option<Wish>) -> bool {
    match wish {
        None => false,
        Some(Wish::Leaf) => matches!(change, Change::Renew | Change::Replace),
        Some(Wish::Authority) => {
            matches!(change, Change::Prepare | Change::Replace | Change::Begin)
        }
    }
}
