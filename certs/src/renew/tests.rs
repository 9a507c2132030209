use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::stored::{
    CA_CERTIFICATE, CA_KEY, CERTIFICATE, Contents, KEY, NEXT_CERTIFICATE, NEXT_KEY, OLD_UNTIL,
};
use crate::trust::{Bundle, Witness};
use crate::{Authority, Leaf};

mod succession;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LEAF: Duration = Duration::from_secs(90 * 24 * 60 * 60);
const AUTHORITY: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
const NAME: &str = "causeway-webhook.causeway-system.svc";

fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000
}

fn names() -> Names {
    Names {
        names: vec![NAME.to_owned()],
        addresses: vec![[192, 0, 2, 1].into()],
    }
}

fn authority(from: SystemTime) -> Authority {
    Authority::new("an authority", AUTHORITY, from).unwrap()
}

fn leaf_of(authority: &Authority, from: SystemTime, names: Names) -> [(&'static str, String); 2] {
    let leaf = Leaf {
        common_name: "leaf".to_owned(),
        organisation: None,
        names: names.names,
        addresses: names.addresses,
        validity: LEAF,
    };
    let leaf = authority.issue(&leaf, from).unwrap();
    [(CERTIFICATE, leaf.certificate), (KEY, leaf.key)]
}

fn contents(parts: impl IntoIterator<Item = (&'static str, String)>) -> Contents {
    let mut contents = Contents::default();
    for (key, text) in parts {
        contents.set(key, text);
    }
    contents
}

fn signed_by(authority: &Authority) -> Vec<(&'static str, String)> {
    vec![
        (CA_CERTIFICATE, authority.pem().to_owned()),
        (CA_KEY, authority.key_pem()),
    ]
}

/// What is stored when all is well since `from`.
fn good(authority: &Authority, from: SystemTime) -> Contents {
    let leaf = leaf_of(authority, from, names());
    contents(signed_by(authority).into_iter().chain(leaf))
}

/// Two configurations that have held these for so long.
fn published(pem: &str, held: Duration) -> Publication {
    let mut witness = Witness::default();
    let bundles = || vec![Bundle::read(pem.as_bytes()); 2];
    let since = Instant::now();
    witness.observe(bundles(), since);
    witness.observe(bundles(), since + held)
}

/// One decision, with what is not of interest filled in.
struct Case {
    stored: Option<Contents>,
    memory: Option<Contents>,
    published: Publication,
    wish: Option<Wish>,
    now: SystemTime,
}

impl Case {
    fn new(stored: impl Into<Option<Contents>>, now: SystemTime) -> Self {
        let stored = stored.into();
        let bundle = stored.as_ref().and_then(|all| all.get(CA_CERTIFICATE));
        let bundle = String::from_utf8(bundle.unwrap_or_default().to_vec()).unwrap();
        Self {
            stored,
            memory: None,
            published: published(&bundle, DAY),
            wish: None,
            now,
        }
    }

    fn remembering(mut self, memory: &Contents) -> Self {
        self.memory = Some(memory.clone());
        self
    }

    fn published(mut self, published: Publication) -> Self {
        self.published = published;
        self
    }

    fn wishing(mut self, wish: Wish) -> Self {
        self.wish = Some(wish);
        self
    }

    fn look<T>(&self, look: impl FnOnce(&Situation<'_>) -> T) -> T {
        let stored = Stored::read(self.stored.clone());
        let memory = self.memory.clone().map(|memory| Stored::read(Some(memory)));
        let (names, now) = (names(), self.now);
        let serving = memory
            .as_ref()
            .and_then(|memory| memory.leaf(&names, now).ok());
        look(&Situation {
            stored: &stored,
            memory: memory.as_ref(),
            serving,
            published: &self.published,
            wish: self.wish,
            names: &names,
            lifetimes: Lifetimes::new(AUTHORITY, LEAF).unwrap(),
            now,
        })
    }

    fn verdict(&self) -> (Option<Change>, Option<Fault>) {
        self.look(|situation| {
            let decision = decide(situation);
            (decision.change, decision.repairs)
        })
    }

    /// What the Secret holds after the change that is decided on.
    fn changed(&self) -> Contents {
        self.look(|situation| {
            let change = decide(situation).change.expect("a change");
            situation.carry_out(change).unwrap()
        })
    }
}

#[test]
fn leaves_are_renewed_at_two_thirds_of_their_life_and_authorities_while_they_outlive_two_leaves() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    for (days, expected) in [
        (0, None),
        (59, None),
        (60, Some(Change::Renew)),
        (89, Some(Change::Renew)),
    ] {
        let case = Case::new(stored.clone(), begin() + DAY * days);
        assert_eq!(case.verdict(), (expected, None), "after {days} days");
    }
    // A third of ten years is more than two leaves' lives.
    for (days, expected) in [
        (2400, None),
        (2434, Some(Change::Prepare)),
        (3500, Some(Change::Prepare)),
    ] {
        let now = begin() + DAY * days;
        let case = Case::new(good(&ours, now), now);
        assert_eq!(case.verdict(), (expected, None), "after {days} days");
    }
    let old = begin() + DAY * 3640;
    let renewed =
        Case::new(good(&ours, old), old).look(|situation| situation.carry_out(Change::Renew));
    let renewed = Stored::read(Some(renewed.unwrap()));
    let leaf = renewed.leaf(&names(), old).unwrap();
    assert_eq!(
        leaf.period.until,
        leaf.issuer.period().until,
        "a leaf outlives its authority"
    );
}

#[test]
fn what_is_wrong_is_mended_for_its_reason() {
    let ours = authority(begin());
    let other = authority(begin());
    let well = good(&ours, begin());
    let without = |key| {
        let mut contents = well.clone();
        contents.remove(key);
        contents
    };
    let with = |key, value: &str| {
        let mut contents = well.clone();
        contents.set(key, value);
        contents
    };
    let renew = Some(Change::Renew);
    let begins = Some(Change::Begin);
    let now = begin() + DAY;
    let other_names = Names {
        names: vec!["elsewhere.example".to_owned()],
        addresses: Vec::new(),
    };
    let misnamed = leaf_of(&ours, begin(), other_names);
    let misnamed = contents(signed_by(&ours).into_iter().chain(misnamed));
    let foreign = leaf_of(&other, begin(), names());
    let foreign = contents(signed_by(&ours).into_iter().chain(foreign));
    for (what, stored, now, expected) in [
        ("no Secret", None, now, (begins, None)),
        (
            "an empty Secret",
            Some(Contents::default()),
            now,
            (begins, None),
        ),
        (
            "no leaf yet",
            Some(contents(signed_by(&ours))),
            now,
            (renew, None),
        ),
        (
            "no authority",
            Some(without(CA_CERTIFICATE)),
            now,
            (begins, Some(Fault::Missing)),
        ),
        (
            "no key of the authority",
            Some(without(CA_KEY)),
            now,
            (begins, Some(Fault::Missing)),
        ),
        (
            "a rubbish authority",
            Some(with(CA_CERTIFICATE, "rubbish")),
            now,
            (begins, Some(Fault::Undecodable)),
        ),
        (
            "a rubbish key of the authority",
            Some(with(CA_KEY, "\u{0}")),
            now,
            (begins, Some(Fault::Undecodable)),
        ),
        (
            "another authority's key",
            Some(with(CA_KEY, &other.key_pem())),
            now,
            (begins, Some(Fault::KeyMismatch)),
        ),
        (
            "a rubbish leaf",
            Some(with(CERTIFICATE, "rubbish")),
            now,
            (renew, Some(Fault::Undecodable)),
        ),
        (
            "another leaf's key",
            Some(with(KEY, &other.key_pem())),
            now,
            (renew, Some(Fault::KeyMismatch)),
        ),
        (
            "a leaf of nobody",
            Some(foreign),
            now,
            (renew, Some(Fault::UnknownIssuer)),
        ),
        (
            "a leaf for others",
            Some(misnamed),
            now,
            (renew, Some(Fault::Names)),
        ),
        (
            "a leaf that has expired",
            Some(well.clone()),
            begin() + LEAF,
            (renew, Some(Fault::Expired)),
        ),
        (
            "all of it of the future",
            Some(well.clone()),
            begin() - DAY,
            (begins, Some(Fault::NotYetValid)),
        ),
        (
            "all of it of the past",
            Some(well.clone()),
            begin() + AUTHORITY,
            (begins, Some(Fault::Expired)),
        ),
        (
            "half of a successor",
            Some(with(NEXT_CERTIFICATE, other.pem())),
            now,
            (Some(Change::Tidy), Some(Fault::Missing)),
        ),
        (
            "rubbish beside the authority",
            Some(with(
                CA_CERTIFICATE,
                &format!("{}-----BEGIN CERTIFICATE-----\n", ours.pem()),
            )),
            now,
            (Some(Change::Tidy), Some(Fault::Undecodable)),
        ),
        (
            "a moment that is none",
            Some(with(OLD_UNTIL, "soon")),
            now,
            (Some(Change::Tidy), None),
        ),
    ] {
        let mut case = Case::new(stored, now);
        case.published = published(ours.pem(), DAY);
        let verdict = case.verdict();
        assert_eq!(verdict, expected, "{what}");
        let mended = case.changed();
        assert_ne!(Some(&mended), case.stored.as_ref(), "{what}");
        assert!(Stored::read(Some(mended)).signing(now).is_ok(), "{what}");
    }
}

#[test]
fn who_remembers_writes_back_what_was_stored() {
    let well = good(&authority(begin()), begin());
    let now = begin() + DAY;
    let spoil = |keys: &[&'static str]| {
        let mut contents = well.clone();
        for key in keys {
            contents.set(key, "rubbish");
        }
        Some(contents)
    };
    for (what, stored, change) in [
        ("deleted", None, Change::Restore),
        ("emptied", Some(Contents::default()), Change::Restore),
        (
            "all spoilt",
            spoil(&[CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY]),
            Change::Restore,
        ),
        (
            "a spoilt authority",
            spoil(&[CA_CERTIFICATE]),
            Change::Restore,
        ),
        ("a spoilt leaf", spoil(&[CERTIFICATE]), Change::RestoreLeaf),
    ] {
        let case = Case::new(stored, now)
            .remembering(&well)
            .published(Publication::default());
        assert_eq!(case.verdict().0, Some(change), "{what}");
        assert_eq!(case.changed(), well, "{what}");
    }
    // What is remembered is of no use any more.
    let case = Case::new(None, begin() + AUTHORITY).remembering(&well);
    assert_eq!(case.verdict(), (Some(Change::Begin), Some(Fault::NoSecret)));
}

#[test]
fn what_is_found_in_ca_bundles_stays_beside_a_new_authority() {
    let (known, over) = (
        authority(begin()),
        Authority::new("over", DAY, begin() - DAY * 9).unwrap(),
    );
    let now = begin() + DAY;
    let bundle = format!("{}{}", over.pem(), known.pem());
    let case = Case::new(contents([(CA_KEY, "rubbish".to_owned())]), now)
        .published(published(&bundle, DAY));
    let stored = Stored::read(Some(case.changed()));
    let trust = stored.trust(now);
    assert_eq!(trust.len(), 2, "{trust:?}");
    assert_eq!(trust[1..], Bundle::read(known.pem().as_bytes()).authorities);
    let begun = case.changed();
    let case = Case::new(begun.clone(), now).published(published(&bundle, DAY));
    assert_eq!(
        case.verdict(),
        (None, None),
        "the leaf waits until the authority is known"
    );
    let case = Case::new(begun, now);
    assert_eq!(case.verdict(), (Some(Change::Renew), None));
}

#[test]
fn an_older_secret_that_was_put_back_learns_of_the_authority_that_is_served() {
    let (older, ours) = (good(&authority(begin()), begin()), authority(begin()));
    let now = begin() + DAY;
    let case = Case::new(older, now).remembering(&good(&ours, begin()));
    assert_eq!(
        case.verdict(),
        (Some(Change::Adopt), Some(Fault::Forgotten))
    );
    case.look(|situation| {
        assert!(situation.servable().is_none());
        assert_eq!(decide(situation).trust, None, "nothing is published before");
    });
    let adopted = Stored::read(Some(case.changed()));
    assert_eq!(
        adopted.trust(now)[1..],
        Bundle::read(ours.pem().as_bytes()).authorities
    );
}

#[test]
fn what_somebody_asks_for_is_done_at_once() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    for (wish, change) in [
        (Wish::Leaf, Change::Renew),
        (Wish::Authority, Change::Prepare),
    ] {
        let case = Case::new(stored.clone(), begin() + DAY).wishing(wish);
        assert_eq!(case.verdict(), (Some(change), None));
    }
}

#[test]
fn a_leaf_for_replicas_of_different_names_is_for_all_of_them() {
    let ours = authority(begin());
    let others = Names {
        names: vec!["elsewhere.example".to_owned()],
        addresses: Vec::new(),
    };
    let leaf = leaf_of(&ours, begin(), others.clone());
    let stored = contents(signed_by(&ours).into_iter().chain(leaf));
    let now = begin() + DAY;
    let renewed = Stored::read(Some(Case::new(stored, now).changed()));
    for names in [&names(), &others] {
        assert!(renewed.leaf(names, now).is_ok(), "{names:?}");
    }
}

#[test]
fn lifetimes_that_cannot_be_kept_are_refused() {
    let seconds = Duration::from_secs;
    for (authority, leaf, expected) in [
        (seconds(30), seconds(10), Ok(())),
        (seconds(30), seconds(9), Err(LifetimesError::TooShort)),
        (
            seconds(29),
            seconds(10),
            Err(LifetimesError::AuthorityTooShort),
        ),
        (
            Duration::MAX,
            Duration::MAX,
            Err(LifetimesError::AuthorityTooShort),
        ),
    ] {
        assert_eq!(Lifetimes::new(authority, leaf).map(drop), expected);
    }
}

#[test]
fn the_next_look_is_when_time_alone_changes_something() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    let again = |case: &Case| case.look(|situation| decide(situation).again);
    let case = Case::new(stored.clone(), begin() + DAY);
    let skew = Duration::from_secs(300);
    assert_eq!(again(&case), Some(DAY * 59 - skew));
    let case = case.published(published(ours.pem(), Duration::from_secs(4)));
    assert_eq!(again(&case), Some(Duration::from_secs(6)));
    assert_eq!(again(&Case::new(None, begin())), None);
}
