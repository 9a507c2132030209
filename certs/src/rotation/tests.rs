use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::stored::{
    CA_CERTIFICATE, CA_KEY, CERTIFICATE, Contents, KEY, NEXT_CERTIFICATE, NEXT_KEY, OLD_UNTIL,
    Secrets,
};
use crate::trust::{Bundle, PublicationTracker};
use crate::{Authority, Leaf};

mod clocks;
mod handover;
mod succession;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LEAF: Duration = Duration::from_secs(90 * 24 * 60 * 60);
const AUTHORITY: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
const NAME: &str = "causeway-webhook.causeway-system.svc";
/// A block of PEM that is no certificate.
const RUBBISH_BLOCK: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";

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
        ..Leaf::default()
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

/// Returns the contents of both Secrets in their normal form since `from`.
fn good(authority: &Authority, from: SystemTime) -> Contents {
    let leaf = leaf_of(authority, from, names());
    contents(signed_by(authority).into_iter().chain(leaf))
}

/// Returns good contents of an authority, with another one staged.
fn staged(authority: &Authority, next: &Authority) -> Contents {
    let mut stored = good(authority, begin());
    stored.set(NEXT_CERTIFICATE, next.pem());
    stored.set(NEXT_KEY, next.key_pem());
    stored
}

fn both(one: &Authority, other: &Authority) -> String {
    format!("{}{}", one.pem(), other.pem())
}

/// The two Secrets of these contents; neither exists without contents.
fn secrets(contents: Option<Contents>) -> Secrets {
    contents.map_or_else(Secrets::default, |all| Secrets::split(&all, false))
}

fn read(contents: Contents) -> Stored {
    Stored::read(secrets(Some(contents)))
}

/// Two configurations that have held these for so long.
fn published(pem: &str, held: Duration) -> Publication {
    let mut tracker = PublicationTracker::default();
    let bundles = || vec![Bundle::read(pem.as_bytes()); 2];
    let since = Instant::now();
    tracker.observe(bundles(), since);
    tracker.observe(bundles(), since + held)
}

/// One decision, with what is not of interest filled in.
struct Case {
    stored: Secrets,
    combined_for: Duration,
    last_good: Option<Contents>,
    published: Publication,
    request: Option<RotationRequest>,
    now: SystemTime,
}

impl Case {
    fn new(stored: impl Into<Option<Contents>>, now: SystemTime) -> Self {
        let stored = stored.into();
        let bundle = stored.as_ref().and_then(|all| all.get(CA_CERTIFICATE));
        let bundle = String::from_utf8(bundle.unwrap_or_default().to_vec()).unwrap();
        Self {
            stored: secrets(stored),
            combined_for: Duration::ZERO,
            last_good: None,
            published: published(&bundle, DAY),
            request: None,
            now,
        }
    }

    fn knowing(mut self, last_good: &Contents) -> Self {
        self.last_good = Some(last_good.clone());
        self
    }

    fn published(mut self, published: Publication) -> Self {
        self.published = published;
        self
    }

    fn requesting(mut self, request: RotationRequest) -> Self {
        self.request = Some(request);
        self
    }

    fn with<T>(&self, take: impl FnOnce(&Situation<'_>) -> T) -> T {
        let stored = Stored::read(self.stored.clone());
        let last_good = self.last_good.clone().map(read);
        let (names, now) = (names(), self.now);
        let serving = last_good
            .as_ref()
            .and_then(|last_good| last_good.leaf(&names, now).ok());
        take(&Situation {
            stored: &stored,
            combined_for: self.combined_for,
            last_good: last_good.as_ref(),
            serving,
            published: &self.published,
            request: self.request,
            names: &names,
            lifetimes: Lifetimes::new(AUTHORITY, LEAF).unwrap(),
            now,
        })
    }

    fn next_change(&self) -> (Option<Change>, Option<Fault>) {
        self.with(|situation| {
            let decision = decide(situation);
            (decision.change, decision.repairs)
        })
    }

    /// The two Secrets after the change that is decided on.
    fn written(&self) -> Secrets {
        self.with(|situation| {
            let change = decide(situation).change.expect("a change");
            situation.apply(change).unwrap()
        })
    }

    /// The same, taken together.
    fn changed(&self) -> Contents {
        Stored::read(self.written()).contents().clone()
    }
}

#[test]
fn leaves_and_authorities_are_renewed_in_time() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    for (days, expected) in [
        (0, None),
        (59, None),
        (60, Some(Change::Issue)),
        (89, Some(Change::Issue)),
    ] {
        let case = Case::new(stored.clone(), begin() + DAY * days);
        assert_eq!(case.next_change(), (expected, None), "after {days} days");
    }
    // A third of ten years is more than two leaves' lives.
    for (days, expected) in [
        (2400, None),
        (2434, Some(Change::Stage)),
        (3500, Some(Change::Stage)),
    ] {
        let now = begin() + DAY * days;
        let case = Case::new(good(&ours, now), now);
        assert_eq!(case.next_change(), (expected, None), "after {days} days");
    }
    let old = begin() + DAY * 3640;
    let renewed = Case::new(good(&ours, old - DAY * 60), old)
        .with(|situation| situation.apply(Change::Issue));
    let renewed = Stored::read(renewed.unwrap());
    let leaf = renewed.leaf(&names(), old).unwrap();
    assert_eq!(
        leaf.period.until,
        leaf.issuer.period().until,
        "a leaf outlives its authority"
    );
}

/// Returns the certificate of the leaf with a text behind it.
fn chain(contents: &Contents, text: &str) -> String {
    let leaf = contents.get(CERTIFICATE).unwrap_or_default();
    format!("{}{text}\n", String::from_utf8_lossy(leaf))
}

#[test]
fn leaf_with_comments_and_other_certificates_is_whole() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    for text in ["", "\n# a comment\n", ours.pem()] {
        let mut stored = stored.clone();
        stored.set(CERTIFICATE, format!("comment\n{}", chain(&stored, text)));
        let case = Case::new(stored, begin() + DAY);
        assert_eq!(case.next_change(), (None, None), "{text}");
        assert!(case.with(|situation| situation.servable().is_some()));
    }
}

#[test]
fn each_fault_is_repaired_with_its_reason() {
    type Next = (Option<Change>, Option<Fault>);
    let (ours, other) = (authority(begin()), authority(begin()));
    let check = |what: &str, stored: Option<Contents>, now, expected: Next| {
        let mut case = Case::new(stored, now);
        case.published = published(ours.pem(), DAY);
        assert_eq!(case.next_change(), expected, "{what}");
        let repaired = case.changed();
        assert_ne!(secrets(Some(repaired.clone())), case.stored, "{what}");
        assert!(read(repaired).signing(now).is_ok(), "{what}");
    };
    let (issue, normalize) = (Some(Change::Issue), Some(Change::Normalize));
    let (missing, undecodable) = (Some(Fault::Missing), Some(Fault::Undecodable));
    let (mismatch, expired) = (Some(Fault::KeyMismatch), Some(Fault::Expired));
    let good_contents = good(&ours, begin());
    let without = |key| {
        let mut contents = good_contents.clone();
        contents.remove(key);
        contents
    };
    let with = |key, value: &str| {
        let mut contents = good_contents.clone();
        contents.set(key, value);
        contents
    };
    let behind_leaf = |text: &str| with(CERTIFICATE, &chain(&good_contents, text));
    let half_block = "-----BEGIN CERTIFICATE-----";
    let half_bundle = format!("{}{half_block}\n", ours.pem());
    let other_key = other.key_pem();
    let now = begin() + DAY;
    check("no Secret", None, now, (normalize, None));
    for (what, stored, fault) in [
        ("an empty Secret", Contents::default(), None),
        ("no authority", without(CA_CERTIFICATE), missing),
        ("no key of the authority", without(CA_KEY), missing),
        ("no CA", with(CA_CERTIFICATE, "rubbish"), undecodable),
        ("no CA key", with(CA_KEY, "\u{0}"), undecodable),
        ("another CA's key", with(CA_KEY, &other_key), mismatch),
        ("no key", with(NEXT_CERTIFICATE, other.pem()), missing),
        ("half", with(CA_CERTIFICATE, &half_bundle), undecodable),
        ("a moment that is none", with(OLD_UNTIL, "soon"), None),
    ] {
        check(what, Some(stored), now, (normalize, fault));
    }
    let of_signer = |leaf: [_; 2]| contents(signed_by(&ours).into_iter().chain(leaf));
    let foreign = of_signer(leaf_of(&other, begin(), names()));
    let other_names = Names {
        names: vec!["elsewhere.example".to_owned()],
        addresses: Vec::new(),
    };
    let misnamed = of_signer(leaf_of(&ours, begin(), other_names));
    for (what, stored, fault) in [
        ("no leaf yet", contents(signed_by(&ours)), None),
        ("rubbish", with(CERTIFICATE, "rubbish"), undecodable),
        ("no certificate", behind_leaf(RUBBISH_BLOCK), undecodable),
        ("half a block", behind_leaf(half_block), undecodable),
        ("a key", behind_leaf(&ours.key_pem()), undecodable),
        ("another leaf's key", with(KEY, &other_key), mismatch),
        ("a leaf of nobody", foreign, Some(Fault::UnknownIssuer)),
        ("a leaf for others", misnamed, Some(Fault::Names)),
    ] {
        check(what, Some(stored), now, (issue, fault));
    }
    let early = Some(Fault::NotYetValid);
    for (what, now, expected) in [
        ("expired leaf", begin() + LEAF, (issue, expired)),
        ("of the future", begin() - DAY, (normalize, early)),
        ("of the past", begin() + AUTHORITY, (normalize, expired)),
    ] {
        check(what, Some(good_contents.clone()), now, expected);
    }
}

#[test]
fn process_with_last_good_contents_restores_them() {
    let good_contents = good(&authority(begin()), begin());
    let now = begin() + DAY;
    let spoil = |keys: &[&'static str]| {
        let mut contents = good_contents.clone();
        for key in keys {
            contents.set(key, "rubbish");
        }
        Some(contents)
    };
    for (what, stored, change) in [
        ("deleted", None, Change::Normalize),
        ("emptied", Some(Contents::default()), Change::Normalize),
        (
            "all spoilt",
            spoil(&[CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY]),
            Change::Normalize,
        ),
        (
            "a spoilt authority",
            spoil(&[CA_CERTIFICATE]),
            Change::Normalize,
        ),
        ("a spoilt leaf", spoil(&[CERTIFICATE]), Change::Normalize),
    ] {
        let case = Case::new(stored, now)
            .knowing(&good_contents)
            .published(Publication::default());
        assert_eq!(case.next_change().0, Some(change), "{what}");
        assert_eq!(case.changed(), good_contents, "{what}");
    }
    // What is remembered is of no use any more.
    let case = Case::new(None, begin() + AUTHORITY).knowing(&good_contents);
    assert_eq!(
        case.next_change(),
        (Some(Change::Normalize), Some(Fault::NoSecret))
    );
}

#[test]
fn authorities_of_ca_bundles_stay_beside_a_new_one() {
    let (known, over) = (
        authority(begin()),
        Authority::new("over", DAY, begin() - DAY * 9).unwrap(),
    );
    let now = begin() + DAY;
    let bundle = both(&over, &known);
    let case = Case::new(contents([(CA_KEY, "rubbish".to_owned())]), now)
        .published(published(&bundle, DAY));
    let stored = read(case.changed());
    let trust = stored.trust(now);
    assert_eq!(trust.len(), 2, "{trust:?}");
    assert_eq!(trust[1..], Bundle::read(known.pem().as_bytes()).authorities);
    let begun = case.changed();
    let case = Case::new(begun.clone(), now).published(published(&bundle, DAY));
    assert_eq!(
        case.next_change(),
        (None, None),
        "the leaf waits until the authority is known"
    );
    let case = Case::new(begun, now);
    assert_eq!(case.next_change(), (Some(Change::Issue), None));
}

#[test]
fn restored_old_secret_regains_the_served_authority() {
    let (older, ours) = (good(&authority(begin()), begin()), authority(begin()));
    let now = begin() + DAY;
    let case = Case::new(older, now).knowing(&good(&ours, begin()));
    assert_eq!(
        case.next_change(),
        (Some(Change::Normalize), Some(Fault::Forgotten))
    );
    case.with(|situation| {
        assert!(situation.servable().is_none());
        assert_eq!(decide(situation).trust, None, "nothing is published before");
    });
    let adopted = read(case.changed());
    assert_eq!(
        adopted.trust(now)[1..],
        Bundle::read(ours.pem().as_bytes()).authorities
    );
}

#[test]
fn older_authority_without_its_leaf_regains_published_trust() {
    let (older, ours) = (authority(begin()), authority(begin()));
    let now = begin() + DAY;
    let older_contents = good(&older, begin());
    let both = both(&ours, &older);
    let all = Bundle::read(both.as_bytes());
    let of_ours = Secrets::split(&good(&ours, begin()), false).serving;
    for (what, serving) in [
        ("a deleted leaf", None),
        ("an empty Secret", Some(Contents::default())),
        ("a leaf of an unlisted authority", of_ours),
    ] {
        let mut case = Case::new(older_contents.clone(), now).published(published(&both, DAY));
        case.stored.serving = serving;
        let normalize = (Some(Change::Normalize), Some(Fault::Forgotten));
        assert_eq!(case.next_change(), normalize, "{what}");
        let trust = |case: &Case| case.with(|situation| decide(situation).trust);
        assert_eq!(trust(&case), None, "{what}: nothing is published before");
        case.stored = case.written();
        assert!(all.is_just(&trust(&case).unwrap()), "{what}");
        assert_eq!(case.next_change().0, Some(Change::Issue), "{what}");
    }
    // Beside a leaf of a listed authority, any other authority of a caBundle is foreign.
    let case = Case::new(older_contents, now).published(published(&both, DAY));
    let trust = case.with(|situation| decide(situation).trust).unwrap();
    assert!(Bundle::read(older.pem().as_bytes()).is_just(&trust));
}

#[test]
fn leaf_that_may_authenticate_a_client_is_replaced() {
    let ours = authority(begin());
    let leaf = Leaf {
        names: names().names,
        addresses: names().addresses,
        validity: LEAF,
        purpose: crate::Purpose::Client,
        ..Leaf::default()
    };
    let leaf = ours.issue(&leaf, begin()).unwrap();
    let leaf = [(CERTIFICATE, leaf.certificate), (KEY, leaf.key)];
    let stored = contents(signed_by(&ours).into_iter().chain(leaf));
    let case = Case::new(stored, begin() + DAY);
    assert_eq!(case.next_change(), (Some(Change::Issue), None));
    let case = Case::new(case.changed(), begin() + DAY);
    assert_eq!(case.next_change(), (None, None));
}

#[test]
fn a_requested_rotation_is_made_at_once() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    for (request, change) in [
        (RotationRequest::Leaf, Change::Issue),
        (RotationRequest::Authority, Change::Stage),
    ] {
        let case = Case::new(stored.clone(), begin() + DAY).requesting(request);
        assert_eq!(case.next_change(), (Some(change), None));
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
    let renewed = read(Case::new(stored, now).changed());
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
fn next_decision_is_due_once_time_alone_changes_it() {
    let ours = authority(begin());
    let stored = good(&ours, begin());
    let again = |case: &Case| case.with(|situation| decide(situation).again);
    let case = Case::new(stored.clone(), begin() + DAY);
    let skew = Duration::from_secs(300);
    assert_eq!(again(&case), Some(DAY * 59 - skew));
    let case = case.published(published(ours.pem(), Duration::from_secs(4)));
    assert_eq!(again(&case), Some(Duration::from_secs(6)));
    assert_eq!(again(&Case::new(None, begin())), None);
}
