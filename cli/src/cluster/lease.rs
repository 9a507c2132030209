//! State of the controller, from its Lease.

use std::time::Duration;

use http::{HeaderMap, Request, header};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use tokio::time::Instant;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::wait;
use crate::term::exit::Failure;

/// Maximum age of a Lease's renewal. Exceeds any expected clock skew.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Time in which a controller that runs renews its Lease at least once.
const RENEWED_EVERY: Duration = Duration::from_secs(12);

/// Commands for further diagnosis.
pub(crate) const REMEDY: &str =
    "kubectl -n causeway-system get pods; see the log of causeway-controller and its /readyz";

/// Namespace and name of the controller's Lease. `None` for a controller without a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseName(pub Option<(String, String)>);

/// Lease of the controller.
#[derive(Debug)]
pub(crate) enum Controller {
    /// The controller runs without a Lease.
    NoLease,
    /// The user may not read the Lease.
    Unknown,
    /// Name of the Lease, and the Lease if it exists.
    Lease(String, Option<Box<Lease>>),
}

/// Lease that the manifests give the controller.
pub(crate) const CONTROLLER_LEASE: &str = "causeway-system/causeway-controller";

impl Controller {
    /// Reads [`CONTROLLER_LEASE`].
    pub(crate) async fn of_manifests(hub: &ApiServer) -> Result<Self, RequestError> {
        let lease = CONTROLLER_LEASE.split_once('/');
        let lease = lease.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        Self::read(hub, &LeaseName(lease)).await
    }

    /// Reads the Lease of the controller.
    pub(crate) async fn read(hub: &ApiServer, lease: &LeaseName) -> Result<Self, RequestError> {
        let Some((namespace, name)) = &lease.0 else {
            return Ok(Self::NoLease);
        };
        match hub.get::<Lease>(hub.within(namespace), name).await {
            Ok(lease) => Ok(Self::Lease(
                format!("{namespace}/{name}"),
                lease.map(Box::new),
            )),
            Err(RequestError::NotAllowed { .. }) => Ok(Self::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Whether the Lease exists.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::Lease(_, Some(_)))
    }

    /// Returns the holder of the Lease if it was renewed within [`RENEWED_WITHIN`].
    pub(crate) fn holder(&self, now: Timestamp) -> Option<&str> {
        let (holder, renewed) = self.renewal()?;
        (now.duration_since(renewed) <= RENEWED_WITHIN).then_some(holder)
    }

    /// Returns the holder of the Lease, and the time of its last renewal.
    fn renewal(&self) -> Option<(&str, Timestamp)> {
        let spec = self.spec()?;
        let renewed = spec.renew_time.as_ref()?.0;
        let holder = spec.holder_identity.as_deref()?;
        (!holder.is_empty()).then_some((holder, renewed))
    }

    /// Returns the time at which the current holder acquired the Lease.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        Some(self.spec()?.acquire_time.as_ref()?.0)
    }

    fn spec(&self) -> Option<&LeaseSpec> {
        match self {
            Self::Lease(_, Some(lease)) => lease.spec.as_ref(),
            _ => None,
        }
    }

    /// Returns the reason that the controller is known not to run: its Lease exists, and by the
    /// given time, that of [`now`], nobody renews it. [`Renewals`] can disprove it. Without the
    /// Lease the controller may use another one.
    pub(crate) fn stopped(&self, now: Timestamp) -> Option<String> {
        self.problem(now).filter(|_| self.is_known())
    }

    /// Returns the reason that the controller seems not to run, or `None`.
    pub(crate) fn problem(&self, now: Timestamp) -> Option<String> {
        let Self::Lease(name, lease) = self else {
            return None;
        };
        if lease.is_none() {
            return Some(format!(
                "Lease {name} not found on the hub: causeway-controller has never run, or uses another --lease"
            ));
        }
        if self.holder(now).is_some() {
            return None;
        }
        let spec = self.spec();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
        Some(
            match (holder.filter(|holder| !holder.is_empty()), renewed) {
                (Some(holder), Some(renewed)) => format!(
                    "causeway-controller is not running: {holder} last renewed Lease {name} at {:.0}",
                    renewed.0
                ),
                _ => format!("causeway-controller is not running: nobody holds Lease {name}"),
            },
        )
    }
}

/// Maximum length of a Date header that is parsed, in bytes.
const MAX_DATE: usize = 64;

/// Returns the time of the hub, by which Leases are evaluated, from header Date of `GET /version`.
/// Returns that of this machine if the hub reports none.
pub(crate) async fn now(hub: &ApiServer) -> Timestamp {
    let local = Timestamp::now;
    let Ok(request) = Request::get("/version").body(Body::empty()) else {
        return local();
    };
    let answer = hub.request(hub.client.send(request)).await.ok();
    answer
        .and_then(|answer| date(answer.headers()))
        .unwrap_or_else(local)
}

/// Returns the time of a Date header.
fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = (date.len() <= MAX_DATE).then_some(date)?;
    DateTimeParser::new().parse_timestamp(date).ok()
}

/// Renewals of the controller's Lease that consecutive reads show. They prove that the controller
/// runs, although the clock of the hub may differ from the controller's.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    /// Time of the renewal in the last read.
    last: Option<Timestamp>,
    /// Time of the read that showed the newest renewal after another one.
    observed: Option<Instant>,
}

impl Renewals {
    /// Records a read of the Lease. Returns true if the Lease has a holder, and a renewal was
    /// observed within [`RENEWED_WITHIN`].
    pub(crate) fn observe(&mut self, controller: &Controller, now: Instant) -> bool {
        let Some((_, renewed)) = controller.renewal() else {
            *self = Self::default();
            return false;
        };
        let before = self.last.replace(renewed);
        if before.is_some_and(|before| before < renewed) {
            self.observed = Some(now);
        }
        let within = RENEWED_WITHIN.unsigned_abs();
        self.observed
            .is_some_and(|observed| now.duration_since(observed) <= within)
    }
}

/// Reads the Lease of the manifests' controller every second until the controller is not known to
/// be stopped, or until the deadline. Returns the last read, and whether `renewals` prove that the
/// controller runs.
pub(crate) async fn leader(
    hub: &ApiServer,
    renewals: &mut Renewals,
    deadline: Instant,
) -> Result<(Controller, bool), Failure> {
    let mut last = (Controller::Unknown, false);
    wait::none_left(deadline, "", async || {
        let controller = Controller::of_manifests(hub).await?;
        let runs = renewals.observe(&controller, Instant::now());
        let is_stopped = !runs && controller.stopped(now(hub).await).is_some();
        last = (controller, runs);
        Ok(is_stopped.then_some("causeway-controller to run"))
    })
    .await?;
    Ok(last)
}

/// Waits until the controller of the manifests is not known to be stopped. Returns the reason that
/// it is known not to run at the deadline, or after [`RENEWED_EVERY`] if that is later: where the
/// hub's clock is ahead, two reads and a renewal in between are needed.
pub(crate) async fn stopped(hub: &ApiServer, deadline: Instant) -> Result<Option<String>, Failure> {
    let deadline = deadline.max(Instant::now() + RENEWED_EVERY);
    let (controller, runs) = leader(hub, &mut Renewals::default(), deadline).await?;
    Ok(controller.stopped(now(hub).await).filter(|_| !runs))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::server;

    fn lease(holder: &str, renewed: &str) -> Controller {
        let spec = json!({ "holderIdentity": holder, "renewTime": renewed });
        let lease = serde_json::from_value(json!({ "spec": spec })).expect("a Lease");
        Controller::Lease(CONTROLLER_LEASE.to_owned(), Some(lease))
    }

    #[tokio::test]
    async fn time_is_that_of_the_hub_if_it_reports_one() {
        let hub_time = "2001-02-03T04:05:06Z".parse().expect("a time");
        let long = format!("Sat, 03 Feb 2001 04:05:06 GMT{}", " ".repeat(MAX_DATE));
        for (code, date, is_of_hub) in [
            (200, Some("Sat, 03 Feb 2001 04:05:06 GMT"), true),
            (403, Some("Sat, 03 Feb 2001 04:05:06 GMT"), true),
            (200, Some(long.as_str()), false),
            (200, Some("yesterday"), false),
            (200, None, false),
        ] {
            let value = date.map(ToOwned::to_owned);
            let answers = service_fn(move |request: Request<Body>| {
                assert_eq!(request.uri().path(), "/version");
                let mut answer = http::Response::builder().status(code);
                if let Some(value) = &value {
                    answer = answer.header(header::DATE, value);
                }
                std::future::ready(answer.body(Body::empty()))
            });
            let hub = server(Side::Hub, kube::Client::new(answers, "default"));
            let before = Timestamp::now();
            let now = now(&hub).await;
            assert_eq!(now == hub_time, is_of_hub, "{date:?}");
            assert!(is_of_hub || now >= before, "{date:?}: {now}");
        }
    }

    #[test]
    fn renewed_lease_proves_that_the_controller_runs() {
        let lease = |holder: &str, second: u32| {
            lease(holder, &format!("2026-11-21T00:00:{second:02}.000000Z"))
        };
        let start = Instant::now();
        let mut renewals = Renewals::default();
        for (seconds, controller, runs) in [
            (0, lease("one", 10), false),
            (1, lease("one", 10), false),
            (4, lease("one", 14), true),
            (64, lease("one", 14), true),
            (65, lease("one", 14), false),
            (66, lease("one", 5), false),
            (67, lease("two", 20), true),
            (68, lease("", 21), false),
            (69, lease("one", 22), false),
            (73, lease("one", 26), true),
            (74, Controller::Unknown, false),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(renewals.observe(&controller, now), runs, "{seconds} s");
        }
    }

    #[test]
    fn controller_is_known_to_be_stopped_by_its_lease_alone() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
        let lately = "2026-11-20T23:59:55.000000Z";
        for (controller, is_stopped) in [
            (Controller::NoLease, false),
            (Controller::Unknown, false),
            (Controller::Lease("x".to_owned(), None), false),
            (lease("one", lately), false),
            (lease("", lately), true),
            (lease("one", "2026-11-20T00:00:00.000000Z"), true),
        ] {
            let stopped = controller.stopped(now).is_some();
            assert_eq!(stopped, is_stopped, "{controller:?}");
        }
    }
}
