//! Number of services whose providers consumers of other networks do not reach, by provider and
//! reason.

use std::collections::BTreeSet;

use causeway::domain::ClusterName;

use super::tally::LabelNotes;

/// Provider that consumers of other networks do not reach, and the reason.
type Unreached = (ClusterName, &'static str);

/// Providers of one service that consumers of other networks do not reach.
pub(crate) type UnreachedOfService = BTreeSet<Unreached>;

/// Provider and reason, and the number of services that the provider does not serve for it.
pub(crate) type UnreachedCount = (Unreached, usize);

/// Providers that consumers of other networks do not reach, by service.
pub(crate) type UnreachedNotes = LabelNotes<UnreachedOfService, Unreached>;
