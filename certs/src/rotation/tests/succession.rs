//! Succession of one authority by another.

use super::*;

#[test]
fn successor_signs_only_after_publication_has_settled() {
    let (ours, next) = (authority(begin()), authority(begin()));
    let now = begin() + DAY;
    let mut stored = staged(&ours, &next);
    let both = both(&ours, &next);
    let mut missing_from_one = vec![Bundle::read(both.as_bytes())];
    missing_from_one.push(Bundle::read(ours.pem().as_bytes()));
    let mut tracker = PublicationTracker::default();
    let since = Instant::now();
    tracker.observe(missing_from_one.clone(), since);
    for (what, published, expected) in [
        ("nowhere", published(ours.pem(), DAY), None),
        (
            "in one",
            tracker.observe(missing_from_one, since + DAY),
            None,
        ),
        ("everywhere", published(&both, Duration::from_secs(9)), None),
        (
            "and settled",
            published(&both, Duration::from_secs(10)),
            Some(Change::Issue),
        ),
        (
            "there is no configuration",
            Publication::default(),
            Some(Change::Issue),
        ),
    ] {
        let case = Case::new(stored.clone(), now).published(published);
        assert_eq!(case.next_change(), (expected, None), "{what}");
        let trust = case.with(|situation| decide(situation).trust).unwrap();
        assert!(Bundle::read(both.as_bytes()).is_just(&trust), "{what}");
    }
    // Where the other is lost the successor signs at once, and its leaf waits.
    stored.set(CA_KEY, "rubbish");
    let case = Case::new(stored, now);
    assert_eq!(
        case.next_change(),
        (Some(Change::Normalize), Some(Fault::Undecodable))
    );
    let promoted = case.changed();
    let case = Case::new(promoted.clone(), now).published(published(ours.pem(), DAY));
    assert_eq!(
        case.next_change(),
        (None, None),
        "its authority is not published"
    );
    let case = Case::new(promoted, now);
    assert_eq!(case.next_change(), (Some(Change::Issue), None));
}

#[test]
fn replaced_authority_is_trusted_until_its_last_leaf_expires() {
    let (ours, next) = (authority(begin()), authority(begin()));
    let now = begin() + DAY * 10;
    let replaced = Case::new(staged(&ours, &next), now)
        .published(published(&both(&ours, &next), DAY))
        .changed();
    let stored = read(replaced.clone());
    let in_order = Bundle::read(both(&next, &ours).as_bytes()).authorities;
    assert_eq!(stored.trust(now), in_order, "the one that signs is first");
    assert_eq!(stored.leaf(&names(), now).unwrap().issuer, in_order[0]);
    assert!(stored.next(now).is_none());
    for (days, expected) in [(10, None), (69, None), (70, Some(Change::Issue))] {
        let case = Case::new(replaced.clone(), begin() + DAY * days);
        assert_eq!(case.next_change(), (expected, None), "after {days} days");
    }
    let renewed = Case::new(replaced, begin() + DAY * 70).changed();
    let case = Case::new(renewed.clone(), begin() + DAY * 99);
    assert_eq!(case.next_change(), (None, None));
    let case = Case::new(renewed, begin() + DAY * 100);
    assert_eq!(case.next_change(), (Some(Change::Normalize), None));
    let pruned = read(case.changed());
    assert_eq!(pruned.trust(case.now), in_order[..1]);
}
