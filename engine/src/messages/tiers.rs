//! Sentences about failover tiers: Events of promotions and demotions, and parts of conditions.

use std::fmt;

use causeway::api::labels;
use causeway::domain::ClusterName;

use super::names;
use crate::model::ObjectEvent;
use crate::plan::providers::Readiness;
use crate::plan::tiers::{HOLD, TierShift, TierState, Tiers};
use crate::reasons::Reason;

impl Tiers {
    /// Returns the Event of a promotion or demotion of the endpoints of `provider` in a consumer;
    /// `None` if their role did not change.
    pub(crate) fn change(
        &self,
        consumer: &ClusterName,
        provider: &ClusterName,
        was_standby: bool,
    ) -> Option<ObjectEvent> {
        let (reason, note) = match self.shift(provider, was_standby)? {
            TierShift::Promoted(tier) => (
                Reason::Promoted,
                format!("{consumer} uses {tier}: {}", self.why_promoted()),
            ),
            TierShift::Demoted => (
                Reason::Demoted,
                format!("{consumer}: {}", self.why_demoted(provider)),
            ),
            TierShift::Standby(tier) => (
                Reason::Demoted,
                format!("{consumer} has {tier} as standby: {}", self.why_standby()),
            ),
        };
        Some(ObjectEvent {
            warning: false,
            reason: reason.into(),
            note,
        })
    }

    /// Describes why the farthest active tier is active: `local has 1 of 4 endpoints ready, fewer
    /// than 50%`.
    pub(crate) fn why_promoted(&self) -> String {
        let active = self.active();
        if let Some(since) = self.enough_since {
            let nearer = &active[..active.len().saturating_sub(1)];
            let until = since.after(HOLD);
            return format!(
                "{} since {since:.0}; failback at {until:.0}",
                shares(nearer)
            );
        }
        match active.split_last() {
            Some((_, nearer)) if !nearer.is_empty() => {
                let least = self.min_ready.map(|least| format!(", fewer than {least}"));
                format!("{}{}", shares(nearer), least.unwrap_or_default())
            }
            _ => "it is the nearest tier".to_owned(),
        }
    }

    /// Describes why the farther tiers are not active: `local has 4 of 4 endpoints ready`.
    pub(crate) fn why_standby(&self) -> String {
        shares(self.active().last())
    }

    /// Describes why the endpoints of a provider that is in no tier are standby endpoints.
    pub(crate) fn why_demoted(&self, provider: &ClusterName) -> String {
        match self.no_path.get(provider) {
            Some(since) => format!(
                "no endpoint of {provider} answers causeway-agent since {since:.0}; its endpoints \
                 are used where no other is ready"
            ),
            None => format!(
                "{provider} cannot be reached; its endpoints are used where no other is ready"
            ),
        }
    }

    /// Describes tiers that no provider is in, after the names of the consumers:
    /// `mcs.causeway.dev/prefer names only tiers that no provider is in (zone)`.
    pub(crate) fn why_unused(&self) -> String {
        format!(
            "{} names only tiers that no provider is in ({})",
            labels::PREFER,
            names(self.all.iter().map(TierState::name))
        )
    }
}

/// Describes tiers: `local has 1 of 4 endpoints ready, region 0 of 2 endpoints ready`.
fn shares<'a>(states: impl IntoIterator<Item = &'a TierState>) -> String {
    let mut verb = " has";
    names(states.into_iter().map(|state| {
        let name = state.name();
        let has = std::mem::take(&mut verb);
        let Readiness {
            ready,
            total,
            unfit,
        } = state.readiness;
        match (total, state.is_known) {
            (_, false) => format!("{name} is not known yet"),
            (0, _) if unfit > 0 => {
                format!("{name}{has} no endpoints of the Service's ports and address families")
            }
            (0, _) => format!("{name}{has} no endpoints"),
            _ => format!("{name}{has} {ready} of {total} endpoints ready"),
        }
    }))
}

impl TierState {
    /// Returns the word of the tier, `all` where all providers are alike.
    pub(crate) fn name(&self) -> String {
        let tier = self.tier.as_ref();
        tier.map_or_else(|| "all".to_owned(), ToString::to_string)
    }
}

/// Writes `region (member2, member3)`.
impl fmt::Display for TierState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name(), names(&self.clusters))
    }
}
