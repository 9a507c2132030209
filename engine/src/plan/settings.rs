//! Settings of the planner.

use std::time::Duration;

use causeway::domain::Unreachable;
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};

use crate::observed::quota::Quota;
use crate::seal::Seal;

/// Time for which a provider is unreachable until its endpoints are standby endpoints, where that
/// is requested. Two probes find a silent provider within 30 s, so together it is little more than
/// a minute.
pub const STANDBY_AFTER: Duration = Duration::from_secs(40);

/// Settings with which the controller was started, for planning.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces and services that causeway leaves alone.
    pub protection: Protection,
    /// Time for which the last state is held after the hub's Service, or an exposed port of it, is
    /// removed.
    pub service_grace: Duration,
    /// Time out of reach after which the endpoints of a member are withdrawn; `None` for never.
    pub provider_ttl: Option<Duration>,
    /// Treatment of the endpoints of unreachable providers, for services that request none.
    pub unreachable: Unreachable,
    /// Time out of reach after which the endpoints of a provider become standby endpoints, where
    /// that is requested.
    pub standby_after: Duration,
    /// Whether services that MultiClusterServices expose are also published to tools of the
    /// clusterset, as ServiceExports and ServiceImports.
    pub publish_exports: bool,
    /// Maximum that one member exports.
    pub quota: Quota,
    /// Seal that proves the recorded times since which exports count. Without it their creation
    /// times decide.
    pub seal: Option<Seal>,
}

/// Returns the settings of a controller that is started without flags, and without a seal.
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
