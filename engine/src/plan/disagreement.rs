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

/// Returns a sentence that names both slices.
pub(crate) fn sentence(
    (provider, slice): SliceOfProvider<'_>,
    disagreement: &Disagreement,
) -> String {
    format!(
        "in {provider} EndpointSlice {slice} and those that Kubernetes keeps ({}) disagree on which endpoints are ready",
        disagreement.kept
    )
}

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

/// Returns the part of Ready that reports lasting disagreements; empty without any. A disagreement
/// that the stored condition reports stays reported as long as it holds, also after a restart.
pub(super) fn reported<'a>(
    index: &Index,
    key: &ServiceKey,
    all: impl Iterator<Item = (SliceOfProvider<'a>, &'a Disagreement)>,
    stored: Option<&Condition>,
    now: TimePoint,
) -> String {
    let all: BTreeMap<_, _> = all.collect();
    let sentences = all.into_iter().map(|(slice, disagreement)| {
        let lasts = patience_end(index, key, slice, now) <= now;
        (lasts, sentence(slice, disagreement))
    });
    let is_stored = |text: &str| stored.is_some_and(|ready| ready.message.contains(text));
    let mut lasting = sentences.filter(|(lasts, text)| *lasts || is_stored(text));
    let Some((_, first)) = lasting.next() else {
        return String::new();
    };
    let more = match lasting.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    format!("; {first}{more}, and the latter decide: stop one of the writers")
}

fn patience_end(
    index: &Index,
    key: &ServiceKey,
    (provider, slice): SliceOfProvider<'_>,
    now: TimePoint,
) -> TimePoint {
    let noted = (provider.clone(), slice.clone());
    let since = index.disagrees_since(key, &noted).unwrap_or(now);
    since.after(PATIENCE)
}
