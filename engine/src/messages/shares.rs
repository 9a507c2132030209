//! Sentences about shares of traffic.

use causeway::api::labels;
use causeway::domain::ClusterName;

use super::{Diagnosis, NAMED_AT_MOST, first};
use crate::plan::copies::DesiredCopies;
use crate::plan::remark::some;
use crate::plan::shares::ProviderShare;
use crate::reasons::Reason;

/// Describes shares that deviate from the wanted ones and consumers in which shares are not
/// applied, from the copies of each consumer: of all providers, or of the one that is named.
pub(crate) fn remarks<'a>(
    copies: impl Iterator<Item = (&'a ClusterName, &'a DesiredCopies)>,
    provider: Option<&ClusterName>,
) -> Vec<String> {
    let (mut deviating, mut lacking) = (Vec::new(), Vec::new());
    for (consumer, copies) in copies {
        let Some(shares) = &copies.shares else {
            continue;
        };
        deviating.extend(shares.coarsest(provider).map(|share| (consumer, share)));
        lacking.extend((!shares.is_applied).then_some(consumer));
    }
    let coarse = some(deviating).map(|all| coarse(&all));
    let not_applied = some(lacking).map(|all| not_applied(&all));
    coarse.into_iter().chain(not_applied).collect()
}

/// Describes shares that deviate from the wanted ones: `member3: new gets 12% of 8 endpoints where
/// 10% is wanted: 1 of 1 ready`.
fn coarse(all: &[(&ClusterName, &ProviderShare)]) -> String {
    let most = all.iter().max_by_key(|(_, share)| share.deviation());
    let sentence = most.map(|(consumer, share)| {
        format!(
            "in {consumer} {} gets {} of {} endpoints where {} is wanted: {} of {} ready",
            share.name,
            percent(share.real()),
            share.of,
            percent(share.wanted),
            share.chosen,
            share.ready
        )
    });
    let more = match all.len().saturating_sub(1) {
        0 => String::new(),
        count => format!(" (and in {count} more)"),
    };
    format!("{}{more}", sentence.unwrap_or_default())
}

const NOT_APPLIED: &str = "is not applied in";

/// Describes consumers in which shares are not applied.
fn not_applied(consumers: &[&ClusterName]) -> String {
    format!(
        "{} {NOT_APPLIED} {}: the data plane there uses no standby endpoints",
        labels::SHARE,
        first(consumers, NAMED_AT_MOST)
    )
}

/// Returns the part of Ready's message that describes consumers in which shares are not applied;
/// `None` if there are none.
pub fn unapplied_shares(ready: &str) -> Option<&str> {
    let start = ready.find(&format!("{} {NOT_APPLIED}", labels::SHARE))?;
    ready.get(start..)?.split("; ").next()
}

/// Reports a standby endpoint beyond the share of its provider in a consumer.
pub(super) fn beyond(consumer: &ClusterName, share: Option<&ProviderShare>) -> Diagnosis {
    let of = share.map_or_else(String::new, |share| {
        format!(" of {}", percent(share.wanted))
    });
    let message =
        format!("{consumer} has it as standby: beyond the share{of}, used where no other is ready");
    Diagnosis::new(Reason::Standby, message)
}

/// Writes hundredths of a percent as a whole percentage.
fn percent(hundredths: u64) -> String {
    format!("{}%", (hundredths + 50) / 100)
}
