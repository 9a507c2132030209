//! State of the controller, from its Lease.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::cluster::api_server::{ApiServer, RequestError};

/// Maximum age of a Lease's renewal. Exceeds any expected clock skew.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

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
        let spec = self.spec()?;
        let renewed = spec.renew_time.as_ref()?.0;
        let holder = spec.holder_identity.as_deref()?;
        let held = !holder.is_empty() && now.duration_since(renewed) <= RENEWED_WITHIN;
        held.then_some(holder)
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

    /// Returns the reason that the controller is known not to run: its Lease exists, and nobody
    /// renews it. Without the Lease the controller may use another one.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn controller_is_known_to_be_stopped_by_its_lease_alone() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
        let lease = |holder: &str, renewed: &str| {
            let spec = json!({ "holderIdentity": holder, "renewTime": renewed });
            let lease = serde_json::from_value(json!({ "spec": spec })).expect("a Lease");
            Controller::Lease(CONTROLLER_LEASE.to_owned(), Some(lease))
        };
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
