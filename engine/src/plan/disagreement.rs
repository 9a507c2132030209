//! Writers of a provider that disagree on which endpoints are ready.
//!
//! Two writers of the same endpoints do not write at the same moment, so a disagreement is reported
//! only if it lasts. The slices that Kubernetes keeps decide at all times.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::domain::ServiceKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::copies::SliceOfProvider;
use super::desired::Desired;
use super::providers::Disagreement;
use crate::model::TimePoint;
use crate::observed::Index;

/// Time after which a disagreement is reported.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the time at which the next disagreement is old enough to be reported.
pub(super) fn again_at(
    index: &Index,
    key: &ServiceKey,
    desired: &Desired,
    now: TimePoint,
) -> Option<TimePoint> {
    let all = desired
        .each_copies()
        .flat_map(|(_, _, copies)| copies.disagreements());
    let ends = all.map(|(slice, _)| patience_end(index, key, slice, now));
    ends.filter(|end| *end > now).min()
}

/// Lists the lasting disagreements. A disagreement that the stored condition reports stays reported
/// as long as it holds, also after a restart.
pub(crate) fn lasting<'a>(
    index: &Index,
    key: &ServiceKey,
    all: impl Iterator<Item = (SliceOfProvider<'a>, &'a Disagreement)>,
    stored: Option<&Condition>,
    now: TimePoint,
) -> Vec<(SliceOfProvider<'a>, &'a Disagreement)> {
    let all: BTreeMap<_, _> = all.collect();
    let lasts = |(slice, disagreement): &(SliceOfProvider<'_>, &Disagreement)| {
        patience_end(index, key, *slice, now) <= now || disagreement.is_reported(*slice, stored)
    };
    all.into_iter().filter(lasts).collect()
}

fn patience_end(
    index: &Index,
    key: &ServiceKey,
    (provider, slice): SliceOfProvider<'_>,
    now: TimePoint,
) -> TimePoint {
    let noted = (provider.clone(), slice.clone());
    let since = index.disagreements.of(key, &noted).unwrap_or(now);
    since.after(PATIENCE)
}
