//! Numbers of ready endpoints by which providers get their shares, and the cuts that choose them.

use std::cmp::Reverse;

use crate::model::TimePoint;
use crate::plan::tiers::HOLD;

/// Deviation of a share, beyond the smallest possible one, up to which cuts stay as they are, in
/// hundredths of a percent.
pub(super) const TOLERANCE: u64 = 200;
/// Maximum number of totals that are tried: between the first at which a provider has no more ready
/// endpoints and the last that rounds down to these.
const TOTALS_MAX: u64 = 100;

/// Ready endpoints of a provider, of one address family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Hashes of the endpoints.
    pub(super) hashes: &'a [u32],
    /// Wanted percentage; `None` for a provider that shares the rest.
    pub(super) wanted: Option<u8>,
    /// Whether they are the consumer's own pods, all of which are used.
    pub(super) is_own: bool,
    /// Cut that the copies have, which is `None` where all endpoints are chosen. Without copies
    /// that are ready there is none yet.
    pub(super) before: Option<Option<u32>>,
}

/// Choice of the endpoints that are ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    /// Cuts of the parts.
    pub(super) cuts: Vec<Option<u32>>,
    /// Number of chosen endpoints of each part.
    pub(super) chosen: Vec<u64>,
    /// Wanted share of each part, in hundredths of a percent.
    pub(super) wanted: Vec<u64>,
    /// Time since which more endpoints could be ready.
    pub(super) spare_since: Option<TimePoint>,
    /// Time at which more endpoints become ready.
    pub(super) again_at: Option<TimePoint>,
}

/// Chooses the endpoints that are ready. Providers that are not named share `rest`, in proportion
/// to their ready endpoints. Providers without ready endpoints leave their share to the others.
///
/// The cuts stay as they are while every share is near the best possible one. Otherwise one cut
/// changes if that suffices, or else all do. If a third more endpoints could be ready, they become
/// so after [`HOLD`]. While a provider is unknown, the cuts stay as long as an endpoint is chosen.
pub(super) fn divide(
    parts: &[Part<'_>],
    rest: u8,
    is_known: bool,
    (spare_since, now): (Option<TimePoint>, TimePoint),
) -> Division {
    let weighted = Weighted::new(parts, rest);
    if weighted.whole == 0 {
        return Division {
            cuts: parts.iter().map(|part| part.before.flatten()).collect(),
            chosen: vec![0; parts.len()],
            wanted: vec![0; parts.len()],
            ..Division::default()
        };
    }
    let best = weighted.best();
    let before = parts.iter().zip(&best);
    let before: Vec<_> = before
        .map(|(part, best)| part.chosen().unwrap_or(*best))
        .collect();
    let is_spare = 4 * total(&before) < 3 * total(&best);
    let since = is_spare.then(|| spare_since.unwrap_or(now));
    let until = since.map(|since| since.after(HOLD));
    let is_over = until.is_some_and(|until| until <= now);
    let chosen = match is_known || total(&before) == 0 {
        false => before.clone(),
        true if is_over => best,
        true => weighted.nearest(&before, best),
    };
    let cuts = parts.iter().zip(before).zip(&chosen);
    Division {
        cuts: cuts
            .map(|((part, before), chosen)| part.cut(before, *chosen))
            .collect(),
        wanted: weighted
            .weights
            .iter()
            .map(|weight| hundredths(*weight, weighted.whole))
            .collect(),
        chosen,
        spare_since: since,
        again_at: until.filter(|_| !is_over),
    }
}

/// Returns `part` of `whole` in hundredths of a percent.
pub(super) fn hundredths(part: u64, whole: u64) -> u64 {
    rounded(part, 10_000, whole)
}

/// Returns `part / whole * total`, rounded.
fn rounded(part: u64, total: u64, whole: u64) -> u64 {
    (2 * part * total + whole)
        .checked_div(2 * whole)
        .unwrap_or_default()
}

fn total(chosen: &[u64]) -> u64 {
    chosen.iter().sum()
}

impl Part<'_> {
    fn ready(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// Returns the number of endpoints that its cut chooses; `None` without a cut.
    fn chosen(&self) -> Option<u64> {
        let cut = match self.before {
            _ if self.is_own => None,
            before => before?,
        };
        let Some(below) = cut else {
            return Some(self.ready());
        };
        Some(self.hashes.iter().filter(|hash| **hash < below).count() as u64)
    }

    /// Returns the cut by which `chosen` endpoints are ready: the existing one where it chooses so
    /// many, as `before` tells. New endpoints are chosen with the same probability as others.
    fn cut(&self, before: u64, chosen: u64) -> Option<u32> {
        if let Some(cut) = self.before.filter(|_| before == chosen) {
            return cut;
        }
        if self.is_own || chosen >= self.ready() {
            return None;
        }
        let mut sorted = self.hashes.to_vec();
        sorted.sort_unstable();
        let at = |index: u64| sorted.get(usize::try_from(index).ok()?).copied();
        let first = at(chosen)?;
        let last = match chosen {
            0 => return Some(0),
            _ => at(chosen - 1)?.saturating_add(1),
        };
        let even = (chosen << 32) / self.ready();
        let even = u32::try_from(even).unwrap_or(u32::MAX);
        Some(even.min(first).max(last))
    }
}

/// Parts with their wanted shares.
struct Weighted<'a> {
    parts: &'a [Part<'a>],
    /// Wanted share of each part, of `whole`; 0 for parts without ready endpoints.
    weights: Vec<u64>,
    whole: u64,
}

impl<'a> Weighted<'a> {
    fn new(parts: &'a [Part<'a>], rest: u8) -> Self {
        let of_rest = parts.iter().filter(|part| part.wanted.is_none());
        let of_rest: u64 = of_rest.map(Part::ready).sum();
        let weight = |part: &Part<'_>| match part.wanted {
            _ if part.hashes.is_empty() => 0,
            Some(percent) => u64::from(percent) * of_rest.max(1),
            None => u64::from(rest) * part.ready(),
        };
        let mut weights: Vec<_> = parts.iter().map(weight).collect();
        if total(&weights) == 0 {
            // Only providers of 0% have ready endpoints, which are used then.
            weights = parts.iter().map(Part::ready).collect();
        }
        Self {
            parts,
            whole: total(&weights),
            weights,
        }
    }

    fn each(&self) -> impl Iterator<Item = (&'a Part<'a>, u64)> {
        self.parts.iter().zip(self.weights.iter().copied())
    }

    /// Returns the largest numbers of endpoints by which all parts have their shares. Where the
    /// consumer's own pods are more than their share, the others follow them as far as they go.
    fn best(&self) -> Vec<u64> {
        let wanted = || self.each().filter(|(_, weight)| *weight > 0);
        let full = |(part, weight): (&Part<'_>, u64)| part.ready() * self.whole / weight;
        let last = |(part, weight): (&Part<'_>, u64)| {
            (self.whole * (2 * part.ready() + 1)).div_ceil(2 * weight) - 1
        };
        let least = wanted().map(full).min().unwrap_or_default().max(1);
        let most = wanted().map(last).min().unwrap_or_default();
        let own = wanted().filter(|(part, _)| part.is_own).map(full);
        let has_own = self
            .parts
            .iter()
            .any(|part| part.is_own && part.ready() > 0);
        let all = wanted().map(full).max().filter(|_| has_own);
        let totals = least..=most.clamp(least, least + TOTALS_MAX);
        let totals = totals.chain(own).chain(all);
        let all = totals.map(|total| self.chosen(total));
        let best = all.min_by_key(|chosen| (self.deviation(chosen), Reverse(total(chosen))));
        best.unwrap_or_default()
    }

    /// Returns the numbers of endpoints by which so many are ready in total.
    fn chosen(&self, total: u64) -> Vec<u64> {
        let chosen = self.each().map(|(part, weight)| match weight {
            _ if part.is_own => part.ready(),
            0 => 0,
            _ => rounded(weight, total, self.whole).clamp(1, part.ready()),
        });
        chosen.collect()
    }

    /// Returns the largest deviation of a share from the wanted one, in hundredths of a percent.
    fn deviation(&self, chosen: &[u64]) -> u64 {
        let of = total(chosen);
        let parts = self.weights.iter().zip(chosen);
        let deviations = parts.map(|(weight, chosen)| {
            hundredths(*chosen, of).abs_diff(hundredths(*weight, self.whole))
        });
        deviations.max().unwrap_or_default()
    }

    /// Whether each part has about its share, where `best` is the smallest possible deviation.
    fn is_near(&self, chosen: &[u64], best: u64) -> bool {
        let mut parts = self.each().zip(chosen);
        parts.all(|((part, weight), chosen)| part.is_own || (weight > 0) == (*chosen > 0))
            && self.deviation(chosen) <= best + TOLERANCE
    }

    /// Returns the numbers by which each part has about its share and that need the fewest changes
    /// of cuts: no change, one change, or else the best numbers. Of equal ones, those that change
    /// the roles of the fewest endpoints.
    fn nearest(&self, before: &[u64], best: Vec<u64>) -> Vec<u64> {
        let deviation = self.deviation(&best);
        if self.is_near(before, deviation) {
            return before.to_vec();
        }
        let changes = |chosen: &Vec<u64>| {
            let both = before.iter().zip(chosen);
            let changes = both.map(|(before, chosen)| before.abs_diff(*chosen));
            let changes = changes.filter(|count| *count > 0);
            (changes.clone().count(), changes.sum::<u64>())
        };
        let single = (0..self.parts.len()).filter_map(|index| self.with_one_changed(before, index));
        let near = single.filter(|chosen| self.is_near(chosen, deviation));
        let all = near.chain([best]);
        all.min_by_key(changes).unwrap_or_default()
    }

    /// Returns these numbers with that of one part changed so that it has its share.
    fn with_one_changed(&self, before: &[u64], index: usize) -> Option<Vec<u64>> {
        let (part, weight) = (self.parts.get(index)?, *self.weights.get(index)?);
        if part.is_own {
            return None;
        }
        let others = total(before) - before.get(index)?;
        let chosen = match (weight, self.whole - weight) {
            (0, _) => 0,
            (_, 0) => part.ready(),
            (_, rest) => rounded(weight, others, rest).clamp(1, part.ready()),
        };
        let mut changed = before.to_vec();
        *changed.get_mut(index)? = chosen;
        Some(changed)
    }
}

#[cfg(test)]
mod tests;
