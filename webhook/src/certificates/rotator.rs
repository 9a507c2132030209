//! The certificate rotator: one task that observes, decides, writes and serves.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use causeway::process::certificate::{Certificate, TlsError};
use causeway::process::readiness::{Awaited, Readiness};
use causeway::process::supervise::with_causes;
use causeway_certs::{
    CERTIFICATE, ChangeError, Decision, Fault, KEY, Publication, PublicationTracker,
    RotationRequest, Served, Situation, Stored, Trusted, decide,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use super::cache::Cache;
use super::hub::{Hub, HubError};
use super::repair_backoff::RepairBackoff;
use super::snapshot::{Kind, Registration, Snapshot, StoredSecrets, Which};
use super::{ROTATE, SelfManaged};
use crate::metrics::Metrics;
use crate::tls::Resolver;

/// Maximum interval of reading the clock, which may be set at any time.
const MAX_INTERVAL: Duration = Duration::from_secs(15);
const FIRST_RETRY: Duration = Duration::from_millis(250);
const MAX_RETRY: Duration = Duration::from_secs(10);
const CLOCKS_DIFFER: &str = "a stored certificate is not valid yet, so the last one stays in use; \
                             compare the clocks of the webhook's nodes";

#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Receiver of the certificate.
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
    ///
    /// # Errors
    /// [`TlsError`] if TLS does not accept the stored contents, also if the leaf in them is served.
    fn serve(&mut self, leaf: &Served, stored: &Stored) -> Result<(), TlsError> {
        let contents = stored.contents();
        let part = |key| contents.get(key).unwrap_or_default();
        let certificate = Certificate::parse(part(CERTIFICATE), part(KEY))?;
        if self.served.as_ref() == Some(leaf) {
            return Ok(());
        }
        tracing::info!(
            not_after = certificate.not_after(),
            "serving certificate replaced"
        );
        self.resolver.swap(certificate, &self.metrics);
        self.served = Some(leaf.clone());
        if let Some(awaited) = self.awaited.take() {
            awaited.ready();
        }
        Ok(())
    }
}

/// Rotates the certificates.
pub(super) struct Rotator {
    config: SelfManaged,
    hub: Hub,
    cache: Cache,
    serving: Serving,
    /// Contents of the Secrets at the last replacement of the served leaf.
    last_good: Option<Arc<Stored>>,
    decoded: Option<(StoredSecrets, Arc<Stored>)>,
    /// Time at which the key of the authority was first seen in the serving Secret.
    combined_since: Option<Instant>,
    tracker: PublicationTracker,
    /// Authorities that each configuration, by its UID, had when it was complete.
    complete: HashMap<Kind, (String, Vec<Trusted>)>,
    repair_backoff: RepairBackoff,
    warned: HashSet<String>,
}

/// Decision and its inputs.
struct Evaluation {
    snapshot: Snapshot,
    stored: Arc<Stored>,
    published: Publication,
    request: Option<RotationRequest>,
    now: SystemTime,
    decision: Decision,
}

impl Rotator {
    pub(super) fn new(config: SelfManaged, hub: Hub, cache: Cache, serving: Serving) -> Self {
        Self {
            config,
            hub,
            cache,
            serving,
            last_good: None,
            decoded: None,
            combined_since: None,
            tracker: PublicationTracker::default(),
            complete: HashMap::new(),
            repair_backoff: RepairBackoff::default(),
            warned: HashSet::new(),
        }
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let mut pause = FIRST_RETRY;
        loop {
            let turn = tokio::select! {
                () = shutdown.cancelled() => return,
                turn = self.turn() => turn,
            };
            let rest = match turn {
                Ok(rest) => {
                    pause = FIRST_RETRY;
                    rest
                }
                Err(RotationError::Hub(HubError::Conflict(what))) => {
                    tracing::debug!(object = what, "write conflict");
                    FIRST_RETRY
                }
                Err(error) => {
                    tracing::warn!(error = with_causes(&error), "certificate rotation failed");
                    self.serving.metrics.certificate_rotation_failed();
                    pause = (pause * 2).min(MAX_RETRY);
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

    /// Takes the next step. Returns the time until the next turn if nothing changes.
    async fn turn(&mut self) -> Result<Duration, RotationError> {
        let Some(cached) = self.cache.snapshot() else {
            return Ok(MAX_INTERVAL);
        };
        let mut evaluation = self.evaluate(cached);
        if self.serve(&evaluation) {
            evaluation.decision = decide(&self.situation(&evaluation));
        }
        if self.situation(&evaluation).awaits_validity() {
            self.warn_once(CLOCKS_DIFFER.to_owned());
        }
        self.note_complete(&evaluation);
        if !self.has_work(&evaluation) {
            return Ok(rest(&evaluation.decision));
        }
        let wait = self.repair_backoff.wait(Instant::now());
        if self.repairs(&evaluation) && !wait.is_zero() {
            return Ok(wait);
        }
        let fresh = self.hub.read().await?;
        let evaluation = self.evaluate(fresh);
        let published = self.publish(&evaluation).await;
        self.change(&evaluation).await?;
        published?;
        Ok(rest(&evaluation.decision))
    }

    /// Serves the stored leaf if it is servable; true if anything changed.
    fn serve(&mut self, evaluation: &Evaluation) -> bool {
        let Some(leaf) = self.situation(evaluation).servable().cloned() else {
            return false;
        };
        let known = self.last_good.as_ref();
        if known.is_some_and(|known| known.contents() == evaluation.stored.contents()) {
            return false;
        }
        if let Err(error) = self.serving.serve(&leaf, &evaluation.stored) {
            self.serving.metrics.certificate_rotation_failed();
            self.warn_once(format!(
                "the stored certificate cannot be served: {}",
                with_causes(&error)
            ));
            return false;
        }
        if evaluation.stored.signing(evaluation.now).is_ok() {
            self.last_good = Some(Arc::clone(&evaluation.stored));
        }
        true
    }

    /// Decodes the Secrets, and caches the last ones.
    fn decode(&mut self, secrets: &StoredSecrets) -> Arc<Stored> {
        if let Some((known, stored)) = &self.decoded
            && known == secrets
        {
            return Arc::clone(stored);
        }
        let stored = Arc::new(Stored::read(secrets.contents()));
        self.decoded = Some((secrets.clone(), Arc::clone(&stored)));
        stored
    }

    fn evaluate(&mut self, snapshot: Snapshot) -> Evaluation {
        let stored = self.decode(&snapshot.secrets);
        let since = self.combined_since.unwrap_or_else(Instant::now);
        self.combined_since = stored.is_combined().then_some(since);
        let bundles = snapshot
            .managed()
            .flat_map(|one| one.bundles.clone())
            .collect();
        let published = self.tracker.observe(bundles, Instant::now());
        let request = self.request(snapshot.secrets.get(Which::Serving));
        let mut evaluation = Evaluation {
            snapshot,
            stored,
            published,
            request,
            now: SystemTime::now(),
            decision: Decision::default(),
        };
        evaluation.decision = decide(&self.situation(&evaluation));
        evaluation
    }

    fn situation<'a>(&'a self, evaluation: &'a Evaluation) -> Situation<'a> {
        Situation {
            stored: &evaluation.stored,
            combined_for: self
                .combined_since
                .map_or(Duration::ZERO, |since| since.elapsed()),
            last_good: self.last_good.as_deref(),
            serving: self.serving.served.as_ref(),
            published: &evaluation.published,
            request: evaluation.request,
            names: &self.config.names,
            lifetimes: self.config.lifetimes,
            now: evaluation.now,
        }
    }

    fn request(&mut self, secret: Option<&Secret>) -> Option<RotationRequest> {
        match secret?.annotations().get(ROTATE)?.as_str() {
            "leaf" => Some(RotationRequest::Leaf),
            "ca" => Some(RotationRequest::Authority),
            other => {
                self.warn_once(format!(
                    "annotation {ROTATE}={other} of {} is invalid; set it to leaf or ca",
                    self.hub.secret(Which::Serving)
                ));
                None
            }
        }
    }

    /// Records the configurations that hold exactly the trusted authorities. If one of them later
    /// does not, writing it counts as a repair.
    fn note_complete(&mut self, evaluation: &Evaluation) {
        for registration in evaluation
            .snapshot
            .registrations
            .iter()
            .filter(|one| one.injected)
        {
            self.warn_once(format!(
                "{} has cert-manager's annotation, so cert-manager manages its caBundle; serve its \
                 certificate with --tls-dir, or remove the annotation",
                registration.kind
            ));
        }
        let Some(trust) = &evaluation.decision.trust else {
            return;
        };
        for registration in evaluation
            .snapshot
            .managed()
            .filter(|one| one.is_just(trust))
        {
            let held = (registration.uid.clone(), trust.clone());
            self.complete.insert(registration.kind, held);
        }
    }

    fn has_work(&self, evaluation: &Evaluation) -> bool {
        evaluation.decision.change.is_some() || self.unpublished(evaluation).next().is_some()
    }

    fn unpublished<'a>(
        &self,
        evaluation: &'a Evaluation,
    ) -> impl Iterator<Item = &'a Registration> {
        let trust = evaluation.decision.trust.as_deref();
        evaluation
            .snapshot
            .managed()
            .filter(move |one| trust.is_some_and(|trust| !one.is_just(trust)))
    }

    /// Whether the next step repairs a fault.
    fn repairs(&self, evaluation: &Evaluation) -> bool {
        evaluation.decision.repairs.is_some()
            || self
                .unpublished(evaluation)
                .any(|one| self.was_complete(one.kind, &one.uid, evaluation))
    }

    fn was_complete(&self, kind: Kind, uid: &str, evaluation: &Evaluation) -> bool {
        let held = self.complete.get(&kind);
        held.is_some_and(|(known, trust)| {
            known == uid && Some(trust) == evaluation.decision.trust.as_ref()
        })
    }

    async fn publish(&mut self, evaluation: &Evaluation) -> Result<(), RotationError> {
        let Some(trust) = &evaluation.decision.trust else {
            return Ok(());
        };
        let mut outcome = Ok(());
        let stale: Vec<_> = self.unpublished(evaluation).cloned().collect();
        for registration in stale {
            match self.hub.publish(&registration, trust).await {
                Ok(()) if self.was_complete(registration.kind, &registration.uid, evaluation) => {
                    self.repaired(Fault::CaBundle, &registration.kind.to_string());
                }
                Ok(()) => tracing::info!(
                    object = %registration.kind,
                    authorities = trust.len(),
                    "caBundle published"
                ),
                Err(error) => outcome = Err(error.into()),
            }
        }
        outcome
    }

    async fn change(&mut self, evaluation: &Evaluation) -> Result<(), RotationError> {
        let Some(change) = evaluation.decision.change else {
            return Ok(());
        };
        let changed = self.situation(evaluation).apply(change)?;
        let before = evaluation.stored.secrets();
        let fulfils = evaluation.decision.fulfils_request;
        let mut object = String::new();
        // The leaf needs an authority that is stored.
        for (which, before, after, fulfils) in [
            (
                Which::Authority,
                &before.authority,
                &changed.authority,
                false,
            ),
            (Which::Serving, &before.serving, &changed.serving, fulfils),
        ] {
            let Some(after) = after.as_ref().filter(|_| before != after || fulfils) else {
                continue;
            };
            let read = evaluation.snapshot.secrets.get(which);
            self.hub.store(which, read, after, fulfils).await?;
            object = self.hub.secret(which);
            tracing::info!(?change, object, "Secret written");
        }
        if let Some(fault) = evaluation.decision.repairs {
            self.repaired(fault, &object);
        }
        Ok(())
    }

    fn repaired(&mut self, fault: Fault, object: &str) {
        self.repair_backoff.repaired(Instant::now());
        self.serving.metrics.certificate_repaired(fault.word());
        tracing::warn!(object, reason = fault.word(), "certificates repaired");
    }

    fn warn_once(&mut self, text: String) {
        if !self.warned.contains(&text) {
            tracing::warn!(error = text, "certificates need attention");
            self.warned.insert(text);
        }
    }
}

fn rest(decision: &Decision) -> Duration {
    decision.again.unwrap_or(MAX_INTERVAL).min(MAX_INTERVAL)
}

#[cfg(test)]
mod tests {
    use causeway_certs::{Authority, CA_CERTIFICATE, Contents, Leaf, Names, Secrets};
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn contents_that_tls_refuses_are_an_error() {
        let (now, day) = (SystemTime::now(), Duration::from_secs(24 * 60 * 60));
        let authority = Authority::new("ours", day * 10, now).expect("an authority");
        let leaf = Leaf {
            common_name: "webhook".to_owned(),
            validity: day,
            ..Leaf::default()
        };
        let leaf = authority.issue(&leaf, now).expect("a leaf");
        let stored = |certificate: &str| {
            let contents = Contents::gather(|key| match key {
                CA_CERTIFICATE => Some(authority.pem().as_bytes()),
                CERTIFICATE => Some(certificate.as_bytes()),
                KEY => Some(leaf.key.as_bytes()),
                _ => None,
            });
            Stored::read(Secrets::split(&contents, false))
        };
        let metrics = Metrics::register(&mut Registry::default());
        let readiness = Readiness::default();
        let mut serving = Serving::new(Arc::new(Resolver::default()), metrics, &readiness);
        let mut serve = |stored: &Stored| {
            let served = stored.leaf(&Names::default(), now).expect("the leaf");
            serving.serve(served, stored).is_ok()
        };
        assert!(serve(&stored(&leaf.certificate)));
        // The parser of TLS is stricter about the header of a block.
        let header = "-----BEGIN CERTIFICATE-----";
        let odd = leaf.certificate.replace(header, &format!("{header}-"));
        assert!(!serve(&stored(&format!("{}{odd}", leaf.certificate))));
        assert!(serve(&stored(&leaf.certificate)));
    }
}
