//! Decision about each copy in each consumer, with its reason.
//!
//! A copy is withdrawn only by a [`Withdraw`], which names a request or holds a [`Proof`]. A copy
//! that no rule decides about is held.

use super::WantedCopy;
use crate::evidence::Proof;
use crate::plan::provider_use::Unused;

/// Decision about one copy in one consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyDecision<'a> {
    /// The consumer holds this copy: it is created, replaced, or stays.
    Keep(&'a WantedCopy),
    /// An existing copy stays as it is, and none is created.
    Hold(Hold),
    /// An existing copy is deleted, and none is created.
    Withdraw(Withdraw),
}

/// Reason why an existing copy stays as it is, and none is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The endpoints of the provider are unknown.
    ProviderUnknown,
    /// The provider has more slices than are copied.
    TooManySlices,
    /// The source slice cannot be copied at present.
    SliceUnusable,
    /// The entry by which the consumer's network reaches the provider is unknown.
    EntryUnknown,
    /// The ServiceImport that owns the copies does not exist yet.
    ImportMissing,
    /// An exporter that is recorded is unknown, and with it what is to be imported.
    ExporterUnknown,
    /// Karmada's own controllers manage the service, or may.
    LeftToKarmada,
    /// No rule has decided. This is a fault of causeway, which a metric counts.
    Undecided,
}

/// Reason why an existing copy is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdraw {
    /// An object that a person or the hub's administrator wrote requests it.
    Requested(Request),
    /// The state of a member requires it, and was observed.
    Observed(Observation, Proof),
}

/// Request by which a copy is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The cluster does not consume the service, or nothing exposes the service.
    NotConsumer,
    /// The cluster does not provide the service, or the copy is of the consumer's own endpoints.
    NotProvider,
    /// Nothing that the cluster provides is used.
    Unused(Unused),
    /// No tier of the consumer includes the provider.
    NotPreferred,
    /// The provider is of another network, so its entry takes the place of the copy.
    OtherNetwork,
}

/// Observed state by which a copy is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    /// The provider has no such slice.
    SourceGone,
    /// The provider has the slice, and its addresses are neither IPv4 nor IPv6.
    AddressType,
    /// Slices that Kubernetes maintains hold all endpoints of the slice.
    Redundant,
    /// The slice has none of the ports that the consumer's Service offers.
    NoPort,
    /// The cluster exports no such Service.
    NotExported,
    /// Another Service has the name of the one that receives the endpoints.
    ServiceConflict,
    /// Karmada's slice in the consumer holds the endpoints.
    HeldByKarmada,
    /// The Service allows no entry from the consumer's network.
    NoEntry,
}

/// Decision about copies that are not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    Hold(Hold),
    Withdraw(Withdraw),
}

impl Ruling {
    pub(super) fn requested(request: Request) -> Self {
        Self::Withdraw(Withdraw::Requested(request))
    }

    pub(super) fn is_hold(self) -> bool {
        matches!(self, Self::Hold(_))
    }
}

impl From<Ruling> for CopyDecision<'_> {
    fn from(ruling: Ruling) -> Self {
        match ruling {
            Ruling::Hold(why) => Self::Hold(why),
            Ruling::Withdraw(why) => Self::Withdraw(why),
        }
    }
}

/// Decision about the copies of one provider of which none is wanted by name.
#[derive(Clone, Copy, Debug)]
pub(super) enum OfProvider {
    /// The slices of the provider are known, so the source of such a copy is gone.
    Known(Proof),
    /// The same for all copies of the provider.
    All(Ruling),
}

/// Decision about the copies of clusters that the plan does not know as providers.
#[derive(Clone, Copy, Debug)]
pub(super) enum OfOthers {
    /// The same for all of them.
    All(Ruling),
    /// They are withdrawn from each cluster of which it is known that it exports no such Service.
    NotExporting,
}
