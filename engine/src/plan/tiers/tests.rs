mod defaults;
mod events;
mod paths;
mod preferences;
mod selectors;
mod unreachable;

use causeway::domain::Failover;

use super::*;
use crate::fixtures::now;

pub(super) fn preference(tiers: &str, min_ready: Option<&str>) -> Preference {
    let annotation = |name: &str| match name {
        causeway::api::labels::PREFER => Some(tiers),
        causeway::api::labels::MIN_READY => min_ready,
        _ => None,
    };
    let read = Failover::read(annotation, &mut |error| panic!("{error}"));
    read.preference.expect("a preference")
}

/// Returns tiers with numbers of ready and of all endpoints, such as `1/4 2/2`; `?` marks a tier
/// that is not fully known.
fn states(text: &str) -> Vec<TierState> {
    let tier = |text: &str| {
        let (ready, total) = text.trim_end_matches('?').split_once('/').expect("1/2");
        let number = |text: &str| text.parse().expect("a number");
        TierState {
            readiness: Readiness {
                ready: number(ready),
                total: number(total),
                unfit: 0,
            },
            is_known: !text.ends_with('?'),
            ..TierState::new(None)
        }
    };
    text.split(' ').map(tier).collect()
}

fn settle(
    text: &str,
    min_ready: Option<&str>,
    before: Before,
    now: TimePoint,
) -> (Tiers, Option<TimePoint>) {
    let preference = preference("local, region, any", min_ready);
    let mut tiers = Tiers {
        all: states(text),
        ..Tiers::default()
    };
    tiers.settle(Some(&preference), before, now);
    let again_at = tiers.again_at;
    (tiers, again_at)
}

#[test]
fn tiers_carry_up_to_the_first_that_has_enough() {
    for (tiers, min_ready, active) in [
        // One ready endpoint is enough where no percentage is asked for.
        ("4/4 2/2 2/2", None, 1),
        ("1/4 2/2 2/2", None, 1),
        ("0/4 2/2 2/2", None, 2),
        ("0/4 0/2 2/2", None, 3),
        ("0/4 0/2 0/2", None, 3),
        ("0/0 2/2 2/2", None, 2),
        ("0/0 0/0 0/0", None, 3),
        // A tier with less than the percentage does not carry alone.
        ("2/4 2/2 2/2", Some("50%"), 1),
        ("1/4 2/2 2/2", Some("50%"), 2),
        ("1/4 0/2 2/2", Some("50%"), 3),
        ("1/4 1/2 2/2", Some("50%"), 2),
        ("3/4 2/2 2/2", Some("100%"), 2),
        ("4/4 2/2 2/2", Some("100%"), 1),
        ("1/100 1/1 1/1", Some("1%"), 1),
        ("1/101 1/1 1/1", Some("1%"), 2),
    ] {
        let (found, again_at) = settle(tiers, min_ready, Before::default(), now());
        assert_eq!(found.active, active, "{tiers} {min_ready:?}");
        assert_eq!((found.enough_since, again_at), (None, None), "{tiers}");
    }
}

#[test]
fn what_is_not_known_neither_promotes_nor_demotes() {
    for (tiers, before, active) in [
        // Nothing is held yet: what is known decides.
        ("0/0? 2/2 2/2", None, 2),
        ("0/0? 0/0? 2/2", None, 3),
        // It may have enough, or not: what carries goes on.
        ("0/0? 2/2 2/2", Some(1), 1),
        ("0/0? 2/2 2/2", Some(2), 2),
        ("0/4 0/0? 2/2", Some(1), 2),
        ("0/4 0/0? 2/2", Some(2), 2),
        ("0/4 0/0? 2/2", Some(3), 3),
        // What a tier has that is partly known is enough for sure, or is not.
        ("4/4? 2/2 2/2", Some(1), 1),
        ("4/4? 2/2 2/2", Some(2), 2),
        // It is known that the nearest has too few.
        ("0/4 0/0? 0/0?", Some(1), 2),
    ] {
        let before = Before {
            active: before,
            enough_since: None,
        };
        let (found, _) = settle(tiers, None, before, now());
        assert_eq!(found.active, active, "{tiers} {before:?}");
    }
}

#[test]
fn a_farther_tier_is_given_up_only_after_nearer_ones_have_had_enough_for_a_while() {
    let began = now();
    let (mut before, enough) = (Some(3), "4/4 2/2 2/2");
    let (first, again_at) = settle(
        enough,
        None,
        Before {
            active: before,
            enough_since: None,
        },
        began,
    );
    assert_eq!((first.active, first.enough_since), (3, Some(began)));
    assert_eq!(again_at, Some(began.after(HOLD)));
    let at = |after: Duration, before, enough_since| {
        let before = Before {
            active: before,
            enough_since,
        };
        settle(enough, None, before, began.after(after))
    };
    let (still, again_at) = at(HOLD / 2, before, first.enough_since);
    assert_eq!((still.active, again_at), (3, Some(began.after(HOLD))));
    let (over, again_at) = at(HOLD, before, still.enough_since);
    assert_eq!((over.active, again_at), (1, None));
    // The copies say so only once they are written.
    let (written, _) = at(HOLD * 2, before, over.enough_since);
    assert_eq!(written.active, 1);
    before = Some(1);
    let (rest, again_at) = at(HOLD * 2, before, written.enough_since);
    assert_eq!((rest.active, rest.enough_since, again_at), (1, None, None));
}

#[test]
fn a_nearer_tier_that_fails_again_meanwhile_waits_again() {
    let began = now();
    let hold = |enough_since| Before {
        active: Some(2),
        enough_since,
    };
    let (enough, _) = settle("2/4 2/2 2/2", Some("50%"), hold(None), began);
    let soon = began.after(HOLD / 2);
    let (failed, _) = settle("1/4 2/2 2/2", Some("50%"), hold(enough.enough_since), soon);
    assert_eq!((failed.active, failed.enough_since), (2, None));
    let late = began.after(HOLD);
    let (again, _) = settle("2/4 2/2 2/2", Some("50%"), hold(failed.enough_since), late);
    assert_eq!((again.active, again.enough_since), (2, Some(late)));
}

#[test]
fn endpoints_that_the_service_cannot_use_are_reported_as_the_cause() {
    let unfit = Readiness {
        unfit: 2,
        ..Readiness::default()
    };
    for (readiness, why) in [
        (Readiness::default(), "local has no endpoints"),
        (
            unfit,
            "local has no endpoints of the Service's ports and address families",
        ),
    ] {
        let near = TierState {
            readiness,
            ..TierState::new(Some(Tier::Local))
        };
        let tiers = Tiers {
            all: vec![near, TierState::new(Some(Tier::Any))],
            active: 2,
            ..Tiers::default()
        };
        assert_eq!(tiers.why_promoted(), why);
    }
}
