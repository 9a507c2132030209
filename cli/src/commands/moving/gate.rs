//! Detection of running MultiClusterService controllers of Karmada, by their response to a change.
//!
//! Without a change the controllers write nothing, so silence alone is no proof. A changed
//! annotation of a MultiClusterService makes them change the Work of the object in each ready
//! provider (mcs_controller.go: the update predicate, then propagateMultiClusterService). Other
//! controllers of Karmada process these Works independently of the gate, but change only status and
//! labels.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::{MultiClusterService, labels};
use causeway::domain::ServiceKey;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::cluster::api_server::{ApiServer, RequestError, root_cause};
use crate::cluster::karmada::{self, Work, is_executed, selector, work_kind};
use crate::cluster::lease::{self, Controller, LeaseName};
use crate::cluster::objects::{self, Run};

/// Lease of the leader of karmada-controller-manager
/// (`cmd/controller-manager/app/options/options.go`).
pub(crate) const LEASE: (&str, &str) = ("karmada-system", "karmada-controller-manager");
/// Maximum time in which a new leader of karmada-controller-manager lists the watched objects.
const SETTLED_AFTER: Duration = Duration::from_secs(30);
/// Maximum time of the initial list of Works.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

/// Observed state of Karmada's MultiClusterService controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Running: the controllers wrote this Work.
    On(String),
    /// Not observed: the controllers did not respond.
    Off,
}

/// UID and generation of the initially listed Works, by namespace and name.
#[derive(Debug, Default)]
struct Baseline(BTreeMap<String, (String, i64)>);

impl Baseline {
    fn note(&mut self, work: &Work) {
        let generation = work.0.generation.unwrap_or_default();
        self.0
            .insert(work.id(), (work.uid().to_owned(), generation));
    }

    /// Whether the Work is new or has a changed spec. A Work that Karmada also collects for a
    /// ServiceExport may change for other reasons and never counts.
    fn is_changed(&self, work: &Work) -> bool {
        let generation = work.0.generation.unwrap_or_default();
        let before = self.0.get(&work.id());
        let same = before.is_some_and(|(uid, before)| uid == work.uid() && *before >= generation);
        !same && work.others().is_none()
    }
}

/// Watches the Works of all MultiClusterServices for `window`, from the time of the probes. Without
/// probes only spontaneous writes of Karmada are observed.
///
/// # Errors
/// [`RequestError`] if the Works cannot be watched or a probe cannot be set.
pub(crate) async fn observe(
    hub: &ApiServer,
    probes: &[ServiceKey],
    window: Duration,
) -> Result<Gate, RequestError> {
    let api: Api<PartialObjectMeta<DynamicObject>> = hub.api_of(&work_kind(), None);
    let config = watcher::Config::default().labels(&selector(None));
    let events = watcher(api, config).default_backoff();
    pin_mut!(events);
    let mut baseline = Baseline::default();
    let mut deadline = Instant::now() + LISTED_WITHIN;
    let mut listed = false;
    loop {
        let event = match timeout_at(deadline, events.next()).await {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) if !listed => return Err(unlisted(hub, &root_cause(&error))),
            Ok(Some(Err(_))) => continue,
            Ok(None) | Err(_) if listed => return written_since(hub, &baseline).await,
            Ok(None) | Err(_) => return Err(unlisted(hub, "its Works were not listed in time")),
        };
        match event {
            Event::InitApply(work) if !listed => baseline.note(&read(work)),
            Event::InitApply(work) | Event::Apply(work) => {
                let work = read(work);
                if is_executed(&work) && baseline.is_changed(&work) {
                    return Ok(Gate::On(work.id()));
                }
            }
            Event::InitDone if !listed => {
                listed = true;
                for key in probes {
                    probe(hub, key, Some(&Timestamp::now().to_string())).await?;
                }
                deadline = Instant::now() + window;
            }
            Event::Init | Event::InitDone | Event::Delete(_) => {}
        }
    }
}

/// Compares the Works with the baseline by another list: a watch that may not be opened, or that
/// broke, shows no change.
async fn written_since(hub: &ApiServer, baseline: &Baseline) -> Result<Gate, RequestError> {
    let works = karmada::works(hub, None).await?;
    let works = works.ok_or_else(|| unlisted(hub, "they may not be listed any more"))?;
    let changed = works.iter().find(|work| baseline.is_changed(work));
    Ok(changed.map_or(Gate::Off, |work| Gate::On(work.id())))
}

fn unlisted(hub: &ApiServer, why: &str) -> RequestError {
    RequestError::Unreachable {
        side: hub.side,
        address: hub.url(),
        why: format!("watching works.work.karmada.io failed: {why}"),
    }
}

fn read(work: PartialObjectMeta<DynamicObject>) -> Work {
    Work(work.metadata)
}

/// Sets or removes the annotation that triggers Karmada's controllers. A deleted object is no
/// error.
pub(crate) async fn probe(
    hub: &ApiServer,
    key: &ServiceKey,
    value: Option<&str>,
) -> Result<(), RequestError> {
    let services = hub.within::<MultiClusterService>(&key.namespace);
    let patch = json!({ "metadata": { "annotations": { labels::PROBE: value } } });
    match objects::merge(hub, &services, &key.name, &patch, Run::Real).await {
        Err(RequestError::NotFound { .. }) => Ok(()),
        probed => probed,
    }
}

/// Returns the kubectl command that sets the probe.
pub(crate) fn command(key: &ServiceKey) -> String {
    format!(
        "kubectl -n {} annotate mcs {} --overwrite {}=\"$(date)\"",
        key.namespace,
        key.name,
        labels::PROBE
    )
}

/// Ability of karmada-controller-manager to respond, according to its Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Not running, with the reason. Its silence proves nothing about the gate.
    Silent(String),
    /// Running, or without a Lease. A new leader may need the given time to list objects before it
    /// responds.
    Answers(Duration),
    /// Unknown: the user may not get the Lease.
    Unknown,
}

/// Reads the Lease of karmada-controller-manager.
pub(crate) async fn manager(hub: &ApiServer) -> Result<Manager, RequestError> {
    let (namespace, name) = LEASE;
    let lease = LeaseName(Some((namespace.to_owned(), name.to_owned())));
    let lease = Controller::read(hub, &lease).await?;
    Ok(Manager::of(&lease, lease::now(hub).await))
}

impl Manager {
    /// Whether the observation is no evidence of the gate: silence of a manager that may not run.
    pub(crate) fn leaves_unknown(&self, gate: &Gate) -> bool {
        *self == Self::Unknown && *gate == Gate::Off
    }

    fn of(lease: &Controller, now: Timestamp) -> Self {
        if matches!(lease, Controller::Unknown) {
            return Self::Unknown;
        }
        if lease.is_known() && lease.holder(now).is_none() {
            let (namespace, name) = LEASE;
            return Self::Silent(format!(
                "karmada-controller-manager is not running: nobody renewed Lease {namespace}/{name} within a minute"
            ));
        }
        let led = lease.since().map(|since| now.duration_since(since));
        let led = led.and_then(|led| Duration::try_from(led).ok());
        let rest = led.map_or(Duration::ZERO, |led| SETTLED_AFTER.saturating_sub(led));
        Self::Answers(rest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(uid: &str, generation: i64, collected_by: Option<&str>) -> Work {
        let mut work = json!({
            "namespace": "karmada-es-a", "name": "foo-1", "uid": uid, "generation": generation, "labels": {},
        });
        if let Some(by) = collected_by {
            work["labels"][labels::WORK_COLLECTED_BY] = json!(by);
        }
        Work(serde_json::from_value(work).expect("metadata"))
    }

    #[test]
    fn a_work_that_is_made_or_has_another_spec_is_karmadas_answer_and_no_other_change_is() {
        let mut baseline = Baseline::default();
        baseline.note(&work("u1", 2, None));
        for (now, changed) in [
            (work("u1", 2, None), false),
            (work("u1", 3, None), true),
            (work("u2", 1, None), true),
            (work("u1", 3, Some("MultiClusterService")), true),
            (
                work("u1", 3, Some("MultiClusterService.ServiceExport")),
                false,
            ),
        ] {
            assert_eq!(baseline.is_changed(&now), changed, "{now:?}");
        }
        assert!(Baseline::default().is_changed(&work("u1", 1, None)));
    }

    #[test]
    fn silence_without_the_lease_leaves_the_gate_unknown() {
        let on = Gate::On("karmada-es-a/foo".to_owned());
        for (manager, gate, is_unknown) in [
            (Manager::Unknown, Gate::Off, true),
            (Manager::Unknown, on, false),
            (Manager::Answers(Duration::ZERO), Gate::Off, false),
        ] {
            assert_eq!(manager.leaves_unknown(&gate), is_unknown, "{manager:?}");
        }
    }

    #[test]
    fn a_manager_that_does_not_lead_says_nothing_and_one_that_has_just_begun_is_given_time() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
        let lease = |holder: &str, acquired: &str, renewed: &str| {
            let lease = json!({ "spec": { "holderIdentity": holder, "acquireTime": acquired, "renewTime": renewed } });
            let lease = serde_json::from_value(lease).expect("a Lease");
            Controller::Lease(
                "karmada-system/karmada-controller-manager".to_owned(),
                Some(lease),
            )
        };
        let (day, lately) = ("2026-11-20T00:00:00.000000Z", "2026-11-20T23:59:55.000000Z");
        assert_eq!(Manager::of(&Controller::Unknown, now), Manager::Unknown);
        for (lease, rest) in [
            (Controller::Lease("x".to_owned(), None), Some(0)),
            (lease("one", day, lately), Some(0)),
            (
                lease("one", "2026-11-20T23:59:48.000000Z", lately),
                Some(18),
            ),
            (lease("", day, lately), None),
            (lease("one", day, day), None),
        ] {
            let rest = rest.map(Duration::from_secs);
            let manager = Manager::of(&lease, now);
            match (&manager, rest) {
                (Manager::Answers(reported), Some(rest)) => assert_eq!(*reported, rest),
                (Manager::Silent(_), None) => {}
                _ => panic!("{manager:?}"),
            }
        }
    }
}
