//! Whether the controller runs, by its Lease.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;

use crate::args;
use crate::ask::{ApiServer, AskError};

/// A Lease that was not renewed for so long is nobody's, whatever clocks differ by.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Where to look for more.
pub(crate) const LOOK: &str = "kubectl -n causeway-system get pods; the log of causeway-controller, and its /readyz, say more";

/// The Lease of the controller.
#[derive(Debug)]
pub(crate) enum Controller {
    /// It has none, or the person may not see it.
    NotAsked,
    /// The Lease of that name, as it is.
    Lease(String, Option<Box<Lease>>),
}

impl Controller {
    /// Reads the Lease.
    pub(crate) async fn read(hub: &ApiServer, lease: &args::Lease) -> Result<Self, AskError> {
        let Some((namespace, name)) = &lease.0 else {
            return Ok(Self::NotAsked);
        };
        let leases: Api<Lease> = Api::namespaced(hub.client.clone(), namespace);
        match hub.ask(leases.get_opt(name)).await {
            Ok(lease) => Ok(Self::Lease(
                format!("{namespace}/{name}"),
                lease.map(Box::new),
            )),
            Err(AskError::NotAllowed { .. }) => Ok(Self::NotAsked),
            Err(error) => Err(error),
        }
    }

    /// Whether there is one.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::Lease(_, Some(_)))
    }

    /// Who holds it, if anybody who renewed it lately.
    pub(crate) fn holder(&self, now: Timestamp) -> Option<&str> {
        let Self::Lease(_, Some(lease)) = self else {
            return None;
        };
        let spec = lease.spec.as_ref()?;
        let renewed = spec.renew_time.as_ref()?.0;
        let holder = spec.holder_identity.as_deref()?;
        let held = !holder.is_empty() && now.duration_since(renewed) <= RENEWED_WITHIN;
        held.then_some(holder)
    }

    /// Since when it is held by whoever holds it.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let Self::Lease(_, Some(lease)) = self else {
            return None;
        };
        Some(lease.spec.as_ref()?.acquire_time.as_ref()?.0)
    }

    /// Why the controller seems not to run.
    pub(crate) fn trouble(&self, now: Timestamp) -> Option<String> {
        let Self::Lease(name, lease) = self else {
            return None;
        };
        let Some(lease) = lease else {
            return Some(format!(
                "the hub has no Lease {name}: causeway-controller has never run, or with another --lease"
            ));
        };
        if self.holder(now).is_some() {
            return None;
        }
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
        Some(
            match (holder.filter(|holder| !holder.is_empty()), renewed) {
                (Some(holder), Some(renewed)) => format!(
                    "causeway-controller does not run: {holder} renewed Lease {name} last at {:.0}",
                    renewed.0
                ),
                _ => format!("causeway-controller does not run: nobody holds Lease {name}"),
            },
        )
    }
}
