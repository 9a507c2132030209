//! Replicas whose clocks differ: this one is six minutes behind the issuer.

use super::*;

const BEHIND: Duration = Duration::from_secs(6 * 60);
/// Time until a certificate that the issuer dates back by five minutes is valid for this replica.
const WAIT: Duration = Duration::from_secs(60);

/// Time of the issuer.
fn ahead() -> SystemTime {
    begin() + DAY
}

/// Checks that a replica with these contents writes nothing, and publishes both authorities.
fn assert_awaited(case: &Case, all: &str) {
    assert_eq!(case.next_change(), (None, None));
    case.with(|situation| {
        let decision = decide(situation);
        let trust = decision.trust.expect("the authorities are known");
        assert!(Bundle::read(all.as_bytes()).is_just(&trust), "{trust:?}");
        assert_eq!(decision.again, Some(WAIT));
    });
}

#[test]
fn leaf_that_is_not_valid_yet_is_awaited() {
    let ours = authority(begin());
    let served = good(&ours, begin());
    let renewed = good(&ours, ahead());
    let case = Case::new(renewed.clone(), ahead() - BEHIND).knowing(&served);
    assert_awaited(&case, ours.pem());
    case.with(|situation| {
        assert!(situation.awaits_validity());
        assert!(situation.servable().is_none());
    });
    let case = Case::new(renewed.clone(), ahead() - BEHIND + WAIT).knowing(&served);
    assert_eq!(case.next_change(), (None, None));
    case.with(|situation| {
        assert!(!situation.awaits_validity());
        assert!(situation.servable().is_some());
    });
    // A replica without a leaf issues one that is valid for all replicas.
    let case = Case::new(renewed, ahead() - BEHIND);
    let issue = (Some(Change::Issue), Some(Fault::NotYetValid));
    assert_eq!(case.next_change(), issue);
    for now in [case.now, ahead()] {
        assert!(read(case.changed()).leaf(&names(), now).is_ok());
    }
}

#[test]
fn leaf_of_the_far_future_is_replaced_by_the_served_one() {
    let ours = authority(begin());
    let served = good(&ours, begin());
    let hour = Duration::from_secs(60 * 60);
    let skew = Duration::from_secs(5 * 60);
    let restored = (Some(Change::Normalize), Some(Fault::NotYetValid));
    for (what, issued, now, expected) in [
        (
            "an hour",
            begin() + DAY + hour,
            begin() + DAY - skew,
            (None, None),
        ),
        (
            "a second more",
            begin() + DAY + hour + Duration::from_secs(1),
            begin() + DAY - skew,
            restored,
        ),
        ("two years", begin() + DAY * 730, begin() + DAY, restored),
        (
            "after the end of the served one",
            begin() + LEAF + hour / 2,
            begin() + LEAF - DAY / 100,
            restored,
        ),
    ] {
        let case = Case::new(good(&ours, issued), now).knowing(&served);
        assert_eq!(case.next_change(), expected, "{what}");
        if expected == restored {
            assert_eq!(case.changed(), served, "{what}");
        }
    }
}

#[test]
fn staged_authority_that_is_not_valid_yet_stays() {
    let (ours, next) = (authority(begin()), authority(ahead()));
    let stored = staged(&ours, &next);
    let all = both(&ours, &next);
    let now = ahead() - BEHIND;
    let case = Case::new(stored.clone(), now).knowing(&good(&ours, begin()));
    assert_awaited(&case.published(published(&all, DAY)), &all);
    // The request is not for yet another authority.
    let case = Case::new(stored, now)
        .published(published(&all, DAY))
        .requesting(RotationRequest::Authority);
    assert_eq!(case.next_change(), (None, None));
    let far = staged(&ours, &authority(begin() + DAY * 730));
    let case = Case::new(far.clone(), now);
    let normalize = (Some(Change::Normalize), Some(Fault::NotYetValid));
    assert_eq!(case.next_change(), normalize);
    let mut without = far;
    without.stage(None);
    assert_eq!(case.changed(), without);
}

#[test]
fn signing_authority_that_is_not_valid_yet_is_awaited() {
    let (ours, next) = (authority(begin()), authority(ahead()));
    let all = both(&ours, &next);
    let before = staged(&ours, &next);
    let replaced = Case::new(before.clone(), ahead())
        .published(published(&all, DAY))
        .changed();
    let at = |now| Case::new(replaced.clone(), now).published(published(&all, DAY));
    let case = at(ahead() - BEHIND).knowing(&before);
    assert_awaited(&case, &all);
    assert!(case.with(|situation| situation.servable().is_none()));
    let case = at(ahead() - BEHIND + WAIT).knowing(&before);
    assert_eq!(case.next_change(), (None, None));
    assert!(case.with(|situation| situation.servable().is_some()));
    // A replica without a leaf creates an authority, and keeps the trust in the others.
    let case = at(ahead() - BEHIND);
    let normalize = (Some(Change::Normalize), Some(Fault::NotYetValid));
    assert_eq!(case.next_change(), normalize);
    let trust = read(case.changed()).trust(case.now);
    assert_eq!(trust.len(), 3, "{trust:?}");
    let known = Bundle::read(all.as_bytes()).authorities;
    assert!(known.iter().all(|one| trust.contains(one)), "{trust:?}");
}

#[test]
fn authority_of_the_far_future_is_not_trusted() {
    let far = authority(begin() + LEAF * 2);
    let case = Case::new(good(&far, begin() + LEAF * 2), begin());
    let normalize = (Some(Change::Normalize), Some(Fault::NotYetValid));
    assert_eq!(case.next_change(), normalize);
    assert_eq!(case.with(|situation| decide(situation).trust), None);
    assert_eq!(read(case.changed()).trust(begin()).len(), 1);
}

#[test]
fn published_authority_that_is_not_valid_yet_keeps_its_trust() {
    let (older, ours) = (authority(begin()), authority(ahead()));
    let all = both(&ours, &older);
    let mut case =
        Case::new(good(&older, begin()), ahead() - BEHIND).published(published(&all, DAY));
    case.stored.serving = Secrets::split(&good(&ours, ahead()), false).serving;
    let normalize = (Some(Change::Normalize), Some(Fault::Forgotten));
    assert_eq!(case.next_change(), normalize);
    let trust = |case: &Case| case.with(|situation| decide(situation).trust);
    assert_eq!(trust(&case), None, "nothing is published before");
    case.stored = case.written();
    assert!(Bundle::read(all.as_bytes()).is_just(&trust(&case).unwrap()));
}
