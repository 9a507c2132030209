//! What the controller was started with.

use std::time::Duration;

use causeway::domain::Unreachable;
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};

use super::provider_use::STANDBY_AFTER;
use crate::index::quota::Quota;
use crate::seal::Seal;

/// What the controller was started with, as far as planning is concerned.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces that are left alone.
    pub protection: Protection,
    /// How long the last state is held when the hub's Service, or an exposed port of it, goes away.
    pub service_grace: Duration,
    /// After how long out of reach the endpoints of a member are withdrawn; `None` for never.
    pub provider_ttl: Option<Duration>,
    /// What becomes of the endpoints of a provider that cannot be reached, where a service does not say it.
    pub unreachable: Unreachable,
    /// How long a provider is out of reach before its endpoints are standby endpoints, where that is asked for.
    pub standby_after: Duration,
    /// Whether what MultiClusterServices expose is shown to tools of the clusterset too, as ServiceExports and ServiceImports.
    pub publish_exports: bool,
    /// What one member may export.
    pub quota: Quota,
    /// By what it is known since when exports count; without it their creation decides.
    pub seal: Option<Seal>,
}

/// As a controller has them that is started without flags, and without a seal.
impl Default for Settings {
    fn default() -> Self {
        Self {
            protection: Protection::new(DEFAULT_NAMESPACE, []),
            service_grace: Duration::from_secs(5 * 60),
            provider_ttl: None,
            unreachable: Unreachable::Keep,
            standby_after: STANDBY_AFTER,
            publish_exports: false,
            quota: Quota::default(),
            seal: None,
        }
    }
}
